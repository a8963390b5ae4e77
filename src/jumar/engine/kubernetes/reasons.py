"""Why pods wait, and why they ended, by what the cluster says of them: pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jumar.engine.kubernetes.asking import Json, part
from jumar.spec.causes import Cause, Values
from jumar.spec.states import AttemptState

_PULL = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"})
_HOPELESS = frozenset({"InvalidImageName", "ErrImageNeverPull", "ImageInspectError"})
_STUCK = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_LOST = frozenset({"NodeLost", "NodeShutdown", "Shutdown", "Terminated"})
_OVER = frozenset({"Succeeded", "Failed"})
_VOLCANO_ENDS = frozenset({"Completed", "Failed", "Aborted", "Terminated"})
_MOST = 300
_OVERDUE_S = 60.0
"""Clocks differ, and so do the ways of kubelets."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended, as the cluster alone tells it."""

    state: AttemptState
    cause: Cause
    values: Values
    pod: str = ""
    """Whose log may say more."""


def waits_for(job: Json | None, pods: Iterable[Json]) -> str:
    """Why an attempt has not begun: a word that `words` knows, then the cluster's own; empty: unknown."""
    found = [why for pod in pods if (why := _waits(pod))]
    if found:
        return min(found, key=_urgency)
    if job is not None:
        if part(job, "spec").get("suspend"):
            return "Suspended"
        state = part(part(job, "status"), "state")
        if state.get("phase") in ("Pending", "Inqueue"):
            return _said("NotEnoughResources", state.get("message"))
    return ""


def _urgency(why: str) -> int:
    """What people can mend comes first."""
    code = why.partition(",")[0]
    return 0 if code in _PULL | _HOPELESS | _STUCK else 1 if code == "Unschedulable" else 2


def _waits(pod: Json) -> str:
    status = part(pod, "status")
    for one in _containers(status):
        waiting = part(part(one, "state"), "waiting")
        reason = str(waiting.get("reason") or "")
        if reason:
            return _said(reason, waiting.get("message"))
    for condition in _conditions(status):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _said(str(condition.get("reason") or "Unschedulable"), condition.get("message"))
    return ""


def pull_fails(pods: Iterable[Json]) -> str:
    """The image that cannot be had, in the cluster's words; empty while nothing is wrong with it."""
    for why in map(_waits, pods):
        code, _, rest = why.partition(",")
        if code in _PULL | _HOPELESS:
            return rest.strip() or code
    return ""


def is_hopeless(pods: Iterable[Json]) -> bool:
    """Whether waiting will not help: the image's name is none, or may not be fetched."""
    return any(why.partition(",")[0] in _HOPELESS for why in map(_waits, pods))


def is_alive(pod: Json, now: float) -> bool:
    """Whether it may still run something. One that should have ended long ago is on a node that nobody
    hears of: it is listed until that node comes back."""
    if part(pod, "status").get("phase") in _OVER:
        return False
    until = part(pod, "metadata").get("deletionTimestamp")
    return not until or datetime.fromisoformat(str(until)).timestamp() + _OVERDUE_S > now


def has_ended(pod: Json) -> bool:
    """Whether its end was seen."""
    return part(pod, "status").get("phase") in _OVER


def is_running(pod: Json) -> bool:
    """Whether its container was started."""
    return part(pod, "status").get("phase") == "Running"


def is_first(pod: Json) -> bool:
    """Whether it is node 0 of its attempt."""
    marks = part(pod["metadata"], "annotations")
    index = marks.get(
        "batch.kubernetes.io/job-completion-index", marks.get("volcano.sh/task-index")
    )
    return index == "0"


def is_over(job: Json) -> bool:
    """Whether the cluster has done with the job, well or not."""
    status = part(job, "status")
    if part(status, "state").get("phase") in _VOLCANO_ENDS:
        return True
    # SuccessCriteriaMet and FailureTarget come before, while pods are still being ended.
    return any(
        one.get("type") in ("Complete", "Failed") and one.get("status") == "True"
        for one in _conditions(status)
    )


def end_of(job: Json) -> str:
    """The cluster's word on a job that is over."""
    status = part(job, "status")
    told = [one for one in _conditions(status) if one.get("type") == "Failed"]
    found = told[-1] if told else part(status, "state")
    return _said(str(found.get("reason") or found.get("phase") or "Failed"), found.get("message"))


def told_by(pods: Iterable[Json]) -> Ended | None:
    """What was done to the pods; None where the cluster did nothing to them."""
    found = [ended for pod in pods if (ended := _told(pod)) is not None]
    # One that was killed for its memory takes the others down, not the other way round.
    return min(found, key=lambda one: _ORDER.index(one.cause), default=None)


_ORDER = (
    Cause.OUT_OF_MEMORY,
    Cause.NODE_LOST,
    Cause.EVICTED,
    Cause.PREEMPTED,
    Cause.POD_FAILED,
)


def _told(pod: Json) -> Ended | None:
    status = part(pod, "status")
    name, host = str(pod["metadata"]["name"]), str(part(pod, "spec").get("nodeName") or "?")
    for one in _containers(status):
        if part(part(one, "state"), "terminated").get("reason") == "OOMKilled":
            return Ended(AttemptState.LOST, Cause.OUT_OF_MEMORY, {}, name)
    reason, message = str(status.get("reason") or ""), _short(status.get("message"))
    if reason in _LOST:
        return Ended(AttemptState.LOST, Cause.NODE_LOST, {"nodes": host})
    if reason == "Evicted":
        return Ended(AttemptState.LOST, Cause.EVICTED, {"error": message or f"from node {host}"})
    if reason == "Preempting":
        return Ended(AttemptState.PREEMPTED, Cause.PREEMPTED, {})
    for condition in _conditions(status):
        ended = _disrupted(condition, host)
        if ended is not None:
            return ended
    if "deletionTimestamp" in pod["metadata"] and status.get("phase") == "Running":
        # Asked to end, and nobody has seen that it did.
        return Ended(AttemptState.LOST, Cause.NODE_LOST, {"nodes": host})
    return _failed(status, name)


def _disrupted(condition: Json, host: str) -> Ended | None:
    kind, reason = condition.get("type"), condition.get("reason")
    if kind == "Ready" and reason == "Evict":
        # Volcano's word for it.
        return Ended(AttemptState.PREEMPTED, Cause.PREEMPTED, {})
    if kind != "DisruptionTarget" or condition.get("status") != "True":
        return None
    if reason == "PreemptionByScheduler":
        return Ended(AttemptState.PREEMPTED, Cause.PREEMPTED, {})
    if reason in ("DeletionByTaintManager", "DeletionByPodGC"):
        return Ended(AttemptState.LOST, Cause.NODE_LOST, {"nodes": host})
    message = _short(condition.get("message")) or str(reason)
    return Ended(AttemptState.LOST, Cause.EVICTED, {"error": message})


def _failed(status: Json, name: str) -> Ended | None:
    """One whose container could not run, or ended with no word of the launcher's."""
    for one in _containers(status):
        ended = part(part(one, "state"), "terminated")
        code = ended.get("exitCode")
        if code:
            words = _short(ended.get("message")) or f"exit code {code}"
            reason = str(ended.get("reason") or "Error")
            return Ended(
                AttemptState.FAILED, Cause.POD_FAILED, {"error": f"{reason}: {words}"}, name
            )
    if status.get("phase") != "Failed":
        return None
    words = _said(str(status.get("reason") or "Failed"), status.get("message"))
    return Ended(AttemptState.FAILED, Cause.POD_FAILED, {"error": words}, name)


def _containers(status: Json) -> list[Json]:
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _conditions(status: Json) -> list[Json]:
    return list(status.get("conditions") or ())


def _said(code: str, message: Any) -> str:
    words = _short(message)
    return f"{code}, {words}" if words else code


def _short(message: Any) -> str:
    return " ".join(str(message or "").split())[:_MOST]
