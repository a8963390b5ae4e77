"""`SiteSlurmEngine`: jobs of a site on a Slurm cluster, each submitted as its own user by root's program.

Job folders are their users' and lie where the nodes see them; the server reads what they say of an attempt
with those rights, into a folder of its own, and judges it there as ever. A row of squeue counts only if the
job's own user has submitted it: a comment can be written by anybody."""

import contextlib
import json
import logging
import math
import os
import re
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from jumar.engine.base import Attempt, Observation, StartHindered
from jumar.engine.shared.files import Stages, job_values, request_values
from jumar.engine.shared.jobfiles import Roots
from jumar.engine.site.asking import Account, Root, RootRefused, readable
from jumar.engine.site.files import RootFiles
from jumar.engine.site.per_user import NotYet, PerUser
from jumar.engine.slurm import script
from jumar.engine.slurm.asking import LIMIT_S, Row, Slurm, missing
from jumar.engine.slurm.engine import SlurmEngine
from jumar.engine.slurm.observing import is_submitted
from jumar.errors import EngineFailed, JumarError, SubmitRefused
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.job import ask_to_stop
from jumar.launch.jobdir.safefile import write_json
from jumar.launch.jobdir.trouble import Trouble
from jumar.launch.processes.left_behind import IDLE_LIMIT_S
from jumar.launch.slurm.batch import files_of
from jumar.root.program import Site
from jumar.spec.causes import Cause
from jumar.spec.job import JobSpec
from jumar.spec.records import JobFile, Plan, StagingRecord
from jumar.spec.states import AttemptState
from jumar.spec.urls import is_of_hub

logger = logging.getLogger(__name__)
_TOLD = re.compile(
    r"(?:node(0|[1-9][0-9]{0,3})/)?(?:result|ranks|claim)\.json|slurm(?:\.over)?\.json|slurm\.beat"
)
"""What an attempt says of itself, below its folder."""
_MOST_BYTES = 1 << 17
_MOST_WORDS = 500
_LAST_NS = 253_402_300_799 * 10**9
"""Of the year 9999: a user may give a file any time."""
_ANSWER_LIMIT_S = LIMIT_S + 15.0
GONE_LIMIT_S = 900.0
"""So long a job waits for its user to have an account again."""


class _As(Slurm):
    """Slurm as one user speaks to it."""

    def __init__(self, run: Callable[[list[str], str], "CompletedProcess[str]"]) -> None:
        super().__init__()
        self._as_user = run

    def run(
        self, words: Iterable[str], text: str = "", limit_s: float = LIMIT_S
    ) -> "CompletedProcess[str]":
        """By root's program."""
        return self._as_user(list(words), text)


class SiteSlurmEngine(SlurmEngine):
    """Root's program has the launcher submit and cancel; this side decides and looks."""

    # Options are the user's: sbatch would obey them with the server's rights.
    _can_test = False

    def __init__(
        self,
        site: Site,
        home: Path,
        account_of: Callable[[str], Account],
        *,
        stages: Stages,
        slurm: Slurm | None = None,
    ) -> None:
        """`account_of` tells whom jobs of a user of the platform run as, or raises SubmitRefused."""
        self._state, self._root = Path(site.state), Root(Path(site.root_run))
        self._account_of = account_of
        self._names: dict[str, str] = {}
        """Who may have submitted which job."""
        self._gone: dict[tuple[str, int], float] = {}
        """Since when there is no account to look at an attempt with."""
        self._starts, self._reads = PerUser(), PerUser()
        read = home / "slurm"
        super().__init__(home, slurm=slurm, stages=stages, can_look=False, roots=Roots(read))
        self.root_files = RootFiles(self._state, home, self._roots, self._root)
        self.files = self.root_files

    def plan(self, spec: JobSpec, *, user: str, archive: Path | None = None) -> Plan:
        """How the job would run, and as whom; what Slurm says of it is told when it is submitted."""
        if spec.image is not None:
            raise SubmitRefused("this site runs no containers yet", hint="leave image out")
        if any(map(is_of_hub, spec.inputs.values())):
            raise SubmitRefused(
                "inputs: hub:// inputs of jobs on Slurm are not available on a site yet",
                hint="fetch them in the script: huggingface_hub with HF_ENDPOINT, or git clone",
            )
        account = self._account_of(user)
        plan = super().plan(spec, user=user, archive=archive)
        return replace(plan, summary=f"{plan.summary}, as {account.name}")

    def start(self, attempt: Attempt) -> None:
        """Have it submitted, unless Slurm has it already."""
        directory = self._roots.of(attempt)
        if is_submitted(directory) or os.path.lexists(directory.said):
            return
        account = self._account_of(attempt.user)
        self._names[attempt.job_id] = account.name
        what = ("start", attempt.job_id, attempt.number)
        self._starts.do(account.name, what, lambda: self._submit(attempt, account))

    def _submit(self, attempt: Attempt, account: Account) -> None:
        directory = self._roots.of(attempt)
        # A request says that somebody was here before, and may have submitted it.
        before = self._row(attempt) if os.path.exists(directory.request) else None
        if before is not None:
            self.write_id(directory, before.id)
            return
        os.makedirs(directory.control, exist_ok=True)
        write_json(directory.request, {})
        there = replace(attempt, directory=self.root_files.directory(attempt.job_id))
        options = script.options(there, self._home, self.gres_of(attempt.spec))
        text = script.script(there.directory, attempt.number)
        files = self._told(there, account)
        slurm = _As(lambda words, given: self._ask(attempt, words, given, files=files))
        self.write_id(directory, slurm.submit(options, text))

    def _told(self, attempt: Attempt, account: Account) -> dict[str, Any]:
        folder = self._state / "users" / str(account.uid)
        seen = JobDir(str(attempt.directory), attempt.number)
        staged = self._stages.told(attempt, seen, home=folder, store_file=seen.store_file)
        gres = self.gres_of(attempt.spec)
        request = request_values(attempt, None, (), staged.programs, IDLE_LIMIT_S) | {
            # The clock starts with the allocation.
            "deadline": None,
            "deadline_monotonic": None,
            "time_limit_s": attempt.spec.time_limit,
            "gres": "" if gres is None else gres.name.partition(":")[0],
            "archive": None,
        }
        return {
            "job": job_values(attempt, folder / "envs"),
            "request": request,
            "store": staged.stores,
            "stage": staged.plan,
        }

    def _ask(
        self,
        attempt: Attempt,
        words: list[str],
        text: str = "",
        *,
        files: dict[str, Any] | None = None,
        stop: str | None = None,
    ) -> "CompletedProcess[str]":
        """Have the launcher write files and run one of Slurm's programs as the job's user."""
        account = self._account_of(attempt.user)
        told = {"files": files, "stop": stop, "run": words, "input": text}
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as stack:
            stack.enter_context(ours)
            stack.enter_context(theirs)
            given = [theirs.fileno(), stack.enter_context(readable(json.dumps(told).encode()))]
            if files is not None and attempt.archive is not None:
                given.append(stack.enter_context(attempt.archive.open("rb")).fileno())
            try:
                self._root.start("sbatch", attempt, account, given)
            except RootRefused as error:
                raise _explained(error, attempt) from error
            theirs.close()
            return understood(heard(ours), words)

    def observe(self, attempts: Iterable[Attempt]) -> list[Observation]:
        """How the attempts stand now."""
        attempts = list(attempts)
        known = [attempt for attempt in attempts if self._is_known(attempt)]
        by_user: dict[str, list[Attempt]] = {}
        for attempt in known:
            by_user.setdefault(self._names[attempt.job_id], []).append(attempt)
        for user, own in by_user.items():
            # Nothing is known anew; what was is good still, and what others' jobs tell is read.
            try:
                self._reads.do(user, "read", lambda own=own: self._read_all(own))
            except NotYet:
                continue
            except (JumarError, OSError) as error:
                logger.warning("what jobs of %s tell cannot be read: %s", user, error)
        return super().observe(known) + self._given_up(attempts)

    def _read_all(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            self._read_what_is_told(attempt)

    def _given_up(self, attempts: list[Attempt]) -> list[Observation]:
        """Those of accounts that are gone for good. Nobody can cancel them but who runs the cluster."""
        long_ago = time.monotonic() - GONE_LIMIT_S
        return [
            Observation(
                job_id=attempt.job_id,
                number=attempt.number,
                state=AttemptState.LOST,
                handle=attempt.handle,
                cause=Cause.ACCOUNT_GONE,
                values={"user": attempt.user},
                finished_at=time.time(),
            )
            for attempt in attempts
            if self._gone.get((attempt.job_id, attempt.number), math.inf) < long_ago
        ]

    def _is_known(self, attempt: Attempt) -> bool:
        """Whether it can be told which rows are the attempt's. An account that is gone, or that nobody can
        look up now, hides no other user's jobs."""
        if attempt.job_id not in self._names:
            try:
                self._names[attempt.job_id] = self._account_of(attempt.user).name
            except JumarError as error:
                logger.info("job %s is not looked at: %s", attempt.job_id, error)
                if isinstance(error, SubmitRefused):
                    key = attempt.job_id, attempt.number
                    self._gone.setdefault(key, time.monotonic())
                return False
        self._gone.pop((attempt.job_id, attempt.number), None)
        return True

    def _staging(self, attempt: Attempt) -> StagingRecord | None:
        return self.root_files.staging(attempt.job_id, attempt.number)

    def _read_what_is_told(self, attempt: Attempt) -> None:
        """Copy what the attempt says of itself; what has not changed is left alone."""
        directory = self._roots.of(attempt)
        if os.path.exists(files_of(directory).over):
            return
        place = f"attempts/{attempt.number}"
        try:
            listed = self.root_files.listed(attempt.job_id, place) or []
        except EngineFailed:
            # Nothing is known anew; what was is good still.
            return
        told = [file for file in listed if file.kind == "file" and is_told(file.path, attempt)]
        # Last of all that which says that nothing more comes.
        for file in sorted(told, key=lambda file: file.path == "slurm.over.json"):
            self._copy(attempt.job_id, place, file, os.path.join(directory.control, file.path))

    def _copy(self, job_id: str, place: str, file: JobFile, target: str) -> None:
        time_ns = min(max(0, round((file.modified_at or 0.0) * 1e9)), _LAST_NS)
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(target)
            if (found.st_size, found.st_mtime_ns) == (file.size, time_ns):
                return
        opened = self.root_files.opened(job_id, f"{place}/{file.path}")
        if opened is None:
            return
        with opened:
            data = os.pread(opened.fileno(), _MOST_BYTES, 0)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        aside = f"{target}.new"
        Path(aside).write_bytes(data)
        os.utime(aside, ns=(time_ns, time_ns))
        os.rename(aside, target)

    def stop(self, attempt: Attempt, why: AttemptState) -> None:
        """By file, which the launchers obey; what has not begun is cancelled."""
        directory = self._roots.of(attempt)
        if os.path.exists(files_of(directory).over):
            return
        os.makedirs(directory.control, exist_ok=True)
        is_new = not os.path.exists(directory.stop)
        row = None if os.path.exists(files_of(directory).begun) else self._row(attempt)
        if row is None and not is_new:
            return
        words = [] if row is None else ["scancel", "--state=PENDING", row.id]

        def ask() -> None:
            self._ask(attempt, words, stop=why.value)
            ask_to_stop(directory, why.value)

        self._starts.do(
            self._account_of(attempt.user).name, ("stop", attempt.job_id, attempt.number), ask
        )

    def _cancel(self, attempt: Attempt, ids: list[str]) -> None:
        slurm = _As(lambda words, given: self._ask(attempt, words, given))
        what = ("kill", attempt.job_id, attempt.number)
        self._starts.do(
            self._account_of(attempt.user).name, what, lambda: slurm.cancel(ids, kill=True)
        )

    def start_beside(self, attempt: Attempt) -> socket.socket:
        """Not yet."""
        raise EngineFailed(
            "commands beside a job of Slurm are not offered on a site yet",
            hint=f"on a login node: srun --overlap --jobid={attempt.handle} --pty bash",
        )

    def _ours(self, rows: list[Row]) -> list[Row]:
        return [row for row in rows if self._names.get(_job_of(row)) == row.user != ""]


def _job_of(row: Row) -> str:
    return [*row.comment.split(":"), ""][1]


def is_told(path: str, attempt: Attempt) -> bool:
    """A user may have made files for more nodes than there are."""
    found = _TOLD.fullmatch(path)
    return found is not None and int(found[1] or 0) < attempt.spec.nodes


def heard(stream: socket.socket) -> bytes:
    """All that was said. It is the user's process: it may say a word at a time, or never end."""
    give_up, said = time.monotonic() + _ANSWER_LIMIT_S, b""
    try:
        while len(said) < _MOST_BYTES:
            stream.settimeout(max(0.001, give_up - time.monotonic()))
            part = stream.recv(_MOST_BYTES)
            if not part:
                return said
            said += part
    except OSError as error:
        raise EngineFailed(f"the launcher does not answer: {error}") from error
    raise EngineFailed("the launcher says more than it should")


def understood(data: bytes, words: list[str]) -> "CompletedProcess[str]":
    """What Slurm's program said. It was the user's process: its words are about her own job alone."""
    try:
        said: dict[str, Any] = json.loads(data)
        if "trouble" in said:
            cause, reason, values = said["trouble"]
            shown: dict[str, str | int] = {
                str(name): str(value)[:_MOST_WORDS] for name, value in dict(values).items()
            }
            raise StartHindered(Trouble(str(cause), str(reason)[:_MOST_WORDS], shown))
        if "missing" in said:
            raise missing(words[0])
        if "late" in said:
            raise EngineFailed(f"{words[0]} does not answer within {LIMIT_S:g} s")
        code, out, err = int(said["code"]), str(said.get("out", "")), str(said.get("err", ""))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise EngineFailed(
            "the launcher broke off: see launcher.log in the job's folder"
        ) from error
    return CompletedProcess(words, code, out, err)


def _explained(error: RootRefused, attempt: Attempt) -> Exception:
    if error.reason in ("account", "owner", "slurm"):
        return SubmitRefused(error.message)
    return error.as_hindered(attempt.directory) or error
