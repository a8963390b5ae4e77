"""What CANN computes with: the operator kernels of this chip, and the ATB library."""

from collections.abc import Iterator
from pathlib import Path

from jumar.errors import BadInput
from jumar.host.findings import Check, Finding, fail, ok, warn
from jumar.host.patient import Patient
from jumar.host.survey import generation, interpreter, software
from jumar.host.versions import Version, parse_or_none

_CONFIG = "opp/built-in/op_impl/ai_core/tbe/kernel/config"
_INDEX = "binary_info_config.json"
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
    installed = _chips_with_kernels(cann.home)
    if folder in installed:
        yield ok(f"operator kernels of {folder}")
        return
    found = f"only those of {', '.join(installed)}" if installed else "none at all"
    package = f"{name}-ops" if version >= _FIRST_CALLED_OPS else f"kernels-{name}"
    yield fail(
        f"CANN {version} has no operator kernels for {folder} ({found}): operators fail with"
        " EZ1001, EZ9999 or 561103",
        f"./Ascend-cann-{package}_{version}_linux-$(uname -m).run --install"
        "   # after sourcing set_env.sh",
    )


def _chips_with_kernels(home: Path) -> list[str]:
    try:
        found = {path.parent.name for path in (home / _CONFIG).glob(f"*/{_INDEX}")}
        # Since 8.5 operators come in several packages, each with a list of its own.
        found |= {path.parent.parent.name for path in (home / _CONFIG).glob(f"*/*/{_INDEX}")}
    except OSError:
        return []
    return sorted(found)


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
