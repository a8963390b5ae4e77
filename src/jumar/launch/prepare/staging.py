"""The data of a job: linked into its directory, and carried to and from the node, around the ranks, by programs of the platform. Those are run and watched here
like any other, since a launcher has neither the packages nor the keys for it.

Inputs that do not come fail the attempt. Results that do not go never do: they stay in the job
directory, and the programs' own status says so."""

import errno
import math
import os
from typing import Dict, List, Optional, Sequence

from jumar.launch.jobdir.files import JobDir, is_below
from jumar.launch.jobdir.job import Job, Staging
from jumar.launch.jobdir.safefile import Unusable, read_object
from jumar.launch.prepare.steps import Step, Steps
from jumar.launch.processes.control import Control
from jumar.launch.processes.spawn import Program
from jumar.launch.processes.supervise import SENDER, Rank, supervise
from jumar.launch.processes.tree import Tree
from jumar.launch.ranks.environment import inherited
from jumar.launch.verdict import SetupFailed

_FOLDER = "/"
_GRACE_S = 5.0


def bring(staging: Staging, directory: JobDir, steps: Steps, marks: Dict[str, str]) -> None:
    """Have the inputs brought; raises SetupFailed with the reason that was told."""
    steps = steps._replace(log=directory.staging_log(directory.node), grace_s=_GRACE_S)
    # How long it may take is for the job's time limit to say, and for the store's patience.
    step = Step("the transfer", staging.bring, _variables(marks), _FOLDER, math.inf)
    failure = steps.try_run(step)
    if failure is None:
        return
    words = _error(staging) or failure.words
    if "No space left" in words + failure.tail:
        raise SetupFailed("disk-full", "no space left on the disk", failure.tail)
    reason = f"the inputs could not be fetched: {words}"
    raise SetupFailed("inputs", reason, failure.tail, {"error": words})


def sender(staging: Staging, directory: JobDir, marks: Dict[str, str]) -> List[Rank]:
    """What runs beside the ranks: nobody, when there is nothing to send."""
    if staging.keep is None:
        return []
    program = Program(
        staging.keep, _variables(marks), _FOLDER, directory.staging_log(directory.node)
    )
    return [Rank(SENDER, program, is_service=True, is_aside=True)]


def send(
    staging: Staging, directory: JobDir, control: Control, tree: Tree, marks: Dict[str, str]
) -> bool:
    """Send all results, within the time that there is for it; whether they arrived."""
    if staging.send is None:
        return True
    control.finish()
    if control.stop is not None:
        # Whoever killed the keeper wants an end now.
        return False
    program = Program(
        staging.send, _variables(marks), _FOLDER, directory.staging_log(directory.node)
    )
    outcome = supervise(
        [Rank(0, program)], control, tree, grace_s=_GRACE_S, limit_s=staging.send_limit_s
    )
    return outcome.not_started is None and all(exit_.code == 0 for exit_ in outcome.exits)


def _variables(marks: Dict[str, str]) -> Dict[str, str]:
    # Not the job's own: what it sets for its ranks must not change the platform's programs.
    return {**inherited(), **marks}


def _error(staging: Staging) -> str:
    try:
        return str(read_object(staging.status).get("error") or "")
    except (OSError, Unusable):
        return ""


def link_data(directory: JobDir, job: Job, given: Optional[Sequence[str]] = None) -> None:
    """Make `inputs/` and `out/` of the job directory, and `ckpt` where that is elsewhere; raises SetupFailed for an input that
    no longer exists. `given`: all that the job may write, where it has fewer rights than this process."""
    for name, path in job.inputs.items():
        if not os.path.exists(path):
            error = f"{path} does not exist"
            reason = f"the inputs could not be fetched: {error}"
            raise SetupFailed("inputs", reason, values={"error": error})
        _link(path, directory.path("inputs", name))
    for name, target in job.outputs.items():
        own = directory.path("out", name)
        _make(target or own, given)
        if target is not None and os.path.normpath(target) != own:
            _link(target, own)
    if job.ckpt is not None:
        _make(job.ckpt, given)
        _link(job.ckpt, directory.path("ckpt"))


def _make(folder: str, given: Optional[Sequence[str]]) -> None:
    real = os.path.realpath(folder)
    if given is not None and not any(is_below(real, top) for top in given):
        # An attempt before has put a link in the way.
        words = os.strerror(errno.ENOTDIR)
        raise NotADirectoryError(errno.ENOTDIR, words, folder)
    os.makedirs(folder, exist_ok=True)


def _link(target: str, link: str) -> None:
    os.makedirs(os.path.dirname(link), exist_ok=True)
    if os.path.lexists(link):
        return
    os.symlink(target, link)
