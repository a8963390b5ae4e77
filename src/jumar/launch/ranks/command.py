"""What a command runs: its argument vector, and the file that it runs first as far as its words tell.

That training script's imports name the framework, its options say whether it takes a local rank, and
its folder is where requirements are looked for."""

import os
import shlex
import shutil
from typing import List, Mapping, NamedTuple, Optional, Sequence, Union

Command = Union[str, Sequence[str]]


class Boot(NamedTuple):
    """One script or module."""

    word: str
    """As it stands in the command."""
    path: str
    """The file, which need not be there."""


def boot_of(command: Command, folder: str) -> Boot:
    """The first word that ends in .py or stands behind -m, else the program itself."""
    words: List[str] = command.split() if isinstance(command, str) else list(command)
    for word, following in zip(words, [*words[1:], ""]):
        if word.endswith(".py"):
            return Boot(word, os.path.join(folder, word))
        if word == "-m" and following:
            return Boot(following, _module_file(following, folder))
    program = words[0] if words else ""
    return Boot(program, os.path.join(folder, program))


def boot_file(command: Command) -> Optional[str]:
    """The script of a command as it is written there; None where a module or a program is run."""
    word = boot_of(command, "").word
    return word if word.endswith(".py") else None


def arguments(
    command: Command, paths: Mapping[str, str], environment: Mapping[str, str]
) -> List[str]:
    """The argument vector, with the paths of inputs and outputs where the command wants them.

    A list gets `--name=PATH` for each name it does not place itself; a string is a shell's and
    is only filled in where it says `{name}`."""
    if isinstance(command, str):
        for name, path in paths.items():
            command = command.replace("{" + name + "}", shlex.quote(path))
        return [_shell(environment), "-c", command]
    placed = list(command)
    for name, path in paths.items():
        mark = "{" + name + "}"
        if any(mark in word for word in placed):
            placed = [word.replace(mark, path) for word in placed]
        else:
            placed.append(f"--{name}={path}")
    return placed


def _module_file(name: str, folder: str) -> str:
    path = os.path.join(folder, *name.split("."))
    return os.path.join(path, "__main__.py") if os.path.isdir(path) else path + ".py"


def _shell(environment: Mapping[str, str]) -> str:
    return shutil.which("bash", path=environment.get("PATH")) or "/bin/sh"
