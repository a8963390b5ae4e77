"""`wandb` for jobs in which Weights & Biases is not installed: what is logged is on the job's page.

Curves and configuration are kept; images, tables and artifacts are taken and forgotten."""

import os
import uuid
from typing import Any, Dict, Optional

from jumar_start.anything import Anything, Settings, TrackedRun, named
from jumar_start.axes import Axes
from jumar_start.beside import quietly, say
from jumar_start.run_notes import RunNotes

__version__ = "0.19.0"
STANDS_IN = True


class Error(Exception):
    """A call that is wrong here as there."""


UsageError = CommError = Error


class Run(TrackedRun):
    """One run."""

    def __init__(self, own_id: str, name: Optional[str], project: Optional[str], off: bool) -> None:
        super().__init__("wandb", own_id, name, off)
        self.project = project
        self.entity = self.group = self.url = None
        self.dir = os.getcwd()
        self.disabled = off
        self.step = 0
        self.summary: Dict[str, Any] = {}
        self._axes = Axes()

    def log(
        self, data: Any, step: Optional[int] = None, commit: Optional[bool] = None, **_: Any
    ) -> None:
        """Note the numbers."""
        if not isinstance(data, dict):
            raise TypeError("wandb.log must be passed a dictionary")
        if self._notes is not None:
            quietly(self._log)(self._notes, data, step, commit)

    def _log(self, notes: RunNotes, data: Dict[str, Any], step: Any, commit: Any) -> None:
        for at, values in self._axes.placed(data, step, commit):
            notes.log(values, at)
            self.summary.update(values)

    def define_metric(self, name: Any, step_metric: Any = None, *_: Any, **__: Any) -> Anything:
        """Which metric is the axis of others."""
        self._axes.define(name, step_metric)
        return Anything()

    def finish(self, *_: Any, **__: Any) -> None:
        """All is written already."""
        if globals()["run"] is self:
            globals()["run"] = None

    join = finish


run: Optional[Run] = None
config: Any = Settings(lambda name, value: None)
summary: Dict[str, Any] = {}


def init(*_: Any, **options: Any) -> Run:
    """Begin a run; the one that is open, where there is one."""
    global run, config, summary
    if run is not None and not options.get("reinit"):
        return run
    mode = options.get("mode") or os.environ.get("WANDB_MODE", "")
    off = mode == "disabled" or os.environ.get("WANDB_DISABLED", "").lower() in ("true", "1")
    own_id = options.get("id") or os.environ.get("WANDB_RUN_ID") or uuid.uuid4().hex[:8]
    name = options.get("name") or os.environ.get("WANDB_NAME")
    run = Run(str(own_id), name, options.get("project"), off)
    config, summary = run.config, run.summary
    if isinstance(options.get("config"), str):
        say("wandb is not installed, and its stand-in reads no files of configuration")
    else:
        run.config.update(options.get("config"))
    if not off:
        say("wandb is not installed; its curves are on the page of the job")
    return run


def log(data: Any, step: Optional[int] = None, commit: Optional[bool] = None, **_: Any) -> None:
    """Note the numbers."""
    _open("log").log(data, step, commit)


def define_metric(*args: Any, **named: Any) -> Anything:
    """Which metric is the axis of others."""
    return _open("define_metric").define_metric(*args, **named)


def finish(*_: Any, **__: Any) -> None:
    """All is written already."""
    if run is not None:
        run.finish()


join = finish


def login(*_: Any, **__: Any) -> bool:
    """There is nobody to sign in to."""
    return True


def setup(*_: Any, **__: Any) -> Anything:
    """Nothing is needed."""
    return Anything()


def _open(what: str) -> Run:
    if run is None:
        raise Error(f"You must call wandb.init() before wandb.{what}()")
    return run


def termlog(text: str = "", *_: Any, **__: Any) -> None:
    """What wandb would print."""
    say(f"wandb: {text}")


termwarn = termerror = termlog


def __getattr__(name: str) -> Any:
    return named(name)
