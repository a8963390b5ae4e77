"""CUDA training code to Ascend: text in, text out.

`port_text` ports one Python text, `port_tree` a folder. The standard `ast` is used to understand
code, and edits by position to change it, so everything else stays as it was, byte for byte. Names
are resolved, never matched by spelling. This room knows nothing of jobs, servers or the terminal."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumar.port.options import Mode, Options
    from jumar.port.python import PortedText, port_text
    from jumar.port.records import Change, Effort, FileResult, Finding, Severity
    from jumar.port.tree import TreeResult, port_tree

__all__ = [
    "Change",
    "Effort",
    "FileResult",
    "Finding",
    "Mode",
    "Options",
    "PortedText",
    "Severity",
    "TreeResult",
    "port_text",
    "port_tree",
]

_HOMES = {
    "Mode": "options",
    "Options": "options",
    "PortedText": "python",
    "port_text": "python",
    "TreeResult": "tree",
    "port_tree": "tree",
}


def __getattr__(name: str) -> object:
    # Imported on demand: a run that reuses an earlier result needs none of the rules.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"jumar.port.{_HOMES.get(name, 'records')}"), name)
