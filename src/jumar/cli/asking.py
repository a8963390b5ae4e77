"""Asks the user for secrets: at a terminal, or one line each from stdin."""

import sys

import click

from jumar.errors import BadInput


def ask(what: str, *, hidden: bool = False) -> str:
    """What the user types, or the next line of stdin."""
    if sys.stdin.isatty():
        return str(click.prompt(what, hide_input=hidden, err=True))
    # getpass would read from the terminal even if the secret is piped in.
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise BadInput(f"{what} is missing", hint="type it in a terminal, or pass it on stdin")
    return line
