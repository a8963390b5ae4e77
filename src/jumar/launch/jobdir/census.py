"""Which attempts have processes on this machine, whatever their files say.

A person's own job can remove or replace its claim, and with that the lock that says who lives; then
only the list of processes tells, as it does on a file system without locks.
Keeper and supervisor of an attempt carry its name in the list of processes, its ranks carry it in
their environment. Looked up at most once a pass, and only when an attempt seems to have ended."""

import os
from typing import Dict, Iterable, NamedTuple, Optional, Tuple

from jumar.launch.jobdir.claims import is_held
from jumar.launch.jobdir.files import JobDir
from jumar.launch.processes import process
from jumar.launch.processes.process import Identity, Stat

_OWN_PROGRAMS = frozenset({b"jumar.engine.local.warm", b"jumar.launch"})


class _Found(NamedTuple):
    keepers: Dict[str, Tuple[int, ...]]
    """Living keepers and supervisors by their name."""
    ranks: Dict[Tuple[str, int], Tuple[int, ...]]
    """Living processes by the job and attempt in their environment."""


class Census:
    """The processes at one moment: the one at which it is first asked. OSError: not known now."""

    def __init__(self) -> None:
        self._taken: Optional[_Found] = None

    def is_kept(self, directory: JobDir) -> bool:
        """Whether a keeper or a supervisor of the attempt lives."""
        return is_held(directory) or bool(self.keepers(directory))

    def keepers(self, directory: JobDir) -> Tuple[int, ...]:
        """The keeper and the supervisor of the attempt, as far as they live."""
        return self._found().keepers.get(directory.keeper_name, ())

    def ranks(self, directory: JobDir) -> Tuple[int, ...]:
        """Other living processes of the attempt."""
        return self._found().ranks.get((directory.job_id, directory.number), ())

    def _found(self) -> _Found:
        if self._taken is None:
            self._taken = _take()
        return self._taken


def _take() -> _Found:
    ranks: Dict[Tuple[str, int], Tuple[int, ...]] = {}
    living = [stat for stat in process.all_stats() if not stat.is_dead]
    keepers: Dict[str, Tuple[int, ...]] = {}
    for stat in living:
        key = _marked(process.environment_of(stat.pid))
        if key is not None:
            ranks[key] = (*ranks.get(key, ()), stat.pid)
        elif "." in stat.name and _is_ours(stat):
            # Anybody can call a process so; whoever bears the marks of a job is no keeper.
            keepers[stat.name] = (*keepers.get(stat.name, ()), stat.pid)
    return _Found(keepers, ranks)


def _is_ours(stat: Stat) -> bool:
    """Whether it is a program of the platform, run by this user."""
    try:
        is_own = os.stat(f"/proc/{stat.pid}").st_uid == os.geteuid()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return is_own and bool(_OWN_PROGRAMS.intersection(process.command_of(stat.pid)))


def keeps(identity: Identity, directory: JobDir) -> bool:
    """Whether just this process lives and keeps the attempt: a job may name any process in a claim."""
    stat = process.read_stat(identity.pid)
    if stat is None or not process.is_same(stat, identity):
        return False
    if stat.name == directory.keeper_name:
        return _is_ours(stat)
    return _is_unnamed_keeper(stat)


def _is_unnamed_keeper(stat: Stat) -> bool:
    """One that an earlier jumar has started, which gave it no name."""
    return stat.name.startswith("python") and _is_ours(stat)


def _marked(environment: Iterable[bytes]) -> Optional[Tuple[str, int]]:
    job_id, number = b"", b""
    for entry in environment:
        if entry.startswith(b"JUMAR_JOB_ID="):
            job_id = entry[13:]
        elif entry.startswith(b"JUMAR_ATTEMPT="):
            number = entry[14:]
    if not (job_id.isalnum() and number.isdigit() and len(number) < 10):
        return None
    return job_id.decode("ascii"), int(number)
