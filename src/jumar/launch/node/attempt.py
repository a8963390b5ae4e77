"""An attempt of a job on one node, as its supervisor sees it: what to run stands in the job directory,
and how it goes is written there."""

import os
import time
from typing import Dict, List, Optional, Sequence

from jumar.launch import later
from jumar.launch.faults import add_line
from jumar.launch.jobdir.news import (
    Ending,
    Journal,
    forget_keys,
    reserve_result,
    reserve_start,
    write_beside,
    write_start,
)
from jumar.launch.jobdir.safefile import create_json
from jumar.launch.jobdir.trouble import trouble_with
from jumar.launch.judge import as_asked
from jumar.launch.node import progress
from jumar.launch.node.given import Given
from jumar.launch.node.run import NodeRun
from jumar.launch.nodes.team import Hello
from jumar.launch.prepare import code, platform_files, staging
from jumar.launch.prepare.containing import not_shown, wrapping_of
from jumar.launch.prepare.platform_files import Part
from jumar.launch.prepare.steps import Steps
from jumar.launch.processes import network
from jumar.launch.processes.container import Wrapping
from jumar.launch.processes.control import Control, Stop
from jumar.launch.processes.left_behind import Left, LeftBehind
from jumar.launch.processes.network import Network
from jumar.launch.processes.supervise import SCHEDULER, SENDER, Exit, Outcome, Rank
from jumar.launch.processes.tree import Tree
from jumar.launch.ranks.environment import inherited
from jumar.launch.ranks.frameworks import Group
from jumar.launch.ranks.plan import NodePlan, find_requirements
from jumar.launch.verdict import (
    SetupFailed,
    Verdict,
    describe,
    describe_idle,
    describe_left,
)


class Attempt(NodeRun):
    """One attempt on one node; `run` once."""

    def __init__(self, given: Given, control: Control, tree: Tree, journal: Journal) -> None:
        super().__init__(given.meeting, control, tree)
        self._given = given
        self._directory, self._job, self._request = given
        self.idle_limit_s = given.request.idle_limit_s
        self._journal = journal
        self._activated: Optional[Dict[str, str]] = None
        self._python: Optional[Dict[str, str]] = None
        self._ending_at: Optional[float] = None
        self._log_at = 0
        self._progress = progress.Progress(given.directory, given.written, given.worlds)
        self._found: List[str] = []
        self._wrapping: Optional[Wrapping] = None
        log = given.directory.setup_log(given.directory.node)
        self._steps = Steps(control, tree, log, given.job.grace_s)

    def run_to_the_end(self) -> Ending:
        """Run, and leave nothing behind: neither processes nor keys."""
        started_at = time.time()
        ending = as_asked(self._directory, self.run())
        self.tree.dissolve()
        if self._wrapping is not None:
            from jumar.launch.prepare import image as images

            images.remove(self._wrapping, [rank.rank for rank in self.ranks])
        for trouble in self._progress.close():
            self._journal.add("checkpoint", words=trouble)
        forget_keys(self._directory)
        self._journal.add("attempt-finished", state=ending.state, reason=ending.reason)
        came = self._progress.came()
        return ending._replace(
            started_at=started_at,
            finished_at=time.time(),
            ending_at=self._ending_at,
            saved=came.saved,
            advanced=came.advanced,
        )

    def run(self) -> Ending:
        """Prepare, run, and say how it ended."""
        self._journal.add("attempt-started", cards=list(self._request.cards))
        self._journal.hint()
        try:
            reserve_result(self._directory)
            reserve_start(self._directory)
            os.makedirs(os.path.dirname(self._steps.log), exist_ok=True)
            verdict = self.run_node()
        except OSError as error:
            failure = self._explained(error)
            return Ending("failed", failure.cause, str(failure), values=failure.values)
        ending = verdict.ending()
        if verdict.cause == "node-lost" and verdict.node == 0 and self._directory.node != 0:
            self._speak_for_node_0(as_asked(self._directory, ending))
        return ending

    def _speak_for_node_0(self, ending: Ending) -> None:
        """Node 0 writes the verdict for all. Where it was lost it may not be able to."""
        try:
            create_json(self._directory._replace(node=0).said, ending._asdict())
        except OSError:
            # This node's own result says the same.
            self._journal.disk_full = True

    def hello(self) -> Hello:
        """With this node's part of the rank table."""
        part: Part = None
        if self._given.has_table:
            address = self._given.addresses(self._given.variables())[self._directory.node]
            troubles: List[str] = []
            part = platform_files.part_of(address, self._given.cards, troubles)
            self._warn(troubles)
        return Hello(self._given.size, part)

    def prepare(self, group: Group) -> NodePlan:
        """What all nodes share is made by node 0, the rest by each."""
        try:
            self.team.once(self._prepare_shared)
            return self._prepare_node()
        except OSError as error:
            raise self._explained(error) from error

    def _explained(self, error: OSError) -> SetupFailed:
        trouble = trouble_with(error, self._directory.root)
        return SetupFailed(trouble.cause, trouble.reason, values=trouble.values)

    def _prepare_shared(self) -> None:
        directory, job, request = self._directory, self._job, self._request
        variables = self._given.variables()
        folder = job.workdir or code.bring_code(directory, job, request, self._steps, variables)
        # Where nodes have an environment cache in common, the others find it there.
        self._python = self._install(folder, self._activate(folder, variables))
        if request.staging is not None:
            self._journal.add("inputs")
            staging.bring(request.staging, directory, self._steps, self._given.marks())
        if request.trees:
            code.bring_trees(directory, request, self._steps)
        if job.has_data:
            staging.link_data(directory, job, self._given.written)
        os.makedirs(directory.path("ckpt"), exist_ok=True)
        platform_files.empty_cache(directory)
        self._found = self._progress.begin(folder)

    def _prepare_node(self) -> NodePlan:
        directory, job = self._directory, self._job
        troubles: List[str] = []
        folder = self._given.folder
        self._progress.note(folder)
        self._log_at = _size(directory.log(directory.node, 0))
        # What the ranks find is not what the attempt before left.
        for words in self._found:
            self._tell("checkpoint", words)
        if self._python is None:
            variables = self._given.variables()
            self._python = self._install(folder, self._activate(folder, variables))
        container, image = self._request.container, None
        if container is not None:
            # Late, as what activates: the ranks of most jobs wait for neither.
            from jumar.launch.prepare import image as images

            self._journal.add("image", image=container.image)
            container, image = images.ready(container, self._steps, inherited())
        environment = self._given.environment(self._activated, self._python, image)
        addresses = self._given.addresses(environment.common)
        address = addresses[directory.node]
        table = platform_files.table_of(
            directory, self.team.parts, address, self._given.cards, troubles
        )
        platform_files.write_variables(directory, job, table, addresses, environment.common)
        home = environment.common.get("HOME")
        is_contained = container is not None
        view = platform_files.provide_paths(
            directory, job, home, folder, troubles, is_contained=is_contained
        )
        self._warn(troubles)
        closed = closed_network() if job.is_network_closed else None
        if container is not None:
            paths = () if view is None else view.mounts
            is_alone = self._given.size == 1
            self._wrapping = wrapping_of(
                directory, job, container, folder, paths, closed, is_alone=is_alone
            )
            self._warn(not_shown(paths, self._wrapping))
            view = closed = None
        return self._given.plan(folder, environment, table, view, self._wrapping, closed)

    def _activate(self, folder: str, variables: Dict[str, str]) -> Dict[str, str]:
        """The variables once what the job wants is active, on this node."""
        if not self._job.activate:
            return variables
        from jumar.launch.prepare import activate

        self._journal.add("activate", words=", ".join(self._job.activate))
        activated = activate.variables_after(self._job.activate, variables, folder, self._steps)
        self._activated = activated
        return activated

    def _install(self, folder: str, environment: Dict[str, str]) -> Dict[str, str]:
        """The variables of the Python that has what the job's requirements ask for."""
        wanted = find_requirements(self._job.command, self._job.requirements, folder)
        if wanted is None or self._request.container is not None:
            return {}
        from jumar.launch.prepare import requirements

        self._journal.add("requirements", file=wanted)
        return requirements.provide(wanted, self._job, folder, self._steps, environment)

    def helpers(self) -> List[Rank]:
        """Node 0 sends results while the ranks run."""
        wanted = self._request.staging
        if wanted is None or self._directory.node != 0:
            return []
        return staging.sender(wanted, self._directory, self._given.marks())

    def concluded(self, outcome: Outcome, verdict: Verdict) -> None:
        """Node 0 sends the results once no rank of any node writes any more."""
        if outcome.left_over:
            self._journal.add("warning", words="some processes could not be ended")
        wanted = self._request.staging
        if wanted is None or wanted.send is None or self._directory.node != 0 or not self.tails:
            return
        self._journal.add("sending")
        names = self._given.marks()
        sent = staging.send(wanted, self._directory, self.control, self.tree, names)
        self._journal.add("sent" if sent else "not-uploaded")

    def say(self, words: str) -> None:
        """People look for it in the events."""
        self._journal.add("notice", words=words)

    def name_of_ranks(self) -> Optional[str]:
        """One alone has no number for people."""
        return "the command" if self._job.nodes * len(self.tails) == 1 else None

    def has_cuda(self) -> bool:
        """On GPUs, and where it stands for NPUs."""
        return self._job.device_kind == "gpu" or self._job.auto_port

    def is_disk_full(self) -> bool:
        """Their own message may have found no room."""
        return self._journal.disk_full or _no_room(self._directory.root)

    def _warn(self, troubles: List[str]) -> None:
        for trouble in troubles:
            self._journal.add("warning", words=trouble)

    def started(self, pids: Dict[int, int]) -> None:
        """Let the engine see that the ranks run."""
        pids = {rank: pid for rank, pid in pids.items() if rank != SENDER}
        first = next(rank for rank in self.ranks if rank.rank != SCHEDULER)
        self._progress.ranks_run()
        try:
            # Before anybody is told that they run.
            write_beside(self._directory, first.program.for_beside())
        except OSError:
            # A full disk: the job may still end well.
            self._journal.disk_full = True
        try:
            write_start(self._directory, list(pids.values()), self._log_at)
        except OSError:
            self._journal.disk_full = True
        self._journal.add("ranks-started", ranks=len(pids))
        self._journal.hint()

    def tick(self, running: Sequence[int], exits: Sequence[Exit]) -> None:
        """The first one is early enough for what no rank waits for."""
        super().tick(running, exits)
        if not running:
            return
        self._progress.ranks_run()
        if not later.is_loaded:
            later.load()

    def exited(self, exit_: Exit) -> None:
        """Note it."""
        super().exited(exit_)
        if exit_.failed:
            self._ending_at = self._ending_at or time.time()
        words, asked = describe(exit_), exit_.asked
        if exit_.rank == SCHEDULER:
            self._journal.add("scheduler-exited", words=words, asked=asked)
        else:
            self._journal.add("rank-exited", rank=exit_.rank, words=words, asked=asked)

    def left_running(self, left: LeftBehind) -> None:
        """Say why the job goes on."""
        self._tell("left-running", describe_left(left))

    def left_failed(self, left: Left, exit_: Exit) -> None:
        """Say it now: the others may run for days."""
        self._tell("left-failed", f"{left} {describe(exit_)}")

    def left_idle(self, left: LeftBehind) -> None:
        """Name them."""
        self._tell("left-idle", describe_idle(left))

    def _tell(self, event: str, words: str) -> None:
        """In the log too, where people look."""
        self._journal.add(event, words=words)
        node = self._directory.node
        try:
            add_line(self._directory.log(node, node), words)
        except OSError:
            # The event says the same.
            return

    def ending(self, stop: Optional[Stop]) -> None:
        """Tell the ranks by file too; a request that came by file is there already."""
        self._ending_at = self._ending_at or time.time()
        self._journal.add("ranks-asked-to-end", why=stop.why if stop else "a rank failed")
        if stop is None or not stop.is_from_outside:
            return
        if not os.path.exists(self._directory.stop):
            try:
                create_json(self._directory.stop, {"why": stop.why})
            except OSError:
                # A full disk: the signal says the same.
                self._journal.disk_full = True


def closed_network() -> Network:
    """Closed means closed: a job that cannot be kept from the network does not run."""
    try:
        return network.closed()
    except OSError as error:
        words = error.strerror or str(error)
        reason = f"the network could not be closed for this job: {words}"
        raise SetupFailed("network", reason, values={"error": words}) from error


def _size(path: str) -> int:
    """0 where nothing was written yet."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _no_room(path: str) -> bool:
    room = os.statvfs(path)
    return room.f_bavail * room.f_frsize < 4096
