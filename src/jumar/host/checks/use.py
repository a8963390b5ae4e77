"""The health of the cards and who uses them."""

from collections.abc import Iterator

from jumar.devices.npu import smi_to_cards
from jumar.devices.owners import with_owners
from jumar.devices.smi_info import SmiChip
from jumar.devices.smi_reports import read_health
from jumar.devices.text import CannotRead
from jumar.host.findings import Check, Finding, count, fail, ok, unknown, warn
from jumar.host.patient import Patient
from jumar.host.survey import NO_CARD, has_card, smi_info
from jumar.spec.devices import CardProcess

_BAD = frozenset({"alarm", "critical"})
# Idle cards of 32 and 64 GB show 2.5 to 3.5 GB in use.
_IDLE_MB, _IDLE_SHARE = 5000, 0.1


def health(patient: Patient) -> Iterator[Finding]:
    """Every chip reports OK."""
    info = smi_info(patient)
    if info is None or not info.chips:
        yield _unseen(patient)
        return
    well = 0
    for chip in info.chips:
        state = (chip.health or "unknown").lower()
        chip_id = chip.chip_id or 0
        look = f"npu-smi info -t health -i {chip.npu_id} -c {chip_id}"
        if state == "ok":
            well += 1
        elif state in _BAD:
            yield fail(
                f"{_name(chip)} says {chip.health}{_complaint(patient, chip)}",
                f"{look}; with no job on it, as root: npu-smi set -t reset -i {chip.npu_id}"
                f" -c {chip_id}",
            )
        elif state == "warning":
            yield warn(f"{_name(chip)} says {chip.health}{_complaint(patient, chip)}", look)
        else:
            yield unknown(f"{_name(chip)} does not report its health", look)
    if well == len(info.chips):
        yield ok(f"{count(well, 'chip')}, all OK")


def _complaint(patient: Patient, chip: SmiChip) -> str:
    arguments = ("info", "-t", "health", "-i", str(chip.npu_id), "-c", str(chip.chip_id or 0))
    answer = patient.ask("npu-smi", *arguments)
    if answer is None or not answer.ok:
        return ""
    try:
        told = read_health(answer.output)[0]
    except CannotRead:
        return ""
    words = " ".join(word for word in (told.error_code, told.error_text) if word)
    return f": {words}" if words else ""


def _name(chip: SmiChip) -> str:
    return f"NPU {chip.npu_id}" if not chip.chip_id else f"NPU {chip.npu_id} chip {chip.chip_id}"


def occupancy(patient: Patient) -> Iterator[Finding]:
    """Only jobs of this platform use the cards."""
    info = smi_info(patient)
    if info is None or not info.chips:
        yield _unseen(patient)
        return
    ours = 0
    foreign = False
    for chip in info.chips:
        if _is_held_by_nobody(chip):
            foreign = True
            yield _held(chip)
    for card in with_owners(smi_to_cards(info), patient.root):
        for process in card.processes:
            if process.job_id is not None:
                ours += 1
                continue
            foreign = True
            yield _stranger(card.id, process)
    if not foreign:
        yield ok(f"no foreign processes; processes of jobs: {ours}")


def _is_held_by_nobody(chip: SmiChip) -> bool:
    if chip.processes or chip.hbm is None or not chip.hbm.total:
        return False
    return chip.hbm.used > max(_IDLE_MB, _IDLE_SHARE * chip.hbm.total)


def _held(chip: SmiChip) -> Finding:
    used = f"{chip.hbm.used} MB" if chip.hbm else ""
    return warn(
        f"{_name(chip)} has {used} of its memory in use, but no process is shown: it belongs to"
        " another container, or to a process that died",
        "on the host, as root: npu-smi info; docker ps; fuser -v /dev/davinci*; if nobody has it:"
        f" npu-smi set -t reset -i {chip.npu_id} -c {chip.chip_id or 0}",
    )


def _stranger(card: int, process: CardProcess) -> Finding:
    size = f", {process.memory_mb} MB" if process.memory_mb is not None else ""
    seen = f"card {card} is used by process {process.pid} ({process.name or 'no name'}){size}"
    if process.user is None:
        # npu-smi shows the host's pids: inside a container they are unknown or another process's.
        return unknown(
            f"{seen}, which is not visible from here", f"on the host: ps -fp {process.pid}"
        )
    return warn(
        f"{seen}, owned by {process.user} and not part of a job of this platform",
        f"ask {process.user}, or end it: kill {process.pid}",
    )


def _unseen(patient: Patient) -> Finding:
    return unknown("npu-smi does not show the cards" if has_card(patient) else NO_CARD)


CHECKS = (
    Check("health", "use", health, needs_card=True),
    Check("occupancy", "use", occupancy, needs_card=True),
)
