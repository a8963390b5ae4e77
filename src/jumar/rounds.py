"""What a server does again and again, in a thread of its own: rounds that outlive their errors."""

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType

from jumar.errors import JumarError

log = logging.getLogger(__name__)


class Rounds(AbstractContextManager["Rounds"]):
    """Begins with `start` or `with`, and ends after the round that is under way."""

    def __init__(
        self,
        name: str,
        do: Callable[[], object],
        pause_s: float | Callable[[], float],
        *,
        trouble: str,
        at_once: bool = False,
        end_s: float | None = None,
    ) -> None:
        """`trouble` is logged with the error of a round that failed; `at_once`: the first round comes
        before the first pause; `end_s`: how long the end waits for a round, None means until it is over."""
        self._do, self._pause_s = do, pause_s
        self._trouble, self._at_once, self._end_s = trouble, at_once, end_s
        self.ending = threading.Event()
        """For rounds that can be cut short."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End; also what never began."""
        self.ending.set()
        if self._thread.is_alive():
            self._thread.join(self._end_s)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __enter__(self) -> "Rounds":
        self.start()
        return self

    def _run(self) -> None:
        if self._at_once:
            self._round()
        while not self.ending.wait(self._pause_s() if callable(self._pause_s) else self._pause_s):
            self._round()

    def _round(self) -> None:
        try:
            self._do()
        except (JumarError, OSError) as error:
            # A full disk, a store or a database that is away: the next round may find it otherwise.
            log.warning("%s: %s", self._trouble, error)
        except Exception:
            # A mistake of ours; one round without it is better than none ever again.
            log.exception("%s", self._trouble)
