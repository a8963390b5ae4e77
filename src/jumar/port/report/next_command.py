"""The command that would prove a port: `jumar port SRC -o OUT --prove -- python train.py`."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from jumar.port.patterns import lazy_pattern

_TRAINS = lazy_pattern(rb"\.backward\(|\bTrainer\(|\.fit\(")
_BY_NAME = lazy_pattern(r"(pre|fine_?)?(train|tun)|main|run", re.IGNORECASE)
_TEST = lazy_pattern(r"(^|/)(tests?/|test_|conftest)")
_FROM_ITS_FOLDER = lazy_pattern(rb"sys\.path\.(?:append|insert)\([^)\n]*[\"']\.\.[/\"']")
"""A script that finds its packages by a path relative to the current folder."""
_MOST_READ = 40
_UNKNOWN = ("python", "YOUR_TRAINING_SCRIPT.py")


def proving(again: Sequence[str], root: Path, paths: Sequence[str]) -> str:
    """The words `again`, which made the port, with a proof by the most likely training command."""
    return repeating(again, _training(root, paths))


def repeating(again: Sequence[str], command: Sequence[str]) -> str:
    """The words `again` with a proof by this command."""
    return shlex.join([*again, "--prove", "--", *command])


def _training(root: Path, paths: Sequence[str]) -> Sequence[str]:
    """A script that trains, or else the tests."""
    scripts = [path for path in paths if path.endswith(".py") and not _TEST.search(path)]
    texts = {path: _text(root / path) for path in sorted(scripts, key=_likelihood)[:_MOST_READ]}
    for is_likely in (_trains_itself, _starts_training):
        for path, text in texts.items():
            if is_likely(path, text):
                return _started(path, text)
    tests = sorted(path for path in paths if re.search(r"(^|/)test_\w+\.py$", path))
    if tests:
        folder = tests[0].partition("/")[0] if "/" in tests[0] else "."
        return ("python", "-m", "pytest", folder)
    return _UNKNOWN


def _started(path: str, text: bytes) -> Sequence[str]:
    folder, _, name = path.rpartition("/")
    if folder and _FROM_ITS_FOLDER.search(text):
        return ("sh", "-c", f"cd {shlex.quote(folder)} && python {shlex.quote(name)}")
    return ("python", path)


def _likelihood(path: str) -> tuple[bool, int, bool, str]:
    name = path.rpartition("/")[2]
    return not _BY_NAME.match(name), path.count("/"), not name.startswith("train"), path


def _trains_itself(path: str, text: bytes) -> bool:
    # A module that only defines things does nothing when it is run; scripts are named for what they do.
    is_script = b"__main__" in text or _BY_NAME.match(path.rpartition("/")[2]) is not None
    return is_script and _TRAINS.search(text) is not None


def _starts_training(path: str, text: bytes) -> bool:
    return b"__main__" in text and "train" in path.rpartition("/")[2]


def _text(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
