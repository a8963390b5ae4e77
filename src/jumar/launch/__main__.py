"""The launcher as a program: `python -m jumar.launch` and `jumar-launch.pyz`.

`JOBDIR --attempt N [--node K] [--control DIR]` runs one attempt of a job on one node: a cold start of what
the engine forks otherwise. The platform's files of the attempt are in DIR, if not in the job directory.
With `--dry-run` it only says what would be started. Anything else is a command line of `jumar launch`."""

import os
import sys
from typing import Optional, Sequence

from jumar.launch import later


def main(arguments: Optional[Sequence[str]] = None, *, from_shell: bool = False) -> int:
    """Run one command line and give the exit code; `from_shell`: as `jumar launch`."""
    open_closed_files()
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["--kept"]:
        from jumar.launch.node.kept import main as kept

        return kept(arguments)
    if arguments[:1] == ["--beside"]:
        from jumar.launch.node.beside import main as beside

        return beside([arguments[1], arguments[3]])
    if arguments and arguments[0].startswith("--slurm-"):
        return _for_slurm(arguments)
    if arguments[:1] == ["--kubernetes-pod"]:
        from jumar.launch.kubernetes.pod import main as pod

        return pod(arguments[1], int(arguments[2]), int(arguments[3]))
    if arguments[:1] == ["--ray"]:
        from jumar.launch.ray import main as ray

        return ray(arguments[1:])
    if _is_of_a_job(arguments):
        return _attempt(arguments)
    from jumar.launch.node.command_line import main as launch

    return launch(arguments, from_shell=from_shell)


def _for_slurm(arguments: Sequence[str]) -> int:
    if arguments[0] == "--slurm-as":
        from jumar.launch.slurm.as_user import main as as_user

        return as_user(arguments)
    if arguments[0] == "--slurm-batch":
        later.begin_quickly()
        from jumar.launch.slurm.batch import main as batch

        return batch(arguments[1], int(arguments[2]))
    if arguments[0] == "--slurm-alone":
        later.begin_quickly()
        from jumar.launch.slurm.alone import main as alone

        return alone(arguments[1])
    if arguments[0] == "--slurm-node":
        later.begin_quickly()
        from jumar.launch.slurm.node import main as node

        return node(arguments[1], int(arguments[2]))
    from jumar.launch.slurm.far import main as far

    return far()


def _is_of_a_job(arguments: Sequence[str]) -> bool:
    """Whether it names a job directory; a script may have an option called --attempt too."""
    first = arguments[0] if arguments else ""
    if first == "--attempt" or first.startswith("--attempt="):
        return True
    names_attempt = list(arguments[1:2]) == ["--attempt"] and not os.path.isfile(first)
    return names_attempt or os.path.isfile(os.path.join(first, "job.json"))


def _attempt(arguments: Sequence[str]) -> int:
    from jumar.launch.jobdir.safefile import Unusable
    from jumar.launch.options import parse_job
    from jumar.launch.ranks.cards import BadUsage

    try:
        directory, dry_run = parse_job(arguments)
        if dry_run:
            from jumar.launch.node.given import describe_attempt

            sys.stdout.write(describe_attempt(directory))
            return 0
        from jumar.launch.node.keeper import ALREADY_CLAIMED, run_attempt

        if os.getpgrp() != os.getpid():
            os.setsid()
        code = run_attempt(directory)
    except (BadUsage, OSError, Unusable) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if code == ALREADY_CLAIMED:
        of = f"attempt {directory.number} of job {directory.job_id}"
        print(f"error: {of} was already started on node {directory.node}", file=sys.stderr)
    return code


def open_closed_files() -> None:
    """A standard file that the caller has closed is /dev/null: the next one that is opened, such as
    a rank's log, would have its number."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


if __name__ == "__main__":
    sys.exit(main())
