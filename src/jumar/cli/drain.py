"""`jumar drain`: start no jobs, before maintenance."""

import time
from typing import TYPE_CHECKING

import click

from jumar.cli.connect import connected
from jumar.cli.output import count_text, language, local, note, print_json, visible
from jumar.cli.seconds import whole_seconds
from jumar.spec.draining import DrainReport
from jumar.words.reasons import drain_why

if TYPE_CHECKING:
    from jumar.client import Client

_LOOK_EVERY_S = 1.0


@click.command()
@click.option("--why", default="", metavar="TEXT", help="Shown to users whose jobs wait.")
@click.option(
    "--for", "lasts", metavar="TIME", help="Start jobs again after this long, such as 2h."
)
@click.option(
    "--requeue",
    is_flag=True,
    help="Ask running jobs to save; they go back in line and resume afterwards.",
)
@click.option(
    "--wait",
    is_flag=True,
    help="Return when no job is running. Alone, it changes nothing of a drain that is on.",
)
@click.option("--off", is_flag=True, help="Start jobs again.")
@click.option("--status", is_flag=True, help="Change nothing, only show.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    why: str,
    lasts: str | None,
    requeue: bool,
    wait: bool,
    off: bool,
    status: bool,
    as_json: bool,
) -> None:
    """Stop starting jobs, before maintenance.

    Running jobs continue to their end, or with --requeue save and go back in
    line. Jobs can still be submitted and wait. Only admins can drain a server.

    \b
    Examples:
      jumar drain --requeue --wait --why "new driver, back at 6 pm"
      jumar drain --off
    """
    if (off or status) and (why or lasts or requeue or (off and status)):
        raise click.UsageError("--off and --status take no other options that change a drain")
    with connected() as client:
        if off:
            found = client.end_drain()
        elif status:
            found = client.drain_report()
        elif wait and not (why or lasts or requeue) and (now := client.drain_report()).drain:
            # Whoever only waits takes nothing back of what was said.
            found = now
        else:
            until = None if lasts is None else time.time() + whole_seconds("--for", lasts)
            found = client.begin_drain(why=why, until=until, requeue=requeue)
        if wait:
            found = _wait(client, found)
    if as_json:
        print_json(found)
    else:
        print(_words(found))


def _wait(client: "Client", found: DrainReport) -> DrainReport:
    said = -1
    while found.drain is not None and found.running:
        if found.running != said:
            many = count_text(
                found.running, "1 job is still running", "{count} jobs are still running"
            )
            note(many)
            said = found.running
        time.sleep(_LOOK_EVERY_S)
        found = client.drain_report()
    return found


def _words(found: DrainReport) -> str:
    if found.drain is None:
        return local("jobs are started as usual")
    said = local("no jobs are started")
    if found.drain.until is not None:
        until = time.strftime("%Y-%m-%d %H:%M", time.localtime(found.drain.until))
        said = local("no jobs are started until {until}", until=until)
    if found.drain.why:
        why = visible(drain_why(found.drain.why, language()))
        said = local("{said} ({why})", said=said, why=why)
    running = count_text(found.running, "1 job is running", "{count} jobs are running")
    if not found.running:
        running = local("no job is running")
    return local("{said}; {running}", said=said, running=running)
