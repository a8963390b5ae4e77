"""A job of Slurm that no server looks after: which attempt is due, and that the next one comes."""

import os
import re
import sys
import time
from typing import Any, Dict, List, Optional

from jumar.launch.jobdir import news
from jumar.launch.jobdir.files import JobDir, make_folders
from jumar.launch.jobdir.job import prepare_stop, read_stop
from jumar.launch.jobdir.news import Ending
from jumar.launch.jobdir.safefile import Unusable, read_object, write_json
from jumar.launch.slurm.again import Terms, Told, next_segment
from jumar.launch.slurm.batch import STALE_S, files_of, run_attempt_of

SUBMITTED = "slurm.submit.json"
"""In the job directory: how the job is submitted; the same again for its next attempt."""
_NUMBER = re.compile(r"[1-9][0-9]{0,5}")
_SUBMIT_S = 60.0
_TRIES = 5


def main(root: str) -> int:
    """Run the attempt that is due, if one is, and have the next one submitted if that is due then."""
    root = os.path.abspath(root)
    try:
        number = _due(root)
        if number is None:
            return 0
        code = run_attempt_of(JobDir(root, number))
        if next_of(root) is not None:
            # Where Slurm queues the job again as well, whichever comes second finds nothing to do.
            submit_again(root)
        return code
    except (OSError, Unusable) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1


def attempts_of(root: str) -> List[int]:
    """Their numbers, in order."""
    try:
        names = os.listdir(os.path.join(root, "attempts"))
    except FileNotFoundError:
        return []
    return sorted(int(name) for name in names if _NUMBER.fullmatch(name))


def _due(root: str) -> Optional[int]:
    """The attempt to run now, with its request written; None: the job has ended."""
    numbers = attempts_of(root)
    if not numbers:
        raise Unusable(f"{root} has no attempts")
    last = JobDir(root, numbers[-1])
    files = files_of(last)
    if not os.path.exists(files.begun):
        return last.number
    is_over = os.path.exists(files.over)
    if not is_over and not _is_mine(files.begun) and files.beats_since(STALE_S):
        # A second submit of a job that runs.
        return None
    if not is_over:
        _write_cut(last)
    segment = next_of(root)
    if segment is None:
        return None
    _write_next(last, segment)
    return last.number + 1


def _is_mine(begun: str) -> bool:
    """Whether this very job of Slurm began the attempt, before Slurm started it again."""
    return read_object(begun).get("job") == os.environ.get("SLURM_JOB_ID", "")


def _write_cut(directory: JobDir) -> None:
    """The job is started again: an attempt without a result was cut off."""
    if news.read_ending(directory) is None:
        why = read_stop(directory)
        if why is not None:
            from jumar.launch.judge import STOPS

            state, cause, reason = STOPS.get(why, STOPS["stopped"])
            ending = Ending(state, cause, reason, finished_at=time.time())
        else:
            ending = news.lost(
                directory, "launcher-killed", "its supervisor and keeper were killed"
            )
        news.write_ending(directory, ending)


def next_of(root: str) -> Optional[int]:
    """The segment of the next attempt; None: none is due."""
    if os.path.exists(os.path.join(root, "stopped.json")):
        return None
    ended: List[Told] = []
    for number in attempts_of(root):
        directory = JobDir(root, number)
        ending = news.read_ending(directory)
        if ending is None:
            continue
        segment = int(read_object(directory.request).get("segment") or 1)
        ended.append(Told(ending.state, segment, ending.cause, ending.tail, ending.advanced))
    spec: Dict[str, Any] = read_object(os.path.join(root, "job.json")).get("spec") or {}
    known = {name: spec[name] for name in Terms._fields if name in spec}
    return next_segment(Terms(**known), ended) if ended else None


def _write_next(last: JobDir, segment: int) -> None:
    directory = last._replace(number=last.number + 1)
    make_folders(directory)
    request = read_object(last.request)
    for name in ("nodes", "port", "deadline"):
        request.pop(name, None)
    request.update(segment=segment, deadline=None, cards=[])
    prepare_stop(directory)
    write_json(directory.request, request)


def submit_again(root: str) -> None:
    """A new job, which waits for no credential as a requeued one does; where that is refused on this
    node, the same job once more."""
    import subprocess

    told = read_object(os.path.join(root, SUBMITTED))
    words = ["sbatch", "--parsable", *told["options"]]
    environ = {
        name: value
        for name, value in os.environ.items()
        if name == "SLURM_CONF" or not name.startswith(("SLURM_", "SRUN_"))
    }
    for wait_s in [1.0] * _TRIES:
        done = subprocess.run(
            words,
            input=str(told["script"]),
            env=environ,
            stdout=subprocess.DEVNULL,
            timeout=_SUBMIT_S,
            check=False,
            encoding="utf-8",
        )
        if done.returncode == 0:
            return
        time.sleep(wait_s)
    me = os.environ.get("SLURM_JOB_ID", "")
    subprocess.run(["scontrol", "requeue", me], timeout=_SUBMIT_S, check=False)
