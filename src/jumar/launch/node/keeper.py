"""One attempt of a job, from the claim to the result. Needs no server.

The guard is the calling process; the supervisor is its child."""

import os
import signal
import socket
import time
from typing import Optional

from jumar.launch.jobdir import files as jobdir
from jumar.launch.jobdir import untrusted
from jumar.launch.jobdir.files import Claim, JobDir, Journal
from jumar.launch.jobdir.job import Job, Request, read_job, read_request
from jumar.launch.node.attempt import Attempt
from jumar.launch.processes import cgroup, guard, process
from jumar.launch.processes.control import Control
from jumar.launch.processes.tree import Tree
from jumar.launch.verdict.verdict import launcher_killed

ALREADY_CLAIMED = 3


def run_attempt(directory: JobDir) -> int:
    """Be the guard of an attempt until it has ended; 0 when there is a result in the end."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    job, request = read_job(directory), read_request(directory)
    if os.path.lexists(directory.claim):
        return ALREADY_CLAIMED
    os.makedirs(directory.node_folder, exist_ok=True)
    # So the engine knows guard and supervisor even when the job has tampered with the claim.
    process.set_name(directory.keeper_name)
    me = process.myself()
    supervisor = guard.fork_supervisor(lambda seen: _supervise(directory, job, request, seen, me))
    code = guard.wait_for(supervisor)
    if code == ALREADY_CLAIMED:
        return ALREADY_CLAIMED
    # Even when the job directory was removed meanwhile: what is below this process is the job's.
    Tree(None).kill()
    try:
        claim = jobdir.read_claim(directory)
    except untrusted.Unusable:
        # Whatever the job made of it: only the engine can tell now how the attempt stands.
        claim = None
    place = _group_place(directory, job)
    if claim is None or claim.supervisor != supervisor.identity:
        if claim is None and place is not None:
            cgroup.Cgroup(place).remove()
        return ALREADY_CLAIMED
    if code != 0 or not os.path.lexists(directory.result):
        _end_lost(directory, request, place)
    return 0


def _group_place(directory: JobDir, job: Job) -> Optional[str]:
    return cgroup.place(cgroup.name_of(job.job_id, directory.number, directory.node))


def _end_lost(directory: JobDir, request: Request, place: Optional[str]) -> None:
    """End what an attempt without supervisor has left, and write its result."""
    Tree(None if place is None else cgroup.Cgroup(place)).dissolve()
    jobdir.forget_keys(directory)
    if os.path.lexists(directory.result):
        # It has said how it ended before it was killed, or another node has.
        return
    address = request.nodes[directory.node].address if request.nodes else ""
    verdict = launcher_killed("supervisor", directory.node, len(request.nodes) or 1, address)
    ending = verdict.ending()
    jobdir.write_ending(
        directory,
        ending._replace(started_at=jobdir.claimed_at(directory), finished_at=time.time()),
    )


def _supervise(
    directory: JobDir, job: Job, request: Request, guard_end: int, above: process.Identity
) -> int:
    # Before the claim: a stop that comes at any moment after it is then heard.
    control = Control(
        guard=guard_end,
        deadline=request.ends_at(),
        asked_to_stop=lambda: (
            jobdir.read_stop(directory) if os.path.exists(directory.stop) else None
        ),
    )
    place = _group_place(directory, job)
    claim = Claim(process.myself(), above, socket.gethostname(), place)
    if not jobdir.create_json(directory.claim, claim.as_json()):
        return ALREADY_CLAIMED
    started_at = time.time()
    journal = Journal(directory, job.job_id, request.notify)
    tree = Tree(cgroup.make(place))
    attempt = Attempt(directory, job, request, control, tree, journal)
    ending = attempt.run()
    tree.dissolve()
    jobdir.forget_keys(directory)
    ending = ending._replace(started_at=started_at, finished_at=time.time())
    journal.add("attempt-finished", state=ending.state, reason=ending.reason)
    # No hint yet: an attempt has ended when its guard has, and whoever reaps that one says so.
    jobdir.write_ending(directory, ending)
    return 0
