"""`jumar selftest`: try the platform on this machine, with faults, in a home of its own."""

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import click

from jumar.cli.output import note, print_json, print_table
from jumar.spec.duration import format_duration

if TYPE_CHECKING:
    from jumar.selftest.run import Audience, Progress, Report

_MOST_SHOWN = 5


@click.command()
@click.option(
    "--jobs",
    type=click.IntRange(1, 10000),
    default=120,
    show_default=True,
    metavar="N",
    help="Jobs of all kinds: quick, failing, retried, stopped, simulated, …",
)
@click.option(
    "--users",
    type=click.IntRange(1, 200),
    default=4,
    show_default=True,
    metavar="N",
    help="Users who submit them.",
)
@click.option(
    "--clients",
    type=click.IntRange(1, 200),
    default=8,
    show_default=True,
    metavar="N",
    help="Clients who submit at the same time.",
)
@click.option(
    "--faults",
    type=click.IntRange(0, 1000),
    default=8,
    show_default=True,
    metavar="N",
    help="Kills, restarts and freezes; what runs out comes on top.",
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    metavar="N",
    help="Chooses jobs and the order of faults.",
)
@click.option(
    "--minutes",
    type=click.IntRange(1, 24 * 60),
    default=20,
    show_default=True,
    metavar="N",
    help="A job that is not over by then is stuck.",
)
@click.option(
    "--database",
    type=click.Choice(["sqlite", "postgres"]),
    default="sqlite",
    show_default=True,
    help="Where its queue is kept; PostgreSQL is one of its own.",
)
@click.option("--keep", is_flag=True, help="Keep its folder, also when all went well.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(
    jobs: int,
    users: int,
    clients: int,
    faults: int,
    seed: int,
    minutes: int,
    database: str,
    keep: bool,
    as_json: bool,
) -> int:
    """Try the platform on this machine, with faults.

    Starts a server in a home of its own, with cpu and sim devices of its own, and never touches the
    one you use. Several users submit jobs while server, warm process, keepers, supervisors and
    database are killed, descriptors and disk run out and the clock is set back. In the end each job
    must have run once, with its whole log, and nothing may be left. Exit code 1 when a promise was
    broken; its folder is then kept.

    Root fills a small disk of its own; setting the clock back takes libfaketime.

    \b
    Examples:
      jumar selftest
      jumar selftest --jobs 600 --users 12 --clients 20 --faults 30 --database postgres
    """
    from jumar.selftest.run import Size, run

    size = Size(
        jobs=jobs,
        users=users,
        clients=clients,
        faults=faults,
        seed=seed,
        minutes=minutes,
        database=database,
    )
    with _ended_by_sigterm(), _audience() as audience:
        report = run(size, audience, keep=keep)
    if as_json:
        print_json(report)
    else:
        _tell(report)
    return 0 if report.passed else 1


@contextmanager
def _ended_by_sigterm() -> Generator[None]:
    """Clean up as after Ctrl-C."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _audience() -> Generator["Audience"]:
    """A bar and the faults in a terminal, the faults alone elsewhere."""
    from jumar.selftest.run import Audience

    if not sys.stderr.isatty():
        yield Audience(note, lambda progress: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("starting", total=None)

        def show(progress: "Progress") -> None:
            words = (
                f"{progress.accepted}/{progress.jobs} accepted, {progress.begun} begun, "
                f"{progress.faults}/{progress.total_faults} faults"
            )
            done = progress.accepted + progress.begun
            bar.update(task, description=words, total=2 * progress.jobs, completed=done)

        yield Audience(lambda words: bar.console.print(words, highlight=False, markup=False), show)


def _tell(report: "Report") -> None:
    states = ", ".join(f"{count} {state}" for state, count in sorted(report.states.items()))
    print(f"jobs      {report.size.jobs} in {report.attempts} attempts: {states}")
    print(f"faults    {len(report.faults)}, seed {report.size.seed}")
    print(f"time      {format_duration(max(1, round(report.seconds)))}")
    for words in report.notes:
        print(f"note      {words}")
    print()
    rows = [
        ("held" if promise.held else "BROKEN", promise.name, promise.words)
        for promise in report.promises
    ]
    print_table(("VERDICT", "PROMISE", "IN WORDS"), rows)
    for promise in report.promises:
        if promise.held:
            continue
        print(f"\n{promise.name}:")
        for words in promise.broken[:_MOST_SHOWN]:
            print(f"  {words}")
        if len(promise.broken) > _MOST_SHOWN:
            print(f"  and {len(promise.broken) - _MOST_SHOWN} more; --json has all of them")
    if report.folder is not None:
        note(f"\nkept to look at: {report.folder} (server.log, jobs, ledger)")
