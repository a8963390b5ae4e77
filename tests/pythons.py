"""The Pythons of this machine that the code inside jobs promises to run on."""

import re
import shutil
import subprocess
import sys
from pathlib import Path


def interpreters() -> list[str]:
    """One of each version, the one that runs this first."""
    return list(_by_minor().values())


def oldest() -> str:
    """The one that most code inside jobs might forget."""
    found = _by_minor()
    return found[min(found)]


def _by_minor() -> dict[int, str]:
    names = [f"python3.{minor}" for minor in range(7, 20)]
    found = [path for path in map(shutil.which, names) if path]
    found += map(str, Path.home().glob(".pyenv/versions/3.*/bin/python3"))
    versions: dict[int, str] = {}
    for path in [sys.executable, *found]:
        answer = subprocess.run(
            [path, "-VV"], capture_output=True, text=True, check=False, timeout=180
        )
        match = re.match(r"Python 3\.(\d+)", answer.stdout)
        if match and int(match[1]) >= 7:
            versions.setdefault(int(match[1]), path)
    return versions
