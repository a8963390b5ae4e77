"""Prints what every command says about itself, as the second part of docs/reference/cli.md.

A program of its own, since click keeps how a command was first asked for help. To write the page
anew: `python tests/docs/cli_page.py --write`."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import click

from jumar.cli.app import COMMANDS, root

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
MARK = "<!-- Below: written by python tests/docs/cli_page.py --write -->\n"


def help_of(name: str, command: click.Command, parent: click.Context) -> str:
    with click.Context(command, info_name=name, parent=parent, terminal_width=100) as context:
        path = context.command_path
        text = f"\n## {path}\n\n```text\n{command.get_help(context)}\n```\n"
        if isinstance(command, click.Group):
            text += "".join(help_of(*below, context) for below in command.commands.items())
    return text


def generated() -> str:
    """The part of the page below the mark."""
    settings = cast("dict[str, Any]", root.context_settings)
    with click.Context(root, info_name="jumar", **settings) as context:
        return "".join(
            help_of(name, cast("click.Command", import_module(entry.module).command), context)
            for name, entry in COMMANDS.items()
        )


if __name__ == "__main__":
    if "--write" in sys.argv:
        written = PAGE.read_text("utf-8").partition(MARK)[0]
        PAGE.write_text(written + MARK + generated(), "utf-8")
    else:
        sys.stdout.write(generated())
