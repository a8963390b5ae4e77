"""Secrets from the user: asked for at a terminal, a line each where stdin is none."""

import sys

import click

from jumar.errors import BadInput


def ask(what: str, *, hidden: bool = False) -> str:
    """What the user types, or the next line of stdin."""
    if sys.stdin.isatty():
        return str(click.prompt(what, hide_input=hidden, err=True))
    # getpass would turn to the terminal although the secret is piped in.
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise BadInput(f"{what} is missing", hint="type it in a terminal, or give it on stdin")
    return line
