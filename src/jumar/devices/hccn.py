"""The network cards on the NPUs: what `hccn_tool` answers. Text in, records out.

/etc/hccn.conf is read by `jumar.launch.ascend.hccn`, which needs it without this room."""

import re
from dataclasses import dataclass

from jumar.devices.text import CannotRead, first_words, identity, lines_of, number, word
from jumar.launch.ascend.hccn import address

_FIELD = re.compile(r"\s*(?:\[devid \d+\]\s*)?([A-Za-z][^:]{0,50}?)\s*:\s*(.*?)\s*")
_TLS = re.compile(r"tls switch\s*\[(\d)\]", re.IGNORECASE)
_TLS_ALARM = re.compile(r"tls alarm time threshold\s*\[(\d+)\]", re.IGNORECASE)
_LOSS = re.compile(r"(\d+) packets transmitted,\s*(\d+) received,\s*([\d.]+)% packet loss")
_EVENT = re.compile(r"\s*(?:\[devid \d+\])?\s*(\S.*\S)\s{2,}LINK (UP|DOWN)\s*")


@dataclass(frozen=True, slots=True)
class Ping:
    """How a ping from one device went."""

    sent: int
    received: int
    loss_pct: float


@dataclass(frozen=True, slots=True)
class LinkHistory:
    """`-link_stat -g`: newest first."""

    up_count: int | None
    events: tuple[tuple[str, str], ...]
    """When (as written) and UP or DOWN."""


def read_fields(text: str) -> dict[str, str]:
    """`name : value` lines of any answer, names in lower case."""
    matches = (_FIELD.fullmatch(line) for line in lines_of(text))
    return {match[1].lower(): match[2] for match in matches if match}


def read_ip(text: str) -> tuple[str, str | None]:
    """Address and mask of `-ip -g`."""
    fields = read_fields(text)
    found = address(fields.get("ipaddr") or fields.get("ip address"))
    if found is None:
        raise CannotRead(f"hccn_tool gave no address: {first_words(text) or 'no output'}")
    return found, address(fields.get("netmask"))


def read_link(text: str) -> str:
    """UP or DOWN of `-link -g`."""
    return _field(text, "link status").upper()


def read_net_health(text: str) -> str:
    """`-net_health -g`: Success, Init (not a failure), Socket failed, …"""
    return _field(text, "net health status")


def read_fec(text: str) -> str:
    """`-fec -g`."""
    return _field(text, "fec mode")


def _field(text: str, name: str) -> str:
    value = word(read_fields(text).get(name))
    if value is None:
        raise CannotRead(f"hccn_tool gave no {name}: {first_words(text) or 'no output'}")
    return value


def read_tls(text: str) -> bool:
    """Whether `-tls -g` says that TLS is on."""
    match = _TLS.search(text)
    if match is None:
        raise CannotRead(f"hccn_tool gave no TLS switch: {first_words(text) or 'no output'}")
    return match[1] == "1"


def read_tls_alarm_days(text: str) -> int | None:
    """How many days before its end a certificate raises an alarm."""
    match = _TLS_ALARM.search(text)
    return int(match[1]) if match else None


def read_ping(text: str) -> Ping:
    """The summary of `-ping -g`."""
    match = _LOSS.search(text)
    if match is None:
        raise CannotRead(f"hccn_tool did not ping: {first_words(text) or 'no output'}")
    return Ping(int(match[1]), int(match[2]), number(match[3]) or 0.0)


def read_link_history(text: str) -> LinkHistory:
    """`-link_stat -g`."""
    events = tuple(
        (match[1], match[2]) for line in lines_of(text) if (match := _EVENT.fullmatch(line))
    )
    up_count = identity(read_fields(text).get("link up count"))
    if up_count is None and not events:
        raise CannotRead(f"hccn_tool gave no link records: {first_words(text) or 'no output'}")
    return LinkHistory(up_count, events)
