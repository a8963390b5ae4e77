"""The ranks of a job: which commands with which variables, in which folders."""

import os
import shlex
import shutil
from typing import Dict, List, Tuple

from jumar.launch.cores import Cores, cores_for
from jumar.launch.environment import (
    free_port,
    rank_variables,
    threads_each,
    visible_devices,
)
from jumar.launch.job import Command, Job, Request
from jumar.launch.jobdir import JobDir
from jumar.launch.spawn import Program
from jumar.launch.supervise import Rank


def plan_ranks(
    directory: JobDir,
    job: Job,
    request: Request,
    environment: Dict[str, str],
    folder: str,
) -> List[Rank]:
    """All ranks of this machine, ready to be started."""
    cores = Cores([None], [])
    if job.ranks == "device":
        cores = cores_for(job.device_kind, sorted(request.cards), None, environment)
    links = link_data(directory, job)
    argv = arguments(job.command, links, environment)
    base = {
        **environment,
        **visible_devices(job.device_kind, request.cards),
        **_data_variables(job, links),
        **_job_variables(directory, job, request),
    }
    count = job.device_count if job.ranks == "device" else 1
    port = free_port() if job.ranks == "device" else 0
    ranks: List[Rank] = []
    for rank in range(count):
        variables = dict(base)
        if job.ranks == "device":
            variables.setdefault("OMP_NUM_THREADS", threads_each(count))
            variables.update(
                rank_variables(
                    rank=rank,
                    world_size=count,
                    local_rank=rank,
                    local_world_size=count,
                    node=0,
                    master="127.0.0.1",
                    port=port,
                )
            )
        log = directory.log(0, rank)
        ranks.append(Rank(rank, Program(argv, variables, folder, log, cores.cpus[rank])))
    return ranks


def arguments(command: Command, paths: Dict[str, str], environment: Dict[str, str]) -> List[str]:
    """The argument vector, with the paths of inputs and outputs where the command wants them.

    A list gets `--name=PATH` for each name it does not place itself; a string is a shell's and
    is only filled in where it says `{name}`."""
    if isinstance(command, str):
        for name, path in paths.items():
            command = command.replace("{" + name + "}", shlex.quote(path))
        return [_shell(environment), "-c", command]
    placed = list(command)
    for name, path in paths.items():
        mark = "{" + name + "}"
        if any(mark in word for word in placed):
            placed = [word.replace(mark, path) for word in placed]
        else:
            placed.append(f"--{name}={path}")
    return placed


def link_data(directory: JobDir, job: Job) -> Dict[str, str]:
    """Make `inputs/` and `out/` of the job directory; name to the path the job gets."""
    paths = dict(job.inputs)
    for name, path in job.inputs.items():
        _link(path, directory.path("inputs", name))
    for name, target in job.outputs.items():
        own = directory.path("out", name)
        if target is None or os.path.normpath(target) == own:
            os.makedirs(own, exist_ok=True)
        else:
            os.makedirs(target, exist_ok=True)
            _link(target, own)
        paths[name] = target or own
    os.makedirs(directory.path("ckpt"), exist_ok=True)
    return paths


def _link(target: str, link: str) -> None:
    os.makedirs(os.path.dirname(link), exist_ok=True)
    if os.path.lexists(link):
        return
    os.symlink(target, link)


def _shell(environment: Dict[str, str]) -> str:
    return shutil.which("bash", path=environment.get("PATH")) or "/bin/sh"


def _data_variables(job: Job, paths: Dict[str, str]) -> Dict[str, str]:
    named: List[Tuple[str, str]] = [(f"JUMAR_INPUT_{name.upper()}", name) for name in job.inputs]
    named += [(f"JUMAR_OUTPUT_{name.upper()}", name) for name in job.outputs]
    return {variable: paths[name] for variable, name in named}


def _job_variables(directory: JobDir, job: Job, request: Request) -> Dict[str, str]:
    return {
        **marks(directory, job),
        "JUMAR_JOB_DIR": directory.root,
        "JUMAR_CKPT_DIR": directory.path("ckpt"),
        "JUMAR_RESUME_FROM": "",
        "JUMAR_SEGMENT": "1",
        "JUMAR_SEGMENTS": "1",
        "JUMAR_DEADLINE": "" if request.deadline is None else str(int(request.deadline)),
        "JUMAR_GRACE_S": f"{job.grace_s:g}",
        "JUMAR_STOP_FILE": directory.stop,
        "JUMAR_POD_ENV": directory.path("pod.env"),
    }


def marks(directory: JobDir, job: Job) -> Dict[str, str]:
    """What names the attempt in the environment of each of its processes."""
    return {"JUMAR_JOB_ID": job.job_id, "JUMAR_ATTEMPT": str(directory.number)}
