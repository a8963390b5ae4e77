"""How many wrong passwords the server bears before it lets the guesser wait.

Counted by name and address together: nobody can lock somebody else out, and one address has few
guesses at a name. In memory only; a restart forgives."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from jumar.errors import TooManyAttempts

_MOST_WRONG = 10
_WINDOW_S = 300.0
_MOST_KEYS = 10_000


class Patience:
    """Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._wrong: OrderedDict[tuple[str, str], list[float]] = OrderedDict()

    def ask(self, name: str, address: str) -> None:
        """Refuse when this address was wrong about this name too often of late."""
        with self._lock:
            times = self._recent(name, address)
        if len(times) >= _MOST_WRONG:
            wait_s = int(times[0] + _WINDOW_S - self._clock()) + 1
            raise TooManyAttempts(
                "too many wrong passwords", hint=f"try again in {wait_s} s", wait_s=wait_s
            )

    def wrong(self, name: str, address: str) -> None:
        """Remember a wrong password."""
        with self._lock:
            times = self._recent(name, address)
            self._wrong[name, address] = [*times, self._clock()]
            self._wrong.move_to_end((name, address))
            if len(self._wrong) > _MOST_KEYS:
                self._wrong.popitem(last=False)

    def right(self, name: str, address: str) -> None:
        """Forget what went wrong before."""
        with self._lock:
            self._wrong.pop((name, address), None)

    def _recent(self, name: str, address: str) -> list[float]:
        oldest = self._clock() - _WINDOW_S
        return [then for then in self._wrong.get((name, address), []) if then > oldest]
