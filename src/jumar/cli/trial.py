"""`jumar try`: a script on simulated NPUs, here and now, with no server and no card."""

import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import click

from jumar.cli.output import note
from jumar.errors import BadInput
from jumar.inject.simulated import MODES, environment
from jumar.spec.duration import format_duration, parse_duration

# The script ends by itself at its next step; these are for one that does not come to a step.
_GRACE_S = 10
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Trial:
    """What to run, and how far."""

    command: tuple[str, ...]
    environ: dict[str, str]
    time_s: int


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--devices", type=click.IntRange(1, 64), default=8, show_default=True)
@click.option(
    "--mode",
    type=click.Choice(MODES),
    default="warn",
    show_default=True,
    help="strict: refuse what a real NPU refuses; warn: run and list it; fast: check nothing.",
)
@click.option("--steps", type=click.IntRange(1), help="End after so many optimizer steps.")
@click.option("--time", "time_limit", metavar="TIME", help="End after a time, like 60s or 5m.")
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), help="Also as JSON.")
@click.argument("words", nargs=-1, required=True, metavar="-- COMMAND…")
def command(
    devices: int,
    mode: str,
    steps: int | None,
    time_limit: str | None,
    report: Path | None,
    words: tuple[str, ...],
) -> int:
    """Try a script on simulated NPUs.

    `import torch_npu` works in the command and its children. What matters on a real card is
    reported on stderr at the end; the exit code is the command's own.

    \b
    Example:
      jumar try --steps 20 -- python train.py --epochs 1
    """
    time_s = _seconds(time_limit)
    environ = environment(
        os.environ,
        devices=devices,
        mode=mode,
        report=_writable(report),
        steps=steps or 0,
        time_s=time_s,
    )
    return run(Trial(command=_resolved(words), environ=environ, time_s=time_s))


def _seconds(text: str | None) -> int:
    if text is None:
        return 0
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise BadInput(f"--time: {error}") from None
    if not isinstance(seconds, int) or seconds <= 0:
        raise BadInput(f"--time: {text!r} is no time at all", hint="write 60s or 5m")
    return seconds


def _writable(report: Path | None) -> Path | None:
    if report is None:
        return None
    folder = report.absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise BadInput(f"--report: cannot write into {folder}")
    return report.absolute()


def _resolved(words: tuple[str, ...]) -> tuple[str, ...]:
    program = shutil.which(words[0])
    if program is None:
        raise BadInput(
            f"{words[0]!r} is not a program on this machine",
            hint="write: jumar try -- python train.py",
        )
    return (program, *words[1:])


def run(trial: Trial) -> int:
    """Run the command to its end or its limit, and give its exit code."""
    # A session of its own, so that the limit and Ctrl-C reach the children too.
    process = subprocess.Popen(trial.command, env=trial.environ, start_new_session=True)
    limit_s = trial.time_s + _GRACE_S if trial.time_s else None
    stopped = False
    try:
        code = process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        note(f"jumar: {format_duration(trial.time_s)} are over, the command is stopped")
        stopped = True
        code = _end(process)
    except KeyboardInterrupt:
        _end(process)
        raise
    finally:
        _signal_group(process.pid, signal.SIGKILL)
    if stopped:
        return 0
    return code if code >= 0 else 128 - code


def _end(process: "subprocess.Popen[bytes]") -> int:
    """Ask the whole session to end, then make it."""
    for number in _SIGNALS:
        _signal_group(process.pid, number)
        deadline = time.monotonic() + _GRACE_S
        try:
            return process.wait(timeout=max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            continue
    return process.wait()


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return
