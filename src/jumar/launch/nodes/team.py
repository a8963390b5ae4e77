"""How the nodes of one run act as one: they meet, prepare, end together, and agree on the verdict.

Here is what a node does alone, without any socket; `leader` is node 0 of several and `member` any
other."""

import os
import socket
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional

from jumar.launch.judge import judge
from jumar.launch.limits import HANG_LIMIT_S, JOIN_LIMIT_S
from jumar.launch.processes.control import HANG, Control
from jumar.launch.ranks.frameworks import Group
from jumar.launch.verdict import Summary, Verdict

Message = Dict[str, Any]
PEER_WAIT_S = 10.0
"""How long ranks may go on after others have only said that a peer is gone: the cause is still to come.
Never longer than the grace period."""


class NotTogether(Exception):
    """The nodes could not form a group."""


class Dead(NotTogether):
    """The machine answers, and there is no launcher on it."""


class Refused(NotTogether):
    """Node 0 does not want this node."""


class Over(Exception):
    """The run has ended without this node."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.reason)
        self.verdict = verdict


class Meeting(NamedTuple):
    """How the nodes of a run find each other, and how patient they are."""

    nodes: int
    """As many as there may be."""
    node: Optional[int]
    """None: node 0 where the address of node 0 is this machine's, else as node 0 counts."""
    master: str
    """The address of node 0."""
    port: int
    """Where node 0 listens; the ranks meet on one of the next ones. 0: any free one, on one node."""
    run_id: str
    """As the ranks know it."""
    key: str
    """Nodes with another one are refused."""
    grace_s: float
    restarts: int = 0
    join_limit_s: float = JOIN_LIMIT_S
    node_limit_s: float = 15.0
    """A node that is silent this long is lost."""
    straggler_s: float = 30.0
    least: Optional[int] = None
    """With how many the run goes on, where nodes may come and go."""
    hang_limit_s: float = HANG_LIMIT_S
    """All ranks have hung when none has done anything for so long; 0: that is never said."""
    last_call_s: float = 30.0
    """How long more nodes are waited for once there are enough."""


class Hello(NamedTuple):
    """What a node says of itself."""

    size: int
    part: Optional[Message]
    """Its part of the rank table."""
    door: int = 0
    """Where others reach it, if nodes may come and go."""


def group_of(meeting: Meeting, node: int, counts: List[int], port: int, address: str) -> Group:
    """All ranks as one node sees them; `counts` are the ranks of each node."""
    return Group(
        node=node,
        nodes=len(counts),
        first_rank=sum(counts[:node]),
        local_count=counts[node],
        world_size=sum(counts),
        master=meeting.master,
        port=port,
        address=address,
        run_id=meeting.run_id,
        most_restarts=meeting.restarts,
    )


def host_address(towards: Optional[str] = None, environ: Optional[Mapping[str, str]] = None) -> str:
    """This host's address as the others see it: HCCL_IF_IP, else the route's, never loopback.

    Asking the resolver for one's own name often answers 127.0.1.1."""
    wanted = (os.environ if environ is None else environ).get("HCCL_IF_IP")
    if wanted:
        return wanted
    # One that is never reached will do: connecting a datagram socket sends nothing.
    found = (_own_address_towards(target) for target in (towards, "192.0.2.1") if target)
    return next(filter(None, found), socket.gethostname())


def _own_address_towards(target: str) -> Optional[str]:
    try:
        found = socket.getaddrinfo(target, 9, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return None
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(address)
                own = str(probe.getsockname()[0])
        except OSError:
            continue
        if not own.startswith("127.") and own != "::1":
            return own
    return None


class Team:
    """A node alone."""

    def __init__(self, meeting: Meeting, control: Control, say: Callable[[str], None]) -> None:
        self._meeting = meeting
        self._control = control
        self._say = say
        self._restart = 0
        self._failures: List[Verdict] = []
        self._must_hold = False
        self.parts: List[Optional[Message]] = []
        """The rank table parts of all nodes, once they are together."""

    def join(self, hello: Hello) -> Group:
        """Wait until all nodes are there; raises NotTogether."""
        self.parts = [hello.part]
        return group_of(self._meeting, 0, [hello.size], self._master_port(), self._meeting.master)

    def once(self, prepare: Callable[[], None]) -> None:
        """Have node 0 prepare what all nodes share; the others wait for it."""
        prepare()

    def gather(self) -> None:
        """Wait until all nodes are prepared."""

    def failed(self, failure: Verdict) -> None:
        """Something failed on this node."""
        self._failures.append(failure)

    def idle(self, is_so: bool) -> None:
        """Whether the ranks of this node do nothing; called when that changes."""
        self._must_hold = self._must_hold or is_so

    def must_hold(self) -> bool:
        """Whether the ranks of this node shall stand still: all have hung. One that is aborted before
        all others stand still would make these leave the place where they hang."""
        return self._must_hold

    def held(self) -> None:
        """The ranks of this node stand still."""
        self._control.ask(HANG)

    def settle(self, summary: Summary) -> Verdict:
        """All ranks of this node have ended; what comes of the run."""
        verdict = judge(self._failures, [summary], {}, restarts_left=self._restarts_left(), nodes=1)
        return self._next_round(verdict)

    def again(self, before: Group) -> Group:
        """The group of the next round, after a verdict that wants one."""
        return before._replace(restart=self._restart, port=self._master_port())

    def close(self) -> None:
        """Let go of connections."""

    def _restarts_left(self) -> int:
        return self._meeting.restarts - self._restart

    def _next_round(self, verdict: Verdict) -> Verdict:
        self._must_hold = False
        if verdict.again:
            self._restart += 1
            self._failures = []
        return verdict

    def _master_port(self) -> int:
        return self._meeting.port or free_port()


def free_port(address: str = "127.0.0.1") -> int:
    """A port that nobody listens on now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
