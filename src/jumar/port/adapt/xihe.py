"""Xihe: `--data_url`, `--pretrain_url`, `--output_path`, and `pip-requirements.txt` from the imports.

The arguments are added to the script's own parser, or to a new one if it has none, and take the place of
paths that are written into the script."""

import ast
from collections.abc import Mapping

from jumar.port.adapt.fixed_paths import fixed_paths, folder_of, replacement, told_of
from jumar.port.adapt.script import Adapted, Script, has_import, imports, parse_call
from jumar.port.records import Finding, Words

CODE = "JP921"
ARGUMENTS = ("--data_url", "--pretrain_url", "--output_path")
REQUIREMENTS = "pip-requirements.txt"
_DISTRIBUTIONS = {
    "cv2": "opencv-python-headless",
    "PIL": "Pillow",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "yaml": "PyYAML",
    "tensorboardX": "tensorboardX",
    "google": "protobuf",
    "dateutil": "python-dateutil",
    "bs4": "beautifulsoup4",
    "attr": "attrs",
    "Levenshtein": "python-Levenshtein",
}
_PROVIDED = frozenset(
    {"torch", "torch_npu", "npu_bridge", "moxing", "mindspore", "setuptools", "pkg_resources"}
)


def adapt(script: Script) -> Adapted:
    """Add the arguments and write the requirements."""
    tree = script.parsed()
    if tree is None:
        return script.refused(
            CODE,
            Words("The script does not parse.", "脚本无法解析。"),
            Words(
                "add the arguments by hand: " + " ".join(ARGUMENTS),
                "请手工添加参数：" + " ".join(ARGUMENTS),
            ),
        )
    findings = _rewrite(script, tree)
    folder = script.path.rpartition("/")[0]
    path = f"{folder}/{REQUIREMENTS}" if folder else REQUIREMENTS
    made = "".join(f"{n}\n" for n in requirements(script)).encode()
    return script.done(((path, made),), tuple(findings))


def _rewrite(script: Script, tree: ast.Module) -> list[Finding]:
    """Add the arguments, and put them where paths are written into the script."""
    missing = [name for name in ARGUMENTS if name not in script.source.text]
    parsed = parse_call(tree)
    args = "args_opt" if parsed is None else parsed[2]
    by_use = {
        use: [one for one in fixed_paths(tree) if one.use == use]
        for use in ARGUMENTS
        if use in missing
    }
    defaults = {use: folder_of(paths) for use, paths in by_use.items() if paths}
    findings: list[Finding] = []
    for use, paths in by_use.items():
        for one in paths:
            if parsed is None or _sees(tree, parsed[0], one.node):
                new = replacement(args, one.use, one.path, defaults[use])
                script.replace(CODE, one.node, new)
            else:
                findings.append(told_of(script, CODE, one))
                defaults.pop(use, None)
    if not findings:
        _stop_downloads(script, tree, args, defaults.get("--data_url"))
    if missing:
        _add(script, tree, missing, defaults)
    return findings


def _sees(tree: ast.Module, statement: ast.stmt, node: ast.AST) -> bool:
    """Whether what `statement` assigns is known at `node`: at the top level, or in one function."""
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inside = set(ast.walk(function))
            if statement in inside:
                return node in inside
    return True


def _stop_downloads(script: Script, tree: ast.Module, args: str, data: str | None) -> None:
    """Data that the platform brings is not downloaded; without it the script does as before."""
    if data is None:
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.keyword) or node.arg != "download":
            continue
        if isinstance(node.value, ast.Constant) and node.value.value is True:
            script.replace(CODE, node.value, f'{args}.data_url == "{data}"')


def _add(script: Script, tree: ast.Module, missing: list[str], defaults: Mapping[str, str]) -> None:
    found = parse_call(tree)
    if found is not None:
        statement, parser, _ = found
        lines = [_argument(parser, name, defaults) for name in missing]
        script.insert_before(CODE, statement, lines)
        return
    lines = [
        "",
        "parser = argparse.ArgumentParser()",
        *(_argument("parser", name, defaults) for name in missing),
        "args_opt, _ = parser.parse_known_args()",
    ]
    if not has_import(tree, "argparse"):
        lines = ["import argparse", *lines]
    last = list(imports(tree))
    if last:
        script.insert_after(CODE, last[-1], lines)
    else:
        script.insert_before(CODE, tree.body[0], [*lines[0 if lines[0] else 1 :], ""])


def _argument(parser: str, name: str, defaults: Mapping[str, str]) -> str:
    return f'{parser}.add_argument("{name}", type=str, default="{defaults.get(name, "")}")'


def requirements(script: Script) -> list[str]:
    """Distributions that the repository's imports need, without its own modules."""
    own = {
        part for found in script.tree.files for part in found.path.removesuffix(".py").split("/")
    }
    wanted = {name for result in script.tree.results for name in result.imports}
    return sorted(
        {_DISTRIBUTIONS.get(name, name) for name in wanted - own - _PROVIDED}, key=str.lower
    )
