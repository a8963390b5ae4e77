"""What sbatch is told of a job: pure."""

import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from jumar.engine.base import SEND_LIMIT_S, Attempt
from jumar.engine.slurm.asking import Gres
from jumar.spec.devices import DeviceKind
from jumar.spec.job import JobSpec

_KINDS = {DeviceKind.NPU: "npu", DeviceKind.GPU: "gpu"}
_MARGIN_S = 60
ALL_ATTEMPTS = 0
"""The number in the comment of a job of Slurm that has all attempts of ours, one after the other."""


def comment(home: Path, job_id: str, number: int) -> str:
    """How an attempt of ours is known again: ids of Slurm are used twice after a crash."""
    return f"jumar:{job_id}:{number}:{str(home)[-80:]}".replace("|", "_")


def name(job_id: str) -> str:
    """What a job is called in squeue."""
    return f"jumar-{job_id}"


def gres_of(spec: JobSpec, known: Sequence[Gres]) -> Gres | None:
    """The resource that the job's cards are; None where it asks for none."""
    kind = _KINDS.get(spec.device.kind)
    if kind is None:
        return None
    wanted = kind if spec.slurm is None else spec.slurm.gres or kind
    alike = [one for one in known if wanted in (one.name, one.name.partition(":")[0])]
    # A type is named only where it is the only one: else Slurm takes any.
    name = alike[0].name if len(alike) == 1 else wanted
    return Gres(name, min((one.cores_per_card for one in alike), default=0))


def options(attempt: Attempt, home: Path, gres: Gres | None, *, requeue: bool = False) -> list[str]:
    """The options of sbatch; `requeue`: where nobody else would start the job again."""
    spec, directory = attempt.spec, attempt.directory
    own = spec.slurm
    count = spec.device.count
    made = [
        f"--job-name={name(attempt.job_id)}",
        f"--comment={comment(home, attempt.job_id, ALL_ATTEMPTS if requeue else attempt.number)}",
        f"--nodes={spec.nodes}",
        "--ntasks-per-node=1",
        "--requeue" if requeue else "--no-requeue",
        "--open-mode=append",
        f"--output={str(directory / 'logs' / 'slurm.log').replace('%', '%%')}",
        f"--chdir={directory}",
        f"--signal=B:USR1@{_signal_s(spec)}",
        "--export=ALL",
    ]
    if gres is not None:
        made.append(f"--gres={gres.name}:{count}")
    cpus = _cpus(spec, gres)
    if cpus:
        made.append(f"--cpus-per-task={cpus}")
    if spec.time_limit is not None:
        made.append(f"--time={_minutes(spec)}")
    if own is not None:
        if own.mem_per_device is not None:
            made.append(f"--mem={int(own.mem_per_device[:-1]) * count}{own.mem_per_device[-1]}")
        made += [
            f"--{field}={value}"
            for field, value in (
                ("partition", own.partition),
                ("account", own.account),
                ("qos", own.qos),
            )
            if value is not None
        ]
        made += own.extra
    return made


def _cpus(spec: JobSpec, gres: Gres | None) -> int | None:
    """Without a word on it a job would get one core, whatever its cards."""
    if spec.slurm is not None and spec.slurm.cpus_per_device is not None:
        return spec.slurm.cpus_per_device * spec.device.count
    return spec.device.count * (1 if gres is None else gres.cores_per_card) or None


def _minutes(spec: JobSpec) -> int:
    """A backstop: the launcher keeps the clock, and Slurm's is coarse."""
    sending_s = SEND_LIMIT_S if spec.sends_results else 0
    return math.ceil(((spec.time_limit or 0) + spec.grace + sending_s + _MARGIN_S) / 60)


def _signal_s(spec: JobSpec) -> int:
    """Slurm may be a minute late."""
    return min(65535, math.ceil(spec.grace) + _MARGIN_S)


def script(directory: Path, number: int | None, program: Sequence[str] | None = None) -> str:
    """The batch script; without a number it runs whichever attempt is due. `program`: the launcher,
    where that is not the one of this machine."""
    which = ["--slurm-alone", str(directory)]
    if number is not None:
        which = ["--slurm-batch", str(directory), str(number)]
    own = [sys.executable, "-P", "-m", "jumar.launch"]
    return f"#!/bin/sh\nexec {shlex.join([*(program or own), *which])}\n"
