"""Node 0 of several: it listens, numbers the nodes, and decides for all."""

import signal
import socket
import time
from typing import Callable, Dict, List, Optional, Sequence, Set, Tuple

from jumar.launch.judge import judge
from jumar.launch.nodes.channel import BEAT_S, PROTOCOL, SEND_LIMIT_S, Channel, Connected
from jumar.launch.nodes.door import Door
from jumar.launch.nodes.team import (
    PEER_WAIT_S,
    Hello,
    Meeting,
    Message,
    NotTogether,
    free_port,
    group_of,
)
from jumar.launch.processes.control import HANG, Control, Stop
from jumar.launch.ranks.frameworks import Group
from jumar.launch.verdict import Summary, Verdict

_FAREWELL_S = 2.0


class Leader(Connected):
    """Node 0 of several."""

    def __init__(
        self, meeting: Meeting, control: Control, say: Callable[[str], None], door: Door
    ) -> None:
        super().__init__(meeting, control, say)
        self._size = meeting.nodes
        """How many nodes there are in this round."""
        self._hellos: Dict[int, Hello] = {}
        self._waiting: List[Tuple[Channel, Hello]] = []
        self._prepared: Set[int] = set()
        self._summaries: Dict[int, Summary] = {}
        self._lost: Dict[int, str] = {}
        self._idle: Set[int] = set()
        self._held: Set[int] = set()
        self._running = False
        self._ending_at: Optional[float] = None
        self._end_at: Optional[Tuple[float, str]] = None
        """When all are ended for a failure that cannot be the cause, and its words."""
        self._done: Optional[Tuple[int, float]] = None
        """The node whose ranks were done last, and when; None once others were named as late."""
        self._port = 0
        self._door = door
        door.open_to(self._receive)

    def join(self, hello: Hello) -> Group:
        """Wait for a hello of each other node, then let all go."""
        self._hellos[0] = hello
        until = time.monotonic() + self._meeting.join_limit_s
        while not self._are_all_here():
            self._control.check()
            self._control.wait(min(1.0, until - time.monotonic()))
            if time.monotonic() >= until:
                within = f"within {self._meeting.join_limit_s:g} s"
                raise NotTogether(f"{self._who_is_missing()} did not join {within}")
        return self._let_all_go()

    def _let_all_go(self) -> Group:
        counts = [self._hellos[node].size for node in range(self._size)]
        self.parts = [self._hellos[node].part for node in range(self._size)]
        port = self._master_port()
        mine, *others = [
            group_of(self._meeting, node, counts, port, self._address_of(node))._replace(
                restart=self._restart
            )
            for node in range(self._size)
        ]
        for group in others:
            self._others[group.node].send({"go": group._asdict(), "parts": self.parts})
        self._running = True
        self._begin()
        return mine

    def _address_of(self, node: int) -> str:
        return self._others[node].address if node else self._meeting.master

    def _are_all_here(self) -> bool:
        self._number_nodes()
        return len(self._hellos) == self._size

    def _who_is_missing(self) -> str:
        return _names([node for node in range(self._size) if node not in self._hellos])

    def once(self, prepare: Callable[[], None]) -> None:
        """Here, and now; then the others may go on."""
        prepare()
        self._tell({"shared": 1})

    def gather(self) -> None:
        """Wait for a word of each other node, then let all start."""
        self._until(lambda: len(self._prepared) == self._size - 1)
        self._tell({"start": 1})

    def failed(self, failure: Verdict) -> None:
        """All nodes end when one rank fails."""
        super().failed(failure)
        words = f"{failure.reason} (node {failure.node})"
        if not failure.is_consequence:
            self._end_all(words, signal.SIGTERM)
        elif self._end_at is None:
            # Whoever is missed may still say why.
            wait_s = min(PEER_WAIT_S, self._meeting.grace_s)
            self._end_at = (time.monotonic() + wait_s, words)

    def idle(self, is_so: bool) -> None:
        """When no node does anything, all have hung."""
        self._note_idle(0, is_so)

    def _note_idle(self, node: int, is_so: bool) -> None:
        (self._idle.add if is_so else self._idle.discard)(node)
        if len(self._idle) == self._size and not self._must_hold:
            self._must_hold = True
            self._tell({"hold": 1})

    def held(self) -> None:
        """When no rank of any node can leave its place, all are made to write it down."""
        self._held.add(0)

    def _end_who_hang(self) -> None:
        still = self._held.union(self._summaries, self._lost)
        if self._must_hold and self._ending_at is None and len(still) == self._size:
            self._end_all(HANG.words, HANG.signal, HANG.why)

    def settle(self, summary: Summary) -> Verdict:
        """Wait for the other nodes' ranks, then decide for all."""
        self._take_summary(0, summary)
        while len(self._summaries) + len(self._lost) < self._size:
            self._control.wait(BEAT_S / 2)
            self._give_up_on_late_nodes()
        verdict = self._next_round(self._judge())
        self._summaries, self._ending_at, self._done, self._end_at = {}, None, None, None
        self._idle.clear()
        self._held.clear()
        self._port = self._master_port() if verdict.again else 0
        self._tell({"verdict": verdict._asdict(), "port": self._port})
        self._running = verdict.again
        return verdict

    def _judge(self) -> Verdict:
        return judge(
            self._failures,
            [self._summaries[node] for node in sorted(self._summaries)],
            {node: self._lost[node] for node in sorted(self._lost)},
            restarts_left=self._restarts_left(),
            nodes=self._size,
        )

    def again(self, before: Group) -> Group:
        """On the port that all nodes were told."""
        return before._replace(restart=self._restart, port=self._port)

    def close(self) -> None:
        """Hang up last: what others have not read yet would be lost."""
        self._control.regularly = None
        until = time.monotonic() + _FAREWELL_S
        while any(one.open for one in self._others.values()) and time.monotonic() < until:
            self._control.wait(until - time.monotonic())
        super().close()
        self._running = False
        self._door.close()

    def _pass_on(self, stop: Stop) -> None:
        self._end_all("another node was told to end", stop.signal, stop.why)

    def _tick(self) -> None:
        super()._tick()
        if self._end_at is not None and time.monotonic() >= self._end_at[0]:
            self._end_all(self._end_at[1], signal.SIGTERM)
        self._end_who_hang()
        self._name_late_nodes(time.monotonic())

    def _master_port(self) -> int:
        """Next to the port that the administrator has opened, so that it may be opened too."""
        for port in range(self._meeting.port + 1, self._meeting.port + 64):
            with socket.socket(self._door.family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("", port))
                except OSError:
                    continue
                return port
        return free_port()

    def _receive(self, channel: Channel, message: Optional[Message]) -> None:
        node = next((node for node, known in self._others.items() if known is channel), None)
        if node is None:
            self._welcome(channel, message)
        elif message is None:
            self._gone(node, channel)
        else:
            try:
                self._heed(node, channel, message)
            except (KeyError, TypeError, ValueError):
                # Nothing that a launcher says: whoever it is, the run does not have that node.
                channel.close()
                self._gone(node, channel)

    def _heed(self, node: int, channel: Channel, message: Message) -> None:
        if "beat" in message:
            channel.compare_clocks(float(message["beat"]))
        elif "failed" in message:
            failure = Verdict(**message["failed"])
            self.failed(failure._replace(at=failure.at + channel.behind_s))
        elif "idle" in message:
            self._note_idle(node, bool(message["idle"]))
        elif "held" in message:
            self._held.add(node)
        elif "ready" in message:
            self._prepared.add(node)
        elif "stop" in message:
            words = f"node {node} was told to end"
            self._end_all(words, int(message["signal"]), str(message["stop"]))
        elif "summary" in message:
            self._take_summary(node, Summary.from_json(message["summary"], channel.behind_s))

    def _welcome(self, channel: Channel, message: Optional[Message]) -> None:
        if message is None or "beat" in message:
            return
        refusal = self._refusal(message)
        if refusal is not None:
            channel.send({"refuse": refusal})
            channel.close()
            return
        channel.compare_clocks(message["clock"])
        # So that it knows who listens here, however long the others take.
        channel.send({"beat": time.monotonic()})
        hello = Hello(message["size"], message["part"], message["door"])
        if message["node"] is None:
            self._waiting.append((channel, hello))
        else:
            self._others[message["node"]] = channel
            self._hellos[message["node"]] = hello

    def _refusal(self, message: Message) -> Optional[str]:
        meeting = self._meeting
        if message.get("jumar") != PROTOCOL or not _is_hello(message, meeting.nodes):
            return "not a launcher of this version"
        if message.get("id") != meeting.key:
            # Its own id is for those who know it: whoever has it may speak as a node.
            return f"the run here has another id than {str(message.get('id'))[:200]!r}"
        if message.get("nodes") != meeting.nodes:
            return f"this run has {meeting.nodes} nodes, not {message.get('nodes')}"
        if message.get("least") != meeting.least:
            return f"this run needs {meeting.least} nodes, not {message.get('least')}"
        if self._running and meeting.least is None:
            return "the run has begun without you"
        if message["node"] in self._hellos:
            return f"node {message['node']} is there already"
        return None

    def _number_nodes(self) -> None:
        """Nodes that do not know their number get those that nobody claims, as they came."""
        waiting = [pair for pair in self._waiting if pair[0].open]
        if not waiting or len(self._hellos) + len(waiting) < self._meeting.nodes:
            return
        free = [node for node in range(self._meeting.nodes) if node not in self._hellos]
        for node, (channel, hello) in zip(free, waiting):
            self._others[node], self._hellos[node] = channel, hello
        self._waiting = []

    def _gone(self, node: int, channel: Channel) -> None:
        if not self._running:
            self._others.pop(node, None)
            self._hellos.pop(node, None)
        elif node not in self._lost:
            self._lost[node] = f"{node} ({channel.address})"
            self._summaries.pop(node, None)
            self._end_all(f"node {self._lost[node]} was lost", signal.SIGTERM, "node-lost")

    def _end_all(self, words: str, number: int, why: str = "peer-failed") -> None:
        if self._ending_at is None:
            self._ending_at = time.monotonic()
            self._tell({"end": why, "words": words, "signal": number})
        self._control.ask(Stop(why, number, words))

    def _take_summary(self, node: int, summary: Summary) -> None:
        self._summaries[node] = summary
        self._done = (node, time.monotonic())

    def _name_late_nodes(self, now: float) -> None:
        """Of ranks that hang while others of their own node are done, that node speaks itself."""
        if self._done is None or self._ending_at is not None:
            return
        done, since = self._done
        if now - since >= self._meeting.straggler_s:
            self._done = None
            late = [node for node in range(self._size) if node not in self._summaries]
            if late:
                words = f"still running {now - since:.0f} s after node {done} was done"
                self._say(f"{words}: {_names(late)}")

    def _give_up_on_late_nodes(self) -> None:
        if self._ending_at is None:
            return
        if time.monotonic() - self._ending_at > self._meeting.grace_s + SEND_LIMIT_S:
            for node, channel in list(self._others.items()):
                if node not in self._summaries and channel.open:
                    channel.close()
                    self._gone(node, channel)


def _names(nodes: Sequence[int]) -> str:
    return f"node{'s' if len(nodes) > 1 else ''} {', '.join(map(str, nodes))}"


def _is_hello(message: Message, nodes: int) -> bool:
    """Anybody may connect, and say anything."""
    node, size, part = (message.get(name, "") for name in ("node", "size", "part"))
    return (
        (node is None or (isinstance(node, int) and 0 <= node < nodes))
        and isinstance(size, int)
        and size > 0
        and (part is None or isinstance(part, dict))
        and isinstance(message.get("clock"), float)
        and isinstance(message.get("door"), int)
    )
