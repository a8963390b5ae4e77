"""Ask an attempt to end, or end it: by its files and by signals to its keeper and supervisor."""

import os
import signal

from jumar.errors import EngineFailed
from jumar.launch.jobdir.claims import Census, Claim, keeps, read_claim
from jumar.launch.jobdir.files import JobDir, is_plain, make_folders
from jumar.launch.jobdir.job import ask_to_stop
from jumar.launch.jobdir.safefile import Unusable
from jumar.launch.processes import process


def ask_by_file(directory: JobDir, why: str) -> None:
    """The launchers obey it; EngineFailed where it cannot be written."""
    try:
        if not os.path.lexists(directory.control):
            make_folders(directory)
        if is_plain(directory):
            ask_to_stop(directory, why)
    except OSError as error:
        raise EngineFailed(f"cannot ask job {directory.job_id} to stop: {error}") from error


def stop(directory: JobDir, why: str) -> None:
    """Ask by file, and by a signal so that it is seen at once."""
    trouble = None
    try:
        ask_by_file(directory, why)
    except EngineFailed as error:
        trouble = error
    if not _signal_supervisor(directory) and trouble is not None:
        raise trouble


def kill(directory: JobDir) -> None:
    """SIGKILL to keeper and supervisor; without them the next look ends what is left."""
    try:
        claim = _claim(directory)
        for one in () if claim is None else (claim.keeper, claim.supervisor):
            if keeps(one, directory):
                process.send(one.pid, signal.SIGKILL)
        for pid in Census().keepers(directory):
            process.send(pid, signal.SIGKILL)
    except OSError as error:
        raise EngineFailed(f"cannot end job {directory.job_id}: {error}") from error


def _signal_supervisor(directory: JobDir) -> bool:
    """Whether it was sent a signal; one that was not sees the file by itself, half a second later."""
    try:
        claim = _claim(directory)
        # The claim may name anybody; only a process that keeps this attempt is sent a signal.
        if claim is not None and keeps(claim.supervisor, directory):
            return process.send(claim.supervisor.pid, signal.SIGTERM)
        # The job has removed or changed the claim.
        sent = [process.send(pid, signal.SIGTERM) for pid in Census().keepers(directory)]
        return any(sent)
    except OSError:
        return False


def _claim(directory: JobDir) -> Claim | None:
    try:
        return read_claim(directory)
    except Unusable:
        return None
