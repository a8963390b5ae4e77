"""`jumar exec`: a command in a running job."""

import click

from jumar.cli.arrays import one_of
from jumar.cli.beside_terminal import run_beside
from jumar.cli.connect import connected
from jumar.errors import BadInput


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("job")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, required=True, metavar="[--] COMMAND...")
def command(job: str, words: tuple[str, ...]) -> int:
    """Run a command in a running job.

    It gets the variables, folder and cards of the job's first process. Input, output and exit code are
    those of the command; Ctrl-C goes to it. It ends with the job, or when this command is killed,
    together with whatever it has started. For a terminal, see: jumar shell.

    \b
    Examples:
      jumar exec digits -- nvidia-smi
      jumar exec k7x2m9q4tb -- tar cz ckpt > ckpt.tar.gz
    """
    # Behind an argument, click leaves "--" in its place.
    words = words[1:] if words[0] == "--" else words
    if not words:
        raise BadInput("no command given", hint=f"jumar exec {job} -- COMMAND")
    with connected() as client:
        return run_beside(client, one_of(client, job).id, words, with_terminal=False)
