"""`jumar show`: everything about one job."""

import sys

import click

from jumar.cli import completing
from jumar.cli.arrays import one_of
from jumar.cli.connect import connected
from jumar.cli.keeping import leaves_at
from jumar.cli.output import (
    ago,
    clock,
    language,
    local,
    padded,
    print_json,
    readable,
    say,
    span,
    translated,
    wants_colour,
)
from jumar.cli.staging_text import staging_facts
from jumar.spec.devices import card_names
from jumar.spec.records import AttemptRecord, JobRecord
from jumar.spec.states import JobState
from jumar.words.reasons import (
    catalogue,
    ended_name,
    reason,
    recovery_sentence,
    state_name,
    told,
    value_name,
    waiting_sentence,
)

_COLOURS = {JobState.QUEUED: "yellow", JobState.SUCCEEDED: "green"}
_FAILED = frozenset({JobState.FAILED, JobState.TIMED_OUT, JobState.LOST})


@click.command()
@click.argument("job", shell_complete=completing.jobs)
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON.")
def command(job: str, as_json: bool) -> None:
    """Show everything about one job.

    JOB is an id, the first letters of one, or a name (your newest job of that name). USER/NAME is
    another user's job, for admins.

    \b
    Examples:
      jumar show digits --json
      jumar show ann/digits
    """
    with connected() as client:
        record = one_of(client, job)
        goes_at = leaves_at(client, [record])
    if as_json:
        print_json(record)
    elif sys.stdout.isatty():
        _draw(record, goes_at)
    else:
        _print(record, goes_at)


def _print(job: JobRecord, goes_at: float | None) -> None:
    """One fact per line: no frame, no wrapping."""
    for name, value in (
        ("id", job.id),
        ("name", job.name),
        ("state", state_name(job.state, language())),
        *_facts(job, goes_at),
    ):
        say(f"{padded(local(name), 12)} {value}")
    tail = _last_lines(job)
    if tail:
        say(f"{local('{label}:', label=local('last lines'))}\n{tail}")


def _draw(job: JobRecord, goes_at: float | None) -> None:
    from rich.console import Console, Group
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    colour = _COLOURS.get(job.state, "red" if job.state in _FAILED else "blue")
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row(local("state"), Text(state_name(job.state, language()), style=colour))
    for name, value in _facts(job, goes_at):
        facts.add_row(local(name), Text(readable(value)))
    parts: list[Table | Panel | Text] = [facts]
    tail = _last_lines(job)
    if tail:
        parts.append(Panel(Text(readable(tail)), title=local("last lines"), title_align="left"))
    title = Text(readable(f"{job.name}  {job.id}"))
    console = Console(no_color=not wants_colour(sys.stdout), highlight=False)
    console.print(Panel(Group(*parts), title=title, title_align="left"))


def _facts(job: JobRecord, goes_at: float | None) -> list[tuple[str, str]]:
    """What is worth a line, in the order people ask for it."""
    found: list[tuple[str, str]] = []
    why = reason(job, language())
    if why:
        found.append(("reason", why))
    if job.waiting is not None:
        found.append(("waits", waiting_sentence(job.waiting, language())))
        if job.waiting.expected_start is not None:
            found.append(("expected", clock(job.waiting.expected_start)))
    if job.array_id is not None:
        found.append(
            ("array", local("{id}, index {index}", id=job.array_id, index=job.array_index))
        )
    found.append(("user", job.user))
    found.append(("device", job.device if job.nodes == 1 else f"{job.nodes} x {job.device}"))
    if job.engine != "local":
        found.append(("engine", job.engine))
    found.append(("submitted", ago(job.created_at)))
    # Between two attempts nothing runs; the attempts' own lines say how long each took.
    if job.started_at is not None and job.state is not JobState.QUEUED:
        found.append(("ran", span(job.started_at, job.finished_at)))
    found.extend(staging_facts(job))
    found.extend(("attempt", _attempt(job, attempt)) for attempt in job.attempts)
    found.extend(("note", translated(note)) for note in job.notes)
    found.extend(
        (name, _grace(job) if name == "grace" else _value(name, value))
        for name, value in job.spec.items()
        if _worth(name, value)
    )
    found.append(("directory", job.directory))
    if goes_at is not None:
        found.append(("kept until", clock(goes_at)))
    if job.trial is not None:
        found.append(("trial", job.trial))
    return found


def _last_lines(job: JobRecord) -> str:
    """What a job that did not succeed wrote last."""
    if job.state is JobState.SUCCEEDED or not job.attempts:
        return ""
    return (job.attempts[-1].tail or "").rstrip("\n")


def _worth(name: str, value: object) -> bool:
    if value is False:
        return False
    return name not in ("name", "device", "nodes", "environment", "array") and value not in (
        None,
        [],
        {},
        "",
    )


def _value(name: str, value: object) -> str:
    if value is True:
        return local("yes")
    if isinstance(value, list):
        import shlex

        return shlex.join(str(item) for item in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - words of JSON
    if isinstance(value, dict):
        return ", ".join(f"{key}={one}" for key, one in value.items())  # pyright: ignore[reportUnknownVariableType] - words of JSON
    return value_name(name, str(value), language())


def _grace(job: JobRecord) -> str:
    """With a short limit a job is asked to save later than its grace before the end."""
    from jumar.spec.duration import parse_duration

    given, limit = job.spec["grace"], job.spec.get("time_limit")
    grace_s = float(str(parse_duration(given)))
    asked_s = grace_s if limit is None else float(str(parse_duration(limit))) / 3
    if asked_s >= grace_s:
        return _value("grace", given)
    return told(language(), "grace", grace=given, seconds=f"{asked_s:.3g}")


def _attempt(job: JobRecord, attempt: AttemptRecord) -> str:
    spoken = language()
    words = [f"{attempt.number}: {ended_name(attempt.state, attempt.cause, spoken)}"]
    if job.spec.get("segments", 1) != 1:
        words.append(told(spoken, "segment", number=attempt.segment))
    if attempt.started_at is not None:
        took = span(attempt.started_at, attempt.finished_at)
        words.append(told(spoken, "after", span=took))
    if attempt.cards:
        kind = job.device.partition(":")[0]
        cards = ", ".join(f"{kind}:{card}" for card in card_names(attempt.cards))
        words.append(told(spoken, "on", cards=cards))
    why = reason(attempt, spoken)
    if why:
        words.append(told(spoken, "why", why=why))
    if attempt.number > 1:
        cost = recovery_sentence(job.attempts[attempt.number - 2], attempt, spoken)
        words += [catalogue(spoken)["parts"], cost] if cost else []
    for one in attempt.notes:
        words += [catalogue(spoken)["parts"], translated(one)]
    return "".join(words)
