"""`jumar ide`: jumar's commands in the menus of an IDE."""

import os
import shutil
import sys
from pathlib import Path

import click

from jumar.cli import completing
from jumar.cli.ide_files import (
    pycharm_configurations,
    pycharm_folders,
    pycharm_text,
    vscode_text,
)
from jumar.cli.output import local, note, say
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
    help="Devices of jobs that are submitted from the IDE.",
)
_project = click.option(
    "--project",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path(),
    help="The project's folder.  [default: the current folder]",
)
_print = click.option("--print", "only_print", is_flag=True, help="Print the file; write nothing.")


@command.command()
@_device
@_project
@_print
@click.option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    help="PyCharm's configuration folder.  [default: all that are found]",
)
def pycharm(device: str, project: Path, only_print: bool, to: Path | None) -> None:
    """Add jumar to the run configurations of a PyCharm project, and to PyCharm's External Tools.

    The run configurations are in the project, in .idea/runConfigurations. Where PyCharm has a configuration
    folder here, the commands are also under Tools > External Tools > jumar and in the context menu of a
    file; restart PyCharm for those.

    \b
    Example:
      jumar ide pycharm --device npu:2
    """
    text = pycharm_text(_program(), device)
    configurations = pycharm_configurations(sys.executable, device)
    if only_print:
        files = {f".idea/runConfigurations/{name}": one for name, one in configurations.items()}
        for name, content in {**files, "tools/jumar.xml": text}.items():
            print(f"<!-- {name} -->\n{content}", end="")
        return
    for name, configuration in configurations.items():
        _write(project / ".idea" / "runConfigurations" / name, configuration)
    note("the commands are among the project's run configurations, in the folder jumar")
    folders = [to] if to is not None else pycharm_folders(Path.home(), os.environ)
    for folder in folders:
        _write(folder / "tools" / "jumar.xml", text)
    if folders:
        note("restart PyCharm; they are under Tools > External Tools > jumar, too")


@command.command()
@_device
@_project
@_print
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
    note("the commands are under Terminal > Run Task")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}") from error
    say(local("wrote {path}", path=path))
