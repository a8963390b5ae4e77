"""The file that a command runs first, as far as its words tell: the training script.

Its imports name the framework, its options say whether it takes a local rank, and its folder is
where requirements are looked for."""

import os
from typing import List, NamedTuple, Optional, Sequence, Union


class Boot(NamedTuple):
    """One script or module."""

    word: str
    """As it stands in the command."""
    path: str
    """The file, which need not be there."""


def boot_of(command: Union[str, Sequence[str]], folder: str) -> Boot:
    """The first word that ends in .py or stands behind -m, else the program itself."""
    words: List[str] = command.split() if isinstance(command, str) else list(command)
    for word, following in zip(words, [*words[1:], ""]):
        if word.endswith(".py"):
            return Boot(word, os.path.join(folder, word))
        if word == "-m" and following:
            return Boot(following, _module_file(following, folder))
    program = words[0] if words else ""
    return Boot(program, os.path.join(folder, program))


def boot_file(command: Union[str, Sequence[str]]) -> Optional[str]:
    """The script of a command as it is written there; None where a module or a program is run."""
    word = boot_of(command, "").word
    return word if word.endswith(".py") else None


def _module_file(name: str, folder: str) -> str:
    path = os.path.join(folder, *name.split("."))
    return os.path.join(path, "__main__.py") if os.path.isdir(path) else path + ".py"
