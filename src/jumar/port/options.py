"""The user's choices: the form of the output, the torch version, the chip, the rules."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from jumar.errors import BadInput

CHIPS = ("a2", "a3", "950")
OLDEST_ACCELERATOR = (2, 7)
"""`torch.accelerator` is documented for the NPU plug-in from this version on."""


class Mode(StrEnum):
    """Which devices the ported code runs on."""

    PORTABLE = "portable"
    NPU_ONLY = "npu-only"


class OwnRule(NamedTuple):
    """A project's own rule: a resolved name that is replaced or reported."""

    code: str
    name: str
    replace: str = ""
    message: str = ""
    advice: str = ""
    severity: str = "limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One run's choices; the same choices and the same text give the same result."""

    mode: Mode = Mode.PORTABLE
    torch: tuple[int, int] = (2, 7)
    chip: str = "a2"
    select: tuple[str, ...] = ()
    """Codes or their prefixes; empty means all."""
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    """Paths below the source that are copied unchanged, as globs."""
    own_rules: tuple[OwnRule, ...] = ()
    distributed: str = ""
    """The script to adapt to many cards, relative to the source; empty for none."""
    modelarts: bool = False
    xihe: bool = False

    @property
    def npu_only(self) -> bool:
        """Whether the output needs to run on NPUs only."""
        return self.mode is Mode.NPU_ONLY

    @property
    def has_accelerator(self) -> bool:
        """Whether the target's torch has a usable `torch.accelerator`."""
        return self.torch >= OLDEST_ACCELERATOR

    def as_words(self) -> tuple[str, ...]:
        """The options of the command line that mean these choices."""
        words = ["--npu-only"] if self.npu_only else []
        plain = Options()
        if self.torch != plain.torch:
            words += ["--torch", "{}.{}".format(*self.torch)]
        if self.chip != plain.chip:
            words += ["--chip", self.chip]
        for name in ("select", "ignore", "exclude"):
            words += [word for value in getattr(self, name) for word in (f"--{name}", value)]
        if self.distributed:
            words += ["--distributed", self.distributed]
        words += [f"--{name}" for name in ("modelarts", "xihe") if getattr(self, name)]
        return tuple(words)

    def wants(self, code: str) -> bool:
        """Whether the rule of this code was chosen."""
        if any(code.startswith(prefix) for prefix in self.ignore):
            return False
        return not self.select or any(code.startswith(prefix) for prefix in self.select)


def torch_version(text: str) -> tuple[int, int]:
    """Read `2.7` or `2.7.1` as (2, 7)."""
    match = re.fullmatch(r"(\d+)\.(\d+)(?:\.\w+)*", text)
    if match is None:
        raise BadInput(f"{text!r} is not a torch version", hint="such as --torch 2.7")
    version = int(match[1]), int(match[2])
    if version < (1, 8):
        raise BadInput(f"there is no NPU plug-in for torch {text}", hint="the oldest is 1.8")
    return version


def chip(text: str) -> str:
    """Parse a chip's name as the catalogue spells it."""
    names = {"a2": "a2", "a3": "a3", "a5": "950", "950": "950", "910b": "a2", "910c": "a3"}
    name = names.get(text.lower())
    if name is None:
        raise BadInput(f"unknown chip {text!r}", hint=f"known: {', '.join(CHIPS)}")
    return name
