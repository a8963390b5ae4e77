"""The Python that jobs will use, and the packages that CANN expects in it."""

from collections.abc import Iterator

from jumar.errors import BadInput
from jumar.host.env.needs import needed_by
from jumar.host.findings import Check, Finding, fail, ok, unknown, warn
from jumar.host.patient import Patient
from jumar.host.survey import has_card, interpreter, software
from jumar.host.versions import Version, parse_or_none

_OLDEST = Version.parse("3.7")


def python(patient: Patient) -> Iterator[Finding]:
    """It runs, is a 64-bit build, and is new enough for torch_npu."""
    found = interpreter(patient)
    if isinstance(found, BadInput):
        yield fail(found.message, found.hint or "choose another with --python")
    elif found.bits != 64:
        yield fail(
            f"{found.executable} is a {found.bits}-bit build", "use a 64-bit Python: --python PATH"
        )
    elif found.version < _OLDEST:
        yield fail(
            f"Python {found.version} at {found.executable} is too old for any torch_npu",
            "create an environment with a newer one: jumar env create",
        )
    else:
        yield ok(f"Python {found.version} at {found.executable}")


def python_packages(patient: Patient) -> Iterator[Finding]:
    """The packages that CANN's compiler and torch_npu import are installed, and none is too new."""
    found = interpreter(patient)
    if isinstance(found, BadInput):
        yield unknown("no Python to inspect")
        return
    framework = "mindspore" if "mindspore" in found.packages else "torch"
    version = parse_or_none(found.packages.get(framework))
    if version is None:
        return
    needs_cann = has_card(patient) or "torch-npu" in found.packages
    needed = needed_by(framework, version, software(patient).version)
    installed = {
        package.name: found.packages.get(package.name.replace("_", "-")) for package in needed
    }
    missing = [package.requirement for package in needed if installed[package.name] is None]
    new = [
        package
        for package in needed
        if (there := installed[package.name]) is not None and not package.is_met_by(there)
    ]
    for package in new:
        yield fail(
            f"{package.name} {installed[package.name]} is too new: {package.requirement} is needed"
            f" ({package.source})",
            f"{found.executable} -m pip install '{package.requirement}'",
        )
    if missing and needs_cann:
        yield warn(
            f"not installed: {', '.join(missing)}",
            f"{found.executable} -m pip install {' '.join(map(_quoted, missing))}",
        )
    elif needs_cann and not new:
        yield ok("the packages that CANN imports are installed")


def _quoted(requirement: str) -> str:
    return f"'{requirement}'" if "<" in requirement else requirement


CHECKS = (
    Check("python", "Python", python),
    Check("python-packages", "Python", python_packages),
)
