"""Prints what every command says about itself, as the second part of docs/reference/cli.md.

A program of its own, since click keeps how a command was first asked for help; in the language of
LC_ALL. To write the pages in both languages anew: `python tests/docs/cli_page.py --write`."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import click

from jumar.cli.app import COMMANDS, root

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGES = {"C.UTF-8": REFERENCE / "cli.md", "zh_CN.UTF-8": REFERENCE / "cli.zh-CN.md"}
"""The page of each LC_ALL."""
MARK = "<!-- Below: written by python tests/docs/cli_page.py --write -->\n"


def help_of(name: str, command: click.Command, parent: click.Context) -> str:
    shown = command.context_class(command, info_name=name, parent=parent, terminal_width=100)
    with shown as context:
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
            help_of(name, cast("click.Command", root.get_command(context, name)), context)
            for name in COMMANDS
        )


def write() -> None:
    """Each page by a program of its own."""
    for locale, page in PAGES.items():
        program, environment = (sys.executable, __file__), {**os.environ, "LC_ALL": locale}
        said = subprocess.run(program, env=environment, check=True, capture_output=True, text=True)
        written = page.read_text("utf-8").partition(MARK)[0]
        page.write_text(written + MARK + said.stdout, "utf-8")


if __name__ == "__main__":
    if "--write" in sys.argv:
        write()
    else:
        sys.stdout.write(generated())
