"""The driver through its own tool: does npu-smi respond, do driver and firmware fit together."""

import re
from collections.abc import Iterator

from jumar.devices.smi_info import read_info
from jumar.devices.smi_reports import Board, read_board
from jumar.devices.text import CannotRead, first_words
from jumar.host.container import give_group, give_mounts, in_container
from jumar.host.findings import Check, Finding, count, fail, ok, unknown, warn
from jumar.host.matrix import shipped
from jumar.host.patient import Patient
from jumar.host.survey import (
    ADD_DRIVER_LIBRARIES,
    NO_CARD,
    has_card,
    nodes,
    smi_info,
    software,
)
from jumar.host.versions import Version, parse_or_none
from jumar.launch.verdict import signal_name

_INSTALLED = "/usr/local/Ascend/driver/version.info"
_RETURNED = re.compile(r"ret is (-80\d\d)")
_IN_USE = "-8020"
_INSTALL = (
    "install driver and firmware as root: ./Ascend-hdk-*-npu-driver_*.run --full"
    " --install-for-all && reboot"
)


def npu_smi(patient: Patient) -> Iterator[Finding]:
    """npu-smi exists and prints its table."""
    answer = patient.ask("npu-smi", "info")
    if answer is None:
        yield _no_tool(patient)
    elif answer.trouble is not None:
        yield fail(
            answer.trouble,
            "the driver hangs or the tool cannot run: check dmesg | tail -50, then reboot",
        )
    elif returned := _RETURNED.search(answer.output):
        yield _refused(patient, returned[1], first_words(answer.output))
    elif answer.code != 0:
        yield fail(
            f"npu-smi info {_ending(answer.code)}: {first_words(answer.output) or 'no output'}",
            ADD_DRIVER_LIBRARIES
            if "loading shared libraries" in answer.output
            else "check that the driver is loaded: lsmod | grep -E 'drv_davinci|devdrv'",
        )
    else:
        yield from _table(answer.output)


def _refused(patient: Patient, code: str, words: str) -> Finding:
    """The driver's library does not let npu-smi in."""
    if code == _IN_USE:
        return fail(
            f"npu-smi is refused ({code}): the card is in use by another container",
            "on the host: docker ps; end the other container that has this card",
        )
    if not in_container(patient):
        return fail(
            f"npu-smi is refused: {words}",
            "try it as root; if that fails too, check that the driver is loaded: lsmod | grep -E 'drv_davinci|devdrv'",
        )
    return fail(
        f"npu-smi is refused ({code}): the card belongs to another container, or this user may not"
        " open it",
        f"{give_group(patient, _device_group(patient))}   # and end other containers with the card",
    )


def _device_group(patient: Patient) -> int:
    try:
        return patient.path("/dev/davinci_manager").stat().st_gid
    except OSError:
        return 1000


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was killed by {signal_name(-code)}"
    return f"exited with code {code}"


def _no_tool(patient: Patient) -> Finding:
    if not nodes(patient):
        return unknown(
            "npu-smi is not installed" if has_card(patient) else f"{NO_CARD}, no npu-smi"
        )
    if in_container(patient):
        return fail(
            "npu-smi is not in this container",
            give_mounts(patient, ["/usr/local/bin/npu-smi", "/usr/local/Ascend/driver"]),
        )
    return fail("npu-smi is not on PATH", "export PATH=/usr/local/sbin:/usr/local/bin:$PATH")


def _table(output: str) -> Iterator[Finding]:
    try:
        info = read_info(output)
    except CannotRead as error:
        yield unknown(error.message, "read the output: npu-smi info")
        return
    if info.chips:
        yield ok(f"npu-smi {info.tool_version or ''} shows {count(len(info.chips), 'chip')}")
    else:
        yield fail(
            "npu-smi responds but shows no chip",
            "see what the driver says: dmesg | grep -iE 'davinci|devdrv'",
        )


def driver(patient: Patient) -> Iterator[Finding]:
    """All cards have the same driver version, and the installed one is running."""
    running = _running(patient)
    installed = _installed_version(patient)
    if not running:
        if installed:
            yield unknown(
                f"driver {installed} is installed; npu-smi does not show which one is running"
            )
        else:
            yield unknown("the driver version is not visible" if has_card(patient) else NO_CARD)
    elif len(running) > 1:
        yield warn(
            f"cards have different drivers: {', '.join(sorted(running))}",
            "install one driver for all cards, then reboot",
        )
    elif installed and {installed.lower()} != {one.lower() for one in running}:
        yield warn(
            f"driver {installed} is installed but {', '.join(running)} is running",
            "reboot to load the installed driver",
        )
    else:
        yield ok(f"driver {running.pop()}")


def _running(patient: Patient) -> set[str]:
    info, boards = smi_info(patient), _boards(patient)
    running = {board.software_version for board in boards if board.software_version}
    if not running and info is not None and info.driver_version:
        running = {info.driver_version}
    return running


def driver_cann(patient: Patient) -> Iterator[Finding]:
    """The driver is new enough for CANN."""
    cann = software(patient).version
    versions = [parse_or_none(text) for text in _running(patient) or {_installed_version(patient)}]
    drivers = [version for version in versions if version is not None]
    if cann is None or not drivers:
        return
    row = shipped().driver_row(cann)
    oldest = min(drivers)
    if row is None:
        yield unknown(f"no table lists the drivers of CANN {cann}")
    elif not row.is_old(oldest):
        yield ok(f"driver {oldest} and CANN {cann}")
    elif cann.starts_with(row.cann):
        yield fail(f"driver {oldest} is too old for CANN {cann}", _newer(row.oldest))
    else:
        yield warn(
            f"driver {oldest} is too old for CANN {row.cann}, and so for {cann}", _newer(row.oldest)
        )


def _newer(oldest: Version) -> str:
    return f"{_INSTALL}   # {oldest} or later; or use an older CANN"


def firmware(patient: Patient) -> Iterator[Finding]:
    """All cards have the same firmware, and it fits the driver."""
    boards = _boards(patient)
    versions = {board.firmware_version for board in boards if board.firmware_version}
    bad = [board for board in boards if (board.compatibility or "OK").upper() != "OK"]
    if not versions and not bad:
        seen = has_card(patient) or smi_info(patient) is not None
        yield unknown("the firmware version is not visible" if seen else NO_CARD)
        return
    if bad:
        cards = ", ".join(str(board.npu_id) for board in bad)
        yield fail(
            f"driver and firmware do not fit together on card {cards}: {bad[0].compatibility}",
            "install the firmware of the driver's release as root:"
            " ./Ascend-hdk-*-npu-firmware_*.run --full && reboot",
        )
    if len(versions) > 1:
        yield warn(
            f"cards have different firmware: {', '.join(sorted(versions))}",
            "upgrade all cards to the same: ./Ascend-hdk-*-npu-firmware_*.run --upgrade && reboot",
        )
    elif not bad:
        yield ok(f"firmware {', '.join(versions)}, compatible with the driver")


def _boards(patient: Patient) -> tuple[Board, ...]:
    return patient.once("boards", lambda: tuple(_read_boards(patient)))


def _read_boards(patient: Patient) -> Iterator[Board]:
    info = smi_info(patient)
    for npu_id in dict.fromkeys(chip.npu_id for chip in info.chips) if info else ():
        answer = patient.ask("npu-smi", "info", "-t", "board", "-i", str(npu_id))
        if answer is None or not answer.ok:
            # A tool that hangs once hangs for every card: one attempt is enough.
            return
        try:
            yield read_board(answer.output)
        except CannotRead:
            continue


def _installed_version(patient: Patient) -> str | None:
    for line in (patient.text(_INSTALLED) or "").splitlines():
        name, _, value = line.partition("=")
        if name.strip().lower() == "version" and value.strip():
            return value.strip()
    return None


CHECKS = (
    Check("npu-smi", "driver", npu_smi, needs_card=True),
    Check("driver", "driver", driver, needs_card=True),
    Check("driver-cann", "driver", driver_cann, needs_card=True),
    Check("firmware", "driver", firmware, needs_card=True),
)
