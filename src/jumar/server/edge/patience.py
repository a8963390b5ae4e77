"""How many guesses at passwords, and how many registrations, the server bears.

A guess counts from when it begins: what is being hashed is on the account already, so that many at
once are no way around. One address has few guesses at one name. All addresses together have more
at a name, one address more at all names; an address that has signed in as a name before is exempt
from these two, so that a stranger's guesses do not lock somebody out at home. In memory only, and
bounded; a restart forgives."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address

from jumar.errors import JumarError, NotAllowed, NotSignedIn, TooManyAttempts
from jumar.latest import Latest

PAIR_WRONG = 10
NAME_WRONG = 50
ADDRESS_WRONG = 100
WRONG_WINDOW_S = 300.0
ADDRESS_REGISTRATIONS = 30
ALL_REGISTRATIONS = 120
REGISTRATION_WINDOW_S = 3600.0
MOST_KEYS = 10_000
_LONGEST_NAME = 64
_MOMENT_S = 1


@dataclass(slots=True)
class _Count:
    """What was tried under one key: under way, and counted in the window."""

    under_way: int = 0
    times: list[float] = field(default_factory=list[float])


class _Limit:
    """At most `most` tries a key in `window_s`. Not thread-safe: `Patience` is."""

    def __init__(self, most: int, window_s: float) -> None:
        self._most = most
        self._window_s = window_s
        self._counts: OrderedDict[str, _Count] = OrderedDict()

    def wait_s(self, key: str, now: float) -> int:
        """How long whoever comes with this key has to wait; 0 when they may try."""
        count = self._counts.get(key)
        if count is None:
            return 0
        count.times = [then for then in count.times if then > now - self._window_s]
        if len(count.times) + count.under_way < self._most:
            return 0
        if len(count.times) < self._most:
            # Some that are under way may turn out right, and then count no more.
            return _MOMENT_S
        return int(count.times[0] + self._window_s - now) + 1

    def begin(self, key: str) -> None:
        self._counts.setdefault(key, _Count()).under_way += 1
        self._counts.move_to_end(key)
        if len(self._counts) > MOST_KEYS:
            self._drop_oldest()

    def end(self, key: str, now: float, *, counts: bool) -> None:
        count = self._counts.get(key)
        if count is None:
            return
        count.under_way -= 1
        if counts:
            count.times.append(now)
        if not count.under_way and not count.times:
            del self._counts[key]

    def forgive(self, key: str) -> None:
        """Forget what went wrong before."""
        count = self._counts.get(key)
        if count is not None:
            count.times.clear()

    def _drop_oldest(self) -> None:
        # What is under way is needed when it ends; there are never many of those.
        for key, count in self._counts.items():
            if not count.under_way:
                del self._counts[key]
                return

    def __len__(self) -> int:
        return len(self._counts)


class Patience:
    """Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._pairs = _Limit(PAIR_WRONG, WRONG_WINDOW_S)
        self._names = _Limit(NAME_WRONG, WRONG_WINDOW_S)
        self._addresses = _Limit(ADDRESS_WRONG, WRONG_WINDOW_S)
        self._registering = _Limit(ADDRESS_REGISTRATIONS, REGISTRATION_WINDOW_S)
        self._registrations = _Limit(ALL_REGISTRATIONS, REGISTRATION_WINDOW_S)
        # From where a name was signed in rightly, most recent last.
        self._at_home: Latest[str, None] = Latest(MOST_KEYS)

    @contextmanager
    def guess(self, name: str, address: str) -> Generator[None]:
        """Around the check of a password: TooManyAttempts before it, and afterwards it counts unless
        the password was right or something else failed."""
        name, address = name[:_LONGEST_NAME], neighbourhood(address)
        pair = f"{name}\n{address}"
        keys = [(self._pairs, pair), (self._names, name), (self._addresses, address)]
        with self._lock:
            if pair in self._at_home:
                keys = keys[:1]
            self._begin(keys, "too many wrong passwords")
        counts = True
        try:
            yield
            counts = False
            with self._lock:
                self._pairs.forgive(pair)
                self._at_home.keep(pair, None)
        except JumarError as error:
            # A full disk or a database that is away says nothing about the password.
            counts = isinstance(error, NotSignedIn | NotAllowed)
            raise
        finally:
            self._end(keys, counts=counts)

    @contextmanager
    def registration(self, address: str) -> Generator[None]:
        """Around the making of a user: it counts, however it ends."""
        keys = [(self._registering, neighbourhood(address)), (self._registrations, "")]
        with self._lock:
            self._begin(keys, "too many registrations")
        try:
            yield
        finally:
            self._end(keys, counts=True)

    def __len__(self) -> int:
        """How much is remembered."""
        limits = (self._pairs, self._names, self._addresses, self._registering)
        return sum(map(len, limits)) + len(self._at_home)

    def _begin(self, keys: list[tuple[_Limit, str]], what: str) -> None:
        now = self._clock()
        wait_s = max(limit.wait_s(key, now) for limit, key in keys)
        if wait_s:
            raise TooManyAttempts(what, hint=f"try again in {wait_s} s", wait_s=wait_s)
        for limit, key in keys:
            limit.begin(key)

    def _end(self, keys: list[tuple[_Limit, str]], *, counts: bool) -> None:
        with self._lock:
            now = self._clock()
            for limit, key in keys:
                limit.end(key, now, counts=counts)


def neighbourhood(address: str) -> str:
    """The address; of IPv6 the network, as whoever has one address there has all of them."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{int(parsed) >> 64:016x}"
