"""Does an environment work? Read its versions, judge them, then import the frameworks.

Importing needs the libraries of CANN and the driver: on a machine without them, the report says
what could not be verified instead of calling it broken."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from jumar.host.fit import Fit, Installed, Judgement, judge
from jumar.host.interpreter import (
    NO_AUTOLOAD,
    Interpreter,
    inspect,
    mindspore_computes,
    try_imports,
)
from jumar.host.matrix import shipped
from jumar.host.software import Software

IMPORT_LIMIT_S = 120.0
_FRAMEWORKS = {
    "torch": "torch",
    "torch-npu": "torch_npu",
    "torchvision": "torchvision",
    "mindspore": "mindspore",
}


class Outcome(StrEnum):
    """The result of importing one package."""

    WORKS = "works"
    BROKEN = "broken"
    UNVERIFIED = "unverified"


@dataclass(frozen=True, slots=True)
class ImportReport:
    """One package, whether it imports, and why not."""

    package: str
    outcome: Outcome
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """Everything known about one environment."""

    python: str
    python_version: str
    cann: str | None
    packages: dict[str, str]
    judgements: tuple[Judgement, ...]
    imports: tuple[ImportReport, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether nothing clashes and nothing is broken."""
        return all(one.fit is not Fit.CLASHES for one in self.judgements) and all(
            one.outcome is not Outcome.BROKEN for one in self.imports
        )


def check_environment(
    executable: str, software: Software, environ: Mapping[str, str], *, limit_s: float | None
) -> CheckReport:
    """Judge what is installed there; with a limit, also import it."""
    found = inspect(executable, environ)
    installed = Installed.of(found.version, found.packages, software.version, software.compiler)
    wanted = {name: found.packages[name] for name in _FRAMEWORKS if name in found.packages}
    return CheckReport(
        python=executable,
        python_version=str(found.version),
        cann=str(software.version) if software.version else None,
        packages=wanted,
        judgements=tuple(judge(installed, shipped())),
        imports=_imports(found, software, environ, limit_s) if limit_s is not None else (),
    )


def _imports(
    found: Interpreter, software: Software, environ: Mapping[str, str], limit_s: float
) -> tuple[ImportReport, ...]:
    env = {**environ, **software.environment(environ)}
    return tuple(
        _import(found, package, module, software, env, limit_s)
        for package, module in _FRAMEWORKS.items()
        if package in found.packages
    )


def _import(
    found: Interpreter,
    package: str,
    module: str,
    software: Software,
    environ: Mapping[str, str],
    limit_s: float,
) -> ImportReport:
    modules = ("torch", module) if package == "torch-npu" else (module,)
    # torch is tried without its plugins: errors of torch_npu belong to torch_npu.
    env = {**environ, **NO_AUTOLOAD}
    came = try_imports(found.executable, modules, env, limit_s=limit_s)
    if came.error is not None:
        if package == "torch-npu" and software.home is None and came.failed == module:
            why = f"this machine has no CANN; the import fails with {came.error}"
            return ImportReport(package, Outcome.UNVERIFIED, why)
        return ImportReport(package, Outcome.BROKEN, f"import {came.failed}: {came.error}")
    text = f"{package} {came.versions[module]} imports"
    if package == "mindspore":
        computes, said = mindspore_computes(found.executable, env, limit_s=limit_s)
        outcome = Outcome.WORKS if computes else Outcome.BROKEN
        return ImportReport(package, outcome, f"{text}; run_check: {said}")
    if package != "torch-npu":
        return ImportReport(package, Outcome.WORKS, text)
    if not came.npus:
        why = came.npu_error or "torch sees no NPU on this machine"
        return ImportReport(package, Outcome.UNVERIFIED, f"{text}, but {why}: nothing was computed")
    return ImportReport(package, Outcome.WORKS, f"{text} and sees {came.npus} NPUs")


def python_in(at: Path) -> str:
    """The interpreter of an environment folder."""
    return str(at / "bin" / "python")
