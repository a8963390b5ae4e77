"""What is done in the names of people, one thing at a time for each of them.

A process that is somebody's can be held up by its owner. Whoever waits for one here waits for a moment, and
asks again later: so nobody holds up the work for others."""

import threading
from collections.abc import Callable, Hashable

from jumar.errors import EngineFailed, JumarError

PATIENCE_S = 3.0
_MOST_LEFT = 1000


class NotYet(EngineFailed):
    """It is under way, or waits for something else of the same user."""


class _Deed:
    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        # Of one that breaks off; the thread tells in the log why.
        self.error: Exception | None = EngineFailed("it broke off, see the server's log")
        self.done = threading.Event()

    def run(self) -> None:
        try:
            self._work()
            self.error = None
        except (JumarError, OSError) as error:
            self.error = error
        finally:
            self.done.set()


class PerUser:
    """Thread-safe; each deed has a thread of its own."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._under_way: dict[str, tuple[Hashable, _Deed]] = {}
        self._failed: dict[tuple[str, Hashable], Exception] = {}
        self._slow: set[str] = set()
        """Whose last one took long: nobody waits for those at all."""

    def do(self, user: str, what: Hashable, work: Callable[[], None]) -> None:
        """Returns when it is done, raises what it raised; NotYet where that takes longer. Whoever asks for the
        same again hears how it went."""
        with self._lock:
            self._settle(user)
            failed = self._failed.pop((user, what), None)
            if failed is not None:
                raise failed
            if user not in self._under_way:
                deed = _Deed(work)
                threading.Thread(target=deed.run, name=f"for-{user}", daemon=True).start()
                self._under_way[user] = what, deed
            asked, deed = self._under_way[user]
            patience_s = 0.0 if asked != what or user in self._slow else self._patience_s
        is_done = deed.done.wait(patience_s)
        with self._lock:
            if asked == what and not is_done:
                self._slow.add(user)
            self._settle(user)
            failed = self._failed.pop((user, what), None)
        if failed is not None:
            raise failed
        if asked != what or not is_done:
            raise NotYet(f"what is done as {user} takes longer")
        # Somebody else who waited for the same has taken what was kept.
        if deed.error is not None:
            raise deed.error

    def _settle(self, user: str) -> None:
        """Let go of what has ended meanwhile; a failure is kept for whoever asked for it."""
        asked, deed = self._under_way.get(user, (None, None))
        if deed is None or not deed.done.is_set():
            return
        del self._under_way[user]
        self._slow.discard(user)
        if deed.error is not None:
            while len(self._failed) >= _MOST_LEFT:
                self._failed.pop(next(iter(self._failed)))
            self._failed[user, asked] = deed.error
