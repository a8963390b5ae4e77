"""`jumar shell`: a shell in a job, or in a job made for it."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import click

from jumar.cli.arrays import one_of
from jumar.cli.beside_terminal import run_beside
from jumar.cli.connect import connect, connected
from jumar.cli.follow import WaitNews, summarise
from jumar.cli.job_values import with_local_defaults
from jumar.cli.output import note
from jumar.client import Client
from jumar.errors import BadInput, JumarError
from jumar.spec.records import JobRecord
from jumar.spec.states import JobState

_LOOK_EVERY_S = 0.3
_END_LIMIT_S = 60.0


@click.command()
@click.argument("job", required=False)
@click.option(
    "--device", help="Queue a new job with these devices and open the shell in it: npu:1."
)
@click.option("--time-limit", metavar="TIME", help="End the new job after this time: 30m, 2h.")
@click.option("--name", help="Name of the new job.  [default: shell]")
def command(job: str | None, device: str | None, time_limit: str | None, name: str | None) -> int:
    """Open a shell in a running job, or on cards of its own.

    With JOB, the shell has the variables, folder and cards of the job's first process. With --device a
    job is queued that waits for the shell and ends with it; the cards are yours until you leave. If
    input is not a terminal, the shell reads commands from it.

    \b
    Examples:
      jumar shell digits
      jumar shell --device npu:1 --time-limit 2h
    """
    with_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if job is not None:
        if device or time_limit or name:
            raise BadInput(
                "--device, --time-limit and --name are for a new job",
                hint="leave them out, or leave out JOB",
            )
        with connected() as client:
            return run_beside(client, one_of(client, job).id, None, with_terminal=with_terminal)
    if device is None:
        raise BadInput(
            "neither a job nor a device is given",
            hint="jumar shell JOB, or jumar shell --device npu:1",
        )
    wanted = {"name": name or "shell", "device": device, "time_limit": time_limit}
    given: dict[str, Any] = {k: v for k, v in wanted.items() if v}
    # Nobody waits at the other end of a second one.
    return _on_own_cards({**given, "fault_retries": 0}, with_terminal=with_terminal)


def _on_own_cards(wanted: dict[str, Any], *, with_terminal: bool) -> int:
    # Late: only this way needs it.
    from jumar.client.holding import HOLD

    server = connect()
    values = {**wanted, "command": list(HOLD)}
    if server.on_this_machine:
        values = with_local_defaults(values, os.environ, Path.cwd())
    with server.client as client:
        job = client.submit(values)
        note(f"submitted {job.name} ({job.id})")
        is_over = False
        try:
            running = _when_running(client, job.id)
            if running.state is not JobState.RUNNING:
                is_over = True
                summarise(running)
                return 1
            code = run_beside(client, job.id, None, with_terminal=with_terminal, holds=True)
            _wait_for_end(client, job.id)
            is_over = True
            return code
        finally:
            if not is_over:
                _stop(client, job.id)


def _when_running(client: Client, job: str) -> JobRecord:
    with WaitNews(client, job) as waits:
        while True:
            record = client.get(job)
            if record.state is JobState.RUNNING or record.state.is_final:
                return record
            waits.state(record.state)
            time.sleep(_LOOK_EVERY_S)


def _wait_for_end(client: Client, job: str) -> None:
    """So that its cards are free when the prompt is back."""
    try:
        client.wait(job, _END_LIMIT_S)
    except TimeoutError:
        note(f"the job {job} has not ended yet")


def _stop(client: Client, job: str) -> None:
    try:
        client.stop(job)
    except JumarError as error:
        note(f"the job {job} may still be there: {error.message}")
