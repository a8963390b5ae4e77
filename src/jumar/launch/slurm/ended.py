"""Why Slurm ends a job: by what it writes into the job's log, else by what `scontrol` says. Pure.

The log has it before the first signal comes. `scontrol` says COMPLETING while processes are being ended,
whatever comes of it, and PENDING of a job that starts again."""

import re
from typing import List, Optional

from jumar.launch.slurm.allocation import value_of

NODE_LOST = "node-lost"
PUT_BACK = "put-back"
"""Into the queue: by an operator, or because a node was lost; its nodes tell."""
_NOTE = re.compile(r"\*\*\* JOB (\d+) ON \S+ CANCELLED AT \S+ DUE TO ([A-Z ]+)")
_NOTES = {
    "NODE FAILURE": NODE_LOST,
    "JOB REQUEUE": "preempted",
    "PREEMPTION": "preempted",
    "TIME LIMIT": "timed-out",
}
_REASONS = {
    "NodeDown": NODE_LOST,
    "NodeFail": NODE_LOST,
    "TimeLimit": "timed-out",
    "DeadLine": "timed-out",
}
_STATES = {
    "NODE_FAIL": NODE_LOST,
    "BOOT_FAIL": NODE_LOST,
    "TIMEOUT": "timed-out",
    "DEADLINE": "timed-out",
    "PREEMPTED": "preempted",
    "PENDING": PUT_BACK,
    "REQUEUED": PUT_BACK,
    "REQUEUE_HOLD": PUT_BACK,
}


def why_in_log(text: str, job_id: str) -> Optional[str]:
    """In a word; None where the log does not say."""
    found = [why for number, why in _NOTE.findall(text) if number == job_id]
    return _NOTES.get(found[-1].strip()) if found else None


def why_ended(job: str, restarts: int) -> Optional[str]:
    """In a word; None where Slurm does not end it. `restarts`: how often it had started again before."""
    if value_of(job, "PreemptTime") is not None:
        return "preempted"
    state, reason = value_of(job, "JobState") or "", value_of(job, "Reason") or ""
    why = _REASONS.get(reason) or _STATES.get(state)
    if why is not None:
        return why
    if int(value_of(job, "Restarts") or 0) > restarts:
        return PUT_BACK
    return None if state == "RUNNING" else "stopped"


def down_nodes(nodes: str) -> List[str]:
    """Those that Slurm has lost, of `scontrol show node -o`."""
    lines = nodes.splitlines()
    return [
        value_of(line, "NodeName") or ""
        for line in lines
        if (value_of(line, "State") or "").startswith(("DOWN", "FAIL"))
    ]
