"""The network cards on the NPUs: what `hccn_tool` answers. Text in, records out.

/etc/hccn.conf is read by `jumar.launch.ascend.hccn`, which must work without this room."""

import re

from jumar.devices.text import CannotRead, first_words, lines_of, word
from jumar.launch.ascend.hccn import address

_FIELD = re.compile(r"\s*(?:\[devid \d+\]\s*)?([A-Za-z][^:]{0,50}?)\s*:\s*(.*?)\s*")
_TLS = re.compile(r"tls switch\s*\[(\d)\]", re.IGNORECASE)


def read_fields(text: str) -> dict[str, str]:
    """`name : value` lines of any answer, names in lower case."""
    matches = (_FIELD.fullmatch(line) for line in lines_of(text))
    return {match[1].lower(): match[2] for match in matches if match}


def read_ip(text: str) -> tuple[str, str | None]:
    """Address and mask of `-ip -g`."""
    fields = read_fields(text)
    found = address(fields.get("ipaddr") or fields.get("ip address"))
    if found is None:
        raise CannotRead(f"hccn_tool reported no address: {first_words(text) or 'no output'}")
    return found, address(fields.get("netmask"))


def read_link(text: str) -> str:
    """UP or DOWN of `-link -g`."""
    return _field(text, "link status").upper()


def read_net_health(text: str) -> str:
    """`-net_health -g`: Success, Init (not a failure), Socket failed, …"""
    return _field(text, "net health status")


def _field(text: str, name: str) -> str:
    value = word(read_fields(text).get(name))
    if value is None:
        raise CannotRead(f"hccn_tool reported no {name}: {first_words(text) or 'no output'}")
    return value


def read_tls(text: str) -> bool:
    """Whether `-tls -g` says that TLS is on."""
    match = _TLS.search(text)
    if match is None:
        raise CannotRead(f"hccn_tool reported no TLS switch: {first_words(text) or 'no output'}")
    return match[1] == "1"
