"""One node of a run, from the meeting with the others to the verdict for all.

The supervisor's way, whoever asked for the run: `attempt` (a job directory) and `command_line` say
what to run and who hears of it."""

import os
import time
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from jumar.launch.faults import LogTail, accused_in, stuck_in
from jumar.launch.judge import judge
from jumar.launch.nodes.team import PEER_WAIT_S, Hello, Meeting, NotTogether, Over, Team
from jumar.launch.processes import process
from jumar.launch.processes.container import is_elsewhere
from jumar.launch.processes.control import HANG, Control, Interrupted
from jumar.launch.processes.left_behind import IDLE_LIMIT_S, cpu_ticks
from jumar.launch.processes.supervise import Exit, Listener, Outcome, Rank, supervise
from jumar.launch.processes.tree import Tree
from jumar.launch.ranks.frameworks import Group
from jumar.launch.ranks.plan import NodePlan
from jumar.launch.verdict import (
    SetupFailed,
    Verdict,
    apart,
    failure_of,
    failure_of_left,
    launcher_killed,
    not_started,
    other_of,
    setup_failed,
    summarize,
)

_UNKNOWN = (
    "each rank only misses others, and none says why; TORCH_DISTRIBUTED_DEBUG=DETAIL in the environment"
    " makes torch name the ranks whose collectives differ"
)
_PULSE_LOOKS = 20
_IDLE_SHARE = 0.02
"""Of a core, per rank: threads that only look whether others live need that much."""
_IDLE_BYTES = 4096
"""Per rank between two looks, as such threads write."""


class Pulse:
    """Whether the ranks of this node, the processes below this one, do anything: lines in their `logs`, CPU time,
    bytes read or written. Looks are counted, not seconds: a machine that slept has not seen anybody hang."""

    def __init__(self, logs: Sequence[str], limit_s: float) -> None:
        self._logs = logs
        self._pause_s = limit_s / _PULSE_LOOKS
        self._look_at = time.monotonic() + self._pause_s
        self._before: Optional[Tuple[int, int, int]] = None
        self._quiet_looks = 0

    def has_stopped(self) -> bool:
        """Whether nothing was seen for the whole limit; cheap when no look is due."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + self._pause_s
            self._quiet_looks = self._quiet_looks + 1 if self._is_quiet() else 0
        return self._quiet_looks >= _PULSE_LOOKS

    def _is_quiet(self) -> bool:
        pids = [stat.pid for stat in process.descendants(os.getpid()) if not stat.is_dead]
        ticks = sum(cpu_ticks(pid) for pid in pids)
        seen = (ticks, sum(map(_bytes_of, pids)), sum(map(_size, self._logs)))
        before, self._before = self._before, seen
        if before is None or seen[2] != before[2]:
            return False
        ranks = len(self._logs)
        most_ticks = _IDLE_SHARE * ranks * self._pause_s * os.sysconf("SC_CLK_TCK") + 1
        # Less than before: a process has ended, so something happens.
        return (
            0 <= seen[0] - before[0] <= most_ticks
            and 0 <= seen[1] - before[1] <= _IDLE_BYTES * ranks
        )


class NodeRun(Listener):
    """One run of this node's ranks; `run_node` once."""

    def __init__(self, meeting: Meeting, control: Control, tree: Tree) -> None:
        self.meeting = meeting
        self.control = control
        self.tree = tree
        self.team: Team = Team(meeting, control, self.say)
        self.tails: Dict[int, LogTail] = {}
        """By rank, what it has written in this round."""
        self.ranks: List[Rank] = []
        """Those of this round."""
        self.idle_limit_s = IDLE_LIMIT_S
        self._node, self._address = meeting.node or 0, meeting.master
        self._done_at: Optional[float] = None
        self._pulse: Optional[Pulse] = None
        self._is_idle = False
        self._is_clear = False
        """Whether a rank of this node has failed by a fault of its own."""

    def hello(self) -> Hello:
        """What the other nodes must know of this one; raises SetupFailed."""
        raise NotImplementedError

    def prepare(self, group: Group) -> NodePlan:
        """Make everything ready; raises SetupFailed."""
        raise NotImplementedError

    def helpers(self) -> List[Rank]:
        """What runs beside the ranks, and ends with them."""
        return []

    def say(self, words: str) -> None:
        """Tell whoever has asked for the run."""

    def name_of_ranks(self) -> Optional[str]:
        """What stands for a rank's number where that says nothing."""
        return None

    def has_cuda(self) -> bool:
        """Whether the ranks should find CUDA, or something that stands for it."""
        return True

    def is_disk_full(self) -> bool:
        """Whether the ranks may have failed for want of room."""
        return False

    def concluded(self, outcome: Outcome, verdict: Verdict) -> None:
        """The last round is over."""

    def run_node(self) -> Verdict:
        """Meet, prepare, run, and agree on how it ended."""
        try:
            outcome, verdict = self._run()
        finally:
            self.team.close()
        self.concluded(outcome, verdict)
        if verdict.is_consequence and accused_in(verdict.tail) is None:
            self.say(_UNKNOWN)
        return verdict

    def _run(self) -> Tuple[Outcome, Verdict]:
        outcome = Outcome(())
        try:
            self.control.check()
            self.team = _make_team(self.meeting, self.control, self.say)
            group = self.team.join(self.hello())
        except NotTogether as error:
            return outcome, apart(str(error))
        except Over as over:
            return outcome, over.verdict
        except SetupFailed as failure:
            return outcome, self._judged_alone(outcome, [setup_failed(self._node, failure)])
        except Interrupted as interruption:
            outcome = Outcome((), interruption.stop)
            return outcome, self._judged_alone(outcome, [])
        if self.meeting.least is not None:
            self.say(f"{_world(group)}, of {self.meeting.least} to {self.meeting.nodes} nodes")
        return self._rounds(group)

    def _rounds(self, group: Group) -> Tuple[Outcome, Verdict]:
        plan: Optional[NodePlan] = None
        while True:
            self._node, self._address = group.node, group.address
            plan, outcome, verdict = self._one_round(plan, group)
            if not verdict.again:
                return outcome, verdict
            self.control.resume()
            before = group
            try:
                group = self.team.again(before)
            except NotTogether as error:
                return outcome, apart(f"{verdict.reason}, and {error}")
            except Over as over:
                return outcome, over.verdict
            except Interrupted as interruption:
                outcome = Outcome((), interruption.stop)
                return outcome, self._judged_alone(outcome, [])
            change = "" if _world(group) == _world(before) else f": {_world(group)}"
            self.say(
                f"{verdict.reason}; all ranks are started again"
                f" ({group.restart} of at most {self.meeting.restarts}){change}"
            )
            if self.meeting.least is not None:
                plan = None

    def _one_round(
        self, plan: Optional[NodePlan], group: Group
    ) -> Tuple[Optional[NodePlan], Outcome, Verdict]:
        outcome = Outcome(())
        try:
            if plan is None:
                plan = self.prepare(group)
                self.team.gather()
        except SetupFailed as failure:
            self.team.failed(setup_failed(self._node, failure))
        except Interrupted as interruption:
            outcome = Outcome((), interruption.stop)
        else:
            outcome = self._round(plan.ranks(group))
        return plan, outcome, self._settled(outcome)

    def _round(self, ranks: List[Rank]) -> Outcome:
        self._done_at, self._is_clear = None, False
        self.ranks = ranks
        self.tails = {rank.rank: LogTail(rank.program.log) for rank in ranks}
        self._pulse, self._is_idle = self._take_pulse(ranks), False
        outcome = supervise(
            [*ranks, *self.helpers()],
            self.control,
            self.tree,
            grace_s=self.meeting.grace_s,
            listener=self,
            idle_limit_s=self.idle_limit_s,
        )
        if outcome.not_started is not None and not _is_abandoned(outcome):
            rank, error = outcome.not_started
            log = self.tails[rank].path
            self.team.failed(not_started(self._node, rank, error, log))
        return outcome

    def _take_pulse(self, ranks: List[Rank]) -> Optional[Pulse]:
        """One process alone may be a service that waits to be asked."""
        is_group = self.meeting.nodes > 1 or len(ranks) > 1
        if not self.meeting.hang_limit_s or not is_group or any(rank.is_starter for rank in ranks):
            return None
        contained = [rank.program for rank in ranks if rank.program.enter]
        if any(map(is_elsewhere, contained)):
            # Whether they do anything cannot be seen.
            return None
        return Pulse([rank.program.log for rank in ranks], self.meeting.hang_limit_s)

    def _settled(self, outcome: Outcome) -> Verdict:
        if _is_abandoned(outcome):
            return launcher_killed("keeper", self._node, self.meeting.nodes, self._address)
        left = None
        if outcome.left_failure is not None:
            process, exit_ = outcome.left_failure
            log = self.tails[exit_.rank]
            left = failure_of_left(self._node, process, exit_, log, self.is_disk_full())
        others: List[Optional[Verdict]] = []
        if any(exit_.failed for exit_ in outcome.exits):
            quiet = [exit_ for exit_ in outcome.exits if exit_.asked or not exit_.failed]
            others = [other_of(self._node, e, self.tails[e.rank]) for e in quiet if e.rank >= 0]
        told = [other for other in others if other is not None]
        summary = summarize(self._node, outcome, left, told)
        if outcome.stop is not None and outcome.stop.why == HANG.why:
            ranks = sorted((rank, tail) for rank, tail in self.tails.items() if rank >= 0)
            hung = [(rank, stuck_in(tail.read_all())) for rank, tail in ranks]
            summary = summary._replace(hung=hung, limit_s=self.meeting.hang_limit_s)
        return self.team.settle(summary)

    def _judged_alone(self, outcome: Outcome, failures: List[Verdict]) -> Verdict:
        if _is_abandoned(outcome):
            return launcher_killed("keeper", self._node, self.meeting.nodes, self._address)
        summary = summarize(self._node, outcome)
        return judge(failures, [summary], {}, restarts_left=0, nodes=self.meeting.nodes)

    def exited(self, exit_: Exit) -> None:
        """A failure ends the ranks of all nodes."""
        if exit_.failed and not exit_.asked:
            failure = failure_of(
                self._node,
                exit_,
                self.tails[exit_.rank],
                name=self.name_of_ranks(),
                disk_full=self.is_disk_full(),
                has_cuda=self.has_cuda(),
            )
            self._is_clear = self._is_clear or not failure.is_consequence
            self.team.failed(failure)
        elif self._done_at is None and not exit_.asked:
            self._done_at = time.monotonic()

    def must_hold(self) -> bool:
        """As all nodes have found together."""
        return self.team.must_hold()

    def held(self) -> None:
        """The others are waited for."""
        self.team.held()

    def patience_s(self) -> float:
        """Ranks that only miss a peer say nothing of the cause, which may take its time to end."""
        return 0.0 if self._is_clear else min(PEER_WAIT_S, self.meeting.grace_s)

    def tick(self, running: Sequence[int], exits: Sequence[Exit]) -> None:
        """Note when faults begin; name ranks that hang."""
        for tail in self.tails.values():
            tail.look()
        if self._pulse is not None and self._pulse.has_stopped() != self._is_idle:
            self._is_idle = not self._is_idle
            self.team.idle(self._is_idle)
        late = sorted(rank for rank in running if rank >= 0)
        if self._done_at is None or any(exit_.failed for exit_ in exits) or not late:
            return
        waited_s = time.monotonic() - self._done_at
        if waited_s >= self.meeting.straggler_s:
            self._done_at = None
            names = ", ".join(map(str, late))
            done = ", ".join(str(exit_.rank) for exit_ in exits)
            self.say(f"still running {waited_s:.0f} s after rank {done} was done: rank {names}")


def _world(group: Group) -> str:
    nodes, ranks = group.nodes, group.world_size
    return f"{nodes} node{'s' * (nodes > 1)}, {ranks} rank{'s' * (ranks > 1)}"


def _is_abandoned(outcome: Outcome) -> bool:
    """The keeper was killed: there is no time to ask other nodes, who will see this one go."""
    return outcome.stop is not None and outcome.stop.why == "keeper-killed"


def _make_team(meeting: Meeting, control: Control, say: Callable[[str], None]) -> Team:
    """The role of this node; raises NotTogether when it cannot listen."""
    if meeting.nodes == 1:
        return Team(meeting, control, say)
    # Late: a node alone opens no connection.
    from jumar.launch.nodes.door import Door, PortTaken, is_own_address
    from jumar.launch.nodes.elastic import Elastic
    from jumar.launch.nodes.leader import Leader
    from jumar.launch.nodes.member import Member

    if meeting.least is not None:
        return Elastic(meeting, control, say)
    if meeting.node == 0:
        return Leader(meeting, control, say, Door(meeting, control, meeting.port))
    if meeting.node is None and is_own_address(meeting.master):
        try:
            return Leader(meeting, control, say, Door(meeting, control, meeting.port))
        except PortTaken:
            # By the node 0 of a run that has several nodes on this machine.
            return Member(meeting, control, say)
    return Member(meeting, control, say)


def _bytes_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            return sum(int(line.split()[1]) for line in file if line[1:5] == "char")
    except (OSError, ValueError):
        return 0


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
