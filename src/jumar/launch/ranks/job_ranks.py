"""The ranks of a job: which command with which variables, in which folder.

How ranks on devices find each other is the business of `ranks`."""

import os
import shlex
import shutil
from typing import Dict, List, NamedTuple, Optional, Tuple

from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.job import Command, Job, Request
from jumar.launch.processes.namespace import View
from jumar.launch.processes.spawn import Program
from jumar.launch.processes.supervise import Rank
from jumar.launch.ranks import frameworks
from jumar.launch.ranks.boot import boot_of
from jumar.launch.ranks.cores import cores_for
from jumar.launch.ranks.environment import free_port, visible_devices
from jumar.launch.ranks.frameworks import Devices, Group
from jumar.launch.ranks.make import Shared, local_rank_option, make_ranks


class Prepared(NamedTuple):
    """What was made ready for the ranks."""

    folder: str
    """Where they start."""
    data: Dict[str, str]
    """The path of each input and output."""
    rank_table: Optional[str]
    """There for NPUs."""
    view: Optional[View] = None


def plan_ranks(
    directory: JobDir,
    job: Job,
    request: Request,
    environment: Dict[str, str],
    prepared: Prepared,
) -> List[Rank]:
    """All ranks of this machine, ready to be started."""
    argv = arguments(job.command, prepared.data, environment)
    common = {
        **environment,
        **_data_variables(job, prepared.data),
        **_job_variables(directory, job, request),
    }
    # A table that the job brings itself is meant.
    table = job.environment.get("RANK_TABLE_FILE") or prepared.rank_table
    prepared = prepared._replace(rank_table=table)
    if job.ranks == "device":
        return _on_devices(directory, job, request, argv, common, prepared)
    variables = {
        **common,
        **visible_devices(job.device_kind, request.card_facts),
        **_node_variables(job, table),
    }
    log = directory.log(0, 0)
    program = Program(argv, variables, prepared.folder, log, view=prepared.view)
    return [Rank(0, program, is_starter=True)]


def _on_devices(
    directory: JobDir,
    job: Job,
    request: Request,
    argv: List[str],
    common: Dict[str, str],
    prepared: Prepared,
) -> List[Rank]:
    boot = boot_of(job.command, prepared.folder)
    framework = frameworks.named(job.framework) or frameworks.guess(boot.path)
    cards = request.card_facts
    shared = Shared(
        framework,
        argv,
        common,
        prepared.folder,
        os.path.dirname(directory.log(0, 0)),
        cores_for(job.device_kind, cards, common),
        local_rank_option(boot, argv),
        prepared.view,
    )
    group = Group(
        node=0,
        nodes=1,
        first_rank=0,
        local_count=job.device_count,
        world_size=job.device_count,
        master="127.0.0.1",
        port=free_port(),
        address="127.0.0.1",
        run_id=job.job_id,
    )
    own_table = prepared.rank_table if framework != "torch" else None
    return make_ranks(shared, group, Devices(job.device_kind, cards, own_table))


def _node_variables(job: Job, table: Optional[str]) -> Dict[str, str]:
    """What platforms with NPUs tell a command that starts its ranks itself."""
    if job.device_kind != "npu":
        return {}
    made = {"RANK_SIZE": str(job.device_count), "DEVICE_ID": "0"}
    if table is not None:
        made["RANK_TABLE_FILE"] = table
    return {**made, **{name: job.environment[name] for name in made if name in job.environment}}


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
    if job.ckpt is not None:
        os.makedirs(job.ckpt, exist_ok=True)
        _link(job.ckpt, directory.path("ckpt"))
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
