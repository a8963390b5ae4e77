"""One attempt of a job on one node, from the claim to the result. Needs no server.

The keeper is the calling process and alone writes claim and result; the supervisor is its child and
tells it how the attempt ended."""

import os
import signal
import socket
import sys
import time
from typing import Callable, Optional

from jumar.launch.jobdir import claims, news
from jumar.launch.jobdir.claims import Claim
from jumar.launch.jobdir.files import JobDir, make_folders
from jumar.launch.jobdir.job import Request, read_job, read_request, read_stop
from jumar.launch.jobdir.news import Journal, Seen
from jumar.launch.judge import as_asked
from jumar.launch.node.attempt import Attempt
from jumar.launch.node.given import Given
from jumar.launch.processes import pair, process
from jumar.launch.processes.control import Control
from jumar.launch.processes.pair import Supervisor, Watcher
from jumar.launch.processes.tree import Cgroup, Tree, cgroup_name, cgroup_place, make_cgroup
from jumar.launch.verdict import launcher_killed

ALREADY_CLAIMED = 3
Completed = Callable[[Request, str], Request]
"""What is known only on the node, added to the request; it is told the kind of the cards."""


def run_attempt(directory: JobDir, completed: Optional[Completed] = None) -> int:
    """Be the keeper of an attempt until it has ended; 0 when there is a result in the end."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    job, request = read_job(directory), read_request(directory)
    if completed is not None:
        request = completed(request, job.device_kind)
    if claims.is_claimed(directory):
        return ALREADY_CLAIMED
    make_folders(directory)
    place = cgroup_place(cgroup_name(job.job_id, directory.number, directory.node))
    given = Given(directory, job, request)
    watcher = Watcher(given.marks(), place)
    # So the engine knows keeper and supervisor even when the job has tampered with the claim.
    process.set_name(directory.keeper_name)
    supervisor = pair.fork_supervisor(lambda channel: _supervise(given, channel, place))
    claim = Claim(supervisor.identity, process.myself(), socket.gethostname(), place)
    try:
        # After the fork: nobody else may have this descriptor, or the lock would outlive us.
        lock = claims.take(directory, claim)
    except OSError:
        supervisor.dismiss()
        raise
    if lock is None:
        supervisor.dismiss()
        return ALREADY_CLAIMED
    # Not before: another keeper may have the attempt.
    watcher.arm()
    return _keep(given, supervisor, place, watcher)


def _keep(given: Given, supervisor: Supervisor, place: Optional[str], watcher: Watcher) -> int:
    """Wait for the supervisor, end what it left, write down what it said and what was seen."""
    directory, started_at = given.directory, time.time()
    supervisor.begin()
    code = pair.wait_for(supervisor)
    words = supervisor.last_words(news.MOST_WORDS)
    is_empty = Tree(None if place is None else Cgroup(place)).dissolve()
    watcher.dismiss()
    try:
        if not words:
            return _end_lost(directory, given.request, code)
        news.write_words(directory, words)
        news.write_seen(directory, Seen(code, started_at, time.time(), is_empty))
    except OSError as error:
        # The job has removed its directory, or moved it: the engine tells how the attempt stands.
        sys.stderr.write(f"{directory.job_id}: its result cannot be written: {error}\n")
        return 1
    return 0


def _end_lost(directory: JobDir, request: Request, code: int) -> int:
    """Say how an attempt ended whose supervisor could not."""
    if os.path.lexists(directory.said):
        # Another node has spoken for this one.
        news.forget_keys(directory)
        news.write_seen(directory, Seen(code, claims.claimed_at(directory), time.time(), True))
        return 0
    address = request.nodes[directory.node].address if request.nodes else ""
    killed = launcher_killed("supervisor", directory.node, len(request.nodes) or 1, address)
    ending = killed.ending()._replace(
        started_at=claims.claimed_at(directory), finished_at=time.time()
    )
    news.write_ending(directory, as_asked(directory, ending), code)
    return 0


def _supervise(given: Given, channel: int, place: Optional[str]) -> int:
    directory, job, request = given
    # Before the claim: a stop that comes at any moment after it is then heard.
    control = Control(
        asked_to_stop=lambda: read_stop(directory) if os.path.exists(directory.stop) else None,
    )
    control.limit(request.asks_at(), request.ends_at())
    if not pair.may_begin(channel):
        return ALREADY_CLAIMED
    control.watch_keeper(channel)
    tree = Tree(make_cgroup(place))
    journal = Journal(directory, job.job_id, request.notify)
    ending = Attempt(given, control, tree, journal).run_to_the_end()
    # No hint yet: an attempt has ended when its keeper has, and whoever reaps that one says so.
    if not pair.say(channel, news.words_of(ending)):
        # The keeper was killed: nobody else is left to write it down.
        news.write_ending(directory, ending)
    return 0
