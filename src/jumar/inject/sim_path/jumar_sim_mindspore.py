"""MindSpore on simulated NPUs: a script that asks for Ascend gets the CPU, with a notice.

A hook on the import of MindSpore wraps the functions that choose a device; this module does not import
MindSpore itself. Communication over hccl has no CPU equivalent and is not changed."""

import functools
import sys
from types import ModuleType
from typing import Any, Callable, Dict, Sequence

import jumar_sim_import

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


def install() -> None:
    """Watch for the import of MindSpore."""
    jumar_sim_import.after_import({name: _wrap for name in _WRAPPED})
