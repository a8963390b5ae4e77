"""`jumar top`: the cards and who holds them."""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from jumar.cli.connect import connected
from jumar.cli.output import print_json, print_table, span, wants_colour
from jumar.client import Client
from jumar.spec.records import CardUse

if TYPE_CHECKING:
    from rich.table import Table

_PAUSE_S = 1.0
HEADER = ("CARD", "NAME", "JOB", "ID", "USER", "FOR")


@click.command()
@click.option("--once", is_flag=True, help="Print once and leave.")
@click.option("--json", "as_json", is_flag=True, help="Print the cards as a JSON list, once.")
def command(once: bool, as_json: bool) -> None:
    """Show the cards and who holds them.

    Live until Ctrl-C in a terminal; once where stdout is no terminal.

    \b
    Example:
      jumar top --once
    """
    with connected() as client:
        if as_json:
            print_json(client.cards())
        elif once or not sys.stdout.isatty():
            print_table(HEADER, rows(client.cards()))
        else:
            _live(client)


def rows(cards: Sequence[CardUse]) -> list[tuple[str, ...]]:
    """One line a card."""
    return [
        (
            f"{card.kind}:{card.id}",
            card.name or "-",
            card.job_name or "free",
            card.job_id or "-",
            card.user or "-",
            span(card.since, None),
        )
        for card in cards
    ]


def _live(client: Client) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console(no_color=not wants_colour(sys.stdout))
    with Live(_table(client.cards()), console=console, auto_refresh=False) as live:
        while True:
            time.sleep(_PAUSE_S)
            live.update(_table(client.cards()), refresh=True)


def _table(cards: Sequence[CardUse]) -> "Table":
    from rich.table import Table

    held = sum(card.job_id is not None for card in cards)
    table = Table(title=f"{held} of {len(cards)} held", title_justify="left", box=None)
    for name in HEADER:
        table.add_column(name)
    for card, row in zip(cards, rows(cards), strict=True):
        table.add_row(*row, style=None if card.job_id else "dim")
    return table
