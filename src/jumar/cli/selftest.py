"""`jumar selftest`: test the platform on this machine with faults, in a home of its own."""

import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from jumar.cli.output import (
    local,
    note,
    padded,
    print_json,
    print_table,
    say,
    span_text,
    translated,
)

if TYPE_CHECKING:
    from jumar.selftest.run import Audience, Progress, Report

_MOST_SHOWN = 5
_Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def _number(flag: str, type_: click.IntRange | type[int], default: int, words: str) -> _Option:
    return click.option(
        flag, type=type_, default=default, show_default=True, metavar="N", help=words
    )


@click.command()
@_number(
    "--jobs",
    click.IntRange(1, 10000),
    120,
    "Number of jobs: quick, failing, retried, stopped, simulated, …",
)
@_number("--users", click.IntRange(1, 200), 4, "Number of users who submit them.")
@_number("--clients", click.IntRange(1, 200), 8, "Number of clients that submit at the same time.")
@_number(
    "--faults",
    click.IntRange(0, 1000),
    8,
    "Kills, restarts and freezes; exhaustion faults are added to these.",
)
@_number("--seed", int, 1, "Determines the jobs and the order of faults.")
@_number("--minutes", click.IntRange(1, 24 * 60), 20, "A job that has not ended by then is stuck.")
@click.option(
    "--database",
    type=click.Choice(["sqlite", "postgres"]),
    default="sqlite",
    show_default=True,
    help="Database for its queue; starts a PostgreSQL of its own.",
)
@click.option("--keep", is_flag=True, help="Keep its folder even if every promise held.")
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
    """Test the platform on this machine by injecting faults.

    Starts a separate server with its own home and its own cpu and sim devices; it never touches the
    one you use. Several users submit jobs while processes of the platform and its database are killed,
    descriptors and disk space run out, and the clock is set back. In the end each job must have run
    once, with a complete log, and nothing may be left behind. Exit code 1 if a promise was broken; the
    folder is then kept.

    Filling the disk requires root; setting the clock back requires libfaketime.

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
    """In a terminal a progress bar and the faults, elsewhere only the faults."""
    from jumar.selftest.run import Audience

    if not sys.stderr.isatty():
        yield Audience(note, lambda progress: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(local("starting"), total=None)

        def show(progress: "Progress") -> None:
            words = local(
                "{accepted}/{jobs} accepted, {begun} started, {faults}/{total} faults",
                accepted=progress.accepted,
                jobs=progress.jobs,
                begun=progress.begun,
                faults=progress.faults,
                total=progress.total_faults,
            )
            done = progress.accepted + progress.begun
            bar.update(task, description=words, total=2 * progress.jobs, completed=done)

        yield Audience(lambda words: bar.console.print(words, highlight=False, markup=False), show)


def _tell(report: "Report") -> None:
    from jumar.cli.output import language
    from jumar.words.reasons import state_name

    states = local(", ").join(
        f"{count} {state_name(state, language())}" for state, count in sorted(report.states.items())
    )
    jobs = {"jobs": report.size.jobs, "attempts": report.attempts, "states": states}
    faults = {"faults": len(report.faults), "seed": report.size.seed}
    for label, text in (
        ("jobs", local("{jobs} in {attempts} attempts: {states}", **jobs)),
        ("faults", local("{faults}, seed {seed}", **faults)),
        ("time", span_text(max(1, round(report.seconds)))),
        *(("note", translated(words)) for words in report.notes),
    ):
        print(f"{padded(local(label), 9)} {text}")
    print()
    rows = [
        (local("held" if promise.held else "BROKEN"), promise.name, translated(promise.words))
        for promise in report.promises
    ]
    print_table(("VERDICT", "PROMISE", "MEANING"), rows)
    for promise in report.promises:
        if promise.held:
            continue
        say(f"\n{promise.name}:")
        for words in promise.broken[:_MOST_SHOWN]:
            say(f"  {words}")
        if len(promise.broken) > _MOST_SHOWN:
            more = len(promise.broken) - _MOST_SHOWN
            say(f"  {local('and {count} more; see all with --json', count=more)}")
    if report.folder is not None:
        note(f"\nkept: {report.folder} (server.log, jobs, ledger)")
