"""Names that a package has only in some of its versions, and which of them a message is about."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from jumar.why.knowledge import rows

_PYTHON = "python"
# How Python tells which name is not there.
_MODULE = re.compile(r"module '(?P<a>[\w.]+)' has no attribute '(?P<b>\w+)'")
_OBJECT = re.compile(r"'(?P<a>\w+)' (?:object )?has no attribute '(?P<b>\w+)'")
_IMPORT = re.compile(
    r"cannot import name '?(?P<b>\w+)'?(?: from (?:partially initialized module )?'(?P<a>[\w.]+)')?"
)
_NO_MODULE = re.compile(r"No module named '?(?P<a>[\w.]+)'?")
_KEYWORD = re.compile(
    r"(?P<a>[\w.]+)\(\) got an unexpected keyword argument '(?P<b>\w+)'", re.ASCII
)
_MUST = re.compile(r"(?P<a>\w+)\(\) missing 1 required positional argument: '(?P<b>\w+)'")
_INITIALIZER = "__init__"
# Old messages do not say what is imported from; the line of the source does.
_FROM = re.compile(r"from (?P<a>[\w.]+) import .*?\b(?P<b>\w+)\b")
_SHORT = {"np": "numpy", "tf": "tensorflow", "pl": "pytorch_lightning", "nx": "networkx"}


@dataclass(frozen=True, slots=True)
class Api:
    """A name of a package, and the versions that have it."""

    package: str
    name: str
    is_gone: bool
    """Whether it is there before that version, or from it on."""
    version: str
    instead: str | None

    @property
    def install(self) -> str:
        """What to install so that it is there."""
        wanted = f"{'<' if self.is_gone else '>='}{self.version}"
        return (
            f"Python{wanted}"
            if self.package == _PYTHON
            else f'pip install "{self.package}{wanted}"'
        )


def api_of(message: str, source: str) -> Api | None:
    """The name that this message misses, if it is known which versions have it; `source`: the line that raised it."""
    return next((known for name in _names(message, source) if (known := _known(name))), None)


def _names(message: str, source: str) -> Iterator[str]:
    """What to look up, the most particular first."""
    found = _MODULE.search(message) or _OBJECT.search(message)
    if found is not None:
        yield f"{found['a']}.{found['b']}"
        return
    found = _IMPORT.search(message)
    if found is not None:
        imported = _FROM.search(source)
        module = found["a"] or (None if imported is None else imported["a"])
        yield f"{module}.{found['b']}" if module else found["b"]
        return
    found = _NO_MODULE.search(message)
    if found is not None:
        # The module that it is in may be what is not there.
        parts = found["a"].split(".")
        yield from (".".join(parts[:end]) for end in range(len(parts), 0, -1))
        return
    found = _KEYWORD.search(message)
    if found is not None:
        called = found["a"] if found["a"] != _INITIALIZER else f"{_class_of(source)}.{_INITIALIZER}"
        yield f"{called}({found['b']})"
    found = _MUST.search(message)
    if found is not None:
        yield f"{found['a']}(){found['b']}"


def _class_of(source: str) -> str:
    called = re.findall(r"([A-Za-z_]\w*)\(", source)
    return called[-1] if called else ""


@cache
def _table() -> Mapping[str, Api]:
    return {
        name: Api(
            package, name, versions[0] == "<", versions.lstrip("<>="), instead.strip("-") or None
        )
        for package, name, versions, instead in rows("jumar.why", "apis.tsv")
    }


def _known(name: str) -> Api | None:
    first, dot, rest = name.partition(".")
    return _table().get(f"{_SHORT.get(first, first)}{dot}{rest}")
