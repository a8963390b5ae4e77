"""What the cluster has of ours, kept up by one watch per kind: nothing is asked for per job."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jumar.engine.kubernetes.answers import Gone
from jumar.engine.kubernetes.asking import Api, Json, Kind, part
from jumar.engine.kubernetes.manifests import ATTEMPT, JOB
from jumar.errors import EngineFailed, SubmitRefused

logger = logging.getLogger(__name__)
Key = tuple[str, int]
_WATCH_S = 120
"""After so long a watch is begun anew; silence beyond that is a dead connection."""
_LIST_S = 600.0
"""After so long all is listed anew: a cluster that was put back to an older state tells nothing that
came before the version we have."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 30.0
_CLOSE_S = 2.0
_REMEMBER_S = 3600.0


def key_of(found: Json) -> Key | None:
    """Whose object it is."""
    labels = part(found["metadata"], "labels")
    number = str(labels.get(ATTEMPT) or "")
    return (str(labels[JOB]), int(number)) if JOB in labels and number.isdigit() else None


@dataclass
class _Kept:
    body: Json
    since: float
    """When it was heard of."""
    is_deleted: bool = False

    def is_old(self, now: float) -> bool:
        """Whether it was deleted, and long ago."""
        return self.is_deleted and now - self.since > _REMEMBER_S


@dataclass
class Shelf:
    """The objects of one kind, by attempt; those that were deleted are remembered for a while."""

    _by_key: dict[Key, dict[str, _Kept]] = field(default_factory=dict[Key, dict[str, _Kept]])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, body: Json, *, is_deleted: bool = False) -> Key | None:
        """The newest word on an object."""
        key = key_of(body)
        if key is not None:
            now = time.monotonic()
            with self._lock:
                self._by_key.setdefault(key, {})[_uid(body)] = _Kept(body, now, is_deleted)
                if is_deleted:
                    self._prune(now)
        return key

    def add(self, body: Json) -> None:
        """An object that was just made, unless there is a word on it already."""
        key = key_of(body)
        if key is not None:
            with self._lock:
                kept = self._by_key.setdefault(key, {})
                kept.setdefault(_uid(body), _Kept(body, time.monotonic()))

    def replace(self, bodies: list[Json], asked_at: float) -> list[Key]:
        """All there are; what is not among them was deleted, unless it came after `asked_at`."""
        present = {_uid(body) for body in bodies}
        changed: list[Key] = []
        with self._lock:
            for key, kept in self._by_key.items():
                for uid, one in kept.items():
                    if uid not in present and one.since < asked_at and not one.is_deleted:
                        one.is_deleted = True
                        changed.append(key)
        return changed + [key for body in bodies if (key := self.put(body)) is not None]

    def of(self, key: Key) -> tuple[list[Json], list[Json]]:
        """Those that exist, and those that did."""
        with self._lock:
            kept = list(self._by_key.get(key, {}).values())
        return (
            [one.body for one in kept if not one.is_deleted],
            [one.body for one in kept if one.is_deleted],
        )

    def _prune(self, now: float) -> None:
        """Whoever wants to know how an attempt ended asks soon."""
        for key in list(self._by_key):
            kept = self._by_key[key]
            left = {u: one for u, one in kept.items() if not one.is_old(now)}
            if left:
                self._by_key[key] = left
            else:
                del self._by_key[key]


class Mirror:
    """A thread that keeps one shelf like the cluster's list."""

    def __init__(
        self, api: Api, kind: Kind, selector: str, on_change: Callable[[Key], None]
    ) -> None:
        self._api, self._kind, self._selector = api, kind, selector
        self._on_change = on_change
        self.shelf = Shelf()
        self.listed_at = 0.0
        """When the last whole list was asked for, by the monotonic clock; 0: there was none."""
        self._closing = threading.Event()
        self._version: str | None = None
        self._trouble = ""
        self._was_heard = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Twice is once."""
        if self._thread is None:
            name = f"watch-{self._kind.plural}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """A watch that is silent goes with the process."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._closing.is_set():
            try:
                if self._version is None or time.monotonic() - self.listed_at > _LIST_S:
                    self._list()
                self._say("")
                began = time.monotonic()
                self._follow(self._version or "")
                if time.monotonic() - began < _FIRST_PAUSE_S:
                    # Something in between ends every answer at once.
                    self._closing.wait(_FIRST_PAUSE_S)
            except Gone:
                # What happened meanwhile is only in a new list.
                self._version = None
            except (EngineFailed, SubmitRefused) as error:
                self._say(error.message)
                pause_s = _FIRST_PAUSE_S if self._was_heard else min(2 * pause_s, _LONGEST_PAUSE_S)
                self._was_heard = False
                self._closing.wait(pause_s)

    def _list(self) -> None:
        asked_at = time.monotonic()
        listed = self._api.list(self._kind, labelSelector=self._selector)
        changed = self.shelf.replace(listed.items, asked_at)
        self.listed_at = asked_at
        self._version = listed.version
        for key in changed:
            self._on_change(key)

    def _follow(self, version: str) -> None:
        watching = self._api.watch(self._kind, version, selector=self._selector, limit_s=_WATCH_S)
        for event in watching:
            if self._closing.is_set():
                return
            body: Json = event["object"]
            self._version = str(body["metadata"]["resourceVersion"])
            self._was_heard = True
            if event["type"] == "BOOKMARK":
                continue
            key = self.shelf.put(body, is_deleted=event["type"] == "DELETED")
            if key is not None:
                self._on_change(key)

    def _say(self, trouble: str) -> None:
        if trouble != self._trouble:
            logger.warning("%s", trouble or "Kubernetes answers again")
        self._trouble = trouble


def _uid(body: Json) -> str:
    meta: dict[str, Any] = body["metadata"]
    return str(meta.get("uid") or meta["name"])
