"""What a rank table says, whatever its format, and what can go wrong with one."""

from types import MappingProxyType
from typing import Any, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple

LAB = "lab"
TEMPLATE_2 = "template2"
V1_0 = "1.0"
V1_2 = "1.2"
V2_0 = "2.0"
FORMATS = (LAB, TEMPLATE_2, V1_0, V1_2, V2_0)
COMPLETED = "completed"
INITIALIZING = "initializing"
NOTHING: Mapping[str, Any] = MappingProxyType({})


def unlike_names(names: Iterable[str]) -> List[str]:
    """2.0 names networks, not servers: those that share one become `a`, `a#2`, `a#3`."""
    made: List[str] = []
    for name in names:
        own, times = name, 1
        while own in made:
            times += 1
            own = f"{name}#{times}"
        made.append(own)
    return made


class RankTableError(Exception):
    """The root of what this package raises on purpose."""

    def __init__(self, message: str, hint: Optional[str] = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Unreadable(RankTableError):
    """Not a rank table, or a field of it cannot be what it is."""


class NotExpressible(RankTableError):
    """The format has no place for what the table says, or needs what it does not say."""


class TableTimeout(RankTableError):
    """Some node did not bring its part in time."""


class RankDevice(NamedTuple):
    """One device and the rank that runs on it."""

    device_id: int
    """The physical id: N of /dev/davinciN."""
    rank: int
    device_ip: Optional[str] = None
    local_id: Optional[int] = None
    levels: Tuple[Mapping[str, Any], ...] = ()
    """2.0: the device's addresses in each layer of the network, as written."""
    extras: Mapping[str, Any] = NOTHING
    """Fields that are kept as they are: device_port, super_device_id, …"""


class RankServer(NamedTuple):
    """One server and its devices."""

    server_id: str
    devices: Tuple[RankDevice, ...]
    pod_name: Optional[str] = None
    extras: Mapping[str, Any] = NOTHING


class SuperPod(NamedTuple):
    """Servers that share one fast network."""

    super_pod_id: str
    server_ids: Tuple[str, ...]


class RankTable(NamedTuple):
    """A whole table. `format` is empty for one that only says that it is being made."""

    format: str
    status: str
    servers: Tuple[RankServer, ...] = ()
    super_pods: Tuple[SuperPod, ...] = ()
    extras: Mapping[str, Any] = NOTHING
    declared: Mapping[str, int] = NOTHING
    """The counts that the file states, to be held against what is in it."""

    @property
    def devices(self) -> Iterator[Tuple[RankServer, RankDevice]]:
        """Every device with its server, in the order written."""
        return ((server, device) for server in self.servers for device in server.devices)

    @property
    def rank_count(self) -> int:
        """How many ranks there are."""
        return sum(len(server.devices) for server in self.servers)
