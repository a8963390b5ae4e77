"""Xihe: `--data_url`, `--pretrain_url`, `--output_path`, and `pip-requirements.txt` from the imports.

The arguments are added to the script's own parser, or to a new one if it has none."""

import ast

from jumar.port.adapt.script import Adapted, Script, has_import, imports, parse_call
from jumar.port.records import Words

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
    missing = [name for name in ARGUMENTS if name not in script.source.text]
    if missing:
        _add(script, tree, missing)
    folder = script.path.rpartition("/")[0]
    path = f"{folder}/{REQUIREMENTS}" if folder else REQUIREMENTS
    return script.done(((path, "".join(f"{n}\n" for n in requirements(script)).encode()),))


def _add(script: Script, tree: ast.Module, missing: list[str]) -> None:
    found = parse_call(tree)
    if found is not None:
        statement, parser, _ = found
        script.insert_before(CODE, statement, [_argument(parser, name) for name in missing])
        return
    lines = [
        "",
        "parser = argparse.ArgumentParser()",
        *(_argument("parser", name) for name in missing),
        "args_opt, _ = parser.parse_known_args()",
    ]
    if not has_import(tree, "argparse"):
        lines = ["import argparse", *lines]
    last = list(imports(tree))
    if last:
        script.insert_after(CODE, last[-1], lines)
    else:
        script.insert_before(CODE, tree.body[0], [*lines[0 if lines[0] else 1 :], ""])


def _argument(parser: str, name: str) -> str:
    return f'{parser}.add_argument("{name}", type=str, default="")'


def requirements(script: Script) -> list[str]:
    """Distributions that the repository's imports need, without its own modules."""
    own = {
        part for found in script.tree.files for part in found.path.removesuffix(".py").split("/")
    }
    wanted = {name for result in script.tree.results for name in result.imports}
    return sorted(
        {_DISTRIBUTIONS.get(name, name) for name in wanted - own - _PROVIDED}, key=str.lower
    )
