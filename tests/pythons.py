"""The Pythons of this machine that the code inside jobs promises to run on."""

import re
import shutil
import subprocess
import sys
from pathlib import Path


def interpreters() -> list[str]:
    names = [f"python3.{minor}" for minor in range(8, 20)]
    found = [path for path in map(shutil.which, names) if path]
    found += map(str, Path.home().glob(".pyenv/versions/3.*/bin/python3"))
    versions: dict[str, str] = {}
    for path in [sys.executable, *found]:
        answer = subprocess.run(
            [path, "-VV"], capture_output=True, text=True, check=False, timeout=20
        )
        match = re.match(r"Python (3\.(\d+))", answer.stdout)
        if match and int(match[2]) >= 8:
            versions.setdefault(match[1], path)
    return list(versions.values())
