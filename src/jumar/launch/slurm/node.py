"""The launcher of one node of an allocation: which cards are its own, then an attempt like any other."""

import os
import re
import sys
from typing import List, Optional, Sequence

from jumar.launch import later
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.job import Request
from jumar.launch.jobdir.safefile import Unusable

_KEPT = ("SLURM_CONF", "SLURMD_NODENAME", "SLURM_JOB_ID", "SLURM_CLUSTER_NAME")
_FILES = {"npu": re.compile(r"davinci(\d+)"), "gpu": re.compile(r"nvidia(\d+)")}


def main(root: str, number: int) -> int:
    """A task of srun, one per node."""
    return reported(JobDir(root, number, int(os.environ.get("SLURM_NODEID", "0"))))


def reported(directory: JobDir) -> int:
    """The same with errors in words."""
    try:
        return run(directory)
    except (OSError, Unusable) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


def run(directory: JobDir) -> int:
    """One attempt on this node; its exit code."""
    from jumar.launch.node.keeper import run_attempt

    later.loading_is_over()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    forget_slurm()
    if os.getpgrp() != os.getpid():
        os.setsid()
    return run_attempt(
        directory, lambda request, kind: own_container(own_cards(request, kind, visible))
    )


def forget_slurm() -> None:
    """Libraries that find these variables take a launcher per node for the training's ranks."""
    for name in list(os.environ):
        if name.startswith(("SLURM_", "SRUN_", "PMI")) and name not in _KEPT:
            del os.environ[name]


def own_cards(request: Request, kind: str, visible: Optional[str], root: str = "/dev") -> Request:
    """The request with the numbers of this node's cards in place of Slurm's positions.

    Raises Unusable where the two cannot be brought together: never the cards of somebody else."""
    if kind not in _FILES:
        return request
    if kind == "gpu" and visible and all(word.isdigit() for word in visible.split(",")):
        # Slurm has said it itself; where devices are constrained it counts only the ones given.
        return request._replace(cards=tuple(int(word) for word in visible.split(",")), facts=())
    numbers = card_numbers(kind, root)
    if not numbers:
        return request
    if len(numbers) == request.card_count:
        return request._replace(cards=tuple(numbers[place] for place in request.cards))
    if len(numbers) == len(request.cards):
        return request._replace(cards=tuple(numbers))
    raise Unusable(
        f"this node has {len(numbers)} {kind} cards, Slurm knows of {request.card_count}: which are the job's cannot be told"
    )


def own_container(request: Request) -> Request:
    """The request with this node's program for containers, and only what this node has shown in them.

    Raises Unusable where it has none."""
    container = request.container
    if container is None:
        return request
    import shutil

    program = shutil.which(container.program)
    if program is None:
        raise Unusable(f"this node has no {container.program}, which the job's image needs")
    options = tuple(word for word in container.options if _is_here(word))
    return request._replace(container=container._replace(program=program, options=options))


def _is_here(option: str) -> bool:
    name, _, value = option.partition("=")
    return name != "--bind" or os.path.lexists(value.partition(":")[0])


def card_numbers(kind: str, root: str = "/dev") -> Sequence[int]:
    """The cards of this kind that this node has, by their device files."""
    pattern = _FILES.get(kind)
    if pattern is None:
        return []
    try:
        names: List[str] = os.listdir(root)
    except OSError:
        return []
    return sorted(int(match.group(1)) for match in map(pattern.fullmatch, names) if match)
