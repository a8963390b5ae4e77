"""Runs a job's command on ModelArts; sent along with the code, so: standard library, Python 3.7.

ModelArts says where inputs and outputs are as `--name=PATH`. The last checkpoints, where there are some,
are copied to where the job goes on writing them. The exit code is the command's."""

# Images of ModelArts have a Python that could not read the annotations.
from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

CKPT, BEFORE = "jumar_ckpt", "jumar_ckpt_before"


def paths_of(words: list[str]) -> dict[str, str]:
    """Inputs and outputs by name."""
    pairs = [word[2:].partition("=") for word in words if word.startswith("--") and "=" in word]
    return {name: path for name, _, path in pairs}


def arguments(command: str | list[str], paths: dict[str, str]) -> list[str]:
    """The argument vector, filled in as jumar's launcher does."""
    if isinstance(command, str):
        for name, path in paths.items():
            command = command.replace("{" + name + "}", "'" + path.replace("'", "'\\''") + "'")
        return [shutil.which("bash") or "/bin/sh", "-c", command]
    words = list(command)
    for name, path in paths.items():
        mark = "{" + name + "}"
        if any(mark in word for word in words):
            words = [word.replace(mark, path) for word in words]
        else:
            words.append(f"--{name}={path}")
    return words


def main() -> int:
    """Prepare, run, wait."""
    paths = paths_of(sys.argv[1:])
    ckpt, before = paths.pop(CKPT, ""), paths.pop(BEFORE, "")
    if ckpt:
        os.makedirs(ckpt, exist_ok=True)
        if before and os.path.isdir(before):
            subprocess.call(["cp", "-r", os.path.join(before, "."), ckpt])
        os.environ["JUMAR_CKPT_DIR"] = ckpt
    folder = os.path.dirname(os.path.abspath(__file__))
    wanted = os.environ.pop("JUMAR_REQUIREMENTS", "")
    if wanted:
        code = subprocess.call([sys.executable, "-m", "pip", "install", "-r", wanted], cwd=folder)
        if code != 0:
            return code
    words = arguments(json.loads(os.environ.pop("JUMAR_COMMAND")), paths)
    try:
        child = subprocess.Popen(words, cwd=folder)
    except OSError as error:
        sys.stderr.write(f"{words[0]}: {error.strerror}\n")
        return 127
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, _: child.send_signal(got))
    code = child.wait()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main())
