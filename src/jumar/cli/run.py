"""`jumar run`: submit a job."""

import os
import re
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import click

from jumar.cli import completing
from jumar.cli import measure as measuring
from jumar.cli.connect import Connected, connect
from jumar.cli.follow import follow_array, follow_to_exit_code, log_to, tell_queued
from jumar.cli.job_values import is_given, spec_values, with_local_defaults
from jumar.cli.output import local, note, print_json, say, translated
from jumar.client import Client
from jumar.errors import BadInput

_QUIET_BELOW = 8 << 20
_FIELD = re.compile(r"^job: (\w+)(?:, item \d+)?", re.MULTILINE)
_FIELDS_OF_FLAGS = {"env": "environment", "distributed": "type"}
"""Where a flag is not called what it sets."""


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option(
    "-f", "--file", type=click.Path(path_type=Path), help="A job file; flags override it."
)
@click.option("--name", help="Name of the job.  [default: the script's name]")
@click.option(
    "--device",
    shell_complete=completing.devices,
    help="Kind and count per node: npu:2, gpu:1, sim:8, cpu.  [default: cpu]",
)
@click.option("--nodes", type=int, help="Number of machines.")
@click.option("--distributed", is_flag=True, help="Several processes, one per device.")
@click.option(
    "--ranks", type=click.Choice(["node", "device"]), help="Start once per node or device."
)
@click.option(
    "--code",
    metavar="DIR",
    help="Copy this folder, git+URL@COMMIT (or @BRANCH) or hub://project/OWNER/NAME, and run in it.",
)
@click.option("--workdir", help="Run in this folder itself.  [default: the current folder]")
@click.option(
    "--activate",
    multiple=True,
    metavar="NAME",
    help='First activate a conda environment, a venv (its path), a script, or "module load ...".',
)
@click.option("--requirements", metavar="FILE", help="A requirements file inside the code.")
@click.option("--env", multiple=True, metavar="K[=V]", help="Set a variable; K alone copies yours.")
@click.option("--input", "inputs", multiple=True, metavar="NAME=URL", help="What the job reads.")
@click.option("--output", "outputs", multiple=True, metavar="NAME=URL", help="What it writes.")
@click.option("--ckpt", metavar="URL", help="Where checkpoints are kept between jobs.")
@click.option(
    "--after",
    multiple=True,
    metavar="JOB",
    shell_complete=completing.jobs,
    help="Start when this job or array has succeeded; any:JOB: when it has ended.",
)
@click.option(
    "--array", metavar="INDICES", help="One job per index: 0-9, 1,4-8; 0-99%4: at most 4 at once."
)
@click.option("--priority", type=int, help="1 to 1000; your higher ones go first.  [default: 100]")
@click.option("--time-limit", metavar="TIME", help="End it after this time: 90s, 30m, 1h30m, 2d.")
@click.option("--grace", metavar="TIME", help="Time between SIGTERM and SIGKILL.  [default: 30s]")
@click.option(
    "--hang-limit",
    metavar="TIME",
    help="With several ranks: end it if none does anything for this long; 0: never.  [default: 30m]",
)
@click.option(
    "--segments",
    metavar="N",
    help="Time limits it may take, each resuming from the last checkpoint; auto: until it is done.",
)
@click.option(
    "--measure",
    is_flag=True,
    help="Run one segment and say how many the training needs, and when it would end.",
)
@click.option("--retries", type=int, help="Number of retries if the script fails.")
@click.option(
    "--fault-retries", type=int, help="Number of retries after a machine fault.  [default: 3]"
)
@click.option(
    "--preemptible", is_flag=True, help="Makes room for other jobs and resumes afterwards."
)
@click.option(
    "--no-resume",
    is_flag=True,
    help="Leave the script's libraries as they are: no automatic saving and resuming.",
)
@click.option(
    "--deterministic",
    is_flag=True,
    help="Make runs repeatable: fixed seeds, deterministic operators where there are any.",
)
@click.option("--auto-port", is_flag=True, help="Run a CUDA script on NPUs without editing it.")
@click.option("--cpus", type=int, metavar="N", help="The most cores it may use; on a site.")
@click.option("--memory", metavar="SIZE", help="The most memory it may use: 512M, 16G; on a site.")
@click.option("--framework", help="What it is written for, such as pytorch.")
@click.option("--image", help="Container image of the server's machine; see: jumar images.")
@click.option(
    "--endpoint",
    "endpoints",
    multiple=True,
    metavar="NAME",
    help="What can be opened while it runs: jupyter, tensorboard, ssh, http:PORT.",
)
@click.option(
    "--engine",
    type=click.Choice(["local", "slurm", "modelarts", "kubernetes"]),
    help="Where it runs; slurm needs no server.  [default: the server's]",
)
@click.option(
    "-F",
    "--follow",
    is_flag=True,
    help="Print the log until the job ends; exit code 1 if it fails.",
)
@click.option("--stop-on-interrupt", is_flag=True, help="With --follow: Ctrl-C stops the job.")
@click.option("--dry-run", is_flag=True, help="Print what would be done; queue nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the job as JSON.")
def command(
    *,
    words: tuple[str, ...],
    follow: bool,
    stop_on_interrupt: bool,
    dry_run: bool,
    as_json: bool,
    measure: bool,
    no_resume: bool,
    engine: str | None,
    **flags: Any,
) -> int:
    """Submit a job.

    Put the command after "--". It runs in the current folder unless --code or --workdir is given,
    with the Python of your shell. Prints the job's id. Ctrl-C while following does not stop the job
    (exit code 130).

    \b
    Examples:
      jumar run --device npu:2 --distributed -- python train.py --epochs 3
      jumar run --device sim:2 --auto-port --follow -- python train_on_cuda.py
      jumar run -f job.yaml --priority 500 --follow
      jumar run --code . --input data_url=/data/digits --dry-run -- python train.py
      jumar run --array 0-9%2 -- bash -c 'python train.py --seed $JUMAR_ARRAY_INDEX'
      jumar run --activate torch2 --after digits -- python evaluate.py
      jumar run --time-limit 1h --measure -- python train.py --epochs 90
      jumar run --time-limit 1h --segments 10 -- python train.py
      jumar run -f job.yaml --engine slurm --dry-run
      jumar run -f job.yaml --engine kubernetes --dry-run
    """
    for name in ("endpoints", "activate", "after"):
        flags[name] = list(flags[name])
    values = spec_values(words, os.environ, **flags)
    if no_resume:
        values["resume"] = False
    if measure:
        values = measuring.prepared(values)
    if engine == "kubernetes" and dry_run:
        return _print_manifests(values, as_json)
    with _faults_in_flags(flags):
        server = connect(
            before_start=lambda: _check(values), engine=engine, login=_login_of(values)
        )
    with server.client as client:
        with _faults_in_flags(flags):
            values = with_code_sent(client, _completed(server, values))
            if dry_run:
                _print_plan(server, values, as_json)
                return 0
            job = client.submit(values, engine=server.runs_on)
        _tell_notes(job.notes)
        if measure:
            write = log_to(sys.stderr if as_json else sys.stdout) if follow else None
            if follow:
                note(f"submitted {job.name} ({job.id})")
            return measuring.measure(
                client, job.id, as_json=as_json, write=write, stops=follow and stop_on_interrupt
            )
        if not follow:
            tell_queued(job, as_json=as_json)
            return 0
        array = values.get("array")
        if array is not None:
            return follow_array(
                client, job, str(array), stop_on_interrupt=stop_on_interrupt, as_json=as_json
            )
        return follow_to_exit_code(
            client, job, stop_on_interrupt=stop_on_interrupt, as_json=as_json
        )


def _check(values: dict[str, Any]) -> None:
    """Refuse here what the server would refuse, without starting it."""
    from jumar.spec.document import validate_spec

    validate_spec(values, source="job")


@contextmanager
def _faults_in_flags(flags: Mapping[str, Any]) -> Generator[None]:
    """Where a field is refused that was given as a flag, say the flag."""
    try:
        yield
    except BadInput as error:
        options = {
            _FIELDS_OF_FLAGS.get(str(option.name), option.name): option.opts[-1]
            for option in click.get_current_context().command.params
            if is_given(flags.get(str(option.name))) and isinstance(option, click.Option)
        }
        named = _FIELD.sub(lambda match: options.get(match[1], match[0]), error.message)
        if named == error.message:
            raise
        raise BadInput(named, hint="see: jumar run --help") from error


def _completed(server: Connected, values: dict[str, Any]) -> dict[str, Any]:
    has_code = values.get("code") is not None or values.get("workdir") is not None
    if server.on_this_machine and server.engine == "kubernetes":
        # Neither the folder nor the Python of this shell means anything in a pod.
        if not has_code:
            note("note: no code is sent, the job starts in an empty folder; send it with --code .")
        return values
    if server.on_this_machine:
        return with_local_defaults(values, os.environ, Path.cwd())
    if not has_code:
        raise BadInput(
            f"{server.client.url} is another machine: this folder does not exist there",
            hint="send it with --code . or name a folder there with --workdir",
        )
    return values


def _print_plan(server: Connected, values: dict[str, Any], as_json: bool) -> None:
    plan = server.client.plan(values, engine=server.runs_on)
    if as_json:
        print_json(plan)
        return
    import json

    say(plan.summary)
    for name, value in plan.details.items():
        say(f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
    _tell_notes(plan.notes)


def _login_of(values: dict[str, Any]) -> str | None:
    """Over whose SSH a cluster is reached; what is no such thing, the check of the job says."""
    options: object = values.get("slurm")
    if not isinstance(options, dict):
        return None
    login = cast("dict[str, object]", options).get("ssh")
    return login if isinstance(login, str) else None


def _print_manifests(values: dict[str, Any], as_json: bool) -> int:
    """Needs neither a server nor a cluster."""
    import yaml

    from jumar.engine.kubernetes.manifests import Origin, manifests
    from jumar.engine.kubernetes.options import cluster_options
    from jumar.settings import load
    from jumar.spec.document import validate_spec

    settings = load()
    # The folder of the shell means nothing on a cluster; a file may name one that its nodes have.
    spec = validate_spec(values, source="job")
    options = cluster_options(settings.kubernetes)
    origin = Origin(settings.home, "program/jumar", "id", os.getuid(), os.getgid())
    made = manifests(spec, "id", 1, options, origin)
    if as_json:
        print_json(made)
    else:
        sys.stdout.write(yaml.safe_dump_all(made, sort_keys=False, allow_unicode=True))
    return 0


def _tell_notes(notes: tuple[str, ...]) -> None:
    """What the engine will not do of what was asked."""
    for words in notes:
        note(local("note: {text}", text=translated(words)))


def with_code_sent(client: Client, values: Mapping[str, Any]) -> dict[str, Any]:
    """The job's values; a folder of code in them is sent and replaced by its archive."""
    sent = client.with_code_sent(values, on_progress=_progress if sys.stderr.isatty() else None)
    for entry in sent.left_out:
        note(f"left out: {entry}")
    return sent.values


def _progress(done: int, total: int) -> None:
    if total < _QUIET_BELOW:
        return
    end = "\n" if done == total else ""
    words = local("sending code: {share} %", share=done * 100 // total)
    print(f"\r{words}", end=end, file=sys.stderr, flush=True)
