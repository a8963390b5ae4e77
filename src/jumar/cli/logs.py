"""`jumar logs`: what a job wrote."""

import sys

import click

from jumar.cli.connect import connected
from jumar.cli.follow import print_log
from jumar.cli.output import note


@click.command()
@click.argument("job")
@click.option("--follow", "-f", is_flag=True, help="Go on until the job is over.")
@click.option("--tail", "-n", type=click.IntRange(min=0), help="Only the last N lines.")
@click.option("--rank", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--node", type=click.IntRange(min=0), default=0, show_default=True)
def command(job: str, follow: bool, tail: int | None, rank: int, node: int) -> int:
    """Print a job's log, or follow it.

    JOB is an id, the start of one, or a name. Ctrl-C while following leaves the job alone.

    \b
    Examples:
      jumar logs k7x2m9q4tb --tail 20
      jumar logs -f digits --rank 1
    """
    with connected() as client:
        if not follow:
            for block in client.logs(job, tail=tail, node=node, rank=rank):
                sys.stdout.buffer.write(block)
            return 0
        try:
            print_log(client, job, tail=tail, node=node, rank=rank)
        except KeyboardInterrupt:
            note(f"\nleft the log; the job goes on. Come back with: jumar logs -f {job}")
            return 130
    return 0
