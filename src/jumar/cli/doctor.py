"""`jumar doctor`: what is wrong with this machine, and the line that fixes it."""

import sys

import click

from jumar.cli.output import (
    complain,
    labelled,
    local,
    padded_left,
    print_json,
    say,
    translated,
    wants_colour,
)
from jumar.errors import JumarError

_MARKS = {"ok": ("ok", "green"), "warn": ("warn", "yellow"), "fail": ("FAIL", "red")}
_UNSEEN = ("?", "bright_black")
_WORDS = {"ok": "ok", "warn": "to look at", "fail": "failing", "unknown": "could not be checked"}


@click.command()
@click.option("--python", metavar="PATH", help="The interpreter to check. [default: the shell's]")
@click.option("--only", multiple=True, metavar="NAME", help="Run this check or family only.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(python: str | None, only: tuple[str, ...], as_json: bool) -> int:
    """Find what keeps jobs from running on this machine.

    Exit code 0 if nothing fails, 1 otherwise.

    \b
    Example:
      jumar doctor --python ~/envs/npu/bin/python
    """
    from jumar.host.doctor import choose, examine
    from jumar.host.interpreter import resolve_python
    from jumar.host.patient import Patient
    from jumar.settings import home_of

    checks = choose(only)
    is_set = _settings_are_right()
    patient = Patient.this(home_of(), python)
    if python is not None:
        resolve_python(python, patient.environ)
    report = examine(patient, checks)
    if as_json:
        print_json({"well": report.is_well, "results": report.results})
    else:
        family = None
        for result in report.results:
            if result.family != family:
                family = result.family
                print(local("{label}:", label=translated(family)))
            mark, colour = _MARKS.get(result.verdict, _UNSEEN)
            mark = _paint(padded_left(local(mark), 4), colour)
            seen = local("{label}: {text}", label=result.check, text=translated(result.seen))
            print(f"  {mark}  {seen}")
            if result.fix is not None:
                print(f"        {labelled('fix', translated(result.fix))}")
        counts = [
            (verdict, sum(r.verdict == verdict for r in report.results)) for verdict in _WORDS
        ]
        parts = [local("{number} {verdict}", number=n, verdict=local(_WORDS[v])) for v, n in counts]
        say(local(", ").join(parts))
    return 0 if report.is_well and is_set else 1


def _settings_are_right() -> bool:
    """Whether a server would start with them; told as the server would."""
    from jumar.settings import load

    try:
        load()
    except JumarError as error:
        complain(error.message, hint=error.hint)
        return False
    return True


def _paint(text: str, colour: str) -> str:
    return click.style(text, fg=colour) if wants_colour(sys.stdout) else text
