"""How the nodes of one run act as one: they come together, end together, and agree on the result.

Here is what a node does alone; `host` is node 0 of several and `guest` any other."""

from typing import Any, Callable, Dict, List, NamedTuple, Optional

from jumar.launch.options import Options
from jumar.launch.processes.control import Control, Stop
from jumar.launch.ranks.environment import free_port
from jumar.launch.ranks.frameworks import Group
from jumar.launch.verdict.verdict import Report, Summary, Verdict, judge

Message = Dict[str, Any]


class NotTogether(Exception):
    """The nodes did not come together."""


class Hello(NamedTuple):
    """What a node says of itself."""

    size: int
    part: Optional[Message]
    """Its part of the rank table."""


class Team:
    """A node alone."""

    def __init__(self, options: Options, control: Control, say: Callable[[str], None]) -> None:
        self._options = options
        self._control = control
        self._say = say
        self._restart = 0
        self._reports: List[Report] = []
        self.parts: List[Optional[Message]] = []
        """The rank table parts of all nodes, once they are together."""

    def join(self, hello: Hello) -> Group:
        """Wait until all nodes are there; raises NotTogether."""
        self.parts = [hello.part]
        return self._group(0, [hello.size], self._master_port(), self._options.master)

    def failed(self, report: Report) -> None:
        """A rank of this node failed by itself."""
        self._reports.append(report)

    def stopping(self, stop: Stop) -> None:
        """This node was asked from outside to end its ranks."""

    def tick(self) -> None:
        """Called at least every half second."""

    def settle(self, summary: Summary) -> Verdict:
        """All ranks of this node have ended; what comes of the run."""
        return self._next_round(judge(self._reports, [summary], [], self._restarts_left()))

    def again(self, before: Group) -> Group:
        """The group of the next round, after a verdict that wants one."""
        return before._replace(restart=self._restart, port=self._master_port())

    def close(self) -> None:
        """Let go of connections."""

    def _restarts_left(self) -> int:
        return self._options.restarts - self._restart

    def _next_round(self, verdict: Verdict) -> Verdict:
        if verdict.again:
            self._restart += 1
            self._reports = []
        return verdict

    def _master_port(self) -> int:
        return self._options.port or free_port()

    def _group(self, node: int, counts: List[int], port: int, address: str) -> Group:
        return Group(
            node=node,
            nodes=self._options.nodes,
            first_rank=sum(counts[:node]),
            local_count=counts[node],
            world_size=sum(counts),
            master=self._options.master,
            port=port,
            address=address,
            run_id=self._options.run_id,
            restart=self._restart,
            most_restarts=self._options.restarts,
        )
