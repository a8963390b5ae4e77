"""`jumar share`: who used what, who is next, and why."""

import click

from jumar.cli.connect import connected
from jumar.cli.output import local, print_json, print_table, say, translated, visible
from jumar.spec.shares import ShareLine

_HEADER = ("KIND", "USER", "GROUP", "SHARE", "USED", "COUNTS", "7 DAYS", "RUNNING", "WAITING")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with use in card-seconds.")
def command(as_json: bool) -> None:
    """Show who used what and who is next.

    SHARE is the part a user is entitled to, USED the part they got. COUNTS is
    their use in card-hours: older use counts less, and running jobs count for
    as long as they are expected to take. Whoever has used least relative to
    their share is next.

    \b
    Examples:
      jumar share
      jumar share --json
    """
    with connected() as client:
        found = client.share()
    if as_json:
        print_json(found)
        return
    print_table(_HEADER, [_row(line) for line in found.lines])
    for turn in found.next:
        whose = {"kind": turn.kind, "user": visible(turn.user), "job": turn.job_id}
        why = visible(translated(turn.why))
        say(local("next for {kind}: {user}, job {job}: {why}", why=why, **whose))


def _row(line: ShareLine) -> tuple[str, ...]:
    return (
        line.kind,
        visible(line.user),
        visible(line.group),
        f"{line.entitled:.0%}",
        f"{line.used:.0%}",
        f"{line.counts_card_s / 3600:.1f} h",
        f"{line.week_card_s / 3600:.1f} h",
        str(line.running_cards),
        str(line.waiting_jobs),
    )
