"""`aim` for jobs in which Aim is not installed: `Run` keeps curves and parameters for the job's page.

There is no Aim repository then, and of Aim's other names there is none."""

import sys
import uuid
from typing import Any, Dict, Optional

from jumar_start.run_notes import RunNotes

__all__ = ["Run"]
_INSTALL = "for an Aim repository, add aim to pip-requirements.txt"


class Run:
    """One run: a dictionary of parameters that also tracks metrics."""

    def __init__(
        self,
        run_hash: Optional[str] = None,
        *,
        repo: object = None,
        experiment: Optional[str] = None,
        **_aims_own: object,
    ) -> None:
        self.hash = run_hash or uuid.uuid4().hex[:24]
        self.repo = repo
        self.experiment = experiment
        self.name: Optional[str] = None
        self.description: Optional[str] = None
        self._parameters: Dict[str, Any] = {}
        self._notes = RunNotes(self.hash, experiment)

    def __setitem__(self, key: str, value: Any) -> None:
        self._parameters[key] = value
        self._notes.parameter(key, value)

    def __getitem__(self, key: str) -> Any:
        return self._parameters[key]

    def set(self, key: str, value: Any, strict: bool = True) -> None:
        """The same as `run[key] = value`."""
        self[key] = value

    def get(self, key: str, default: Any = None) -> Any:
        """A parameter."""
        return self._parameters.get(key, default)

    def track(
        self,
        value: Any,
        name: Optional[str] = None,
        step: Optional[int] = None,
        epoch: Optional[int] = None,
        *,
        context: Optional[Dict[str, Any]] = None,
    ) -> None:
        """Note a value."""
        self._notes.track(value, name, step, epoch, context)

    def add_tag(self, value: str) -> None:
        """There is nobody to search for it."""

    def close(self) -> None:
        """Everything is written already."""

    finalize = close


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise ImportError(
        f"aim is not installed, and only aim.Run can do without it ({name}): {_INSTALL}"
    )


sys.stderr.write(
    f"jumar: aim is not installed; its curves are on the page of the job; {_INSTALL}\n"
)
