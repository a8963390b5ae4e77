"""Calls a function with a module once it has been imported, without importing it."""

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any, Callable, Mapping, Optional, Sequence

Then = Callable[[ModuleType], None]


class _Loader(importlib.abc.Loader):
    """Loads like the real loader, then calls."""

    def __init__(self, loader: Any, then: Then) -> None:
        self._loader = loader
        self._then = then

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._then(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules as Python would, and wraps their loaders with ours."""

    def __init__(self, then: Mapping[str, Then]) -> None:
        self._then = then

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname not in self._then:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._then[fullname])
        return spec


def after_import(then: Mapping[str, Then]) -> None:
    """Call `then[name]` once the module `name` is imported, or now if it is."""
    for name, call in then.items():
        if name in sys.modules:
            call(sys.modules[name])
    sys.meta_path.insert(0, _Finder(then))
