"""Names of the plug-in that are not simulated: an error that says so, never one that looks like an old
plug-in.

`data/names.tsv` lists the plug-in's public names. A function or class that is refused exists and raises
when it is called; some are torch's own. An operator stays an AttributeError, so that a script that checks
`hasattr(torch_npu, "npu_…")` first takes its other branch. Modules that only split up a package
(`torch_npu.npu.random`) hand out the names of the package."""

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import sys
from types import ModuleType
from typing import Any, Callable, Dict, NamedTuple, NoReturn, Optional, Sequence

from torch_npu._sim.settings import DATA


class Name(NamedTuple):
    """A row of the table."""

    kind: str
    """module, class, function, method, object or operator"""
    answer: str
    """refused, or the name in torch that answers for it, or nothing if it is written here"""


@functools.lru_cache(maxsize=None)
def table() -> Dict[str, Name]:
    """The plug-in's public names."""
    lines = (DATA / "names.tsv").read_text("utf-8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return {path: Name(kind, answer) for path, kind, answer in rows}


def refuse(path: str) -> NoReturn:
    """Raise for a name that a simulated device cannot have."""
    raise NotImplementedError(
        f"{path} is part of torch_npu, but is not simulated: these are simulated NPUs, "
        "and this line only runs on real ones"
    )


def _function(path: str) -> Callable[..., NoReturn]:
    def call(*args: Any, **kwargs: Any) -> NoReturn:
        refuse(path)

    return _named(call, path)


def _class(path: str) -> type:
    def make(cls: Any, *args: Any, **kwargs: Any) -> NoReturn:
        refuse(path)

    return _named(type("Absent", (), {"__new__": make}), path)


def _named(made: Any, path: str) -> Any:
    made.__module__, _, made.__name__ = path.rpartition(".")
    made.__qualname__ = made.__name__
    made.is_simulated = False
    return made


def _operator(path: str) -> NoReturn:
    name = path.rpartition(".")[2]
    raise AttributeError(
        f"{path} is not simulated: torch_npu has it, but on simulated NPUs this line cannot run. Take "
        "the script's way without fused operators, or write it with torch's own operators where "
        f'hasattr(torch_npu, "{name}") is false. What is simulated is listed in torch_npu.ops.__all__'
    )


def _answer(path: str, row: Name) -> Any:
    if row.kind == "module":
        return importlib.import_module(path)
    if row.answer == "refused":
        return _class(path) if row.kind == "class" else _function(path)
    module, _, name = row.answer.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _above(module: str, name: str) -> Any:
    """What the package above a module has by this name."""
    package = sys.modules.get(module.rpartition(".")[0])
    found = package.__dict__.get(name) if package else None
    return None if inspect.ismodule(found) else found


def of_module(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module of the plug-in."""

    def find(name: str) -> Any:
        path = f"{module}.{name}"
        row = table().get(path)
        if row is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if row.kind == "operator":
            _operator(path)
        found = _above(module, name)
        if found is None and not row.answer and row.kind != "module":
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return _answer(path, row) if found is None else found

    return find


class _Parts(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of the plug-in that have no file here."""

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if not fullname.startswith("torch_npu."):
            return None
        row = table().get(fullname)
        if row is not None and row.kind == "module":
            return importlib.util.spec_from_loader(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return ModuleType(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__getattr__"] = of_module(module.__name__)


def install() -> None:
    """Find such modules from now on."""
    sys.meta_path.append(_Parts())
