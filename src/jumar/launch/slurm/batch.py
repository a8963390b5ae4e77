"""The batch step: it turns an allocation into an attempt of a job, and says how that ended.

Slurm tells it of every end: USR1 before the time is over, TERM when the job is cancelled or makes room.
It writes the stop file, which every launcher obeys, and signals nobody itself."""

import importlib
import os
import select
import signal
import socket
import sys
import time
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from jumar.launch import later
from jumar.launch.jobdir import news
from jumar.launch.jobdir.files import JobDir, make_folders
from jumar.launch.jobdir.job import Job, ask_to_stop, read_job, read_stop
from jumar.launch.jobdir.news import Ending
from jumar.launch.jobdir.safefile import Unusable, create_json, read_object, write_json
from jumar.launch.ranks.environment import own_program
from jumar.launch.slurm.allocation import (
    Node,
    addresses_and_counts,
    given_cards,
    host_names,
)
from jumar.launch.slurm.ended import NODE_LOST, PUT_BACK, down_nodes, why_ended, why_in_log
from jumar.launch.slurm.node import card_numbers, reported
from jumar.launch.slurm.question import Question

BEAT_S = 5.0
"""How often the batch step shows that it lives."""
STALE_S = 65.0
"""Without a beat for so long it is taken for gone."""
_MOST_LOG = 1 << 16
_OLD_S = 15.0
"""How long, beyond the grace period, an older attempt may take to end before it is taken for gone."""


class Files(NamedTuple):
    """What the batch step writes of an attempt."""

    folder: str

    @property
    def begun(self) -> str:
        """Which Slurm job runs it; written once."""
        return os.path.join(self.folder, "slurm.json")

    @property
    def beat(self) -> str:
        """Its time of change says when the batch step lived last."""
        return os.path.join(self.folder, "slurm.beat")

    @property
    def has_beat(self) -> bool:
        """Whether there was one."""
        return os.path.exists(self.beat)

    def beats_since(self, limit_s: float) -> bool:
        """Whether the batch step has shown life in the last seconds."""
        try:
            return time.time() - os.stat(self.beat).st_mtime < limit_s
        except FileNotFoundError:
            return False

    @property
    def over(self) -> str:
        """Nothing more of this attempt is written by anybody."""
        return os.path.join(self.folder, "slurm.over.json")


def files_of(directory: JobDir) -> Files:
    """The batch step's files of an attempt."""
    return Files(directory.control)


def main(root: str, number: int) -> int:
    """Run one attempt in this allocation; 0 when there is a result in the end."""
    directory = JobDir(os.path.abspath(root), number)
    try:
        return run_attempt_of(directory)
    except (Unusable, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1


def run_attempt_of(directory: JobDir) -> int:
    """The same; raises Unusable and OSError, when the attempt is over all the same."""
    files = files_of(directory)
    mine = {"job": os.environ.get("SLURM_JOB_ID", ""), "host": socket.gethostname()}
    job = read_job(directory)
    make_folders(directory)
    if not create_json(files.begun, {**mine, "started_at": time.time()}):
        sys.stderr.write(f"attempt {directory.number} was already started\n")
        return 0
    try:
        return _Batch(directory, job, files).run()
    finally:
        _write_over(files)


class _Batch:
    def __init__(self, directory: JobDir, job: Job, files: Files) -> None:
        self._directory, self._job, self._files = directory, job, files
        self._id = os.environ.get("SLURM_JOB_ID", "")
        self._asked: Optional[str] = None
        """Why Slurm wants an end, once it does."""
        self._down: List[str] = []
        """Nodes that Slurm has lost, once that is why."""
        self._names = host_names(os.environ.get("SLURM_JOB_NODELIST") or socket.gethostname())
        self._log = directory.path("logs", "slurm.log")
        self._log_began = os.path.getsize(self._log) if os.path.exists(self._log) else 0
        self._wake, self._wake_end = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._wake_end, False)
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, _noted)
        signal.set_wakeup_fd(self._wake_end, warn_on_full_buffer=False)

    def run(self) -> int:
        self._beat()
        gres = str(read_object(self._directory.request).get("gres") or "")
        about, given = self._asked_of(gres)
        self._end_older()
        if self._job.nodes == 1:
            # While Slurm answers: the launcher that is forked has it then.
            importlib.import_module("jumar.launch.node.keeper")
        nodes = self._allocated(gres, about, given)
        self._write_request(nodes)
        launcher = self._start(len(nodes))
        # Now, and not after days: jumar may be another version by then.
        importlib.import_module("jumar.launch.judge")
        code = self._wait(launcher)
        self._conclude(code)
        return 0

    def _asked_of(self, gres: str) -> Tuple[Optional[Question], Optional[Question]]:
        """What Slurm has to say of the nodes and of the job's cards; only what is needed is asked."""
        names = self._names
        needs_nodes = len(names) > 1 or (gres and card_numbers(self._job.device_kind))
        about = Question("show", "node", "-o", ",".join(names)) if needs_nodes else None
        return about, Question("show", "job", "-d", "-o", self._id) if gres else None

    def _allocated(
        self, gres: str, about: Optional[Question], given: Optional[Question]
    ) -> List[Node]:
        """The nodes, in Slurm's order."""
        names, whole = self._names, tuple(range(self._job.device_count))
        if len(names) < self._job.nodes:
            raise Unusable(f"the job has {len(names)} nodes of {self._job.nodes}")
        known: Dict[str, Tuple[str, int]] = {names[0]: ("127.0.0.1", 0)}
        if about is not None:
            known = addresses_and_counts(about.answer_at_last(self._beat), gres)
        cards: Dict[str, Tuple[int, ...]] = {}
        if given is not None:
            cards = given_cards(given.answer_at_last(self._beat), gres)
        return [Node(name, *_placed(name, known, cards.get(name, whole))) for name in names]

    def _write_request(self, nodes: Sequence[Node]) -> None:
        path = self._directory.request
        value = read_object(path)
        limit_s = value.get("time_limit_s")
        value["deadline"] = None if limit_s is None else time.time() + float(limit_s)
        value["port"] = 0
        if len(nodes) > 1:
            # Late: most jobs have one node.
            from jumar.launch.nodes.team import free_port

            value["port"] = free_port("")
        value["nodes"] = [
            {
                "name": node.name,
                "address": node.address,
                "cards": list(node.cards),
                "card_count": node.card_count,
            }
            for node in nodes
        ]
        write_json(path, value)

    def _start(self, nodes: int) -> int:
        """One launcher per node; alone it needs no step of Slurm's. Gives the process to wait for."""
        later.loading_is_over()
        if nodes == 1:
            pid = os.fork()
            if pid == 0:
                os._exit(_alone(self._directory))
            return pid
        import subprocess

        # srun does not take it over by itself since 22.05.
        cores = os.environ.get("SLURM_CPUS_PER_TASK")
        words = [
            "srun",
            "--kill-on-bad-exit=0",
            f"--nodes={nodes}",
            f"--ntasks={nodes}",
            "--ntasks-per-node=1",
            "--export=ALL",
            *(["--cpus-per-task=" + cores] if cores else []),
            *own_program(),
            "--slurm-node",
            self._directory.root,
            str(self._directory.number),
        ]
        return subprocess.Popen(words, stdin=subprocess.DEVNULL).pid

    def _wait(self, pid: int) -> int:
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
            ready, _, _ = select.select([self._wake], [], [], BEAT_S)
            if ready:
                self._heard(os.read(self._wake, 4096))
            self._beat()

    def _heard(self, numbers: bytes) -> None:
        asked = set(numbers) & {signal.SIGUSR1, signal.SIGTERM, signal.SIGINT}
        if not asked or self._asked is not None:
            return
        # Where a site says so, USR1 also comes when the job has to make room.
        self._asked = self._why() or ("timed-out" if signal.SIGUSR1 in asked else "stopped")
        ask_to_stop(self._directory, "signal" if self._asked == NODE_LOST else self._asked)

    def _why(self) -> Optional[str]:
        """Why Slurm ends the job; None where it does not, or does not answer."""
        why = why_in_log(self._logged(), self._id)
        try:
            if why is None:
                told = Question("show", "job", "-o", self._id).answer()
                why = why_ended(told, int(os.environ.get("SLURM_RESTART_COUNT") or 0))
            if why in (NODE_LOST, PUT_BACK):
                nodes = Question("show", "node", "-o", ",".join(self._names)).answer()
                self._down = down_nodes(nodes)
        except Unusable:
            return why
        if why == PUT_BACK:
            return NODE_LOST if self._down else "preempted"
        return why

    def _logged(self) -> str:
        """What Slurm has written into the job's log since this attempt began."""
        try:
            with open(self._log, "rb") as file:
                file.seek(max(self._log_began, os.fstat(file.fileno()).st_size - _MOST_LOG))
                return file.read(_MOST_LOG).decode("utf-8", "replace")
        except OSError:
            return ""

    def _conclude(self, code: int) -> None:
        """The last word on how the attempt ended: what Slurm did to its ranks is not their fault."""
        ending = news.read_ending(self._directory)
        if ending is None:
            reason = "its supervisor and keeper were killed"
            from jumar.launch.judge import as_asked

            ending = news.lost(self._directory, "launcher-killed", reason)
            ending = as_asked(self._directory, ending)
            news.write_ending(self._directory, ending, code)
        if not _is_of_a_signal(ending):
            return
        # Whose turn is over has its steps signalled, and its batch step hears nothing of it.
        why = read_stop(self._directory)
        if why in (None, "signal"):
            # A launcher writes only that it was signalled.
            why = self._asked or self._why()
        if why is None:
            return
        from jumar.launch.judge import STOPS

        changed = ending._replace(values={}, exit_code=None, signal=None, rank=None)
        if why == NODE_LOST:
            where = ", ".join(self._down or self._names)
            state, cause, reason = "lost", NODE_LOST, f"lost contact with node {where}"
            changed = changed._replace(values={"nodes": where})
        else:
            state, cause, reason = STOPS.get(why, STOPS["stopped"])
        changed = changed._replace(state=state, cause=cause, reason=reason)
        news.write_ending(self._directory, changed, code)

    def _end_older(self) -> None:
        """No launcher of an older attempt may write beside this one: Slurm forgets steps of nodes that
        it has lost for a while."""
        root, number = self._directory.root, self._directory.number
        older = [JobDir(root, before) for before in range(max(1, number - 8), number)]
        until = time.monotonic() + self._job.grace_s + _OLD_S
        for directory in older:
            while _has_launchers(directory) and time.monotonic() < until:
                ask_to_stop(directory, "preempted")
                self._beat()
                time.sleep(0.2)

    def _beat(self) -> None:
        with open(self._files.beat, "ab"):
            os.utime(self._files.beat)


def _placed(
    name: str, about: Dict[str, Tuple[str, int]], cards: Tuple[int, ...]
) -> Tuple[str, Tuple[int, ...], int]:
    address, count = about.get(name, (name, 0))
    return address, cards, count


def _has_launchers(directory: JobDir) -> bool:
    """Whether a node of an older attempt was claimed and has not ended, as far as its files tell."""
    try:
        nodes = [name for name in os.listdir(directory.control) if name.startswith("node")]
    except OSError:
        return False
    files = files_of(directory)
    if os.path.exists(files.over):
        return False
    if files.beats_since(2 * BEAT_S):
        # Somebody may have written a result for it; its processes are still being ended.
        return True
    folders = [os.path.join(directory.control, name) for name in nodes]
    return any(
        os.path.exists(os.path.join(folder, "claim.json"))
        and not os.path.exists(os.path.join(folder, "result.json"))
        for folder in folders
    )


def _is_of_a_signal(ending: Ending) -> bool:
    return ending.cause == "stopped-by-signal" or (
        ending.state == "failed" and ending.signal in ("SIGTERM", "SIGKILL", "SIGINT")
    )


def _alone(directory: JobDir) -> int:
    """In a fork: the launcher of the only node."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    return reported(directory)


def _write_over(files: Files) -> None:
    try:
        create_json(files.over, {"at": time.time()})
    except OSError as error:
        sys.stderr.write(f"error: {error}\n")


def _noted(number: int, frame: object) -> None:
    """The wake-up descriptor has it."""
