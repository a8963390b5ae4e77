"""A question to Slurm's `scontrol`."""

import os
import select
import signal
import time
from typing import Callable, Dict

from jumar.launch.jobdir.safefile import Unusable
from jumar.launch.processes import process
from jumar.launch.processes.spawn import CannotStart, Program, Streams, spawn_with

_LIMIT_S = 60.0
_BUSY_S = 120.0
"""How long a controller may be too busy to answer: it loses no job that it has just started."""
_PAUSE_S = 1.0
_BLOCK = 65536


class Question:
    """Asked at once, answered when the answer is needed: meanwhile there is other work.

    Without `subprocess`, which takes a while to load: the ranks of every job wait for it."""

    def __init__(self, *words: str) -> None:
        """Raises Unusable, as `answer` does."""
        self._asked = words
        self._words = " ".join(words)
        self._until = time.monotonic() + _LIMIT_S
        self._said, said = os.pipe()
        self._wrong, wrong = os.pipe()
        program = Program(["scontrol", *words], dict(os.environ), "/", "")
        try:
            self._pid = spawn_with(program, Streams(None, said, wrong))
        except CannotStart as error:
            self._close()
            raise Unusable(f"scontrol {self._words}: {error}") from error
        finally:
            os.close(said)
            os.close(wrong)

    def answer_at_last(self, between: Callable[[], None], busy_s: float = _BUSY_S) -> str:
        """The same, asked again for a while where there is none; `between` is called before each time."""
        until, question = time.monotonic() + busy_s, self
        while True:
            try:
                return question.answer()
            except Unusable:
                if time.monotonic() > until:
                    raise
            between()
            time.sleep(_PAUSE_S)
            question = Question(*self._asked)

    def answer(self) -> str:
        """What scontrol says; raises Unusable when it does not."""
        try:
            heard = self._heard()
            status = self._ended()
        except TimeoutError as error:
            process.send(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            raise Unusable(f"scontrol {self._words}: no answer in {_LIMIT_S:g} s") from error
        finally:
            self._close()
        said, wrong = (heard[end].decode("utf-8", "replace") for end in (self._said, self._wrong))
        if not os.WIFEXITED(status) or os.WEXITSTATUS(status):
            raise Unusable(f"scontrol {self._words}: {wrong.strip()}")
        return said

    def _heard(self) -> Dict[int, bytes]:
        """All that it says, by the end of the pipe; TimeoutError."""
        heard = {self._said: b"", self._wrong: b""}
        opened = list(heard)
        while opened:
            ready, _, _ = select.select(opened, [], [], max(0.0, self._until - time.monotonic()))
            if not ready:
                raise TimeoutError
            for end in ready:
                block = os.read(end, _BLOCK)
                heard[end] += block
                if not block:
                    opened.remove(end)
        return heard

    def _ended(self) -> int:
        """Its status; who has closed both ends is about to end. TimeoutError."""
        pause_s = 0.0002
        while True:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                return status
            if time.monotonic() > self._until:
                raise TimeoutError
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.05)

    def _close(self) -> None:
        os.close(self._said)
        os.close(self._wrong)
