"""One round of a run whose nodes may come and go, as the node that leads it and as any other."""

import errno
import json
import math
import signal
import socket
import time
from typing import Callable, Collection, Dict, List, NamedTuple, Optional, Tuple

from jumar.launch.nodes.channel import BEAT_S, PROTOCOL, SEND_LIMIT_S, Channel
from jumar.launch.nodes.door import Door
from jumar.launch.nodes.leader import Leader
from jumar.launch.nodes.member import Member
from jumar.launch.nodes.team import Hello, Meeting, Message, Over
from jumar.launch.processes.control import Control
from jumar.launch.ranks.frameworks import Group
from jumar.launch.verdict import Summary, Verdict

Address = Tuple[str, int]
_LISTEN_S = 3.0
"""How long the first leader listens, before it starts anything, for a group that runs already."""


class Moved(Exception):
    """Another node leads."""

    def __init__(self, where: Address) -> None:
        super().__init__(f"{where[0]}:{where[1]}")
        self.where = where


class Term(NamedTuple):
    """What a round depends on."""

    restart: int
    needed: int
    """How many nodes."""
    earliest: float
    expected: int = 0
    """How many others of the last round may still live, and should come."""
    patient_until: float = 0.0
    """When those of them that do not come have ended their ranks."""
    last_call_s: float = 0.0


def first_term(meeting: Meeting, *, after_another: bool) -> Term:
    """Before anything has run, as far as this node knows; `after_another`: it has heard of a group whose
    leader is gone, which may go on under another."""
    earliest = time.monotonic() + _LISTEN_S
    if after_another:
        earliest += meeting.node_limit_s + meeting.grace_s + 2 * SEND_LIMIT_S
    return Term(0, meeting.least or 1, earliest, last_call_s=meeting.last_call_s)


def next_term(meeting: Meeting, restart: int, known: int, *, leads: bool, is_smaller: bool) -> Term:
    """After a round of which `known` nodes are not known to be dead, this one included; `leads`: it
    was led by this one."""
    half = (known + 1) // 2 if leads else known // 2 + 1
    now = time.monotonic()
    return Term(
        restart=restart,
        needed=max(meeting.least or 1, half),
        earliest=now,
        expected=known - 1,
        patient_until=now + meeting.node_limit_s + meeting.grace_s + 2 * SEND_LIMIT_S,
        last_call_s=meeting.last_call_s if is_smaller else 0.0,
    )


class RoundLeader(Leader):
    """It lets all go once there are enough, and makes room for newcomers while there are restarts."""

    def __init__(
        self,
        meeting: Meeting,
        control: Control,
        say: Callable[[str], None],
        door: Door,
        term: Term,
        origin: Optional[Address],
        gone: Collection[Address] = (),
    ) -> None:
        """`origin`: where the run began, if that is another node. `gone`: who leads no more, though a
        last word of it may still come."""
        self._term = term
        self._former = gone
        self._last_call_at: Optional[float] = None
        self._rejoined = 0
        self._came: Optional[str] = None
        self._letters: Dict[Channel, Message] = {}
        """What those who wait have said."""
        self._led: Optional[Address] = None
        self._herald = None if origin is None else _Herald(meeting, origin)
        self.doors: List[Address] = []
        super().__init__(meeting, control, say, door)
        self._restart = term.restart

    @property
    def meeting(self) -> Meeting:
        """With the address of this node."""
        return self._meeting

    def term_after(self) -> Term:
        """Of the next round, if this node leads that too."""
        lost = len(self._lost)
        return next_term(
            self._meeting, self._restart, self._known(), leads=True, is_smaller=lost > 0
        )

    def retire(self) -> None:
        """Leave the door to the next round; who was in this one hangs up by itself."""
        self._control.regularly = None
        self._door.open_to(None)
        for channel in self._others.values():
            channel.is_retired = True
        for channel, _ in self._here():
            self._door.keep(channel, self._letters[channel])

    def settle(self, summary: Summary) -> Verdict:
        """Who has waited in vain is told as well."""
        verdict = super().settle(summary)
        if not verdict.again:
            for channel, _ in self._here():
                channel.send({"over": verdict._asdict()})
        return verdict

    def _known(self) -> int:
        return self._size - sum(self._others[node].is_dead for node in self._lost)

    def _here(self) -> List[Tuple[Channel, Hello]]:
        return [pair for pair in self._waiting if pair[0].open]

    def _are_all_here(self) -> bool:
        if self._led is not None:
            raise Moved(self._led)
        if self._herald is not None:
            self._herald.tell()
        now, term, here = time.monotonic(), self._term, self._here()
        if 1 + len(here) < term.needed:
            self._last_call_at = None
            return False
        if self._last_call_at is None:
            self._last_call_at = now + term.last_call_s
        is_full = 1 + len(here) >= self._meeting.nodes
        is_safe = self._rejoined >= term.expected or now >= term.patient_until
        if now < term.earliest or not is_safe or not (is_full or now >= self._last_call_at):
            return False
        self._size = min(1 + len(here), self._meeting.nodes)
        self._waiting = here[self._size - 1 :]
        for node, (channel, hello) in enumerate(here[: self._size - 1], start=1):
            self._others[node], self._hellos[node] = channel, hello
        return True

    def _let_all_go(self) -> Group:
        numbers = range(self._size)
        self.doors = [(self._address_of(node), self._hellos[node].door) for node in numbers]
        self._tell({"doors": self.doors})
        for channel, _ in self._waiting:
            self._put_off(channel)
        return super()._let_all_go()

    def _who_is_missing(self) -> str:
        count = 1 + len(self._here())
        return f"{count} of at least {self._term.needed} nodes are here: the others"

    def _welcome(self, channel: Channel, message: Optional[Message]) -> None:
        if message is not None and "lead" in message:
            self._hear_of_another(message)
            return
        before = len(self._waiting)
        super()._welcome(channel, message)
        if message is None or len(self._waiting) == before:
            return
        self._letters[channel] = message
        self._rejoined += message.get("was") == self._term.restart - 1
        if self._running:
            self._make_room(channel)

    def _make_room(self, channel: Channel) -> None:
        is_full = self._size - len(self._lost) >= self._meeting.nodes
        if is_full or self._restarts_left() <= 0:
            self._put_off(channel)
        elif self._ending_at is None:
            self._came = f"another node has come ({channel.address})"
            self._end_all(self._came, signal.SIGTERM, "node-came")

    def _put_off(self, channel: Channel) -> None:
        channel.send({"wait": "the run has begun; this node waits until it is needed"})

    def _hear_of_another(self, message: Message) -> None:
        where = address_in(message["lead"])
        is_ours = message.get("id") == self._meeting.key
        if not self._running and is_ours and where is not None and where not in self._former:
            self._led = where

    def _tick(self) -> None:
        is_due = time.monotonic() - self._beat_at >= BEAT_S
        super()._tick()
        if not is_due:
            return
        for channel, _ in self._here():
            channel.send({"beat": time.monotonic()})
        if self._herald is not None:
            self._herald.tell()

    def _judge(self) -> Verdict:
        verdict = super()._judge()
        is_stopped = any(summary.stop is not None for summary in self._summaries.values())
        if verdict.again or is_stopped or self._restarts_left() <= 0:
            return verdict
        if self._lost:
            if 2 * (self._size - len(self._lost)) < self._known():
                words = f"{verdict.reason}: too few are left, the others may go on without them"
                return verdict._replace(reason=words)
            return verdict._replace(again=True)
        ends = [end for summary in self._summaries.values() for end in summary.codes or [(None, 1)]]
        if self._came is not None and not self._failures and any(code for _, code in ends):
            return Verdict("failed", "run-again", self._came, verdict.code, again=True)
        return verdict


class _Herald:
    """Tells whoever comes to the address where the run began that it is led from elsewhere now."""

    def __init__(self, meeting: Meeting, where: Address) -> None:
        lead = (meeting.master, meeting.port)
        words = {"jumar": PROTOCOL, "id": meeting.key, "lead": lead}
        self._words = json.dumps(words).encode() + b"\n"
        self._where = where
        self._socket: Optional[socket.socket] = None
        self._begun_at = -math.inf

    def tell(self) -> None:
        """Never waits: each call goes a step further."""
        now = time.monotonic()
        if self._socket is None:
            if now - self._begun_at >= BEAT_S / 2:
                self._begun_at = now
                self._socket = self._begin()
        elif self._is_told(self._socket) or now - self._begun_at > SEND_LIMIT_S:
            self._socket.close()
            self._socket = None

    def _begin(self) -> Optional[socket.socket]:
        family = socket.AF_INET6 if ":" in self._where[0] else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setblocking(False)
        try:
            if made.connect_ex(self._where) in (0, errno.EINPROGRESS):
                return made
        except OSError:
            # A name that nobody knows at the moment.
            pass
        made.close()
        return None

    def _is_told(self, made: socket.socket) -> bool:
        """Or cannot be."""
        try:
            made.send(self._words)
        except BlockingIOError:
            return False
        except OSError as error:
            return error.errno != errno.ENOTCONN
        return True


class RoundMember(Member):
    """It may be put off, or sent elsewhere, before it is let go."""

    def __init__(
        self,
        meeting: Meeting,
        control: Control,
        say: Callable[[str], None],
        was: int,
        connect_limit_s: float,
        *,
        has_door: bool,
    ) -> None:
        """`was`: the number of the last round that it was in. `has_door`: the node there has listened, so
        it is dead when it does not."""
        super().__init__(meeting, control, say)
        self.connect_limit_s = connect_limit_s
        self._was, self._has_door = was, has_door
        self.doors: List[Address] = []
        self.is_put_off = False

    @property
    def is_leader_lost(self) -> bool:
        """Dead or silent."""
        return self._leader_lost

    @property
    def is_leader_dead(self) -> bool:
        """Not just silent."""
        return self._others[0].is_dead

    def _greeting(self, hello: Hello) -> Message:
        return {**super()._greeting(hello), "was": self._was}

    def _receive(self, channel: Channel, message: Optional[Message]) -> None:
        if message is None or self._go is not None or "beat" in message:
            super()._receive(channel, message)
        elif "moved" in message:
            where = address_in(message["moved"])
            if where is not None:
                raise Moved(where)
        elif "over" in message:
            raise Over(Verdict(**message["over"]))
        elif "doors" in message:
            self.doors = [(str(host), int(port)) for host, port in message["doors"]]
        elif "wait" in message:
            self._say(str(message["wait"]))
            self.is_put_off, self._join_until = True, math.inf
            self._begin()
        else:
            super()._receive(channel, message)


def address_in(value: object) -> Optional[Address]:
    """As another node has sent it."""
    if not isinstance(value, list) or len(value) != 2:  # pyright: ignore[reportUnknownArgumentType]
        return None
    host, port = value  # pyright: ignore[reportUnknownVariableType]
    return (host, port) if isinstance(host, str) and isinstance(port, int) else None
