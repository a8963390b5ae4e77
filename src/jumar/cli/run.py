"""`jumar run`: submit a job."""

import os
from pathlib import Path
from typing import Any

import click

from jumar.cli.connect import Connected, connect
from jumar.cli.follow import follow_to_exit_code, tell_queued
from jumar.cli.output import note, print_json, say
from jumar.cli.request import Flags, spec_values, with_local_defaults
from jumar.cli.sending import with_code_sent
from jumar.errors import BadInput


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option(
    "-f", "--file", type=click.Path(path_type=Path), help="A job file; flags override it."
)
@click.option("--name", help="Name of the job.  [default: the script's name]")
@click.option("--device", help="Kind and count per node: npu:2, gpu:1, sim:8, cpu.  [default: cpu]")
@click.option("--nodes", type=int, help="Number of machines.")
@click.option("--distributed", is_flag=True, help="Several processes, one per device.")
@click.option(
    "--ranks", type=click.Choice(["node", "device"]), help="Start once per node or device."
)
@click.option("--code", metavar="DIR", help="Copy this folder, or git+URL@COMMIT, and run in it.")
@click.option("--workdir", help="Run in this folder itself.  [default: the current folder]")
@click.option("--requirements", metavar="FILE", help="A requirements file inside the code.")
@click.option("--env", multiple=True, metavar="K[=V]", help="Set a variable; K alone copies yours.")
@click.option("--input", "inputs", multiple=True, metavar="NAME=URL", help="What the job reads.")
@click.option("--output", "outputs", multiple=True, metavar="NAME=URL", help="What it writes.")
@click.option("--ckpt", metavar="URL", help="Where checkpoints are kept between jobs.")
@click.option("--priority", type=int, help="1 to 1000; your higher ones go first.  [default: 100]")
@click.option("--time-limit", metavar="TIME", help="End it after this time: 90s, 30m, 1h30m, 2d.")
@click.option("--grace", metavar="TIME", help="Time between SIGTERM and SIGKILL.  [default: 30s]")
@click.option("--retries", type=int, help="How often to retry if it fails.")
@click.option(
    "--preemptible", is_flag=True, help="May be preempted by more urgent jobs; not used yet."
)
@click.option("--auto-port", is_flag=True, help="Run a CUDA script on NPUs without editing it.")
@click.option("--framework", help="What it is written for, such as pytorch.")
@click.option("--image", help="Container image; stored with the job, not used yet.")
@click.option(
    "--endpoint", "endpoints", multiple=True, help="ssh, jupyter or tensorboard; not offered yet."
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
    file: Path | None,
    distributed: bool,
    code: str | None,
    env: tuple[str, ...],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    follow: bool,
    stop_on_interrupt: bool,
    dry_run: bool,
    as_json: bool,
    **fields: Any,
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
    """
    fields["endpoints"] = list(fields["endpoints"]) or None
    for flag in ("auto_port", "preemptible"):
        fields[flag] = fields[flag] or None
    flags = Flags(
        file=file,
        command=words,
        code=code,
        environment=env,
        inputs=inputs,
        outputs=outputs,
        distributed=distributed,
        fields=fields,
    )
    values = spec_values(flags, os.environ)
    server = connect(before_start=lambda: _check(values))
    with server.client as client:
        values = with_code_sent(client, _completed(server, values))
        if dry_run:
            _print_plan(server, values, as_json)
            return 0
        job = client.submit(values)
        _tell_notes(job.notes)
        if not follow:
            tell_queued(job, as_json=as_json)
            return 0
        return follow_to_exit_code(
            client, job, stop_on_interrupt=stop_on_interrupt, as_json=as_json
        )


def _check(values: dict[str, Any]) -> None:
    """Refuse here what the server would refuse, without starting it."""
    from jumar.spec.document import validate_spec

    validate_spec(values, source="jumar run")


def _completed(server: Connected, values: dict[str, Any]) -> dict[str, Any]:
    if server.on_this_machine:
        return with_local_defaults(values, os.environ, Path.cwd())
    if values.get("code") is None and values.get("workdir") is None:
        raise BadInput(
            f"{server.client.url} is another machine: this folder does not exist there",
            hint="send it with --code . or name a folder there with --workdir",
        )
    return values


def _print_plan(server: Connected, values: dict[str, Any], as_json: bool) -> None:
    plan = server.client.plan(values)
    if as_json:
        print_json(plan)
        return
    import json

    say(plan.summary)
    for name, value in plan.details.items():
        say(f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
    _tell_notes(plan.notes)


def _tell_notes(notes: tuple[str, ...]) -> None:
    """What the engine will not do of what was asked."""
    for words in notes:
        note(f"note: {words}")
