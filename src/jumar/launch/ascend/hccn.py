"""/etc/hccn.conf: the network ports on the NPUs, as the vendor's tool writes them down."""

import re
from typing import Dict, Mapping, NamedTuple, Optional

_SETTING = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*?)_(\d{1,6})\s*=\s*(.*?)\s*")


class Port(NamedTuple):
    """One device's lines."""

    address: Optional[str] = None
    netmask: Optional[str] = None


def read_conf(text: str) -> Dict[int, Port]:
    """The ports by physical device id; lines that are something else are passed over."""
    settings: Dict[int, Dict[str, str]] = {}
    for line in text.replace("\0", "").splitlines():
        match = _SETTING.fullmatch(line)
        if match:
            settings.setdefault(int(match[2]), {})[match[1].lower()] = match[3]
    return {device: _port(values) for device, values in sorted(settings.items())}


def address(text: Optional[str]) -> Optional[str]:
    """The text when it is an IP address."""
    # Late: a machine without NPUs has none.
    import ipaddress

    try:
        return str(ipaddress.ip_address((text or "").strip()))
    except ValueError:
        return None


def _port(values: Mapping[str, str]) -> Port:
    return Port(address(values.get("address")), address(values.get("netmask")))
