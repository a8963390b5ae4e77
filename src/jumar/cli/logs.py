"""`jumar logs`: what a job wrote."""

import codecs
import sys

import click

from jumar.cli.connect import connected
from jumar.cli.follow import log_to, print_log
from jumar.cli.output import json_text, note


@click.command()
@click.argument("job")
@click.option("--follow", "-f", is_flag=True, help="Keep printing until the job ends.")
@click.option("--tail", "-n", type=click.IntRange(min=0), help="Only the last N lines.")
@click.option("--rank", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--node", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
def command(job: str, follow: bool, tail: int | None, rank: int, node: int, as_json: bool) -> int:
    """Print a job's log, or follow it.

    JOB is an id, the first letters of one, a name, or USER/NAME. Ctrl-C stops following, not the job.
    In a terminal, colours and progress bars are kept and other control sequences are removed; elsewhere
    the log is printed unchanged. With --json each line is {"text": …}.

    \b
    Examples:
      jumar logs k7x2m9q4tb --tail 20
      jumar logs -f digits --rank 1
    """
    write = _as_json if as_json else log_to(sys.stdout)
    with connected() as client:
        # After a reconnect, a newer job of the same name is not the one to follow.
        record = client.get(job)
        # Once a job has ended, a missing log will not appear any more.
        if not follow or (record.state.is_final and record.attempts):
            blocks = client.logs(record.id, tail=tail, node=node, rank=rank)
            if as_json or follow or sys.stdout.isatty():
                for text in codecs.iterdecode(blocks, "utf-8", "replace"):
                    write(text)
            else:
                for block in blocks:
                    sys.stdout.buffer.write(block)
            return 0
        try:
            print_log(client, record.id, tail=tail, node=node, rank=rank, write=write)
        except KeyboardInterrupt:
            note(
                f"\nstopped following; the job continues. Follow it again with: jumar logs -f {job}"
            )
            return 130
    return 0


def _as_json(text: str) -> None:
    print(json_text({"text": text}), flush=True)
