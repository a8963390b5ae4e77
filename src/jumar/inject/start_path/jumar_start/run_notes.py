"""What one run of a training tracks, as lines of JSON in the job directory: `runs/RUN.jsonl`.

The server reads them (`jumar/track/runs.py`). A training never fails because of its notes."""

import hashlib
import json
import os
import re
import time
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple

FOLDER = "runs"
_MOST_BYTES = 4000
"""The server reads no longer lines."""
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST_DEPTH = 4


class RunNotes:
    """The notes of one run; none, where there is no job or no room."""

    def __init__(self, run: str, experiment: Optional[str]) -> None:
        self._file = _opened(run)
        if experiment:
            self._write({"experiment": str(experiment)[:500]})

    def parameter(self, name: object, value: object) -> None:
        """What the run was given."""
        self._write({"parameter": str(name)[:200], "value": value})

    def parameters(self, values: Any) -> None:
        """A dictionary of them, or an object that has them as attributes."""
        found = values if isinstance(values, Mapping) else getattr(values, "__dict__", {})
        for name, value in dict(found).items():
            self.parameter(name, value)

    def log(self, values: Mapping[str, Any], step: Any = None, epoch: Any = None) -> None:
        """Several metrics at one step. What is no number is not noted."""
        self._log(dict(numbers_in(values)), _number(step), _number(epoch))

    def _log(self, found: Dict[str, float], step: Optional[float], epoch: Optional[float]) -> None:
        line = {"metrics": found, "step": step, "epoch": epoch, "time": round(time.time(), 3)}
        if found and not self._write(line) and len(found) > 1:
            names = list(found)
            for half in (names[: len(names) // 2], names[len(names) // 2 :]):
                self._log({name: found[name] for name in half}, step, epoch)

    def track(
        self,
        value: Any,
        name: Optional[str] = None,
        step: Any = None,
        epoch: Any = None,
        context: Optional[Mapping[str, object]] = None,
    ) -> None:
        """A value of one metric, or of several by their names. What is no number is not noted."""
        if isinstance(value, dict):
            for one, what in value.items():
                self.track(what, one, step, epoch, context)
            return
        number = _number(value)
        if number is None or name is None:
            return
        self._write(
            {
                "metric": str(name)[:200],
                "value": number,
                "step": _number(step),
                "epoch": _number(epoch),
                "context": {str(key): str(what)[:200] for key, what in (context or {}).items()},
                "time": round(time.time(), 3),
            }
        )

    def _write(self, line: Dict[str, Any]) -> bool:
        """False: it is too long."""
        if self._file is None:
            return True
        data = json.dumps(line, default=str, skipkeys=True).encode() + b"\n"
        if len(data) > _MOST_BYTES:
            return False
        try:
            # One call: lines of two processes do not mix.
            os.write(self._file, data)
        except OSError:
            self._file = None
        return True


def _opened(run: str) -> Optional[int]:
    job = os.environ.get("JUMAR_JOB_DIR")
    if not job:
        return None
    if not _PLAIN.fullmatch(run):
        run = hashlib.sha256(run.encode("utf-8", "replace")).hexdigest()[:24]
    folder = os.path.join(job, FOLDER)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    try:
        os.makedirs(folder, exist_ok=True)
        return os.open(os.path.join(folder, run + ".jsonl"), flags, 0o644)
    except OSError:
        return None


def numbers_in(
    values: Mapping[Any, Any], before: str = "", depth: int = 0
) -> Iterator[Tuple[str, float]]:
    """The numbers of a dictionary, of those inside of it as `outer.inner`."""
    for name, value in values.items():
        if isinstance(value, Mapping) and depth < _MOST_DEPTH:
            yield from numbers_in(value, f"{before}{name}.", depth + 1)
            continue
        number = _number(value)
        if number is not None:
            yield f"{before}{name}"[:200], number


def _number(value: Any) -> Optional[float]:
    """Numbers of any library are numbers; images, texts and distributions are not."""
    if value is None or isinstance(value, (str, bytes)):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
