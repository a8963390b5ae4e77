"""An attempt of a site's job: the supervisor, run by root's program as the job's user.

`--kept DIR --attempt N --descriptors COUNT`, with the channel to the keeper as descriptor 3, what the
engine tells the attempt as 4 (JSON), and tar files of code and inputs from 5 on. All of it is written to the job's
own folder, by the user; what the keeper says about the attempt is out of the job's reach."""

import json
import os
import socket
import sys
from typing import Any, Dict, List, Sequence

from jumar.launch.jobdir import claims, news
from jumar.launch.jobdir.claims import Claim
from jumar.launch.jobdir.files import JobDir, make_folders
from jumar.launch.jobdir.job import read_job, read_request
from jumar.launch.jobdir.news import Ending, Journal
from jumar.launch.jobdir.safefile import write_json
from jumar.launch.jobdir.trouble import trouble_with
from jumar.launch.node.attempt import Attempt
from jumar.launch.node.given import Given
from jumar.launch.prepare.code import ARCHIVE_DESCRIPTOR
from jumar.launch.processes import process
from jumar.launch.processes.control import Control
from jumar.launch.processes.tree import Tree

_CHANNEL, _TOLD, _ARCHIVE = 3, 4, 5
_RANKS_RUN = b"R"
_WORDS = b"W"


class _KeptAttempt(Attempt):
    def started(self, pids: Dict[int, int]) -> None:
        """Let the keeper know: nothing that a job writes is believed."""
        super().started(pids)
        _say(_RANKS_RUN)


def main(arguments: Sequence[str]) -> int:
    """Be the supervisor of one attempt until it has ended."""
    _, root, _, number, _, count = arguments
    directory = JobDir(root, int(number))
    for descriptor in range(_CHANNEL, _CHANNEL + int(count)):
        os.set_inheritable(descriptor, False)
    process.become_subreaper()
    process.set_name(directory.keeper_name)
    # Before anything that takes time: a stop is then heard.
    control = Control()
    control.watch_keeper(_CHANNEL)
    try:
        _write_down(directory, has_archive=int(count) > _ARCHIVE - _CHANNEL)
        job, request = read_job(directory), read_request(directory)
        _claim(directory)
    except OSError as error:
        trouble = trouble_with(error, root)
        _say(_WORDS + news.words_of(Ending("failed", *trouble[:2], values=trouble.values)))
        return 1
    control.limit(request.asks_at(), request.ends_at())
    journal = Journal(directory, job.job_id, None)
    attempt = _KeptAttempt(Given(directory, job, request), control, Tree(None), journal)
    ending = attempt.run_to_the_end()
    _say(_WORDS + news.words_of(ending))
    return 0


def _claim(directory: JobDir) -> None:
    """For the user's own programs beside this one: they cannot see the keeper's. Held until we end."""
    me = process.myself()
    claims.take(directory, Claim(me, me, socket.gethostname(), None))


def _write_down(directory: JobDir, *, has_archive: bool) -> None:
    """What was told, where an attempt looks for it."""
    with os.fdopen(_TOLD, "rb") as file:
        told: Dict[str, Any] = json.loads(file.read().decode("utf-8"))
    given: List[str] = told.get("given", ["archive"] if has_archive else [])
    for descriptor, name in enumerate(given, _ARCHIVE):
        place = f"{ARCHIVE_DESCRIPTOR}:{descriptor}"
        if name == "archive":
            told["request"]["archive"] = place
        else:
            trees = told["request"].setdefault("trees", {})
            trees[name.partition(" ")[2]] = place
    write_told(directory, told)


def write_told(directory: JobDir, told: Dict[str, Any]) -> None:
    """Job, request, stores and plan of staging, as the engine tells them."""
    make_folders(directory)
    write_json(directory.job, told["job"])
    write_json(directory.request, told["request"])
    for path, value in ((directory.store_file, "store"), (directory.stage_plan, "stage")):
        if told.get(value) is not None:
            write_json(path, told[value])


def _say(words: bytes) -> None:
    try:
        os.write(_CHANNEL, words)
    except OSError as error:
        # The keeper was killed; whoever finds that out says how the attempt stands.
        sys.stderr.write(f"the keeper does not listen: {error}\n")
