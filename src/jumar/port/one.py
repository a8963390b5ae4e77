"""Port one file of a repository, whatever kind it is: bytes in, a `FileResult` out."""

import os
import re
from collections.abc import Callable
from pathlib import Path

from jumar.port import distributions
from jumar.port.files import config, docker, document, features, make, notebook, requirements, shell
from jumar.port.files.lines import LineEdits
from jumar.port.options import Options
from jumar.port.packages import of_distribution
from jumar.port.patterns import lazy_pattern
from jumar.port.project import MAX_PYTHON_BYTES, Project
from jumar.port.python import TRACES, PortedText, port_text
from jumar.port.records import WHOLE_FILE, Effort, FileResult, Finding, Kind, Severity, Words
from jumar.port.scan import CANNOT_BE_READ, NOT_A_PLAIN_FILE, FileKind, Found
from jumar.port.source import Source, Undecodable, read

MAX_TEXT_BYTES = 1_000_000
MAX_NOTEBOOK_BYTES = 64_000_000
"""Most of a large notebook is pictures."""
_LIMITS = {FileKind.CONFIG: MAX_TEXT_BYTES, FileKind.NOTEBOOK: MAX_NOTEBOOK_BYTES}
_YAML = frozenset({".yml", ".yaml"})
_PROJECT_FILE = lazy_pattern(r"pyproject[\w.-]*\.toml")
_FOR_OTHER_SYSTEMS = re.compile(
    r"(?:env|requirement|conda)\w*?[_.-](?:mac(?:os)?|osx|darwin|win(?:dows)?)(?:[_.-]|$)",
    re.IGNORECASE,
)
"""Lists for systems that no NPU is attached to."""
_COG = frozenset({"cog.yaml", "cog.yml"})
_BUILD_SERVERS = lazy_pattern(
    r"\.(?:github|circleci|buildkite|gitlab|travis|woodpecker|drone|gitlab-ci|ci)(?:/|\.ya?ml$)"
    r"|(?:azure-pipelines|appveyor|buildspec|cloudbuild)[\w-]*\.ya?ml$"
)
_IN_CHINESE = {CANNOT_BE_READ: "无法读取", NOT_A_PLAIN_FILE: "不是普通文件"}
_WIDE_TRACES = lazy_pattern(rb"t\0o\0r\0c\0h|c\0u\0d\0a")
"""The same in UTF-16, which is reported instead of read."""
_PLAIN_TRACES = lazy_pattern(
    rb"cuda|CUDA|nccl|NCCL|[Nn]vidia|NVIDIA|gpu|GPU|lightning|install\s|/whl/cu|nsys|trtexec|--nv\b|"
    + features.TRACES
)


def port_file(root: Path, found: Found, options: Options, project: Project) -> FileResult | None:
    """Port one file; None if there is nothing to report."""
    result = _ported(root, found, options, project)
    if result is None or not (options.select or options.ignore):
        return result
    wanted = tuple(one for one in result.findings if options.wants(one.code))
    return result._replace(findings=wanted) if wanted or result.changes or result.uses else None


def _ported(root: Path, found: Found, options: Options, project: Project) -> FileResult | None:
    if found.problem:
        return _problem(found, "JP005", found.problem, _IN_CHINESE[found.problem])
    if found.kind is FileKind.OTHER or found.is_link:
        return None
    if found.kind is FileKind.CUDA:
        return _cuda_source(found)
    try:
        data = (root / found.path).read_bytes()
    except OSError as error:
        return _problem(
            found, "JP005", f"cannot be read: {error.strerror}", f"无法读取：{error.strerror}"
        )
    if not _is_worth_reading(found, data) and not _is_in_own_rules(found, data, options):
        return None
    if len(data) > _LIMITS.get(found.kind, MAX_PYTHON_BYTES):
        return _too_large(found, len(data)) if found.kind is not FileKind.CONFIG else None
    try:
        source = read(data, python=found.kind is FileKind.PYTHON)
    except Undecodable as error:
        return _problem(found, "JP005", f"is {error}", f"编码无法识别：{error}")
    if found.kind is FileKind.PYTHON:
        return _python(found, source, options, project)
    if found.kind is FileKind.NOTEBOOK:
        text, ported = notebook.port(source.text, options, found.path, project)
        return _result(found, source, text, ported, project)
    return _plain(found, source, options, project)


def _is_worth_reading(found: Found, data: bytes) -> bool:
    if _FOR_OTHER_SYSTEMS.search(os.path.basename(found.path)):
        return False
    if found.kind in (FileKind.PYTHON, FileKind.NOTEBOOK):
        # Most have the first trace, and looking for it alone is far quicker than for any of them.
        return b"torch" in data or any(p.search(data) for p in (TRACES, _WIDE_TRACES))
    if found.kind is FileKind.REQUIREMENTS or _declared(found) is not None:
        return True
    return b"cuda" in data or _PLAIN_TRACES.search(data) is not None


def _is_in_own_rules(found: Found, data: bytes, options: Options) -> bool:
    """Whether a file without torch may use a name that the project's own rules are about."""
    return found.kind is FileKind.PYTHON and any(
        own.name.rpartition(".")[2].encode() in data for own in options.own_rules
    )


def _declared(found: Found) -> Callable[[str], LineEdits] | None:
    """What reads the requirements that a packaging file declares."""
    name = os.path.basename(found.path)
    if name == "setup.cfg":
        return requirements.of_setup
    return requirements.of_project if _PROJECT_FILE.fullmatch(name) else None


def _python(found: Found, source: Source, options: Options, project: Project) -> FileResult | None:
    ported = port_text(source.text, options, path=found.path, project=project)
    result = _result(found, source, ported.text, ported, project)
    if not source.declared and options.wants("JP005"):
        note = _finding(
            "JP005",
            Severity.LIMIT,
            Words(
                f"The file is not UTF-8 and declares no encoding; it was read as {source.encoding}.",
                f"文件不是 UTF-8 且未声明编码，按 {source.encoding} 读取。",
            ),
            Words(
                "add a line such as # -*- coding: gbk -*- at the top, or save it as UTF-8",
                "请在首行声明编码（如 # -*- coding: gbk -*-），或转存为 UTF-8",
            ),
        )
        return FileResult(
            result.path,
            result.changes,
            (note, *result.findings),
            result.ported,
            result.uses,
            result.imports,
            result.helpers,
        )
    return result


def _result(
    found: Found, source: Source, text: str, ported: PortedText, project: Project
) -> FileResult:
    return FileResult(
        found.path,
        ported.changes,
        ported.findings,
        source.encode(text) if text != source.text else None,
        ported.uses,
        ported.imports,
        tuple(
            (folder, module)
            for module in ported.helpers
            for folder in project.home(found.path).folders
        ),
    )


_OF_COMMANDS = {FileKind.SHELL: shell.port, FileKind.MAKE: make.port}


def _plain(found: Found, source: Source, options: Options, project: Project) -> FileResult | None:
    text, edits = source.text, LineEdits()
    suffix = os.path.splitext(found.path)[1].lower()
    kind = found.kind
    if suffix in _YAML:
        kind = FileKind.REQUIREMENTS if requirements.is_conda(text) else FileKind.CONFIG
    if kind in _OF_COMMANDS and options.wants(shell.CODE):
        text, edits = _OF_COMMANDS[kind](text, options)
    elif kind is FileKind.CONFIG and options.wants(config.CODE):
        around = config.Surroundings(
            _BUILD_SERVERS.match(found.path) is not None,
            project.uses_lightning,
            project.backends_read,
        )
        text, edits = config.port(text, options, suffix, around)
        if os.path.basename(found.path) in _COG and options.wants(docker.CODE):
            edits.findings += docker.of_cog(source.text).findings
        declared = _declared(found)
        if declared is not None and options.wants(distributions.CODE):
            edits.findings += declared(source.text).findings
    elif kind is FileKind.DOCUMENT and options.wants(document.CODE):
        text, edits = document.port(text, options)
    elif kind is FileKind.REQUIREMENTS and options.wants(distributions.CODE):
        edits = requirements.findings(text)
    elif kind is FileKind.DOCKER and options.wants(docker.CODE):
        edits = docker.findings(text)
    findings = [f for f in edits.findings if not _installs_itself(f, project)]
    if not edits.changes and not findings:
        return None
    return FileResult(
        found.path,
        tuple(edits.changes),
        tuple(sorted(findings, key=lambda f: f.line)),
        source.encode(text) if text != source.text else None,
    )


def _installs_itself(found: Finding, project: Project) -> bool:
    """Whether a requirement or a command installs the repository's own package."""
    package = of_distribution(found.subject)
    return package is not None and project.own_modules.has(package.module.partition(".")[0])


def _finding(
    code: str, severity: Severity, why: Words, advice: Words, effort: Effort = Effort.MINUTES
) -> Finding:
    return Finding(code, severity, effort, Kind.FILE, 1, 1, 1, WHOLE_FILE, "", why, advice)


def _problem(found: Found, code: str, en: str, zh: str) -> FileResult:
    why = Words(f"{found.path} {en}.", f"{found.path} {zh}。")
    advice = Words(
        "it was copied unchanged, or skipped if it cannot be copied", "已原样复制，无法复制的已跳过"
    )
    return FileResult(found.path, findings=(_finding(code, Severity.LIMIT, why, advice),))


def _too_large(found: Found, size: int) -> FileResult:
    why = Words(
        f"The file is {size / 1e6:.0f} MB, too large to be read.",
        f"文件大小为 {size / 1e6:.0f} MB，过大，未读取。",
    )
    advice = Words(
        "it was copied unchanged; a file of this size is usually generated: port its generator",
        "已原样复制；该文件多为自动生成，请迁移其生成脚本",
    )
    return FileResult(found.path, findings=(_finding("JP006", Severity.LIMIT, why, advice),))


def _cuda_source(found: Found) -> FileResult:
    why = Words("CUDA C++ sources do not compile for NPUs.", "CUDA C++ 源码无法在 NPU 上编译。")
    advice = Words(
        "use an equivalent in torch or torch_npu, or rewrite the operator in Ascend C",
        "请改用 torch 或 torch_npu 的等价算子，或用 Ascend C 重写",
    )
    return FileResult(
        found.path, findings=(_finding("JP507", Severity.WORK, why, advice, Effort.REWRITE),)
    )
