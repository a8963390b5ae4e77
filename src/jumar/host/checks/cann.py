"""CANN: installed, how many, links intact, and `set_env.sh` of the right one sourced."""

import os
from collections.abc import Iterator
from pathlib import Path

from jumar.host.findings import Check, Finding, fail, ok, unknown, warn
from jumar.host.patient import Patient
from jumar.host.software import bases
from jumar.host.survey import has_card, installed_cann, software
from jumar.host.versions import parse_or_none
from jumar.launch.ascend.cann import Cann, is_sourced

_LINKS = ("cann", "ascend-toolkit/latest", "nnae/latest")
_NO_CANN = "no CANN in $ASCEND_HOME_PATH, /usr/local/Ascend, ~/Ascend or /opt/Ascend"


def cann_root(patient: Patient) -> Iterator[Finding]:
    """CANN is installed."""
    cann = software(patient).cann
    if cann is not None:
        yield ok(f"CANN at {patient.shown(cann.home)}")
    elif has_card(patient):
        yield fail(
            _NO_CANN,
            "install it: ./Ascend-cann-toolkit_<release>_linux-$(uname -m).run --install",
        )
    else:
        yield unknown(_NO_CANN)


def cann_links(patient: Patient) -> Iterator[Finding]:
    """The links `latest` and `cann` are not dangling."""
    dangling: list[Path] = []
    whole: list[Path] = []
    for base in bases(patient.root, patient.environ):
        for name in _LINKS:
            link = base / name
            if os.path.islink(link):
                (whole if os.path.exists(link) else dangling).append(link)
    newest = installed_cann(patient)[:1]
    for link in dangling:
        target = patient.shown(newest[0].home) if newest else "<the CANN folder>"
        yield fail(
            f"{patient.shown(link)} points to {os.readlink(link)}, which does not exist",
            f"sudo ln -sfn {target} {patient.shown(link)}",
        )
    if not dangling and whole:
        yield ok(", ".join(patient.shown(link) for link in whole))
    elif not dangling:
        yield unknown("no CANN links to check")


def cann_version(patient: Patient) -> Iterator[Finding]:
    """The release is known and unambiguous."""
    cann = software(patient).cann
    if cann is None:
        yield unknown("no CANN to check")
        return
    if software(patient).version is None:
        yield warn(
            f"{patient.shown(cann.home)} does not state its release ({cann.version or 'no version'})",
            "look for an incomplete installation: ls */ascend_toolkit_install.info in that folder",
        )
        return
    others = [one for one in installed_cann(patient) if one.home.resolve() != cann.home.resolve()]
    if others and not is_sourced(patient.environ):
        names = ", ".join(str(one.version) for one in (cann, *others))
        yield warn(
            f"several CANN releases ({names}), none selected in this shell",
            f"select one: source {_script(patient, cann)}",
        )
    else:
        yield ok(f"CANN {cann.version}")


def set_env(patient: Patient) -> Iterator[Finding]:
    """The shell's variables belong to a CANN that exists, is complete and is the newest."""
    environ, cann = patient.environ, software(patient).cann
    home = environ.get("ASCEND_HOME_PATH") or environ.get("ASCEND_TOOLKIT_HOME")
    if home and not patient.has(home):
        fix = f"source {_script(patient, cann)}" if cann else "open a new shell, or install CANN"
        yield fail(f"ASCEND_HOME_PATH is {home}, which does not exist", fix)
    elif cann is None:
        yield unknown("no CANN with a set_env.sh to source")
    elif not is_sourced(environ) and not home:
        yield warn(
            "no set_env.sh was sourced in this shell (jumar does this for its own jobs)",
            f"source {_script(patient, cann)}",
        )
    else:
        yield from _sourced(patient, cann)


def _sourced(patient: Patient, cann: Cann) -> Iterator[Finding]:
    problems = [*_missing(patient, cann), *_mixed(patient)]
    for problem in problems:
        yield warn(problem, f"in a new shell: source {_script(patient, cann)}")
    newest = installed_cann(patient)[:1]
    if newest and newest[0].home.resolve() != cann.home.resolve():
        mine, best = parse_or_none(cann.version), parse_or_none(newest[0].version)
        if mine is not None and best is not None and mine < best:
            problems.append("older")
            yield warn(
                f"this shell uses CANN {mine}, but {best} is also installed",
                f"to use the newer one, in a new shell: source {_script(patient, newest[0])}",
            )
    if not problems:
        yield ok(f"set_env.sh of CANN {cann.version} is sourced")


def _missing(patient: Patient, cann: Cann) -> Iterator[str]:
    environ = patient.environ
    operators = environ.get("ASCEND_OPP_PATH")
    if not operators:
        yield "ASCEND_OPP_PATH is not set"
    elif not patient.has(operators):
        yield f"ASCEND_OPP_PATH is {operators}, which does not exist"
    if "tbe" not in environ.get("PYTHONPATH", "") and not any(
        "python/site-packages" in entry for entry in _entries(environ.get("PYTHONPATH"))
    ):
        yield "PYTHONPATH does not include CANN's tbe: operators cannot be compiled"
    homes = {home for _, home in _owners(patient, "LD_LIBRARY_PATH")}
    if cann.home.resolve() not in homes:
        yield f"LD_LIBRARY_PATH does not include lib64 of {patient.shown(cann.home)}"


def _mixed(patient: Patient) -> Iterator[str]:
    for variable in ("LD_LIBRARY_PATH", "PYTHONPATH"):
        homes = dict.fromkeys(home for _, home in _owners(patient, variable))
        if len(homes) > 1:
            names = ", ".join(patient.shown(home) for home in homes)
            yield f"{variable} mixes several CANN releases: {names}"


def _owners(patient: Patient, variable: str) -> Iterator[tuple[str, Path]]:
    """Each entry of a path variable that is inside a CANN, with that CANN's real folder."""
    homes = [cann.home.resolve() for cann in installed_cann(patient)]
    current = software(patient).home
    if current is not None:
        homes.append(current.resolve())
    for entry in _entries(patient.environ.get(variable)):
        real = patient.path(entry).resolve()
        for home in homes:
            if home == real or home in real.parents:
                yield entry, home
                break


def _entries(value: str | None) -> list[str]:
    return [entry for entry in (value or "").split(os.pathsep) if entry]


def _script(patient: Patient, cann: Cann) -> str:
    return patient.shown(cann.set_env or cann.home / "set_env.sh")


CHECKS = (
    Check("cann-root", "CANN", cann_root, needs_card=True),
    Check("cann-links", "CANN", cann_links, needs_card=True),
    Check("cann-version", "CANN", cann_version, needs_card=True),
    Check("set-env", "CANN", set_env, needs_card=True),
)
