"""`jumar top`: the cards, how busy they are and who holds them."""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from jumar.cli.output import (
    card_name,
    local,
    note,
    print_json,
    print_table,
    readable_line,
    span,
    wants_colour,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from jumar.devices.overview import CardView
    from jumar.spec.records import CardUse

_PAUSE_S = 2.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_BAR_WIDTH = 10
HEADER = ("CARD", "NAME", "HEALTH", "MEMORY", "USE", "JOB", "ID", "USER", "FOR", "PROCESSES")


@click.command()
@click.option("--once", is_flag=True, help="Print once and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print the cards as a JSON list, once.")
def command(once: bool, as_json: bool) -> None:
    """Show the cards and who holds them.

    Live until Ctrl-C in a terminal; once if stdout is not a terminal. Needs no server: without one
    it shows the cards of this machine, without job names. Processes that no job started are
    marked foreign.

    \b
    Example:
      jumar top --once
    """
    if as_json:
        print_json(_look(warn=True))
    elif once or not sys.stdout.isatty():
        print_table(HEADER, [_row(card) for card in _look(warn=True)])
    else:
        _live()


def _look(*, warn: bool) -> "tuple[CardView, ...]":
    """The cards now: this machine's and the server's, where they are the same."""
    from jumar.devices import cards, simulated_cards
    from jumar.devices.overview import overview
    from jumar.settings import load

    uses, is_here = _uses(warn=warn)
    seen = cards(surroundings=False) if is_here else ()
    if uses is not None:
        return overview(seen, uses)
    return overview((*seen, *simulated_cards(load().sim_cards)), ())


def _uses(*, warn: bool) -> "tuple[Sequence[CardUse] | None, bool]":
    """What the server has assigned (None if none answers), and whether it is on this machine."""
    from jumar.client import Client
    from jumar.client.config import find
    from jumar.errors import NotAllowed, NotSignedIn, Unavailable
    from jumar.server.home import server_process
    from jumar.settings import load

    settings = load()
    address = find(settings)
    # Looking at cards must not start a server.
    if address is None or (address.embedded and server_process(settings.home) is None):
        return None, True
    try:
        with Client(address) as client:
            return client.cards(), address.embedded or urlsplit(address.url).hostname in _LOOPBACK
    except (Unavailable, NotAllowed, NotSignedIn) as error:
        if warn:
            note(f"job names are unknown: {error}")
        return None, True


def _row(card: "CardView") -> tuple[str, ...]:
    return (
        f"{card.kind}:{card.id}",
        card_name(card.kind, card.name or ""),
        local(card.health or "-"),
        _memory(card),
        _bar(card.utilisation_pct),
        card.job_name or local("in use" if card.is_taken else "free"),
        card.job_id or "-",
        card.user or "-",
        span(card.since, None),
        _processes(card) or "-",
    )


def _memory(card: "CardView") -> str:
    if not card.memory_total_mb or card.memory_used_mb is None:
        return "-"
    used_gb, total_gb = card.memory_used_mb / 1024, card.memory_total_mb / 1024
    bar = _bar(100 * card.memory_used_mb / card.memory_total_mb)
    return f"{bar} {used_gb:.1f}/{total_gb:.0f} GB"


def _bar(percent: float | None) -> str:
    """`████░░░░░░ 42%`."""
    if percent is None:
        return "-"
    filled = round(min(max(percent, 0.0), 100.0) / 100 * _BAR_WIDTH)
    return f"{'█' * filled}{'░' * (_BAR_WIDTH - filled)} {percent:3.0f}%"


def _processes(card: "CardView") -> str:
    return ", ".join(
        f"{process.name or '?'} {process.pid}"
        + (
            f" {local('FOREIGN')} ({process.user or local('unknown user')})"
            if process.foreign
            else ""
        )
        for process in card.processes
    )


def _live() -> None:
    from rich.console import Console
    from rich.live import Live

    # Names come from other people: brackets in them are not styles.
    console = Console(no_color=not wants_colour(sys.stdout), markup=False, emoji=False)
    live = Live(_screen(_look(warn=False)), console=console, screen=True, auto_refresh=False)
    try:
        # Not a context manager: Ctrl-C during its start would leave the terminal on the other screen.
        live.start(refresh=True)
        while True:
            time.sleep(_PAUSE_S)
            live.update(_screen(_look(warn=False)), refresh=True)
    finally:
        live.stop()


def _screen(found: "Sequence[CardView]") -> "RenderableType":
    from rich.table import Table

    taken = sum(card.is_taken for card in found)
    when = time.strftime("%H:%M:%S")
    table = Table(
        title=f"jumar top  {when}  "
        + local("{taken} of {all} in use  (Ctrl-C to quit)").format(taken=taken, all=len(found)),
        title_justify="left",
        box=None,
        expand=True,
    )
    for name in HEADER:
        table.add_column(local(name), no_wrap=name != "PROCESSES", overflow="ellipsis")
    for card in found:
        table.add_row(*map(readable_line, _row(card)), style=_style(card))
    return table


def _style(card: "CardView") -> str:
    if card.health not in (None, "OK"):
        return "red"
    if any(process.foreign for process in card.processes):
        return "yellow"
    return "" if card.is_taken else "dim"
