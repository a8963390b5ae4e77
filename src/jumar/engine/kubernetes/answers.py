"""What an answer of the cluster's API means that is no success."""

import json
import re
from typing import Any, cast

from jumar.errors import EngineFailed, SubmitRefused

_REFUSALS = frozenset({400, 404, 405, 413, 422})
RIGHTS_HINT = "see: kubectl auth can-i --list; deploy/role.yaml has what jumar needs"
_NO_RIGHT = re.compile(r"\bcannot \w+ resource\b")
"""How every cluster says that an account lacks a right; 403 has other reasons too."""
_DENIED = re.compile(r"\bdenied (the )?request\b|\bviolates PodSecurity\b")
"""How webhooks, policies and the levels of pod security say no."""


class Gone(Exception):
    """The cluster no longer knows what happened since: list again."""


class Taken(Exception):
    """An object of that name exists, or is another one by now."""


class NotThere(SubmitRefused):
    """404."""


class NoRoom(EngineFailed):
    """A quota of the namespace is used up: nothing was made, and later it may be."""

    def __init__(self, said: str) -> None:
        super().__init__(f"Kubernetes has no room for it: {said}")
        self.said = said


def error_of(status: int, data: bytes, method: str, path: str) -> Exception:
    """By the code, and by the words where one code means several things."""
    said, reason = _told(data)
    if status == 410:
        return Gone()
    if status == 409 and (method != "POST" or reason == "AlreadyExists"):
        return Taken(said)
    words = f"{said or 'no reason given'} ({status} for {method} {path})"
    if status == 404 and method != "POST":
        return NotThere(words)
    if status == 403 and "exceeded quota" in said:
        return NoRoom(said)
    if status in _REFUSALS or (status == 403 and _DENIED.search(said)):
        return SubmitRefused(f"Kubernetes refuses the job: {words}")
    if status == 401 or (status == 403 and _NO_RIGHT.search(said)):
        return EngineFailed(f"Kubernetes does not allow it: {words}", hint=RIGHTS_HINT)
    # Of the others many pass: a namespace that is being deleted, a server that has only begun.
    return EngineFailed(f"Kubernetes cannot do it now: {words}")


def _told(data: bytes) -> tuple[str, str]:
    """The message and the reason, a word for programs."""
    try:
        found: Any = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        return in_a_line(data.decode("utf-8", "replace")), ""
    told = cast("dict[str, Any]", found)
    return in_a_line(told.get("message") or ""), str(told.get("reason") or "")


def in_a_line(text: object) -> str:
    """Of others' words, as many as a sentence can carry."""
    return " ".join(str(text).split())[:500]
