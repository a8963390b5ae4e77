"""Whether a job can run on this machine at all, and how it would.

Refuses what is sure to fail; what cannot be known before (a git repository's content, what a
requirements file brings) is left to the attempt."""

import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Collection, Container, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from jumar.engine.archive_names import BadArchive, names_of
from jumar.engine.shared.files import code_kind, input_paths, local_path, output_paths
from jumar.errors import SubmitRefused
from jumar.launch.processes.spawn import find
from jumar.launch.ranks.environment import inherited, job_tools_path, simulation_path
from jumar.launch.ranks.frameworks import SIM_DEVICES, VISIBLE
from jumar.launch.ranks.plan import REQUIREMENTS, arguments, boot_file
from jumar.spec.devices import Card, DeviceKind
from jumar.spec.job import JobSpec
from jumar.spec.records import Plan
from jumar.spec.urls import is_of_hub, is_remote

_INTERPRETERS = {".py": "python3", ".sh": "bash"}
_SHELL_CHARACTERS = frozenset("|&;<>()$`\\\"'*?[]#~=%{}\n!")
_BUILTINS = frozenset(
    [
        ".",
        ":",
        "[",
        "alias",
        "bg",
        "break",
        "builtin",
        "cd",
        "command",
        "continue",
        "declare",
        "dirs",
        "echo",
        "eval",
        "exec",
        "exit",
        "export",
        "false",
        "fg",
        "getopts",
        "hash",
        "if",
        "jobs",
        "for",
        "kill",
        "let",
        "local",
        "printf",
        "pushd",
        "popd",
        "pwd",
        "read",
        "readonly",
        "return",
        "set",
        "shift",
        "source",
        "test",
        "time",
        "times",
        "trap",
        "true",
        "type",
        "ulimit",
        "umask",
        "unalias",
        "unset",
        "until",
        "wait",
        "while",
        "case",
        "function",
        "select",
    ]
)


def make_plan(
    spec: JobSpec,
    *,
    archive: Path | None,
    cards: Sequence[Card] | None,
    directory: Path,
    can_look: bool = True,
    limited: Collection[str] = (),
) -> Plan:
    """All checks, then the plan. `directory`: the job's. Unless `can_look`, this machine's files are not
    ours to see; without `cards` the job runs on other machines. `limited`: the fields among cpus and
    memory that are enforced."""
    if not sys.platform.startswith("linux"):
        raise SubmitRefused(
            f"jobs run on Linux; this is {sys.platform}", hint="use a server on Linux: jumar login"
        )
    if cards is not None:
        _check_size(spec, cards)
    files = _Files(spec, archive, can_look=can_look)
    _check_data(spec, files)
    _check_requirements(spec, files)
    if can_look:
        _check_command(spec, files)
    if can_look and cards is not None:
        _check_activations(spec, files)
    count = spec.device.count if spec.ranks == "device" else 1
    inside = "" if spec.image is None else f" in {spec.image}"
    return Plan(
        engine="local",
        summary=f"{count} process{'es' * (count > 1)}{inside} on this machine, holding {spec.device}",
        details=_details(spec, directory, count),
        notes=_notes(spec, limited),
    )


def _details(spec: JobSpec, directory: Path, count: int) -> dict[str, Any]:
    data = {**input_paths(spec, directory), **output_paths(spec, directory)}
    variable = {**VISIBLE, DeviceKind.SIM: SIM_DEVICES}.get(spec.device.kind)
    return {
        "argv": arguments(spec.command, data, inherited(), is_contained=spec.image is not None),
        "workdir": spec.workdir or str(directory / "code"),
        "environment": sorted(spec.environment),
        "devices": variable or "none: CPU slots only limit how many jobs run at once",
        "directory": str(directory),
        "processes": count,
        **({"staging": _staging(spec, data, directory)} if spec.stages_data else {}),
    }


def _staging(spec: JobSpec, data: dict[str, str], directory: Path) -> list[str]:
    """What is carried, each in one line."""
    made = [f"{url} to {data[name]}" for name, url in spec.inputs.items() if is_remote(url)]
    made += [f"{data[name]} to {url}" for name, url in spec.outputs.items() if is_remote(url)]
    if spec.ckpt is not None and is_remote(spec.ckpt):
        made.append(f"{spec.ckpt} to {directory / 'ckpt'} and back")
    return made


def _notes(spec: JobSpec, limited: Collection[str]) -> tuple[str, ...]:
    notes = [
        f"{name} is not enforced: that takes a site (jumar site install) and cgroups"
        for name in ("cpus", "memory")
        if getattr(spec, name) is not None and name not in limited
    ]
    if spec.deterministic:
        notes.append(
            "deterministic: promised for the same cards, number of ranks and libraries; operators that "
            "have no deterministic form say so in the log, and what the script takes from the clock, "
            "from threads or from the network is its own"
        )
    return tuple(notes)


def _check_size(spec: JobSpec, cards: Sequence[Card]) -> None:
    counts = Counter(card.kind for card in cards)
    kind, wanted = spec.device.kind, spec.device.count
    if wanted > counts[kind]:
        here = ", ".join(f"{name}:{count}" for name, count in sorted(counts.items())) or "none"
        found = f"only {kind}:{counts[kind]}" if counts[kind] else f"no {kind.upper()}"
        raise SubmitRefused(
            f"the job asks for {spec.device}, but this machine has {found}",
            hint=f"devices of this machine: {here}",
        )
    if spec.nodes > 1:
        raise SubmitRefused(
            f"the job asks for {spec.nodes} nodes, but the local engine has one machine",
            hint="use nodes: 1, or jumar launch on each machine",
        )


class _Files:
    """What is in the folder the command will run in, as far as it can be known now."""

    def __init__(self, spec: JobSpec, archive: Path | None, *, can_look: bool = True) -> None:
        self._can_look = can_look
        if isinstance(spec.code, str):
            raise SubmitRefused(
                "code is a folder on the client's machine",
                hint="let the client upload it, or give archive, git or workdir",
            )
        self.kind = code_kind(spec)
        if can_look and spec.workdir is not None and not os.path.isdir(spec.workdir):
            raise SubmitRefused(f"the workdir {spec.workdir} is not a folder on this machine")
        self._workdir = spec.workdir
        self._names: Container[str] = _archived(archive) if self.kind == "archive" else ()

    @property
    def are_known(self) -> bool:
        """A git repository is seen only when it has been fetched, a closed folder never."""
        return self.kind != "git" and (self._can_look or self.kind == "archive")

    def exists(self, path: str) -> bool:
        """Whether an absolute path is there, as far as anyone here may tell."""
        return not self._can_look or os.path.exists(path)

    def path(self, relative: str) -> str | None:
        """Where a relative path is, unless it lies in an archive."""
        return None if self._workdir is None else os.path.join(self._workdir, relative)

    def has(self, relative: str) -> bool:
        """Whether a relative path is there."""
        if self._workdir is not None:
            return os.path.exists(os.path.join(self._workdir, relative))
        return os.path.normpath(relative) in self._names


def _archived(archive: Path | None) -> Container[str]:
    if archive is None:
        raise SubmitRefused("the code of this job was not uploaded", hint="submit it again")
    try:
        return names_of(archive)
    except BadArchive as error:
        raise SubmitRefused(error.message, hint=error.hint) from error


def _check_data(spec: JobSpec, files: _Files) -> None:
    for name, url in spec.inputs.items():
        if is_remote(url) or is_of_hub(url):
            continue
        path = local_path(url)
        missing = not files.exists(path) if path.startswith("/") else not files.has(path)
        if missing and (path.startswith("/") or files.are_known):
            raise SubmitRefused(f"the input {name} does not exist: {path}")
    for name, url in spec.outputs.items():
        if not is_remote(url) and ".." in local_path(url).split("/"):
            raise SubmitRefused(f"the output {name} must be inside the job's folder: {url}")


def _check_requirements(spec: JobSpec, files: _Files) -> None:
    wanted = spec.requirements
    if wanted is not None and files.are_known and not files.has(wanted):
        raise SubmitRefused(
            f"the requirements file {wanted} is not in the code",
            hint="give its path inside the folder of the code",
        )


def _check_activations(spec: JobSpec, files: _Files) -> None:
    """Names are looked up as the attempt will do it; what modules there are, only a shell knows."""
    if not spec.activate or not files.are_known:
        return
    # Late: few jobs activate anything.
    from jumar.launch.prepare.activate import unknown

    environment = {**inherited(), **spec.environment}
    folder = files.path("") or os.devnull
    name = unknown(tuple(spec.activations), environment, folder, files.has)
    if name is not None:
        raise SubmitRefused(
            f"nothing named {name} can be activated: no conda environment, no virtual environment and "
            "no script has that name",
            hint="see which there are: conda env list; or give the path of an environment or a script",
        )


def _check_command(spec: JobSpec, files: _Files) -> None:
    words = _simple_words(spec.command)
    if spec.image is not None or not words or not files.are_known or _brings_packages(spec, files):
        return
    environment = {**inherited(), **spec.environment}
    environment.update(job_tools_path(environment))
    if spec.device.kind is DeviceKind.SIM:
        environment.update(simulation_path(environment))
    _check_program(words[0], environment, files)
    if os.path.basename(words[0]).startswith("python"):
        _check_script(words[1:], files)


def _simple_words(command: list[str] | str) -> list[str]:
    """The words of a command that needs no shell to understand; else none."""
    if not isinstance(command, str):
        return command
    if _SHELL_CHARACTERS.intersection(command):
        return []
    words = shlex.split(command)
    return [] if not words or words[0] in _BUILTINS else words


def _brings_packages(spec: JobSpec, files: _Files) -> bool:
    boot = boot_file(spec.command)
    beside = boot is not None and files.has(os.path.join(os.path.dirname(boot), REQUIREMENTS))
    return spec.requirements is not None or bool(spec.activate) or beside


def _check_program(name: str, environment: dict[str, str], files: _Files) -> None:
    if "/" in name and not name.startswith("/"):
        _check(files.has, name, f"the command {name} is not in the code")
        path = files.path(name)
    else:
        path = find(name, environment, "/")
        if path is None:
            raise SubmitRefused(
                f"the command {name} was not found on this machine",
                hint=_meant(name, environment, files),
            )
    if path is not None and os.path.isfile(path) and not os.access(path, os.X_OK):
        shown = shlex.quote(name if "/" in name else path)
        program = _INTERPRETERS.get(os.path.splitext(name)[1])
        hint = f"{program} {shown}, or chmod +x {shown}" if program else f"chmod +x {shown}"
        raise SubmitRefused(f"{path} is not executable", hint=hint)


def _meant(name: str, environment: dict[str, str], files: _Files) -> str:
    """What to run instead of a command that does not exist."""
    if files.has(name):
        # A shell does not look into the current folder either.
        program = _INTERPRETERS.get(os.path.splitext(name)[1])
        return f"did you mean: {f'{program} {name}' if program else f'./{name}'}"
    near = get_close_matches(name, _programs(environment), n=1, cutoff=0.75)
    if near:
        return f"did you mean: {near[0]}"
    return "give its full path, or another PATH: --env PATH=… (environment in a job file)"


def _programs(environment: dict[str, str]) -> set[str]:
    """The names of what can be run without a path."""
    found: set[str] = set()
    for folder in environment.get("PATH", os.defpath).split(os.pathsep):
        if os.path.isabs(folder):
            with suppress(OSError):
                found.update(os.listdir(folder))
    return found


def _check_script(words: Sequence[str], files: _Files) -> None:
    for word in words:
        if word in ("-m", "-c", "-"):
            return
        if word.startswith("-"):
            continue
        if word.endswith(".py") and "{" not in word:
            present = os.path.exists if word.startswith("/") else files.has
            _check(present, word, f"the script {word} is not in the code")
        return


def _check(present: Callable[[str], bool], name: str, complaint: str) -> None:
    if not present(name):
        raise SubmitRefused(
            complaint,
            hint="name the folder of the code: --code or --workdir (code or workdir in a job file)",
        )
