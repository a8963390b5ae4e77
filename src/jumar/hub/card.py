"""The head of a README: YAML between two lines of dashes, written by anybody."""

import json
import re
from typing import Any, cast

import yaml

_HEAD = re.compile(r"\A---\r?\n(.*?)\r?\n---\s*(?:\r?\n|\Z)", re.S)
_MOST_CHARS = 64 << 10


class _PlainLoader(yaml.SafeLoader):
    """Without aliases: nine lines of them make gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not accepted")
        return super().compose_node(parent, index)


def card_of(readme: str) -> dict[str, Any]:
    """What the head says, as JSON values; empty where there is none or it cannot be read."""
    found = _HEAD.match(readme[: _MOST_CHARS + 16])
    if found is None:
        return {}
    try:
        values = yaml.load(found[1], _PlainLoader)
        # Dates and the like become text; NaN is no JSON.
        values = json.loads(json.dumps(values, default=str, allow_nan=False))
    except (yaml.YAMLError, ValueError, RecursionError, TypeError):
        return {}
    return cast("dict[str, Any]", values) if isinstance(values, dict) else {}


def body_of(readme: str) -> str:
    """The README without its head."""
    return _HEAD.sub("", readme, count=1)


def tags_of(card: dict[str, Any]) -> tuple[str, ...]:
    """Its tags, as far as they are such."""
    tags = card.get("tags")
    return (
        tuple(str(tag)[:64] for tag in cast("list[object]", tags)[:50])
        if isinstance(tags, list)
        else ()
    )


def licence_of(card: dict[str, Any]) -> str:
    """Its licence, or nothing."""
    licence = card.get("license") or card.get("licence")
    return licence[:64] if isinstance(licence, str) else ""
