"""`jumar launch`: ranks on this machine, without a server. All of it is in `jumar.launch`."""

import sys

import click


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Start one process per device, watch them, and end them together.

    \b
    Example:
      jumar launch --devices npu:8 train.py --epochs 10
    """
    from jumar.launch.__main__ import main

    sys.exit(main(arguments, from_shell=True))
