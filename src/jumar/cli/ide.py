"""`jumar ide`: jumar's commands in the menus of an IDE."""

import os
import shutil
import sys
from pathlib import Path

import click

from jumar.cli import completing
from jumar.cli.ide_files import pycharm_folders, pycharm_text, vscode_text
from jumar.cli.output import say
from jumar.errors import BadInput
from jumar.wholefile import write_whole


@click.group()
def command() -> None:
    """Submit from PyCharm or VS Code.

    \b
    Example:
      jumar ide pycharm --device npu:2
    """


def _program() -> str:
    """This jumar, by its whole path: IDEs do not have the shell's PATH."""
    return os.path.abspath(shutil.which(sys.argv[0]) or sys.argv[0])


_device = click.option(
    "--device",
    default="npu:1",
    show_default=True,
    shell_complete=completing.devices,
    help="What jobs ask for that are submitted from the IDE.",
)
_print = click.option("--print", "only_print", is_flag=True, help="Print the file; write nothing.")


@command.command()
@_device
@_print
@click.option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    help="PyCharm's configuration folder.  [default: all that are found]",
)
def pycharm(device: str, only_print: bool, to: Path | None) -> None:
    """Add jumar to the External Tools of PyCharm.

    Restart PyCharm afterwards: the commands are under Tools > External Tools > jumar and in the
    context menu of a file.

    \b
    Example:
      jumar ide pycharm --device npu:2
    """
    text = pycharm_text(_program(), device)
    if only_print:
        print(text, end="")
        return
    folders = [to] if to is not None else pycharm_folders(Path.home(), os.environ)
    if not folders:
        raise BadInput(
            "PyCharm has no configuration folder here",
            hint="start PyCharm once, or name the folder: jumar ide pycharm --to DIR",
        )
    for folder in folders:
        _write(folder / "tools" / "jumar.xml", text)
    say("restart PyCharm; the commands are under Tools > External Tools > jumar")


@command.command()
@_device
@_print
@click.option(
    "--project",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path(),
    help="The project's folder.  [default: the current folder]",
)
def vscode(device: str, only_print: bool, project: Path) -> None:
    """Add jumar to the tasks of a VS Code project.

    The commands are under Terminal > Run Task. Tasks of others in .vscode/tasks.json are kept.

    \b
    Example:
      jumar ide vscode --device npu:2
    """
    path = project / ".vscode" / "tasks.json"
    try:
        existing = "" if only_print or not path.exists() else path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read {path}: {error}") from error
    text = vscode_text(_program(), device, existing)
    if only_print:
        print(text, end="")
        return
    _write(path, text)
    say("the commands are under Terminal > Run Task")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}") from error
    say(f"wrote {path}")
