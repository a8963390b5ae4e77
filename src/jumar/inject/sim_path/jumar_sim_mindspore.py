"""MindSpore on simulated NPUs: a script that asks for Ascend gets the CPU, with a notice.

A hook on the import of MindSpore wraps the functions that choose a device; this module does not import
MindSpore itself. Communication over hccl has no CPU equivalent and is not changed."""

import functools
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any, Callable, Dict, Optional, Sequence

_NOTICE = (
    'jumar: device_target="Ascend" runs on the CPU here: MindSpore has no simulated NPUs, '
    "only the arithmetic is tried\n"
)
_WRAPPED: Dict[str, Sequence[str]] = {
    "mindspore": ("set_context", "set_device"),
    "mindspore.context": ("set_context",),
}
# Options that only Ascend accepts; the CPU refuses them.
_ASCEND_ONLY = (
    "device_id",
    "ascend_config",
    "enable_graph_kernel",
    "auto_tune_mode",
    "max_device_memory",
)
_said = False


def _notice() -> None:
    global _said
    if not _said:
        sys.stderr.write(_NOTICE)
        _said = True


def _without_ascend(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device_target") == "Ascend":
            kwargs["device_target"] = "CPU"
            _notice()
            for name in _ASCEND_ONLY:
                kwargs.pop(name, None)
        if args and args[0] == "Ascend":
            args = ("CPU",)
            _notice()
        return function(*args, **kwargs)

    call.__jumar_sim__ = True  # type: ignore[attr-defined]
    return call


def _wrap(module: ModuleType) -> None:
    for name in _WRAPPED[module.__name__]:
        function = getattr(module, name, None)
        if callable(function) and not getattr(function, "__jumar_sim__", False):
            setattr(module, name, _without_ascend(function))


class _Loader(importlib.abc.Loader):
    """Loads like the real loader, then wraps."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _wrap(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds MindSpore as Python would, and wraps its loader with ours."""

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname not in _WRAPPED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def install() -> None:
    """Watch for the import of MindSpore."""
    sys.meta_path.insert(0, _Finder())
