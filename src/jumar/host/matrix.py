"""Which versions fit together according to the vendors' own tables. Nothing here is guessed.

The tables are in `data/`, with the source of every row. A pair that no row lists is unknown, not
wrong; only a row with a different partner makes a clash."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import resources

from jumar.host.versions import Version

_FIRST_CANN_NAMED_BY_COMPILER = Version.parse("8.2")


class Basis(StrEnum):
    """How reliable a row is."""

    VENDOR = "vendor"
    COPY = "copy"
    """A later copy of the vendor's table in somebody's fork."""
    DOUBTFUL = "doubtful"
    INDEX = "index"
    """The wheel exists; no table lists its CANN."""


@dataclass(frozen=True, slots=True)
class TorchRow:
    """One torch_npu release and what it requires."""

    torch: Version
    torch_npu: Version
    cann: str | None
    python_min: Version | None
    python_max: Version | None
    wheels: tuple[Version, ...]
    """Python versions with a published wheel; empty if unknown."""
    basis: Basis
    source: str
    also: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other releases of CANN that it runs on, and who says so."""

    def takes_cann(self, cann: Version) -> bool:
        """Whether the row lists this CANN release, or a pre-release of it."""
        return self.listed_for(cann) is not None

    def listed_for(self, cann: Version | None) -> tuple[str, str] | None:
        """The CANN release as it is listed, and the source; its own one if none is asked for."""
        listed = {**({self.cann: self.source} if self.cann else {}), **self.also}
        found = (one for one in listed.items() if cann is None or names_cann(one[0], cann))
        return next(found, None)

    def takes_python(self, python: Version) -> bool | None:
        """Whether this Python can be used; None if the row does not say."""
        minor = minor_of(python)
        if self.wheels and minor not in self.wheels:
            return False
        if self.python_min is None or self.python_max is None:
            return True if self.wheels else None
        return self.python_min <= minor <= self.python_max

    @property
    def pythons(self) -> tuple[Version, ...]:
        """The Python versions it supports, oldest first."""
        if self.wheels:
            named = self.wheels
        elif self.python_min is None or self.python_max is None:
            return ()
        else:
            low, high = self.python_min.numbers[1], self.python_max.numbers[1]
            named = tuple(Version.parse(f"3.{minor}") for minor in range(low, high + 1))
        return tuple(python for python in named if self.takes_python(python))


@dataclass(frozen=True, slots=True)
class MindSporeRow:
    """One MindSpore release and what it requires."""

    mindspore: Version
    cann: str | None
    compiler: tuple[str, ...]
    """Numbers that its own start-up check accepts in the compiler's `version.info`."""
    wheels: tuple[Version, ...]
    source: str

    def takes_cann(self, cann: Version | None, compiler: Version | None = None) -> bool:
        """Whether the release list or MindSpore's own check accepts this CANN."""
        if cann is not None:
            if self.cann is not None and names_cann(self.cann, cann):
                return True
            if cann >= _FIRST_CANN_NAMED_BY_COMPILER and minor_of(cann).text in self.compiler:
                return True
        return compiler is not None and minor_of(compiler).text in self.compiler

    @property
    def says_anything_about_cann(self) -> bool:
        """Whether the row says anything about CANN."""
        return self.cann is not None or bool(self.compiler)


@dataclass(frozen=True, slots=True)
class DriverRow:
    """One line of CANN releases, and the oldest driver that the vendor lists for it."""

    cann: Version
    oldest: Version
    source: str

    def is_old(self, driver: Version) -> bool:
        """Whether the driver is older; `25.0.RC1` counts as 25.0."""
        return driver < self.oldest and not driver.starts_with(self.oldest)


@dataclass(frozen=True, slots=True)
class Matrix:
    """All tables."""

    torch: tuple[TorchRow, ...]
    mindspore: tuple[MindSporeRow, ...]
    torchvision: dict[Version, tuple[Version, str]]
    """torch to torchvision and the source."""
    drivers: tuple[DriverRow, ...]

    def torch_row(self, torch_npu: Version) -> TorchRow | None:
        """The row of a torch_npu release."""
        return next((row for row in self.torch if row.torch_npu == torch_npu), None)

    def driver_row(self, cann: Version) -> DriverRow | None:
        """The row of this CANN, else of the newest older one: requirements only grow."""
        rows = [row for row in self.drivers if row.cann <= cann or cann.starts_with(row.cann)]
        return max(rows, key=lambda row: row.cann, default=None)

    def mindspore_row(self, mindspore: Version) -> MindSporeRow | None:
        """The row of a MindSpore release."""
        return next((row for row in self.mindspore if row.mindspore == mindspore), None)


def names_cann(listed: str, cann: Version) -> bool:
    """Whether a table's `8.0.RC3`, `8.1.RC1.beta1` or `9.1.X` means this CANN or a pre-release of it."""
    if listed.endswith(".X"):
        return cann.starts_with(Version.parse(listed.removesuffix(".X")))
    return cann.release == Version.parse(listed).release


def minor_of(version: Version) -> Version:
    """`3.11` of `3.11.7`."""
    return Version.parse(".".join(str(number) for number in version.numbers[:2]))


@cache
def shipped() -> Matrix:
    """The tables that come with jumar."""
    also: dict[str, dict[str, str]] = {}
    for row in table_rows("also.csv"):
        also.setdefault(row["torch_npu"], {})[row["cann"]] = row["source"]
    return Matrix(
        torch=tuple(
            _torch_row(row, also.get(row["torch_npu"], {})) for row in table_rows("torch_npu.csv")
        ),
        mindspore=tuple(_mindspore_row(row) for row in table_rows("mindspore.csv")),
        torchvision={
            Version.parse(row["torch"]): (Version.parse(row["torchvision"]), row["source"])
            for row in table_rows("torchvision.csv")
        },
        drivers=tuple(
            DriverRow(Version.parse(row["cann"]), Version.parse(row["oldest"]), row["source"])
            for row in table_rows("drivers.csv")
        ),
    )


def table_rows(name: str) -> Iterator[dict[str, str]]:
    """The rows of one shipped table."""
    with resources.files("jumar.host").joinpath("data", name).open(encoding="utf-8") as file:
        yield from csv.DictReader(file)


def _torch_row(row: dict[str, str], also: Mapping[str, str]) -> TorchRow:
    return TorchRow(
        torch=Version.parse(row["torch"]),
        torch_npu=Version.parse(row["torch_npu"]),
        cann=row["cann"] or None,
        python_min=Version.parse(row["python_min"]) if row["python_min"] else None,
        python_max=Version.parse(row["python_max"]) if row["python_max"] else None,
        wheels=_versions(row["wheels"]),
        basis=Basis(row["basis"]),
        source=row["source"],
        also=also,
    )


def _mindspore_row(row: dict[str, str]) -> MindSporeRow:
    return MindSporeRow(
        mindspore=Version.parse(row["mindspore"]),
        cann=row["cann"] or None,
        compiler=tuple(row["compiler"].split()),
        wheels=_versions(row["wheels"]),
        source=row["source"],
    )


def _versions(text: str) -> tuple[Version, ...]:
    return tuple(Version.parse(word) for word in text.split())
