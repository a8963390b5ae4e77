"""The objects of a cluster that is none: versions, a short history, and everything as the real API has it."""

import copy
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
HISTORY = 400


class Conflict(Exception):
    """The name is taken, or the object is another one."""


class Store:
    """Thread-safe; a condition wakes whoever watches."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.version = 100
        self.oldest = 0
        """Before this version nothing is known any more."""
        self._objects: dict[str, dict[str, Json]] = {}
        self._history: list[tuple[int, str, str, Json]] = []

    def create(self, kind: str, body: Json) -> Json:
        with self.changed:
            name = str(body["metadata"]["name"])
            if name in self._objects.setdefault(kind, {}):
                raise Conflict(f'{kind} "{name}" already exists')
            made = copy.deepcopy(body)
            made["metadata"].update(
                uid=secrets.token_hex(8), creationTimestamp=stamp(), generation=1
            )
            made.setdefault("status", {})
            self._objects[kind][name] = made
            return self._note(kind, "ADDED", made)

    def update(self, kind: str, name: str, change: Callable[[Json], None]) -> None:
        """Nothing, where the object is gone; no event where nothing changed."""
        with self.changed:
            found = self._objects.get(kind, {}).get(name)
            if found is None:
                return
            before = copy.deepcopy(found)
            change(found)
            if found != before:
                self._note(kind, "MODIFIED", found)

    def remove(self, kind: str, name: str) -> None:
        with self.changed:
            found = self._objects.get(kind, {}).pop(name, None)
            if found is not None:
                self._note(kind, "DELETED", found)

    def ask_delete(self, kind: str, found: Json, grace_s: int | None) -> None:
        """As the API does: at once, or, of a pod that was given to a node, with a time to end."""
        name = str(found["metadata"]["name"])
        spec: Json = found.get("spec") or {}
        if kind != "v1/pods" or grace_s == 0 or not spec.get("nodeName"):
            return self.remove(kind, name)
        grace = spec.get("terminationGracePeriodSeconds", 30) if grace_s is None else grace_s

        def mark(body: Json) -> None:
            body["metadata"].setdefault("deletionTimestamp", stamp(time.time() + grace))
            body["metadata"]["deletionGracePeriodSeconds"] = grace

        self.update(kind, name, mark)
        return None

    def get(self, kind: str, name: str) -> Json | None:
        with self.changed:
            return copy.deepcopy(self._objects.get(kind, {}).get(name))

    def all(self, kind: str) -> list[Json]:
        with self.changed:
            return copy.deepcopy(list(self._objects.get(kind, {}).values()))

    def compact(self) -> None:
        """Forget the history, as etcd does after five minutes."""
        with self.changed:
            self.version += 1
            self.oldest = self.version
            self._history.clear()

    def since(self, kind: str, version: int) -> list[tuple[int, str, Json]] | None:
        """What happened after a version; None: that is not known any more."""
        with self.changed:
            if version < self.oldest:
                return None
            return [
                (number, event, body)
                for number, of, event, body in self._history
                if of == kind and number > version
            ]

    def _note(self, kind: str, event: str, body: Json) -> Json:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        whole = copy.deepcopy(body)
        self._history.append((self.version, kind, event, whole))
        if len(self._history) > HISTORY:
            self.oldest = self._history.pop(0)[0]
        self.changed.notify_all()
        return copy.deepcopy(whole)


def stamp(at: float | None = None) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def matches(body: Json, selector: str) -> bool:
    """A label selector of equalities."""
    labels: Json = body["metadata"].get("labels") or {}
    pairs = [word.partition("=")[::2] for word in selector.split(",") if word]
    return all(labels.get(name) == value for name, value in pairs)
