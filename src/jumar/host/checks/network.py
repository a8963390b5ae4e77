"""The network between cards, from hccn_tool for every device and /etc/hccn.conf."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from jumar.devices.hccn import read_ip, read_link, read_net_health, read_tls
from jumar.devices.text import CannotRead
from jumar.host.findings import Check, Finding, count, fail, ok, unknown, warn
from jumar.host.patient import Patient
from jumar.host.survey import NO_CARD, generation, has_card, nodes
from jumar.launch.ascend.hccn import read_conf

T = TypeVar("T")
_GENERATIONS_WITHOUT_NETWORK = frozenset({"310", "310B", "310P"})


@dataclass(frozen=True, slots=True)
class Answers(Generic[T]):
    """What the devices answered, which did not, and why."""

    found: Mapping[int, T]
    silent: tuple[int, ...]
    why: str


def device_ip(patient: Patient) -> Iterator[Finding]:
    """Every device has its own address; the 910 needs one even on a single machine."""
    if (skip := _skip(patient)) is not None:
        yield skip
        return
    ports = _ports(patient)
    found = {number: address for number, (address, _) in ports.items()}
    missing = [number for number in nodes(patient) if number not in found]
    shared = sorted({ip for ip in found.values() if list(found.values()).count(ip) > 1})
    if shared:
        yield fail(
            f"several devices share the address {shared[0]}",
            "give each its own, as root: hccn_tool -i N -ip -s address A.B.C.D netmask M",
        )
    if missing:
        numbers = ", ".join(map(str, missing))
        seen = f"neither /etc/hccn.conf nor hccn_tool has an address for device {numbers}"
        fix = (
            f"as root: hccn_tool -i {missing[0]} -ip -s address A.B.C.D netmask 255.255.0.0"
            "   # and so on for each"
        )
        # Later generations use HCCS within a machine and need addresses only between machines.
        yield fail(seen, fix) if generation(patient) == "910" else warn(seen, fix)
    elif not shared:
        yield ok(f"{count(len(nodes(patient)), 'device')} with an address")


def netmask(patient: Patient) -> Iterator[Finding]:
    """All devices have the same netmask: else some believe others to be elsewhere, and never connect."""
    if (skip := _skip(patient)) is not None:
        yield skip
        return
    ports = {number: port for number, port in _ports(patient).items() if port[1]}
    masks = [mask for _, mask in ports.values()]
    usual = max(masks, key=masks.count, default=None)
    odd = {number: port for number, port in ports.items() if port[1] != usual}
    if odd:
        number, (address, _) = list(odd.items())[-1]
        words = ", ".join(f"device {one} has {other}" for one, (_, other) in odd.items())
        yield warn(
            f"the netmask is {usual}, but {words}",
            f"as root: hccn_tool -i {number} -ip -s address {address} netmask {usual}",
        )
    elif ports:
        yield ok(f"netmask {usual} on all {count(len(ports), 'device')}")


def _ports(patient: Patient) -> dict[int, tuple[str, str | None]]:
    """Address and netmask of each device that has one, from the file or, else, from hccn_tool."""
    ports = read_conf(patient.text("/etc/hccn.conf") or "")
    found = {number: (port.address, port.netmask) for number, port in ports.items() if port.address}
    asked = [number for number in nodes(patient) if number not in found]
    return {**found, **_ask_all(patient, "-ip", read_ip, asked).found}


def link(patient: Patient) -> Iterator[Finding]:
    """Every device's port is up."""
    if (skip := _skip(patient)) is not None:
        yield skip
        return
    answers = _ask_all(patient, "-link", read_link, nodes(patient))
    states = answers.found
    yield from _silences(answers)
    down = [number for number, state in states.items() if state != "UP"]
    if down:
        yield warn(
            f"no link on device {', '.join(map(str, down))}: jobs on several machines will fail",
            f"check cable, optics and switch port: hccn_tool -i {down[0]} -optical -g",
        )
    elif states:
        yield ok(f"{count(len(states), 'link')} up")


def net_health(patient: Patient) -> Iterator[Finding]:
    """Every device reaches its detection address. Init means that none is set."""
    if (skip := _skip(patient)) is not None:
        yield skip
        return
    answers = _ask_all(patient, "-net_health", read_net_health, nodes(patient))
    states = answers.found
    yield from _silences(answers)
    bad = {n: state for n, state in states.items() if state.lower() not in {"success", "init"}}
    if bad:
        words = ", ".join(f"{number}: {state}" for number, state in bad.items())
        number = next(iter(bad))
        yield warn(
            f"some devices do not reach their detection address ({words})",
            f"check route and gateway: hccn_tool -i {number} -netdetect -g;"
            f" hccn_tool -i {number} -gateway -g",
        )
    elif states:
        waiting = sum(state.lower() == "init" for state in states.values())
        more = f" ({waiting} without a detection address)" if waiting else ""
        yield ok(f"{count(len(states), 'device')} healthy{more}")


def tls(patient: Patient) -> Iterator[Finding]:
    """TLS is on for all devices or for none: if mixed, HCCL never connects."""
    if (skip := _skip(patient)) is not None:
        yield skip
        return
    answers = _ask_all(patient, "-tls", read_tls, nodes(patient))
    switches = answers.found
    yield from _silences(answers)
    on = [number for number, switch in switches.items() if switch]
    if on and len(on) < len(switches):
        yield fail(
            f"TLS is on for device {', '.join(map(str, on))} and off for the others",
            "as root, on every machine of the job: for i in"
            f" {' '.join(map(str, on))}; do hccn_tool -i $i -tls -s enable 0; done",
        )
    elif switches:
        yield ok(f"TLS is {'on' if on else 'off'} on all {count(len(switches), 'device')}")


def _skip(patient: Patient) -> Finding | None:
    if not nodes(patient):
        return unknown("no device to ask" if has_card(patient) else NO_CARD)
    if generation(patient) in _GENERATIONS_WITHOUT_NETWORK:
        return ok("cards of this kind have no network ports")
    return None


def _ask_all(
    patient: Patient, question: str, read: Callable[[str], T], devices: Sequence[int]
) -> Answers[T]:
    """What each device answers. If one hangs, the others are not asked: they would, too."""
    found: dict[int, T] = {}
    why = ""
    for place, number in enumerate(devices):
        answer = patient.ask("hccn_tool", "-i", str(number), question, "-g")
        if answer is None:
            return Answers(found, tuple(devices), "hccn_tool is not installed")
        if answer.trouble is not None:
            return Answers(found, tuple(devices[place:]), answer.trouble)
        try:
            found[number] = read(answer.output)
        except CannotRead as error:
            why = error.message
    silent = tuple(number for number in devices if number not in found)
    return Answers(found, silent, why)


def _silences(answers: Answers[T]) -> Iterator[Finding]:
    if answers.silent:
        numbers = ", ".join(map(str, answers.silent))
        yield unknown(
            f"no answer for device {numbers}: {answers.why}",
            "hccn_tool comes with the driver, in /usr/local/Ascend/driver/tools, and may need root",
        )


CHECKS = (
    Check("device-ip", "network", device_ip, needs_card=True),
    Check("netmask", "network", netmask, needs_card=True),
    Check("link", "network", link, needs_card=True),
    Check("net-health", "network", net_health, needs_card=True),
    Check("tls", "network", tls, needs_card=True),
)
