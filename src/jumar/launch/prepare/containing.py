"""What the containers of an attempt's ranks share: the job's own files and data, and nobody else's.

Keeper, supervisor and staging work outside, with all the rights of the job's user. So what they believe or
follow must not be the job's to write: inside, the job directory is read-only, but for the folders that are
the job's own. Those are mounted one by one, so that none can be replaced by a link for the next attempt."""

import os
from typing import List, Optional, Sequence

from jumar.launch.jobdir.files import JobDir, is_below, outermost
from jumar.launch.jobdir.job import Job
from jumar.launch.processes.container import Container, Wrapping
from jumar.launch.processes.namespace import Mount
from jumar.launch.processes.network import Network
from jumar.launch.ranks.environment import INJECTED, inherited
from jumar.launch.verdict import SetupFailed

_OWN = ("cache", "home", "python", "ran-in", "runs", "steps", "tensorboard")
"""Folders of the job directory that a job writes to."""


def wrapping_of(
    directory: JobDir,
    job: Job,
    container: Container,
    folder: str,
    fixed: Sequence[Mount],
    network: Optional[Network] = None,
    *,
    is_alone: bool = True,
) -> Wrapping:
    """`folder`: where ranks start; `fixed`: what they shall see at fixed paths; `network`: the one to be
    in, if not the machine's; `is_alone`: no other rank has a container of its own. SetupFailed where an attempt before has put links in the way."""
    own = _own_folders(directory, job, folder)
    _refuse_links(directory.root, own)
    for path in own:
        os.makedirs(path, exist_ok=True)
    written = [*_declared(directory, job, folder), *own]
    inputs = set(job.inputs.values())
    read = [directory.root, *(path for path in sorted({INJECTED, *inputs}) if path not in written)]
    if not is_alone:
        # The first rank may put links there while the container of the next is made.
        fixed = [one for one in fixed if not _is_inside(one.source, written)]
        read = [path for path in read if not _is_inside(path, written)]
    shown = [one for one in fixed if _stays_inside(one.source, written)]
    name = f"jumar-{job.job_id}-{directory.number}-node{directory.node}"
    return Wrapping(
        container,
        name,
        (*(one for one in shown if one.source not in inputs), *_as_they_are(written)),
        (
            *_as_they_are([path for path in read if _stays_inside(path, written)]),
            *(one for one in shown if one.source in inputs),
        ),
        inherited(),
        network,
    )


def not_shown(fixed: Sequence[Mount], wrapping: Wrapping) -> List[str]:
    """Which of the fixed paths are missing in the containers, in words."""
    shown = {*wrapping.mounts, *wrapping.read_only}
    return [
        f"{one.target} is not in the container: {one.source} is in a folder that the job may change"
        for one in fixed
        if one not in shown
    ]


def given_folders(directory: JobDir, job: Job, folder: str) -> List[str]:
    """Where the files may really be that a job in a container calls its own."""
    root = os.path.realpath(directory.root)
    own = (path[len(directory.root) :] for path in _own_folders(directory, job, folder))
    return [*map(os.path.realpath, _declared(directory, job, folder)), *(root + at for at in own)]


def _declared(directory: JobDir, job: Job, folder: str) -> List[str]:
    """What it may write outside of the job directory."""
    named = {folder, *filter(None, (job.ckpt, *job.outputs.values()))}
    return outermost(path for path in named if not is_below(path, directory.root))


def _own_folders(directory: JobDir, job: Job, folder: str) -> List[str]:
    """What it may write in the job directory."""
    named = [*map(directory.path, _OWN), folder, *job.data_paths(directory).values()]
    if job.ckpt is None:
        named.append(directory.path("ckpt"))
    if job.launch == "ray":
        # Its nodes tell each other there where the head listens, and that it is over.
        named.append(directory.path("ray"))
    if job.device_kind == "npu":
        named.append(directory.plog(directory.node))
    brought = set(job.inputs.values())
    own = (path for path in named if path not in brought and is_below(path, directory.root))
    return outermost(own)


def _refuse_links(root: str, folders: Sequence[str]) -> None:
    real = os.path.realpath(root)
    for path in folders:
        if os.path.realpath(path) != os.path.normpath(real + path[len(root) :]):
            error = f"{path} is not a folder of the job's own"
            reason = f"the image could not be used: {error}"
            raise SetupFailed("image", reason, values={"error": error})


def _is_inside(path: str, written: Sequence[str]) -> bool:
    return path not in written and any(is_below(path, top) for top in written)


def _stays_inside(source: str, written: Sequence[str]) -> bool:
    """Where the job can make links, only those count that lead to what it has anyway."""
    if not any(is_below(source, top) for top in written):
        return True
    real = os.path.realpath(source)
    return any(is_below(real, os.path.realpath(top)) for top in written)


def _as_they_are(paths: Sequence[str]) -> List[Mount]:
    return [Mount(path, path) for path in paths if os.path.exists(path)]
