"""Any node but node 0: it holds one connection to node 0 and does what it says."""

import socket
import time
from typing import Callable, Optional

from jumar.launch.nodes.channel import BEAT_S, Channel
from jumar.launch.nodes.team import Hello, Message, NotTogether, Team
from jumar.launch.options import Options
from jumar.launch.processes.control import Control, Stop
from jumar.launch.ranks.frameworks import Group
from jumar.launch.verdict.verdict import Report, Summary, Verdict, judge


class Guest(Team):
    """Any other node of several."""

    def __init__(self, options: Options, control: Control, say: Callable[[str], None]) -> None:
        super().__init__(options, control, say)
        self._channel: Optional[Channel] = None
        self._go: Optional[Group] = None
        self._refused: Optional[str] = None
        self._verdict: Optional[Verdict] = None
        self._port = 0
        self._host_lost = False
        self._beat_at = 0.0

    def join(self, hello: Hello) -> Group:
        """Find node 0, say hello and wait to be let go."""
        options = self._options
        until = time.monotonic() + options.join_limit_s
        self._channel = self._connect(until)
        self._channel.send(
            {
                "jumar": 1,
                "id": options.run_id,
                "nodes": options.nodes,
                "node": options.node,
                "size": hello.size,
                "part": hello.part,
            }
        )
        while self._go is None:
            self._control.check()
            if self._refused or self._host_lost:
                raise NotTogether(f"node 0 says: {self._refused or 'nothing, and hung up'}")
            if time.monotonic() >= until:
                raise NotTogether(f"the other nodes did not come within {options.join_limit_s:g} s")
            self._control.wait(until - time.monotonic())
        return self._go

    def failed(self, report: Report) -> None:
        """Node 0 tells the others."""
        self._tell({"failed": report._asdict()})

    def stopping(self, stop: Stop) -> None:
        """A signal to one node is meant for all."""
        self._tell({"stop": int(stop.signal)})

    def tick(self) -> None:
        """Show a sign of life, and look for that of node 0."""
        now = time.monotonic()
        if now - self._beat_at >= BEAT_S:
            self._beat_at = now
            self._tell({"beat": 1})
        channel = self._channel
        if channel and channel.open and now - channel.seen_at > self._options.node_limit_s:
            channel.close()
            self._receive(channel, None)

    def settle(self, summary: Summary) -> Verdict:
        """Tell how it went here and wait for what node 0 makes of it."""
        self._verdict = None
        self._tell({"summary": summary._asdict()})
        while self._verdict is None:
            if self._host_lost:
                return judge([], [summary], [f"node 0 ({self._options.master})"], 0)
            self._control.wait(BEAT_S / 2)
            self.tick()
        return self._next_round(self._verdict)

    def again(self, before: Group) -> Group:
        """On the port that node 0 has chosen."""
        self._verdict = None
        return before._replace(restart=self._restart, port=self._port)

    def close(self) -> None:
        """Hang up."""
        if self._channel is not None:
            self._channel.close()

    def _connect(self, until: float) -> Channel:
        where = (self._options.master, self._options.port)
        while True:
            try:
                connection = socket.create_connection(where, timeout=3)
                return Channel(connection, where[0], self._control, self._receive)
            except OSError as error:
                if time.monotonic() >= until:
                    raise NotTogether(
                        f"node 0 does not answer at {where[0]}:{where[1]}: {error}"
                    ) from error
            self._control.pause(0.1)
            self._control.check()

    def _tell(self, message: Message) -> None:
        if self._channel is not None:
            self._channel.send(message)

    def _receive(self, channel: Channel, message: Optional[Message]) -> None:
        if message is None:
            self._host_lost = True
            if self._go is not None and self._verdict is None:
                words = f"node 0 ({self._options.master}) was lost"
                self._control.ask(Stop("node-lost", words=words))
        elif "go" in message:
            self._go, self.parts = Group(**message["go"]), message["parts"]
        elif "refuse" in message:
            self._refused = str(message["refuse"])
        elif "end" in message:
            stop = Stop(str(message["end"]), int(message["signal"]), str(message["words"]))
            self._control.ask(stop)
        elif "verdict" in message:
            self._port = int(message["port"])
            self._verdict = Verdict.from_json(message["verdict"])
