"""`jumar logs`: what a job wrote."""

import codecs
import sys
from functools import partial

import click

from jumar.cli import completing
from jumar.cli.all_ranks import follow_all, print_all
from jumar.cli.arrays import jobs_of
from jumar.cli.connect import connected
from jumar.cli.follow import log_to, print_log
from jumar.cli.output import json_text, note
from jumar.client import Client
from jumar.errors import LogNotFound
from jumar.spec.records import JobRecord


class _Rank(click.ParamType[int | None]):
    """A number, or `all`, which is None."""

    name = "rank"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | None:
        text = str(value)
        if text == "all":
            return None
        if not (text.isascii() and text.isdigit()):
            self.fail(f"{text!r} is neither a number nor all", param, ctx)
        return int(text)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "N|all"


@click.command()
@click.argument("job", shell_complete=completing.jobs)
@click.option("--follow", "-f", is_flag=True, help="Keep printing until the job ends.")
@click.option("--tail", "-n", type=click.IntRange(min=0), help="Only the last N lines.")
@click.option(
    "--rank",
    type=_Rank(),
    default="0",
    show_default=True,
    help="Which process, or all: every line then begins with its rank.",
)
@click.option("--node", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
def command(
    job: str, follow: bool, tail: int | None, rank: int | None, node: int, as_json: bool
) -> int:
    """Print a job's log, or follow it.

    JOB is an id, the first letters of one, a name, or USER/NAME; of an array, its id or name means all its
    jobs, one after the other, and NAME-INDEX one of them. Ctrl-C stops following, not the job.
    In a terminal, colours and progress bars are kept and other control sequences are removed; elsewhere
    the log is printed unchanged. With --json each line is {"text": …}. Logs have no times in them: with
    --rank all and --follow, lines come as they are written; else one rank comes after the other.

    \b
    Examples:
      jumar logs k7x2m9q4tb --tail 20
      jumar logs -f digits --rank 1
      jumar logs -f digits --rank all
    """
    shown = partial(_show, follow=follow, tail=tail, rank=rank, node=node, as_json=as_json)
    with connected() as client:
        # After a reconnect, a newer job of the same name is not the one to follow.
        meant = jobs_of(client, job)
        try:
            for one in meant:
                if len(meant) > 1:
                    note(f"== {one.name}-{one.array_index} ({one.id})")
                try:
                    shown(client, client.get(one.id))
                except LogNotFound as error:
                    if len(meant) == 1:
                        raise
                    note(error.message)
        except KeyboardInterrupt:
            note(
                f"\nstopped following; the job continues. Follow it again with: jumar logs -f {job}"
            )
            return 130
    return 0


def _show(
    client: Client,
    record: JobRecord,
    *,
    follow: bool,
    tail: int | None,
    rank: int | None,
    node: int,
    as_json: bool,
) -> None:
    # Once a job has ended, a missing log will not appear any more.
    is_whole = not follow or (record.state.is_final and bool(record.attempts))
    write = _as_json if as_json else log_to(sys.stdout)
    if rank is None:
        show = print_all if is_whole else follow_all
        show(client, record.id, tail=tail, as_json=as_json)
    elif not is_whole:
        print_log(client, record.id, tail=tail, node=node, rank=rank, write=write)
    else:
        blocks = client.logs(record.id, tail=tail, node=node, rank=rank)
        if as_json or follow or sys.stdout.isatty():
            for text in codecs.iterdecode(blocks, "utf-8", "replace"):
                write(text)
        else:
            for block in blocks:
                sys.stdout.buffer.write(block)
            sys.stdout.buffer.flush()


def _as_json(text: str) -> None:
    print(json_text({"text": text}), flush=True)
