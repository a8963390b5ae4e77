"""What training projects ask for: their own tables of torch, torch_npu and CANN, newest first."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from jumar.errors import BadInput
from jumar.host.env.needs import Package
from jumar.host.fit import best_torch_row
from jumar.host.matrix import Basis, Matrix, TorchRow, names_cann, table_rows
from jumar.host.versions import Version

_ALIASES = {"llama-factory": "llamafactory", "swift": "ms-swift", "vllm": "vllm-ascend"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """One version of a project."""

    name: str
    version: str
    """As the project writes it; `main` is its branch on the day in the source."""
    cann: Version
    torch: Version
    torch_npu: Version
    pythons: tuple[Version, ...]
    at_least: bool
    """Whether newer ones will do."""
    packages: tuple[Package, ...]
    source: str

    @property
    def cann_words(self) -> str:
        """For a table."""
        return f"{self.cann} or later" if self.at_least else str(self.cann)

    def row_for(self, cann: Version | None, matrix: Matrix) -> TorchRow | None:
        """The torch and torch_npu to install on this CANN; None if it does not run there."""
        if not self.at_least:
            fits = cann is None or names_cann(str(self.cann), cann)
            return self._own_row(matrix) if fits else None
        if cann is None:
            return self._own_row(matrix)
        row = best_torch_row(matrix, cann=cann) if cann >= self.cann else None
        is_new = row is not None and row.torch >= self.torch and row.torch_npu >= self.torch_npu
        return row if is_new else None

    def _own_row(self, matrix: Matrix) -> TorchRow:
        """As the project writes it, with what the tables know of the wheel."""
        known = matrix.torch_row(self.torch_npu)
        return TorchRow(
            torch=self.torch,
            torch_npu=self.torch_npu,
            cann=known.cann if known is not None and self.at_least else str(self.cann),
            python_min=self.pythons[0],
            python_max=self.pythons[-1],
            wheels=known.wheels if known is not None else (),
            basis=Basis.COPY,
            source=self.source,
        )


def versions_of(asked: str) -> tuple[Project, ...]:
    """All known versions of `verl`, or the one of `verl==0.8.0`; raises BadInput."""
    name, _, version = (part.strip() for part in asked.partition("=="))
    plain = re.sub(r"[-_. ]+", "-", name.lower())
    plain = _ALIASES.get(plain, plain)
    named = [one for one in _projects() if one.name == plain]
    if not named:
        names = ", ".join(dict.fromkeys(one.name for one in _projects()))
        raise BadInput(f"jumar does not know what {name!r} asks for", hint=f"it knows {names}")
    found = tuple(one for one in named if not version or one.version == version)
    if not found:
        known = ", ".join(one.version for one in named)
        raise BadInput(
            f"{plain} {version} is not listed in jumar's tables", hint=f"they list {known}"
        )
    return found


@cache
def _projects() -> tuple[Project, ...]:
    return tuple(_project(row) for row in table_rows("projects.csv"))


def _project(row: Mapping[str, str]) -> Project:
    return Project(
        name=row["project"],
        version=row["version"],
        cann=Version.parse(row["cann"]),
        torch=Version.parse(row["torch"]),
        torch_npu=Version.parse(row["torch_npu"]),
        pythons=tuple(map(Version.parse, row["pythons"].split())),
        at_least=row["at_least"] == "yes",
        packages=tuple(_package(one, row["source"]) for one in row["packages"].split()),
        source=row["source"],
    )


def _package(written: str, source: str) -> Package:
    """From `vllm==0.23.0`, or from `verl@git+https://…` for what has no release."""
    name, is_elsewhere, address = written.partition("@")
    if is_elsewhere:
        return Package(name, name, source, address=address)
    return Package(written.partition("==")[0], written, source)
