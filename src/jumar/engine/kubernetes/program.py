"""The launcher, and what carries data, as a folder that pods mount: images need a Python and nothing of ours."""

import hashlib
import os
import shutil
import threading
from pathlib import Path

from jumar.errors import EngineFailed

_PACKAGE = Path(__file__).parents[2]
_PARTS = ("launch", "inject", "store", "spec")
_FILES = ("__init__.py", "errors.py", "tls.py", "wholefile.py")
_MAIN = "launch/as_file.py"
# So the launcher knows that it is a program of one path: `interpreter.own_program`.
_ENDING = ".pyz"
_lock = threading.Lock()


class Program:
    """One copy per version of the sources, below `folder`; older ones may be in use and stay."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = ""

    def ready(self) -> Path:
        """Where it is; made if it is missing. EngineFailed: it cannot be written."""
        with _lock:
            self._name = self._name or name_of(_files())
            target = self._folder / self._name
            if not target.is_dir():
                try:
                    _copy(_files(), target)
                except OSError as error:
                    raise EngineFailed(f"cannot write {target}: {error.strerror}") from error
            return target


def name_of(files: list[Path]) -> str:
    """The same sources have the same name."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(str(path.relative_to(_PACKAGE)).encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:16] + _ENDING


def _files() -> list[Path]:
    found = [path for part in _PARTS for path in (_PACKAGE / part).rglob("*")]
    kept = [path for path in found if path.is_file() and "__pycache__" not in path.parts]
    return sorted([*(_PACKAGE / name for name in _FILES), *kept])


def _copy(files: list[Path], target: Path) -> None:
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    for path in files:
        place = aside / "jumar" / path.relative_to(_PACKAGE)
        place.parent.mkdir(parents=True, exist_ok=True)
        # With its mode: the programs on a job's PATH are run.
        shutil.copy(path, place)
    shutil.copy(_PACKAGE / _MAIN, aside / "__main__.py")
    try:
        aside.rename(target)
    except OSError:
        # Another server of this home was quicker.
        shutil.rmtree(aside, ignore_errors=True)
        if not target.is_dir():
            raise
