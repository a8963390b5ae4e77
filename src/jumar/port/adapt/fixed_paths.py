"""Paths that a script has written into it, and what they are for: data, results or pretrained weights.

Each becomes the argument that the platform gives, whose default is the path that was there, so that the
script also runs as before. What cannot be decided is told of."""

import ast
import posixpath
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from jumar.port.adapt.script import Script
from jumar.port.patterns import lazy_pattern
from jumar.port.python import finding
from jumar.port.records import Effort, Finding, Kind, Remark, Severity, Words

Use = Literal["--data_url", "--output_path", "--pretrain_url"]
_DATA = frozenset(
    [
        "path",
        "root",
        "data_dir",
        "data_path",
        "data_root",
        "dataset_dir",
        "dataset_path",
        "dataset_root",
        "dataset_files",
        "train_dir",
        "train_path",
        "test_dir",
        "test_path",
        "val_dir",
        "val_path",
        "image_folder_dataset_dir",
    ]
)
_RESULTS = frozenset(
    [
        "directory",
        "output_dir",
        "output_path",
        "out_dir",
        "save_dir",
        "save_path",
        "save_directory",
        "ckpt_dir",
        "ckpt_path",
        "checkpoint_dir",
        "log_dir",
        "logdir",
        "summary_dir",
        "default_root_dir",
        "dirpath",
        "ckpt_file_name",
    ]
)
_WEIGHTS = frozenset(
    ["ckpt_file_name", "checkpoint_path", "pretrained_path", "resume_from_checkpoint"]
)
# Functions whose arguments say nothing by their names: which one is the path, and what it is for.
_CALLS: dict[str, tuple[int, Use]] = {
    "load_checkpoint": (0, "--pretrain_url"),
    "save_checkpoint": (1, "--output_path"),
    "load": (0, "--pretrain_url"),
    "save": (1, "--output_path"),
    "savefig": (0, "--output_path"),
    "ImageFolder": (0, "--data_url"),
    "ImageFolderDataset": (0, "--data_url"),
    "MnistDataset": (0, "--data_url"),
    "Cifar10Dataset": (0, "--data_url"),
    "Mnist": (0, "--data_url"),
    "MNIST": (0, "--data_url"),
    "CIFAR10": (0, "--data_url"),
}
_OF_TORCH = frozenset({"load", "save"})
_PATH = lazy_pattern(r"(?:\.{0,2}/)?[\w.-]+(?:/[\w.-]+)*/?")
_NOT_PATHS = lazy_pattern(r"(?:https?|obs|s3)://|.*\s")


@dataclass(frozen=True, slots=True)
class FixedPath:
    """One path in the text."""

    node: ast.Constant
    path: str
    use: Use


def fixed_paths(tree: ast.Module) -> list[FixedPath]:
    """All of them, in the order of the text: those that calls get, and the same ones elsewhere."""
    named = _constants(tree)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    found = [one for call in calls for one in _in_call(call, named)]
    uses: dict[str, Use] = {}
    for one in found:
        uses.setdefault(one.path, one.use)
    known = {one.node for one in found}
    again = [
        FixedPath(node, node.value, uses[node.value])
        for node in ast.walk(tree)
        # Without a slash it may be any word.
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and "/" in node.value
        and node.value in uses
        and node not in known
    ]
    unique = {one.node: one for one in (*found, *again)}
    return sorted(unique.values(), key=lambda one: (one.node.lineno, one.node.col_offset))


def _constants(tree: ast.Module) -> dict[str, ast.Constant]:
    """Names that stand for one text in the whole script."""
    assigned = [
        (target.id, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    times = Counter(name for name, _ in assigned)
    return {
        name: value
        for name, value in assigned
        if times[name] == 1 and isinstance(value, ast.Constant) and isinstance(value.value, str)
    }


def _in_call(call: ast.Call, named: dict[str, ast.Constant]) -> Iterator[FixedPath]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "add_argument":
        return
    for keyword in call.keywords:
        use = _use_of_keyword(name, keyword.arg or "")
        if use is not None:
            yield from _path_in(keyword.value, named, use)
    position, use = _CALLS.get(name, (0, None))
    if use is not None and _is_meant(call, name) and len(call.args) > position:
        yield from _path_in(call.args[position], named, use)


def _use_of_keyword(function: str, keyword: str) -> Use | None:
    if function == "load_checkpoint" and keyword in _WEIGHTS:
        return "--pretrain_url"
    if keyword in _RESULTS:
        return "--output_path"
    # `path` is the word of many functions that have nothing to do with data.
    if keyword in _DATA and (keyword not in ("path", "root") or function[:1].isupper()):
        return "--data_url"
    return "--pretrain_url" if keyword in _WEIGHTS else None


def _is_meant(call: ast.Call, name: str) -> bool:
    """`load` and `save` only of a framework: json.load reads no weights."""
    if name not in _OF_TORCH:
        return True
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id in ("torch", "ms", "mindspore")


def _path_in(value: ast.expr, named: dict[str, ast.Constant], use: Use) -> Iterator[FixedPath]:
    if isinstance(value, ast.Name):
        value = named.get(value.id, value)
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        text = value.value
        if _PATH.fullmatch(text) and not _NOT_PATHS.match(text):
            yield FixedPath(value, text, use)


def folder_of(paths: list[FixedPath]) -> str:
    """What the argument stands for: the one path, or the folder that all are in."""
    texts = sorted({one.path.rstrip("/") for one in paths})
    writes_files = paths[0].use == "--output_path"
    folders = [_parent(text) if writes_files and _is_file(text) else text for text in texts]
    if len(set(folders)) == 1:
        return folders[0]
    start = "./" if all(text.startswith("./") for text in folders) else ""
    try:
        common = posixpath.commonpath([text.removeprefix("./") for text in folders])
    except ValueError:
        # Some begin at the root of the machine, some do not.
        common = ""
    return f"{start}{common}" if common else "."


def _is_file(path: str) -> bool:
    return "." in path.rpartition("/")[2].lstrip(".")


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "."


def replacement(args: str, use: Use, path: str, folder: str) -> str:
    """What stands in the place of a path: the argument, or a path below it."""
    value = f"{args}.{use.removeprefix('--')}"
    inner = path.rstrip("/").removeprefix(folder).strip("/") if folder != "." else path
    inner = inner.removeprefix("./").rstrip("/")
    return value if not inner else f'{value} + "/{inner}"'


def told_of(script: Script, code: str, one: FixedPath) -> Finding:
    """That a path stays, and what to do about it."""
    start, end = script.span(one.node)
    argument = one.use.removeprefix("--")
    why = Words(
        f"The path {one.path!r} is written into the script.", f"脚本中写死了路径 {one.path!r}。"
    )
    advice = Words(f"use the argument {one.use} here", f"请在此处改用参数 {argument}")
    remark = Remark(
        start, end, Severity.WORK, Effort.MINUTES, Kind.DEVICE, script.path, why, advice
    )
    return finding(script.source, code, remark)
