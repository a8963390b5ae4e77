"""Cards through the driver's own library, asked in a process of its own with a time limit.

Returns nothing, so that npu-smi is asked instead, unless the library reports each chip's physical
id, name and memory."""

import json
import logging
import sys
from pathlib import Path
from typing import Any, cast

from jumar.devices.generation import generation_of
from jumar.devices.machine import Machine
from jumar.spec.devices import Card, CardProcess, DeviceKind

_log = logging.getLogger(__name__)

LIMIT_S = 10.0
_PROBE = Path(__file__).with_name("dcmi_probe.py")
_FOLDERS = (
    "usr/local/Ascend/driver/lib64/driver",
    "usr/local/Ascend/driver/lib64",
    "usr/local/dcmi",
    "usr/lib64",
)


def find_library(machine: Machine) -> Path | None:
    """The path of libdcmi.so."""
    own = machine.environ.get("LD_LIBRARY_PATH", "").split(":") if machine.is_real else []
    folders = [Path(folder) for folder in own if folder.startswith("/")]
    folders += [machine.root / folder for folder in _FOLDERS]
    paths = (folder / "libdcmi.so" for folder in folders)
    return next((path for path in paths if path.is_file()), None)


def dcmi_cards(machine: Machine) -> tuple[Card, ...]:
    """One card per chip, or none."""
    library = find_library(machine)
    if library is None:
        return ()
    # -I: the user's PYTHON* variables and working directory must not affect the probe.
    answer = machine.ask([sys.executable, "-I", str(_PROBE), str(library)], timeout_s=LIMIT_S)
    if not answer.ok:
        _log.info("DCMI does not respond: %s", answer.trouble or answer.output[-200:].strip())
        return ()
    chips = _decode(answer.output)
    if not chips or not all(map(_is_complete, chips)):
        return ()
    boards = {chip["npu_id"] for chip in chips}
    return tuple(_card(chip, has_dies=len(boards) < len(chips)) for chip in chips)


def _decode(text: str) -> list[dict[str, Any]]:
    # The library may print its own warnings before the probe's only line.
    try:
        chips: Any = json.loads(text[text.index("[{") :])
    except ValueError:
        return []
    return cast("list[dict[str, Any]]", chips)


def _is_complete(chip: dict[str, Any]) -> bool:
    return chip["id"] is not None and bool(chip["name"]) and chip["memory_mb"] is not None


def _card(chip: dict[str, Any], *, has_dies: bool) -> Card:
    used_mb, total_mb = chip["memory_mb"]
    return Card(
        DeviceKind.NPU,
        chip["id"],
        chip["name"],
        generation=generation_of(chip["name"], has_phy_ids=has_dies),
        health=chip["health"],
        memory_used_mb=used_mb,
        memory_total_mb=total_mb,
        utilisation_pct=chip["utilisation_pct"],
        power_w=chip["power_w"],
        temperature_c=chip["temperature_c"],
        bus_id=chip["bus_id"],
        cpu_affinity=chip["cpu_affinity"],
        processes=tuple(
            CardProcess(pid, memory_mb=memory_mb) for pid, memory_mb in chip["processes"]
        ),
        npu_id=chip["npu_id"],
        chip_id=chip["chip_id"],
    )
