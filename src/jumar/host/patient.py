"""The doctor's patient, one machine: a root folder, an environment, a user, and tools run with a limit.

Checks see the machine only through this, so that tests can use a folder in its place."""

import os
import shutil
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar, cast

from jumar.devices.machine import Machine
from jumar.launch.processes.probe import Answer, ask

T = TypeVar("T")


class DiskUsage(Protocol):
    """Size and free space of one file system, in bytes."""

    @property
    def total(self) -> int: ...
    @property
    def free(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long the doctor waits, in seconds."""

    probe_s: float = 10.0
    """For one call of one tool."""
    import_s: float = 60.0
    """For one import of torch, possibly from a slow file system."""
    all_s: float = 150.0
    """For all checks together."""


@dataclass(frozen=True, kw_only=True)
class Patient:
    """What checks may see."""

    root: Path = Path("/")
    environ: Mapping[str, str]
    uid: int
    groups: frozenset[int]
    python: str | None = None
    """The interpreter to check; None means `python3` on PATH."""
    home: Path
    """Where the platform keeps its jobs."""
    limits: Limits = field(default_factory=Limits)
    disk_usage: Callable[[Path], DiskUsage] = shutil.disk_usage
    _answers: dict[object, "Future[object]"] = field(
        default_factory=dict["object", "Future[object]"], repr=False, compare=False
    )
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @classmethod
    def this(cls, home: Path, python: str | None = None) -> "Patient":
        """The machine this process runs on, as its user sees it."""
        return cls(
            environ=dict(os.environ),
            uid=os.geteuid(),
            groups=frozenset({os.getegid(), *os.getgroups()}),
            python=python,
            home=home,
        )

    def path(self, absolute: str) -> Path:
        """A path on the machine."""
        return self.root / absolute.lstrip("/")

    def shown(self, path: Path) -> str:
        """A path as the machine itself writes it."""
        return f"/{path.relative_to(self.root)}" if path.is_relative_to(self.root) else str(path)

    def has(self, absolute: str) -> bool:
        """Whether the path exists, as far as this user can see."""
        return os.path.exists(self.path(absolute))

    def text(self, absolute: str) -> str | None:
        """The text of a small file; None if it cannot be read."""
        try:
            with self.path(absolute).open(encoding="utf-8", errors="replace") as file:
                return file.read(1 << 20)
        except OSError:
            return None

    def find_tool(self, name: str) -> str | None:
        """A tool on PATH or where the driver puts it."""
        return Machine(self.root, environ=self.environ).tool(name)

    def ask(self, tool: str, *arguments: str) -> Answer | None:
        """What a tool says; None if it does not exist. The same call is made only once."""
        path = self.find_tool(tool)
        if path is None:
            return None

        def run() -> Answer:
            return ask([path, *arguments], timeout_s=self.limits.probe_s, environ=self.environ)

        return self.once((path, *arguments), run)

    def once(self, key: object, compute: Callable[[], T]) -> T:
        """The first result of `compute`, shared by checks that run in parallel."""
        with self._lock:
            future = self._answers.get(key)
            is_first = future is None
            if future is None:
                future = self._answers[key] = Future()
        if is_first:
            try:
                future.set_result(compute())
            except BaseException as error:
                future.set_exception(error)
                raise
        return cast("T", future.result())
