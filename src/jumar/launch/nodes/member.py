"""Any node but node 0: it holds one connection to node 0 and does what it says."""

import socket
import time
from typing import Callable, Optional

from jumar.launch.judge import judge
from jumar.launch.nodes.channel import BEAT_S, PROTOCOL, Channel, Connected
from jumar.launch.nodes.team import Dead, Hello, Meeting, Message, NotTogether, Refused
from jumar.launch.processes.control import Control, Stop
from jumar.launch.ranks.frameworks import Group
from jumar.launch.verdict import Summary, Verdict


class Member(Connected):
    """Any other node of several."""

    def __init__(self, meeting: Meeting, control: Control, say: Callable[[str], None]) -> None:
        super().__init__(meeting, control, say)
        self._go: Optional[Group] = None
        self._refused: Optional[str] = None
        self._verdict: Optional[Verdict] = None
        self._shared_is_ready = False
        self._all_are_ready = False
        self._port = 0
        self._leader_lost = False
        self.connect_limit_s = meeting.join_limit_s
        self._join_until = 0.0
        self._is_answered = False
        self._has_door = False
        """Whether node 0 is known to listen as long as it lives."""

    def join(self, hello: Hello) -> Group:
        """Find node 0, say hello and wait to be let go."""
        self._join_until = time.monotonic() + self._meeting.join_limit_s
        self._others[0] = self._connect(time.monotonic() + self.connect_limit_s)
        self._tell(self._greeting(hello))
        while self._go is None:
            self._control.check()
            if self._refused:
                raise Refused(f"node 0 says: {self._refused}")
            if self._leader_lost:
                raise NotTogether("node 0 hung up" if self._is_answered else self._stranger())
            if time.monotonic() >= self._join_until:
                limit_s = self._meeting.join_limit_s
                words = f"the other nodes did not join within {limit_s:g} s"
                raise NotTogether(words if self._is_answered else self._stranger())
            self._control.wait(1.0)
        self._begin()
        return self._go

    def _stranger(self) -> str:
        where = f"port {self._meeting.port} of {self._meeting.master}"
        return (
            f"{where} is taken by another program, which does not answer as node 0 does;"
            " give another one with --rdzv, on every node"
        )

    def _greeting(self, hello: Hello) -> Message:
        meeting = self._meeting
        return {
            "jumar": PROTOCOL,
            "clock": time.monotonic(),
            "id": meeting.key,
            "nodes": meeting.nodes,
            "least": meeting.least,
            "node": meeting.node,
            "size": hello.size,
            "part": hello.part,
            "door": hello.door,
        }

    def once(self, prepare: Callable[[], None]) -> None:
        """Node 0 does it."""
        self._until(lambda: self._shared_is_ready)

    def gather(self) -> None:
        """Node 0 counts."""
        self._tell({"ready": 1})
        self._until(lambda: self._all_are_ready)

    def failed(self, failure: Verdict) -> None:
        """Node 0 tells the others."""
        self._tell({"failed": failure._asdict()})

    def idle(self, is_so: bool) -> None:
        """Node 0 knows of the others."""
        self._tell({"idle": is_so})

    def held(self) -> None:
        """Node 0 waits for all."""
        self._tell({"held": 1})

    def settle(self, summary: Summary) -> Verdict:
        """Tell how it went here and wait for what node 0 makes of it."""
        self._tell({"summary": summary.as_json()})
        while self._verdict is None:
            if self._leader_lost:
                lost = {0: f"0 ({self._meeting.master})"}
                return judge([], [summary], lost, restarts_left=0, nodes=self._meeting.nodes)
            self._control.wait(BEAT_S / 2)
        return self._next_round(self._verdict)

    def again(self, before: Group) -> Group:
        """On the port that node 0 has chosen."""
        self._verdict = None
        if self._leader_lost:
            self._ask_for_end()
        return before._replace(restart=self._restart, port=self._port)

    def _pass_on(self, stop: Stop) -> None:
        self._tell({"stop": stop.why, "signal": int(stop.signal)})

    def _connect(self, until: float) -> Channel:
        where = (self._meeting.master, self._meeting.port)
        while True:
            try:
                connection = socket.create_connection(where, timeout=3)
                return Channel(connection, where[0], self._control, self._receive)
            except OSError as error:
                is_dead = isinstance(error, ConnectionRefusedError)
                if time.monotonic() >= until or (is_dead and self._has_door):
                    kind = Dead if is_dead else NotTogether
                    words = f"node 0 does not answer at {where[0]}:{where[1]}: {error}"
                    raise kind(words) from error
            self._control.pause(0.1)
            self._control.check()

    def _ask_for_end(self) -> None:
        self._control.ask(Stop("node-lost", words=f"node 0 ({self._meeting.master}) was lost"))

    def _receive(self, channel: Channel, message: Optional[Message]) -> None:
        self._is_answered = self._is_answered or message is not None
        if message is None:
            self._leader_lost = True
            if self._go is not None and self._verdict is None:
                self._ask_for_end()
        elif "go" in message:
            self._go, self.parts = Group(**message["go"]), message["parts"]
        elif "refuse" in message:
            self._refused = str(message["refuse"])
        elif "shared" in message:
            self._shared_is_ready = True
        elif "start" in message:
            self._all_are_ready = True
        elif "hold" in message:
            self._must_hold = True
        elif "end" in message:
            stop = Stop(str(message["end"]), int(message["signal"]), str(message["words"]))
            self._control.ask(stop)
        elif "verdict" in message:
            self._port = int(message["port"])
            self._verdict = Verdict(**message["verdict"])
