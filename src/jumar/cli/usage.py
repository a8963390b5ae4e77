"""`jumar usage`: who used how much."""

import click

from jumar.cli.connect import connected
from jumar.cli.output import print_records, visible
from jumar.spec.usage import UsedBy


@click.command()
@click.option(
    "--days",
    type=click.IntRange(1, 366),
    default=7,
    show_default=True,
    help="Today and the days before.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with use in card-seconds.")
def command(days: int, as_json: bool) -> None:
    """Show who used how much.

    HOURS are card-hours: two cards for three hours are six. Running jobs are
    included. What a job uses at the moment: jumar top.

    \b
    Examples:
      jumar usage
      jumar usage --days 30 --json
    """
    with connected() as client:
        lines = client.usage(days)
    print_records(("KIND", "USER", "HOURS", "RUNNING"), lines, _row, as_json=as_json)


def _row(line: UsedBy) -> tuple[str, ...]:
    return line.kind, visible(line.user), f"{line.card_s / 3600:.1f}", str(line.running_cards)
