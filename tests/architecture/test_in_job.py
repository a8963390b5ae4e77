"""Code that runs inside a job is standard library only: nobody can ask users to install more.

import-linter cannot say so: it knows neither the standard library nor the folders of `inject`, which
are put on PYTHONPATH and are no packages of ours."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "jumar"

ALLOWED: dict[str, frozenset[str]] = {
    "launch": frozenset({"jumar.launch"}),
    "inject": frozenset({"jumar.inject"}),
    "inject/moxing_path/jumar_s3": frozenset({"jumar_s3"}),
    "inject/moxing_path/moxing": frozenset({"moxing", "jumar_s3", "jumar_start"}),
    "inject/sim_path": frozenset({"jumar_sim_import", "jumar_sim_mindspore", "torch", "torch_npu"}),
    "inject/side_path": frozenset({"tensorboard", "werkzeug"}),
    "inject/start_path": frozenset(
        {"jumar_start", "mindspore", "numpy", "torch", "torch_npu", "transformers"}
    ),
}
"""What each folder may import beside the standard library; the innermost folder counts."""

NEWER_THAN_3_8 = frozenset({"annotationlib", "compression", "graphlib", "tomllib", "zoneinfo"})
GONE_SINCE_3_8 = frozenset(
    """aifc asynchat asyncore audioop cgi cgitb chunk crypt distutils imghdr imp lib2to3 mailcap nis
    nntplib ossaudiodev pipes smtpd sndhdr spwd sunau telnetlib uu xdrlib""".split()  # noqa: SIM905
)
EVERYWHERE = sys.stdlib_module_names - NEWER_THAN_3_8 - GONE_SINCE_3_8


def imports_of(path: Path, text: str) -> Iterator[str]:
    """The full names of all modules that a file imports, wherever in it that happens."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            package = path.parts[: len(path.parts) - node.level]
            yield ".".join([*package, *filter(None, [node.module])])
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name | ast.Attribute)
            and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__")
            and isinstance(node.args[0], ast.Constant)
        ):
            yield str(node.args[0].value)


def allowed_in(path: Path) -> frozenset[str]:
    folder = next(str(above) for above in path.parents if str(above) in ALLOWED)
    return ALLOWED[folder]


def refused(path: Path, text: str) -> list[str]:
    """What a file, named from the folder of jumar, may not import."""
    allowed = allowed_in(path)
    # A folder of `inject` that ends in _path is a root of its own, everything else is in jumar.
    root = next((i + 1 for i, part in enumerate(path.parts) if part.endswith("_path")), None)
    place = Path("jumar", path) if root is None else Path(*path.parts[root:])
    return [
        name
        for name in imports_of(place, text)
        if name.split(".")[0] not in EVERYWHERE
        and not any(f"{name}.".startswith(f"{prefix}.") for prefix in allowed)
    ]


def test_only_the_standard_library_is_imported() -> None:
    files = [path for room in ("launch", "inject") for path in (SOURCE / room).rglob("*.py")]
    assert len(files) > 100
    found = {
        str(path.relative_to(SOURCE)): names
        for path in files
        if (names := refused(path.relative_to(SOURCE), path.read_text("utf-8")))
    }
    assert not found


@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        ("launch/a.py", "import os.path, yaml", ["yaml"]),
        ("launch/a.py", "def f():\n    from numpy import array", ["numpy"]),
        ("launch/a.py", "from jumar.spec import job", ["jumar.spec"]),
        ("launch/a.py", "from jumar import __version__", ["jumar"]),
        ("launch/a.py", "from jumar.launcher import a", ["jumar.launcher"]),
        ("launch/a/b.py", "from ... import errors", ["jumar"]),
        ("launch/a/b.py", "from ..c import d", []),
        ("launch/a.py", "try:\n    import tomllib\nexcept ImportError:\n    pass", ["tomllib"]),
        ("launch/a.py", "import distutils.util", ["distutils.util"]),
        ("launch/a.py", "import importlib\nimportlib.import_module('torch')", ["torch"]),
        ("inject/moxing_path/moxing/a.py", "import jumar_s3.client, torch", ["torch"]),
        ("inject/moxing_path/moxing/a.py", "from . import b", []),
        ("inject/moxing_path/jumar_s3/a.py", "import moxing", ["moxing"]),
        ("inject/sim_path/torch_npu/a.py", "import torch.nn, numpy", ["numpy"]),
    ],
)
def test_what_is_refused(path: str, text: str, names: list[str]) -> None:
    assert refused(Path(path), text) == names
