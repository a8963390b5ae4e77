"""Values of YAML and JSON files as the code that reads them gets them: where they stand and what type they have."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import yaml

from jumar.why.script.reading import Script

_TAG = "tag:yaml.org,2002:"
_SUFFIXES = (".yaml", ".yml", ".json")
_MOST_FILES = 20


@dataclass(frozen=True, slots=True)
class Setting:
    """An entry of such a file."""

    file: str
    node: yaml.Node
    path: tuple[str, ...]

    @property
    def line(self) -> int:
        return self.node.start_mark.line + 1

    @property
    def type(self) -> str:
        """`str`, `int`, `float`, `bool`, `null`, `seq` or `map`."""
        return str(self.node.tag).removeprefix(_TAG)

    @property
    def text(self) -> str:
        """A single value as it is written, without quotes."""
        return str(self.node.value) if isinstance(self.node, yaml.ScalarNode) else ""

    @property
    def is_quoted(self) -> bool:
        return isinstance(self.node, yaml.ScalarNode) and self.node.style in ("'", '"')

    @property
    def elements(self) -> Sequence["Setting"]:
        """Of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            return ()
        return [Setting(self.file, one, self.path) for one in self.node.value]

    @property
    def keys(self) -> Sequence["Setting"]:
        """Of a mapping."""
        if not isinstance(self.node, yaml.MappingNode):
            return ()
        return [Setting(self.file, key, self.path) for key, _ in self.node.value]

    def inside(self, key: str) -> "Setting | None":
        """What stands under a key."""
        if not isinstance(self.node, yaml.MappingNode):
            return None
        found = [value for name, value in self.node.value if name.value == key]
        return Setting(self.file, found[0], (*self.path, key)) if len(found) == 1 else None


def settings_at(script: Script, path: Sequence[str], named: Sequence[str]) -> list[Setting]:
    """What stands at this path in the files that are named so; in all where none is."""
    files = [one for one in script.names if one.endswith(_SUFFIXES)]
    ends = [os.path.basename(one) for one in named]
    chosen = [one for one in files if os.path.basename(one) in ends]
    found = [_at(script, name, path) for name in (chosen or files)[:_MOST_FILES]]
    return [one for one in found if one is not None]


def _at(script: Script, name: str, path: Sequence[str]) -> Setting | None:
    at = _root(name, script.text(name) or "")
    for key in path:
        at = None if at is None else at.inside(key)
    return at


@lru_cache(maxsize=32)
def _root(name: str, text: str) -> Setting | None:
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return None if node is None else Setting(name, node, ())


def names_of_settings(texts: Sequence[str]) -> Iterator[str]:
    """Of these texts those that name such a file."""
    yield from (one for one in texts if one.endswith(_SUFFIXES))
