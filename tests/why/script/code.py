"""Small projects that fail, and what is said of them with their code at hand."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from jumar.spec.verdicts import Verdict
from jumar.why.gather import from_paths
from jumar.why.judging import judge
from jumar.why.script.code import Folders

LIMIT_S = 60
LOG = "log.txt"


def ran(folder: Path, script: str, **others: str) -> Verdict:
    """Run `train.py`, which needs no package, beside other files (`data_py` is data.py), and say why it failed."""
    write(folder, {"train.py": script, **{_name(name): text for name, text in others.items()}})
    done = subprocess.run(
        [sys.executable, "train.py"],
        cwd=folder,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=LIMIT_S,
    )
    assert done.returncode != 0, "it was to fail"
    (folder / LOG).write_bytes(done.stdout)
    return judged(folder)


def said(folder: Path, files: Mapping[str, str], error: str, *at: str, before: str = "") -> Verdict:
    """What is said where `error` came up at these lines of the files, the outermost first: a line is named by a text in it.

    For messages of packages that take long to import."""
    write(folder, files)
    frames = "".join(_frame(folder, files, one) for one in at)
    stack = f"Traceback (most recent call last):\n{frames}" if at else ""
    (folder / LOG).write_text(f"{before}{stack}{error}\n")
    return judged(folder)


def judged(folder: Path, log: str = LOG) -> Verdict:
    """What is said of a log in a folder with code."""
    return judge(from_paths([str(folder / log)]), code=Folders([str(folder)], is_sure=True))


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Put them there."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def _name(name: str) -> str:
    return name.replace("_", ".")


def _frame(folder: Path, files: Mapping[str, str], part: str) -> str:
    found = [
        (name, number, line.strip())
        for name, text in files.items()
        for number, line in enumerate(text.splitlines(), 1)
        if part in line
    ]
    assert len(found) == 1, f"{part!r} is in {len(found)} lines"
    ((name, number, line),) = found
    return f'  File "{folder / name}", line {number}, in f\n    {line}\n'
