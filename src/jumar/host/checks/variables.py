"""Variables of this shell that affect jobs and are easy to get wrong."""

import ipaddress
from collections.abc import Iterator

from jumar.host.findings import Check, Finding, count, fail, ok, unknown, warn
from jumar.host.patient import Patient
from jumar.host.survey import has_card, nodes, smi_info

_VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
_CONNECT_LIMITS_S = (120, 7200)
_BASE_PORTS = (1024, 65520)


def visible_devices(patient: Patient) -> Iterator[Finding]:
    """The list of visible devices means what it appears to mean."""
    value = patient.environ.get(_VISIBLE)
    if value is None:
        if has_card(patient) and patient.environ.get("CUDA_VISIBLE_DEVICES"):
            cuda = patient.environ["CUDA_VISIBLE_DEVICES"]
            yield warn(
                f"CUDA_VISIBLE_DEVICES={cuda} does not select NPUs",
                f"export {_VISIBLE}={cuda.replace(' ', '')}",
            )
        else:
            yield ok(f"{_VISIBLE} is not set: all cards")
        return
    words = [word.strip() for word in value.split(",")]
    numbers = [int(word) for word in words if word.isascii() and word.isdecimal()]
    total = _cards(patient)
    wanted = sorted({number for number in numbers if total is None or number < total})
    fix = f"export {_VISIBLE}={','.join(map(str, wanted))}" if wanted else f"unset {_VISIBLE}"
    problem = _problem(value, words, numbers, total)
    if problem is not None:
        yield fail(f"{_VISIBLE}={value!r}: {problem}", fix)
    elif total is None:
        yield unknown(f"{_VISIBLE}={value}; the number of cards is unknown")
    else:
        yield ok(f"{_VISIBLE}={value} ({count(len(numbers), 'card')} of {total})")


def _problem(value: str, words: list[str], numbers: list[int], total: int | None) -> str | None:
    if not value.strip():
        return "it is set but empty"
    if len(numbers) < len(words):
        return "only numbers separated by commas are read; the list ends at anything else"
    if any(character.isspace() for character in value):
        return f"a space ends the list, so it means {value.split()[0].rstrip(',')} only"
    if len(set(numbers)) < len(numbers):
        return "a card is listed twice"
    if numbers != sorted(numbers):
        return "the numbers must ascend"
    if total is not None and numbers[-1] >= total:
        return f"there are {count(total, 'card')}, numbered from 0; the list ends at a bad number"
    return None


def _cards(patient: Patient) -> int | None:
    info = smi_info(patient)
    if info is not None and info.chips:
        return len(info.chips)
    return len(nodes(patient)) or None


def hccl_variables(patient: Patient) -> Iterator[Finding]:
    """HCCL's variables are in range and do not contradict each other."""
    problems = [*_numbers(patient), *_addresses(patient), *_rank_table(patient)]
    yield from problems
    if not problems:
        yield ok("no contradictory variables")


def _numbers(patient: Patient) -> Iterator[Finding]:
    ranges = {"HCCL_CONNECT_TIMEOUT": _CONNECT_LIMITS_S, "HCCL_IF_BASE_PORT": _BASE_PORTS}
    for name, (low, high) in ranges.items():
        value = patient.environ.get(name)
        if value is None:
            continue
        if not (value.isascii() and value.isdecimal() and low <= int(value) <= high):
            yield fail(f"{name}={value} is not between {low} and {high}", f"unset {name}")


def _addresses(patient: Patient) -> Iterator[Finding]:
    value = patient.environ.get("HCCL_IF_IP")
    if value is not None:
        try:
            ipaddress.ip_address(value)
        except ValueError:
            yield fail(f"HCCL_IF_IP={value} is not an IP address", "unset HCCL_IF_IP")
    names = patient.environ.get("HCCL_SOCKET_IFNAME", "")
    if not names or names.startswith("^"):
        return
    try:
        present = sorted(path.name for path in patient.path("/sys/class/net").iterdir())
    except OSError:
        return
    wanted = names.removeprefix("=").split(",")
    if not any(one.startswith(name) for name in wanted for one in present):
        yield fail(
            f"HCCL_SOCKET_IFNAME={names} is not a network interface of this machine",
            f"export HCCL_SOCKET_IFNAME={next((one for one in present if one != 'lo'), 'eth0')}",
        )


def _rank_table(patient: Patient) -> Iterator[Finding]:
    table = patient.environ.get("RANK_TABLE_FILE")
    if not table:
        return
    if patient.environ.get("CM_CHIEF_IP"):
        yield fail(
            "RANK_TABLE_FILE and CM_CHIEF_IP are both set: they are two ways of doing the same thing",
            "unset RANK_TABLE_FILE RANK_ID RANK_SIZE",
        )
    elif not patient.has(table):
        yield fail(f"RANK_TABLE_FILE is {table}, which does not exist", "unset RANK_TABLE_FILE")


CHECKS = (
    Check("visible-devices", "variables", visible_devices),
    Check("hccl-variables", "variables", hccl_variables),
)
