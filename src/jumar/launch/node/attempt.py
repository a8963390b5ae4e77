"""What the supervisor of an attempt does: prepare, run the ranks, say how it ended."""

import errno
import os
import time
from typing import Dict, Optional

from jumar.launch.ascend.apply import cann_variables, hccl_variables
from jumar.launch.jobdir.endings import Ending, reserve_result
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.job import Job, Request
from jumar.launch.jobdir.journal import Journal
from jumar.launch.jobdir.whole import create_json, write_json
from jumar.launch.prepare import code, fixed_paths, requirements, staging
from jumar.launch.prepare.platform_files import write_platform_files
from jumar.launch.prepare.steps import Steps
from jumar.launch.processes.control import Control, Interrupted, Stop
from jumar.launch.processes.left_behind import Left, LeftBehind
from jumar.launch.processes.supervise import SCHEDULER, SENDER, Exit, Listener, supervise
from jumar.launch.processes.tree import Tree
from jumar.launch.ranks.environment import auto_port, inherited, moxing_path, simulation_path
from jumar.launch.ranks.job_ranks import Prepared, link_data, marks, plan_ranks
from jumar.launch.verdict.outcome import (
    LogTail,
    SetupFailed,
    add_line,
    describe,
    describe_idle,
    describe_left,
    ending_of,
    ending_of_stop,
)


class Attempt(Listener):
    """One attempt; `run` once."""

    def __init__(
        self,
        directory: JobDir,
        job: Job,
        request: Request,
        control: Control,
        tree: Tree,
        journal: Journal,
    ) -> None:
        self._directory = directory
        self._job = job
        self._request = request
        self._control = control
        self._tree = tree
        self._journal = journal

    def run(self) -> Ending:
        """Prepare, run, and say how it ended."""
        self._journal.add("attempt-started", cards=list(self._request.cards))
        self._journal.hint()
        try:
            reserve_result(self._directory)
            os.makedirs(os.path.dirname(self._directory.log(0, 0)), exist_ok=True)
            return self._prepare_and_run()
        except SetupFailed as failure:
            return Ending("failed", failure.cause, str(failure), node=0, tail=failure.tail)
        except Interrupted as interruption:
            return ending_of_stop(interruption.stop)
        except OSError as error:
            return _ending_of_os_error(error)

    def _prepare_and_run(self) -> Ending:
        job, directory = self._job, self._directory
        self._control.check()
        steps = Steps(self._control, self._tree, directory.setup_log(0), job.grace_s)
        environment = {**inherited(), **job.environment, **marks(directory, job)}
        folder = code.bring_code(directory, job, self._request, steps, environment)
        environment = self._with_requirements(folder, steps, environment)
        if self._request.staging is not None:
            self._journal.add("inputs")
            staging.bring(self._request.staging, directory, steps, marks(directory, job))
        if job.device_kind == "npu":
            environment.update(hccl_variables(environment))
            environment.update(cann_variables(environment))
        elif job.device_kind == "sim":
            environment.update(simulation_path(environment))
            environment.setdefault("JUMAR_SIM_REPORT", directory.trial)
        if job.auto_port:
            environment.update(auto_port(environment))
        environment.update(moxing_path(environment, directory.store_file))
        files = write_platform_files(directory, job, self._request, environment)
        data = link_data(directory, job)
        fixed = fixed_paths.provide(directory, job, data, environment.get("HOME"), folder)
        for trouble in (*files.troubles, *fixed.troubles):
            self._journal.add("warning", words=trouble)
        prepared = Prepared(folder, data, files.rank_table, fixed.view)
        environment = {**environment, **fixed.variables}
        ranks = plan_ranks(directory, job, self._request, environment, prepared)
        tails = {rank.rank: LogTail(rank.program.log) for rank in ranks}
        self._control.check()
        if self._request.staging is not None:
            ranks += staging.sender(self._request.staging, directory, marks(directory, job))
        outcome = supervise(
            ranks,
            self._control,
            self._tree,
            grace_s=job.grace_s,
            listener=self,
            idle_limit_s=self._request.idle_limit_s,
        )
        if outcome.left_over:
            self._journal.add("warning", words="some processes could not be ended")
        ending = ending_of(outcome, tails, self._journal.disk_full or _no_room(directory.root))
        self._send_results()
        return ending

    def _send_results(self) -> None:
        wanted = self._request.staging
        if wanted is None or wanted.send is None:
            return
        self._journal.add("sending")
        names = marks(self._directory, self._job)
        sent = staging.send(wanted, self._directory, self._control, self._tree, names)
        self._journal.add("sent" if sent else "not-uploaded")

    def _with_requirements(
        self, folder: str, steps: Steps, environment: Dict[str, str]
    ) -> Dict[str, str]:
        wanted = requirements.find_requirements(self._job, folder)
        if wanted is None:
            return environment
        self._journal.add("requirements", file=wanted)
        return requirements.provide(wanted, self._job, folder, steps, environment)

    def started(self, pids: Dict[int, int]) -> None:
        """Let the engine see that the ranks run."""
        pids = {rank: pid for rank, pid in pids.items() if rank != SENDER}
        try:
            write_json(
                self._directory.ranks, {"started_at": time.time(), "pids": list(pids.values())}
            )
        except OSError:
            # A full disk: the job may still end well.
            self._journal.disk_full = True
        self._journal.add("ranks-started", ranks=len(pids))
        self._journal.hint()

    def exited(self, exit_: Exit) -> None:
        """Note it."""
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
        try:
            add_line(self._directory.log(0, 0), words)
        except OSError:
            # The event says the same.
            return

    def ending(self, stop: Optional[Stop]) -> None:
        """Tell the ranks by file too; a request that came by file is there already."""
        self._journal.add("ranks-asked-to-end", why=stop.why if stop else "a rank failed")
        if stop is not None and not os.path.exists(self._directory.stop):
            try:
                create_json(self._directory.stop, {"why": stop.why})
            except OSError:
                # A full disk: the signal says the same.
                self._journal.disk_full = True


def _no_room(path: str) -> bool:
    """Whether the ranks could not write any more; their own message may have found no room."""
    room = os.statvfs(path)
    return room.f_bavail * room.f_frsize < 4096


def _ending_of_os_error(error: OSError) -> Ending:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Ending("failed", "disk-full", f"no space left on the disk: {error.filename or ''}")
    return Ending("failed", "code", f"the job directory cannot be used: {error}")
