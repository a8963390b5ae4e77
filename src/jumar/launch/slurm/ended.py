"""Why Slurm ends a job, by what `scontrol` says of it and of its nodes. Pure.

While processes are being ended the state is COMPLETING, whatever comes of it: the reason tells more."""

from typing import List, Optional

from jumar.launch.slurm.allocation import value_of

NODE_LOST = "node-lost"
PUT_BACK = "put-back"
"""Into the queue: by an operator, or because a node was lost; its nodes tell."""
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
