"""What CANN computes with: the operator kernels of this chip, and the ATB library."""

from collections.abc import Iterator
from pathlib import Path

from jumar.errors import BadInput
from jumar.host.findings import Check, Finding, fail, ok, warn
from jumar.host.patient import Patient
from jumar.host.survey import generation, interpreter, software
from jumar.host.versions import Version, parse_or_none

_CONFIG = "opp/built-in/op_impl/ai_core/tbe/kernel/config"
_PARTS = ("ops_legacy", "ops_math", "ops_nn", "ops_transformer")
_PARTS_OF_THE_TOOLKIT = {"ops_oam"}
# By generation: the folder of its kernels, and the package's name for the chip.
_CHIPS = {
    "310": ("ascend310", "310"),
    "310B": ("ascend310b", "310b"),
    "310P": ("ascend310p", "310p"),
    "910": ("ascend910", "910"),
    "A2": ("ascend910b", "910b"),
    "A3": ("ascend910_93", "a3"),
}
_FIRST_CALLED_OPS = Version.parse("8.5")
_FIRST_WITH_KERNELS_APART = Version.parse("6.3")
_NNAL = "/usr/local/Ascend/nnal/atb"
_NEED_ATB = ("vllm-ascend", "mindie-turbo", "mindspeed", "mindspeed-llm")
_FIRST_TORCH_OF_NEW_ABI = Version.parse("2.7")


def kernels(patient: Patient) -> Iterator[Finding]:
    """The binary kernels of this chip are installed: a package of their own, easily left out."""
    cann, version = software(patient).cann, software(patient).version
    chip = _CHIPS.get(generation(patient) or "")
    if cann is None or version is None or chip is None or version < _FIRST_WITH_KERNELS_APART:
        return
    folder, name = chip
    package = f"{name}-ops" if version >= _FIRST_CALLED_OPS else f"kernels-{name}"
    fix = (
        f"./Ascend-cann-{package}_{version}_linux-$(uname -m).run --install"
        "   # after sourcing set_env.sh"
    )
    installed = _kernels(cann.home / _CONFIG)
    if folder not in installed:
        found = f"only those of {', '.join(installed)}" if installed else "none at all"
        yield fail(
            f"CANN {version} has no operator kernels for {folder} ({found}): operators fail with"
            " EZ1001, EZ9999 or 561103",
            fix,
        )
        return
    missing = [part for part in _PARTS if part not in installed[folder]]
    if installed[folder] and missing:
        yield fail(
            f"the operator kernels for {folder} are incomplete: {', '.join(missing)} are missing",
            fix,
        )
    else:
        yield ok(f"operator kernels for {folder}")


def _kernels(place: Path) -> dict[str, set[str]]:
    """The chips that have kernels, and the packages these came in: none before CANN 8.5."""
    found: dict[str, set[str]] = {}
    try:
        for chip in sorted(place.iterdir()):
            parts = {path.name for path in chip.glob("ops_*") if any(path.glob("*.json"))}
            parts -= _PARTS_OF_THE_TOOLKIT
            if parts or any(chip.glob("*.json")):
                found[chip.name] = parts
    except OSError:
        return {}
    return found


def nnal(patient: Patient) -> Iterator[Finding]:
    """ATB, which some packages cannot do without, is installed and sourced, in torch's ABI."""
    found = interpreter(patient)
    cann = software(patient).cann
    if cann is None or isinstance(found, BadInput):
        return
    needing = [name for name in _NEED_ATB if name in found.packages]
    home = patient.environ.get("ATB_HOME_PATH")
    torch = parse_or_none(found.packages.get("torch"))
    if home and "cxx_abi_0" in home and torch is not None and torch >= _FIRST_TORCH_OF_NEW_ABI:
        yield fail(
            f"ATB_HOME_PATH is {home}, but torch {torch} is built with the other C++ ABI:"
            " torch_npu finds undefined symbols",
            f"in a new shell: source {_NNAL}/set_env.sh --cxx_abi=1",
        )
    elif home:
        yield ok(f"ATB at {home}")
    elif not needing:
        return
    elif patient.has(f"{_NNAL}/set_env.sh"):
        yield fail(
            f"{needing[0]} needs ATB, which is installed but not sourced in this shell: libatb.so"
            " is not found",
            f"source {_NNAL}/set_env.sh",
        )
    else:
        release = cann.version or "<release>"
        yield warn(
            f"{needing[0]} needs ATB, which is not at {_NNAL}",
            f"./Ascend-cann-nnal_{release}_linux-$(uname -m).run --install"
            f" && source {_NNAL}/set_env.sh",
        )


CHECKS = (
    Check("kernels", "CANN", kernels, needs_card=True),
    Check("nnal", "CANN", nnal, needs_card=True),
)
