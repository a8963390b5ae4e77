"""A machine as the readers see it: a root folder and a way to run tools, both replaceable.

Tests use a folder with a fake /dev and /sys and stub tools; everything else uses the real machine."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from jumar.launch.processes.probe import Answer, ask

_TOOL_FOLDERS = (
    "usr/local/sbin",
    "usr/local/bin",
    "usr/sbin",
    "usr/bin",
    "usr/local/Ascend/driver/tools",
)


class Ask(Protocol):
    """Runs a tool with a time limit; `jumar.launch.processes.probe.ask` is the real one."""

    def __call__(self, command: Sequence[str], *, timeout_s: float) -> Answer:
        """What the tool said."""
        ...


@dataclass(frozen=True, slots=True)
class Machine:
    """Where to look and how to run tools."""

    root: Path = Path("/")
    ask: Ask = ask
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    @property
    def is_real(self) -> bool:
        """Whether this is the machine we run on, not a fake one."""
        return self.root == Path("/")

    def tool(self, name: str) -> str | None:
        """The path of a tool; on the real machine, PATH is searched first."""
        if self.is_real and (found := shutil.which(name, path=self.environ.get("PATH", ""))):
            return found
        for folder in _TOOL_FOLDERS:
            path = self.root / folder / name
            if os.access(path, os.X_OK) and path.is_file():
                return str(path)
        return None

    def text(self, path: str, most_bytes: int = 1 << 20) -> str | None:
        """The text of a file under the root; None if it cannot be read."""
        try:
            with (self.root / path).open("rb") as file:
                return file.read(most_bytes).decode("utf-8", "replace")
        except OSError:
            return None
