"""The inputs and outputs of a job in its directory, and how its ranks learn of them."""

import os
from typing import Dict

from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.job import Job
from jumar.launch.verdict.outcome import SetupFailed


def data_paths(directory: JobDir, job: Job) -> Dict[str, str]:
    """The path of each input and output, as the job gets it."""
    outputs = {name: target or directory.path("out", name) for name, target in job.outputs.items()}
    return {**job.inputs, **outputs}


def data_variables(directory: JobDir, job: Job) -> Dict[str, str]:
    """The same in variables."""
    paths = data_paths(directory, job)
    inputs = {f"JUMAR_INPUT_{name.upper()}": paths[name] for name in job.inputs}
    outputs = {f"JUMAR_OUTPUT_{name.upper()}": paths[name] for name in job.outputs}
    return {**inputs, **outputs}


def link_data(directory: JobDir, job: Job) -> None:
    """Make `inputs/`, `out/` and `ckpt/` of the job directory; raises SetupFailed for an input that
    no longer exists."""
    for name, path in job.inputs.items():
        if not os.path.exists(path):
            error = f"{path} does not exist"
            reason = f"the inputs could not be fetched: {error}"
            raise SetupFailed("inputs", reason, values={"error": error})
        _link(path, directory.path("inputs", name))
    for name, target in job.outputs.items():
        own = directory.path("out", name)
        os.makedirs(target or own, exist_ok=True)
        if target is not None and os.path.normpath(target) != own:
            _link(target, own)
    if job.ckpt is not None:
        os.makedirs(job.ckpt, exist_ok=True)
        _link(job.ckpt, directory.path("ckpt"))
    os.makedirs(directory.path("ckpt"), exist_ok=True)


def _link(target: str, link: str) -> None:
    os.makedirs(os.path.dirname(link), exist_ok=True)
    if os.path.lexists(link):
        return
    os.symlink(target, link)
