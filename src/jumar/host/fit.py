"""Do the versions found in one place fit together? Each pair gets a verdict and a sentence.

Only pairs that the tables list are judged; others are unknown. A release newer than its partner in
the table is marked as `newer`, so that callers may be more lenient."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from jumar.host.matrix import Basis, Matrix, MindSporeRow, TorchRow, minor_of
from jumar.host.versions import Version, parse_or_none


class Fit(StrEnum):
    """What the tables say about a pair."""

    FITS = "fits"
    CLASHES = "clashes"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One pair and what the tables say about it."""

    pair: str
    fit: Fit
    text: str
    fix: str | None = None
    source: str | None = None
    newer: bool = False
    """A clash only because CANN is newer than the release in the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """Versions installed together; None means not installed."""

    python: Version
    torch: Version | None = None
    torch_npu: Version | None = None
    torchvision: Version | None = None
    mindspore: Version | None = None
    cann: Version | None = None
    compiler: Version | None = None
    """Of `compiler/version.info`, which MindSpore's own check reads."""

    @classmethod
    def of(
        cls,
        python: Version,
        packages: Mapping[str, str],
        cann: Version | None,
        compiler: Version | None = None,
    ) -> "Installed":
        """From package names (normalised, such as `torch-npu`) and their versions."""
        return cls(
            python=python,
            torch=parse_or_none(packages.get("torch")),
            torch_npu=parse_or_none(packages.get("torch-npu")),
            torchvision=parse_or_none(packages.get("torchvision")),
            mindspore=parse_or_none(packages.get("mindspore") or packages.get("mindspore-ascend")),
            cann=cann,
            compiler=compiler,
        )


def judge(installed: Installed, matrix: Matrix) -> list[Judgement]:
    """All pairs that can be judged, torch first."""
    return [*_judge_torch(installed, matrix), *_judge_mindspore(installed, matrix)]


def _judge_torch(installed: Installed, matrix: Matrix) -> Iterator[Judgement]:
    if installed.torch is not None and installed.torchvision is not None:
        yield _torchvision(installed.torch, installed.torchvision, matrix)
    if installed.torch_npu is None:
        return
    row = matrix.torch_row(installed.torch_npu)
    if row is None:
        yield Judgement(
            pair="torch_npu",
            fit=Fit.UNKNOWN,
            text=f"torch_npu {installed.torch_npu} is not listed in jumar's tables",
            fix="look it up in the COMPATIBILITY page of torch_npu, or see: jumar env plan",
        )
        return
    yield _torch(installed.torch, row)
    yield _torch_python(installed.python, row)
    yield _torch_cann(installed.cann, row, matrix)


def _torch(torch: Version | None, row: TorchRow) -> Judgement:
    pair = "torch and torch_npu"
    fix = f"pip install torch=={row.torch} torch_npu=={row.torch_npu}"
    if torch is None:
        text = f"torch_npu {row.torch_npu} is installed without torch"
        return Judgement(pair=pair, fit=Fit.CLASHES, text=text, fix=fix, source=row.source)
    if torch == row.torch:
        text = f"torch {torch} and torch_npu {row.torch_npu}"
        return Judgement(pair=pair, fit=Fit.FITS, text=text, source=row.source)
    text = f"torch_npu {row.torch_npu} requires torch {row.torch}, but torch is {torch}"
    return Judgement(pair=pair, fit=Fit.CLASHES, text=text, fix=fix, source=row.source)


def _torch_python(python: Version, row: TorchRow) -> Judgement:
    takes = row.takes_python(python)
    if takes is None:
        return Judgement(
            pair="Python and torch_npu",
            fit=Fit.UNKNOWN,
            text=f"no table lists the Python versions of torch_npu {row.torch_npu}",
            source=row.source,
        )
    return _python("torch_npu", row.torch_npu, python, takes, row.pythons, row.source)


def _python(
    package: str,
    version: Version,
    python: Version,
    takes: bool,
    pythons: tuple[Version, ...],
    source: str,
) -> Judgement:
    text = f"{package} {version} and Python {python}"
    if takes:
        return Judgement(pair=f"Python and {package}", fit=Fit.FITS, text=text, source=source)
    named = ", ".join(str(one) for one in pythons)
    return Judgement(
        pair=f"Python and {package}",
        fit=Fit.CLASHES,
        text=f"{package} {version} requires Python {named}, but this is Python {python}",
        fix=f"create an environment with Python {pythons[-1]}: jumar env create --python {pythons[-1]}",
        source=source,
    )


def _torch_cann(cann: Version | None, row: TorchRow, matrix: Matrix) -> Judgement:
    pair = "torch_npu and CANN"
    if row.cann is None:
        text = f"no table lists the CANN release of torch_npu {row.torch_npu}"
        return Judgement(pair=pair, fit=Fit.UNKNOWN, text=text, source=row.source)
    if cann is None:
        text = (
            f"torch_npu {row.torch_npu} requires CANN {row.cann}; no CANN was found on this machine"
        )
        return Judgement(pair=pair, fit=Fit.UNKNOWN, text=text, source=row.source)
    if row.basis is Basis.DOUBTFUL:
        text = f"the table of torch_npu {row.torch_npu} seems to mean CANN {row.cann}; this machine has {cann}"
        return Judgement(pair=pair, fit=Fit.UNKNOWN, text=text, source=row.source)
    listed = row.listed_for(cann)
    if listed is not None:
        text = _with_edition(f"torch_npu {row.torch_npu} and CANN {cann}", cann)
        return Judgement(pair=pair, fit=Fit.FITS, text=text, source=listed[1])
    return _other_cann(cann, row, matrix)


def _other_cann(cann: Version, row: TorchRow, matrix: Matrix) -> Judgement:
    pair = "torch_npu and CANN"
    text = f"torch_npu {row.torch_npu} requires CANN {row.cann}, but this machine has {cann}"
    if not any(other.takes_cann(cann) for other in matrix.torch):
        text += ", which no table lists"
        fix = f"look up CANN {cann} in the vendor's table, or install CANN {row.cann}"
        return Judgement(pair=pair, fit=Fit.UNKNOWN, text=text, fix=fix, source=row.source)
    partner = best_torch_row(matrix, torch=row.torch, cann=cann)
    fix = (
        f"pip install torch_npu=={partner.torch_npu}"
        if partner is not None
        else f"install CANN {row.cann}, or see what fits CANN {cann}: jumar env plan --cann {cann}"
    )
    newer = cann > Version.parse((row.cann or "").removesuffix(".X"))
    return Judgement(pair=pair, fit=Fit.CLASHES, text=text, fix=fix, source=row.source, newer=newer)


def _with_edition(text: str, cann: Version) -> str:
    if cann.release == cann:
        return text
    return f"{text} (a pre-release of {cann.release}, which the table lists)"


def best_torch_row(
    matrix: Matrix, *, torch: Version | None = None, cann: Version | None = None
) -> TorchRow | None:
    """The best row: the vendor's own before copies, then the newest torch and torch_npu."""
    rows = [
        row
        for row in matrix.torch
        if row.cann is not None
        and row.basis in (Basis.VENDOR, Basis.COPY)
        and (torch is None or row.torch.starts_with(torch))
        and (cann is None or row.takes_cann(cann))
    ]
    return max(
        rows, key=lambda row: (row.basis is Basis.VENDOR, row.torch, row.torch_npu), default=None
    )


def _torchvision(torch: Version, torchvision: Version, matrix: Matrix) -> Judgement:
    pair = "torch and torchvision"
    text = f"torch {torch} and torchvision {torchvision}"
    if torch not in matrix.torchvision:
        return Judgement(pair=pair, fit=Fit.UNKNOWN, text=f"{text}: no table lists this torch")
    wanted, source = matrix.torchvision[torch]
    if wanted == torchvision:
        return Judgement(pair=pair, fit=Fit.FITS, text=text, source=source)
    return Judgement(
        pair=pair,
        fit=Fit.CLASHES,
        text=f"torch {torch} requires torchvision {wanted}, but torchvision is {torchvision}",
        fix=f"pip install torchvision=={wanted}",
        source=source,
    )


def _judge_mindspore(installed: Installed, matrix: Matrix) -> Iterator[Judgement]:
    if installed.mindspore is None:
        return
    row = matrix.mindspore_row(installed.mindspore)
    if row is None:
        yield Judgement(
            pair="mindspore",
            fit=Fit.UNKNOWN,
            text=f"MindSpore {installed.mindspore} is not listed in jumar's tables",
            fix="look it up in MindSpore's release list",
        )
        return
    if row.wheels:
        takes = minor_of(installed.python) in row.wheels
        yield _python("mindspore", row.mindspore, installed.python, takes, row.wheels, row.source)
    yield _mindspore_cann(installed, row, matrix)


def _mindspore_cann(installed: Installed, row: MindSporeRow, matrix: Matrix) -> Judgement:
    pair = "mindspore and CANN"
    wanted = cann_words(row)
    cann = installed.cann
    if cann is None or not row.says_anything_about_cann:
        text = f"MindSpore {row.mindspore} requires {wanted}; no CANN was found on this machine"
        return Judgement(pair=pair, fit=Fit.UNKNOWN, text=text, source=row.source)
    if row.takes_cann(cann, installed.compiler):
        text = _with_edition(f"MindSpore {row.mindspore} and CANN {cann}", cann)
        return Judgement(pair=pair, fit=Fit.FITS, text=text, source=row.source)
    text = f"MindSpore {row.mindspore} requires {wanted}, but this machine has CANN {cann}"
    partners = [other for other in matrix.mindspore if other.takes_cann(cann, installed.compiler)]
    if not partners:
        return Judgement(
            pair=pair,
            fit=Fit.UNKNOWN,
            text=f"{text}, which no table lists",
            fix=f"install {wanted}, or look up CANN {cann} in MindSpore's release list",
            source=row.source,
        )
    newest = max(partners, key=lambda other: other.mindspore)
    return Judgement(
        pair=pair,
        fit=Fit.CLASHES,
        text=text,
        fix=f"pip install mindspore=={newest.mindspore}",
        source=row.source,
    )


def cann_words(row: MindSporeRow) -> str:
    """The CANN releases of a row, in words."""
    if row.cann is not None:
        return f"CANN {row.cann}"
    return f"a CANN whose compiler is {', '.join(row.compiler)}"
