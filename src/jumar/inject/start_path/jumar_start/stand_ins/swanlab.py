"""`swanlab` for jobs in which SwanLab is not installed: what is logged is on the job's page.

Curves and configuration are kept; images, texts and the like are taken and forgotten."""

import os
import uuid
from typing import Any, Optional

from jumar_start.anything import Anything, Settings, TrackedRun, named
from jumar_start.beside import quietly, say

__version__ = "0.7.0"
STANDS_IN = True


class Run(TrackedRun):
    """One run."""

    def __init__(self, own_id: str, name: Optional[str], mode: str) -> None:
        super().__init__("swanlab", own_id, name, mode == "disabled")
        self.mode = mode
        self.public = Anything()
        self._step = -1

    def log(self, data: Any, step: Optional[int] = None, **_: Any) -> None:
        """Note the numbers."""
        if not isinstance(data, dict):
            raise TypeError("log data must be a dict")
        self._step = int(step) if step is not None else self._step + 1
        if self._notes is not None:
            quietly(self._notes.log)(data, self._step)

    def finish(self, *_: Any, **__: Any) -> None:
        """All is written already."""
        if globals()["_run"] is self:
            globals()["_run"] = None


SwanLabRun = Run
_run: Optional[Run] = None
config: Any = Settings(lambda name, value: None)


def init(*_: Any, **options: Any) -> Run:
    """Begin a run; the one that is open, where there is one."""
    global _run, config
    if _run is not None and not options.get("reinit"):
        return _run
    mode = options.get("mode") or os.environ.get("SWANLAB_MODE") or "offline"
    own_id = options.get("id") or os.environ.get("SWANLAB_RUN_ID") or uuid.uuid4().hex[:12]
    name = options.get("experiment_name") or options.get("name")
    _run = Run(str(own_id), name or os.environ.get("SWANLAB_EXP_NAME"), mode)
    config = _run.config
    if isinstance(options.get("config"), str):
        say("swanlab is not installed, and its stand-in reads no files of configuration")
    else:
        config.update(options.get("config"))
    if mode != "disabled":
        say("swanlab is not installed; its curves are on the page of the job")
    return _run


def log(data: Any, step: Optional[int] = None, **_: Any) -> None:
    """Note the numbers."""
    if _run is None:
        raise RuntimeError("You must call swanlab.init() before using log()")
    _run.log(data, step)


def finish(*_: Any, **__: Any) -> None:
    """All is written already."""
    if _run is not None:
        _run.finish()


def get_run() -> Optional[Run]:
    """The run that is open."""
    return _run


def has_run() -> bool:
    """Whether one is."""
    return _run is not None


def login(*_: Any, **__: Any) -> bool:
    """There is nobody to sign in to."""
    return True


def __getattr__(name: str) -> Any:
    return _run if name == "run" else named(name)
