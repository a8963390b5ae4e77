"""What the containers of an attempt's ranks share: the job's own files and data, and nobody else's."""

import os
from typing import Optional, Sequence

from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.job import Job
from jumar.launch.processes.container import Container, Wrapping
from jumar.launch.processes.namespace import Mount
from jumar.launch.processes.network import Network
from jumar.launch.ranks.environment import INJECTED, inherited


def wrapping_of(
    directory: JobDir,
    job: Job,
    container: Container,
    folder: str,
    fixed: Sequence[Mount],
    network: Optional[Network] = None,
) -> Wrapping:
    """`folder`: where ranks start; `fixed`: what they shall see at fixed paths; `network`: the one to be
    in, if not the machine's."""
    os.makedirs(directory.path("home"), exist_ok=True)
    written = {directory.root, folder}
    written.update(path for path in (job.ckpt, *job.outputs.values()) if path is not None)
    read = {*job.inputs.values(), INJECTED} - written
    name = f"jumar-{job.job_id}-{directory.number}-node{directory.node}"
    writable = (*fixed, *_as_they_are(written, directory.root))
    return Wrapping(container, name, writable, tuple(_as_they_are(read)), inherited(), network)


def _as_they_are(paths: "set[str]", above: str = "") -> Sequence[Mount]:
    """What lies in a folder that is there too comes with it."""
    return [
        Mount(path, path)
        for path in sorted(paths)
        if os.path.exists(path) and not (above and path.startswith(above + "/"))
    ]
