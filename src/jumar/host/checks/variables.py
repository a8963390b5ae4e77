"""Variables of this shell that affect jobs and are easy to get wrong."""

import ipaddress
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any

from jumar.host.findings import Check, Finding, count, fail, ok, unknown, warn
from jumar.host.patient import Patient
from jumar.host.survey import generation, has_card, local_addresses, nodes, smi_info

_VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
_SETTING = re.compile(r"\w+:(?!(?i:true|false)$)\S+|\w+:(True|False)")


@cache
def _table() -> dict[str, Any]:
    text = resources.files("jumar.host").joinpath("data", "variables.toml").read_text("utf-8")
    return tomllib.loads(text)


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
        elif has_card(patient):
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
    problems = [
        *_numbers(patient),
        *_words(patient),
        *_addresses(patient),
        *_rank_table(patient),
    ]
    yield from problems
    if not problems and has_card(patient):
        yield ok("no contradictory variables")


def _numbers(patient: Patient) -> Iterator[Finding]:
    table = _table()
    of_chip = table["numbers_of"].get(generation(patient) or "", {})
    for name, (low, high) in {**table["numbers"], **of_chip}.items():
        value = patient.environ.get(name)
        if value is None:
            continue
        if not (value.isascii() and value.isdecimal() and low <= int(value) <= high):
            yield fail(f"{name}={value} is not between {low} and {high}", f"unset {name}")


def _words(patient: Patient) -> Iterator[Finding]:
    for name, known in _table()["words"].items():
        value = patient.environ.get(name)
        if value is not None and value not in known:
            yield warn(
                f"{name}={value} is ignored: it is none of {', '.join(known)}", f"unset {name}"
            )


def _addresses(patient: Patient) -> Iterator[Finding]:
    value = patient.environ.get("HCCL_IF_IP")
    if value is not None:
        yield from _host_address(patient, value)
    for name in _table()["interfaces"]:
        yield from _interface(patient, name)


def _interface(patient: Patient, variable: str) -> Iterator[Finding]:
    names = patient.environ.get(variable, "")
    if not names or names.startswith("^"):
        return
    try:
        present = sorted(path.name for path in patient.path("/sys/class/net").iterdir())
    except OSError:
        return
    wanted = names.removeprefix("=").split(",")
    if not any(one.startswith(name) for name in wanted for one in present):
        yield fail(
            f"{variable}={names} is not a network interface of this machine",
            f"export {variable}={next((one for one in present if one != 'lo'), 'eth0')}",
        )


def _host_address(patient: Patient, value: str) -> Iterator[Finding]:
    try:
        address = str(ipaddress.ip_address(value))
    except ValueError:
        yield fail(f"HCCL_IF_IP={value} is not an IP address", "unset HCCL_IF_IP")
        return
    own = local_addresses(patient)
    if own and address not in own:
        best = next((one for one in own if not one.startswith(("127.", "::1", "fe80"))), own[0])
        yield fail(
            f"HCCL_IF_IP={value} is no address of this machine, but perhaps of another node",
            f"on this node: export HCCL_IF_IP={best}",
        )


def process_variables(patient: Patient) -> Iterator[Finding]:
    """Variables that every process reads at its start are in their form."""
    problems = [*_preloaded(patient), *_allocators(patient)]
    yield from problems or [ok("no variable stops a process at its start")]


def _preloaded(patient: Patient) -> Iterator[Finding]:
    entries = patient.environ.get("LD_PRELOAD", "").replace(":", " ").split()
    missing = [one for one in entries if "/" in one and not patient.has(one)]
    if missing:
        left = ":".join(one for one in entries if one not in missing)
        yield warn(
            f"LD_PRELOAD names {', '.join(missing)}, which does not exist: every program complains",
            f"export LD_PRELOAD={left}" if left else "unset LD_PRELOAD",
        )


def _allocators(patient: Patient) -> Iterator[Finding]:
    for name in _table()["allocators"]:
        value = patient.environ.get(name, "")
        pairs = [pair.strip() for pair in value.split(",")] if value else []
        bad = [pair for pair in pairs if not _SETTING.fullmatch(pair)]
        if bad:
            yield fail(
                f"{name}={value}: {bad[0]!r} is no OPTION:VALUE (True and False are capitalized), and"
                " torch stops at its first tensor on a card",
                f"export {name}={','.join(map(_repaired, pairs))}",
            )


def _repaired(pair: str) -> str:
    name, _, value = pair.replace("=", ":").partition(":")
    value = value.strip()
    return f"{name.strip()}:{value.capitalize() if value.lower() in ('true', 'false') else value}"


def leftovers(patient: Patient) -> Iterator[Finding]:
    """No variables are left over from a search for a fault."""
    found = False
    for name, row in _table()["leftover"].items():
        value = patient.environ.get(name)
        if value in row["values"]:
            found = True
            yield warn(f"{name}={value}: {row['costs']}", f"unset {name}")
    if not found:
        yield ok("no debugging variables are set")


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
    Check("process-variables", "variables", process_variables),
    Check("debug-variables", "variables", leftovers),
)
