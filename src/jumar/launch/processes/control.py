"""What may interrupt a supervisor: signals, the keeper's end, a stop file, a deadline.

All waiting of a supervisor goes through `Control.wait`, so nothing it does is deaf to a stop."""

import os
import selectors
import signal
import time
from types import FrameType
from typing import Callable, List, NamedTuple, Optional

_LOOK_S = 0.5
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_OF_OTHER_NODES = ("node-lost", "node-came", "peer-failed", "hang")
_PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)


class Stop(NamedTuple):
    """Why all ranks shall end before they are done."""

    why: str
    """A state of result.json, or `keeper-killed`, `signal`, `node-lost`, `node-came`, `peer-failed`,
    `hang`, `step-limit`."""
    signal: int = signal.SIGTERM
    """What the ranks are sent."""
    words: str = ""

    @property
    def is_from_outside(self) -> bool:
        """Meant for all nodes of a run, and no failure of any of them."""
        return self.why not in (*_OF_OTHER_NODES, "keeper-killed", "step-limit")


# Python then writes down where it was (PYTHONFAULTHANDLER).
HANG = Stop("hang", signal.SIGABRT, "no rank does anything")


class Interrupted(Exception):
    """Raised out of preparations by a stop."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.why)
        self.stop = stop


class Control:
    """Takes over the signals of this process; `close` gives them back."""

    def __init__(
        self,
        *,
        keeper: Optional[int] = None,
        asked_to_stop: Optional[Callable[[], Optional[str]]] = None,
    ) -> None:
        self.stop: Optional[Stop] = None
        self.impatient = False
        """Somebody asked twice: no more grace."""
        self.deadline: Optional[float] = None
        """When the ranks are asked to end, on the monotonic clock."""
        self.ends_at: Optional[float] = None
        """When none of them may be left, however late they were asked."""
        self.regularly: Optional[Callable[[], None]] = None
        """Called in every wait, so at least twice a second as long as anything is waited for."""
        self._asked_to_stop = asked_to_stop
        self._is_deaf = False
        self._passed_on: List[int] = []
        self._selector = selectors.DefaultSelector()
        self._wake, self._wake_end = os.pipe()
        for end in (self._wake, self._wake_end):
            os.set_blocking(end, False)
        self.watch(self._wake, self._read_signals)
        if keeper is not None:
            self.watch_keeper(keeper)
        self._take_signals()

    def close(self) -> None:
        """Default signal handling again."""
        signal.set_wakeup_fd(-1)
        for number in (*_ENDING, *_PASSED_ON, signal.SIGCHLD):
            if signal.getsignal(number) is _noted:
                signal.signal(number, signal.SIG_DFL)
        self._selector.close()
        os.close(self._wake)
        os.close(self._wake_end)

    def watch(self, descriptor: int, ready: Callable[[int], None]) -> None:
        """Call `ready` during a wait whenever `descriptor` can be read."""
        self._selector.register(descriptor, selectors.EVENT_READ, ready)

    def watch_keeper(self, channel: int) -> None:
        """End everything when the keeper at the other end of `channel` is gone, or asks for it."""
        self.watch(channel, self._keeper_spoke)

    def unwatch(self, descriptor: int) -> None:
        """Look at `descriptor` no more."""
        self._selector.unregister(descriptor)

    def wait(self, most_s: float) -> None:
        """Return when a child ended, something was asked for, or `most_s` has passed."""
        if self.stop is None and self.deadline is not None:
            most_s = min(most_s, self.deadline - time.monotonic())
        for key, _ in self._selector.select(max(0.0, min(most_s, _LOOK_S))):
            key.data(key.fd)
        self._look()
        if self.regularly is not None:
            self.regularly()

    def pause(self, duration_s: float) -> None:
        """Sleep, unless a stop comes."""
        until = time.monotonic() + duration_s
        while self.stop is None and time.monotonic() < until:
            self.wait(until - time.monotonic())

    def check(self) -> None:
        """Raise Interrupted when a stop was asked for."""
        self.wait(0)
        if self.stop is not None:
            raise Interrupted(self.stop)

    def ask(self, stop: Stop) -> None:
        """The first reason to stop counts, but one from outside is meant for further rounds too."""
        if self.stop is None or (stop.is_from_outside and not self.stop.is_from_outside):
            self.stop = stop

    def resume(self) -> None:
        """Forget a stop that came of what happened on other nodes: there will be another round."""
        if self.stop is not None and self.stop.why in _OF_OTHER_NODES:
            self.stop = None

    def finish(self) -> None:
        """The ranks have ended. The time limit was theirs, and a stop that they have obeyed is not
        heard again; one that comes only now is."""
        self.deadline = self.ends_at = None
        if self.stop is not None and self.stop.why != "keeper-killed":
            self.stop, self._is_deaf = None, True

    def limit(self, ask_at: Optional[float], ends_at: Optional[float]) -> None:
        """The time limit of the ranks; both moments on the monotonic clock."""
        self.deadline, self.ends_at = ask_at, ends_at

    def kill_at(self, grace_s: float) -> float:
        """When what is asked to end now is killed."""
        moment = time.monotonic() + grace_s
        return moment if self.ends_at is None else min(moment, self.ends_at)

    def take_passed_on(self) -> List[int]:
        """Signals to pass on to the ranks, each once."""
        taken, self._passed_on = self._passed_on, []
        return taken

    def _take_signals(self) -> None:
        for number in (*_ENDING, *_PASSED_ON, signal.SIGCHLD):
            # Under nohup a closed terminal must not end the job.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, _noted)
        signal.set_wakeup_fd(self._wake_end, warn_on_full_buffer=False)
        # Whoever forked this process may have kept signals waiting for just this moment.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (*_ENDING, *_PASSED_ON))

    def _read_signals(self, descriptor: int) -> None:
        try:
            numbers = os.read(descriptor, 4096)
        except BlockingIOError:
            return
        for number in numbers:
            if number in _PASSED_ON:
                self._passed_on.append(number)
            elif number in _ENDING:
                self._asked_by_signal(number)

    def _asked_by_signal(self, number: int) -> None:
        if self._is_deaf:
            return
        if self.stop is not None and number == signal.SIGINT:
            self.impatient = True
        why = self._asked_to_stop() if self._asked_to_stop else None
        passed = signal.SIGTERM if why or number == signal.SIGHUP else number
        self.ask(Stop(why or "signal", passed))

    def _keeper_spoke(self, descriptor: int) -> None:
        try:
            words = os.read(descriptor, 64)
        except BlockingIOError:
            return
        except ConnectionError:
            words = b""
        if words:
            if not self._is_deaf:
                self.ask(Stop(words.decode("ascii", "replace")))
            return
        self.unwatch(descriptor)
        # Somebody used kill -9: there is no grace, even if a polite stop is under way.
        self.stop = Stop("keeper-killed", signal.SIGKILL)
        self.impatient = True

    def _look(self) -> None:
        if self._is_deaf or (self.stop is not None and self.stop.why not in _OF_OTHER_NODES):
            return
        why = self._asked_to_stop() if self._asked_to_stop else None
        if why is not None:
            self.ask(Stop(why))
        elif self.deadline is not None and time.monotonic() >= self.deadline:
            self.ask(Stop("timed-out"))


def _noted(number: int, frame: Optional[FrameType]) -> None:
    """The wake-up descriptor has it already."""
