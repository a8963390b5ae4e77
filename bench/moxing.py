"""Public training code that imports moxing, unchanged, as jobs with data and results in an S3 store.

`python bench/moxing.py CHECKOUTS [NAME…] --activate VENV`: CHECKOUTS has one folder a repository, as
fetched by you at the commit that `moxing.toml` names; VENV has MindSpore and PyYAML. A server and
SeaweedFS are started in a folder of their own, made-up data are pushed, and each training runs twice on
simulated NPUs: what the first job leaves on the machine must not disturb the second. Prints a row a
training: how long both took, and what they sent."""

import argparse
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parts import made_data

from jumar.inject.moxing_path.jumar_s3 import S3
from jumar.store.credentials import save_credential
from jumar.store.door import Door

TABLE = Path(__file__).with_suffix(".toml")
JUMAR = Path(sys.executable).with_name("jumar")
RUNS = 2
LIMIT_S = 900


@dataclass(frozen=True)
class Trial:
    """One row of the table."""

    name: str
    repository: str
    commit: str
    folder: str
    trains: str
    data: tuple[str, str]
    """The kind of made-up data and where it goes in what is pushed."""
    command: str
    data_url: str = ""
    """Which folder of the data the script gets; all of it if empty."""
    cores: int = 1
    """How many MindSpore wants for as many workers as the script names."""
    variables: dict[str, str] = field(default_factory=dict[str, str])


def trials() -> list[Trial]:
    """The table."""
    document = tomllib.loads(TABLE.read_text("utf-8"))
    rows: list[dict[str, Any]] = document["trial"]
    return [Trial(commit=document["commits"][row["repository"]], **row) for row in rows]


class Lab:
    """A server of its own, whose `obs://` is SeaweedFS."""

    def __init__(self, home: Path, activate: Path) -> None:
        self._environ = {**os.environ, "JUMAR_HOME": str(home)}
        self._activate = str(activate.resolve())

    def jumar(self, *words: str, folder: Path | None = None) -> str:
        done = subprocess.run(
            [str(JUMAR), *words],
            env=self._environ,
            cwd=folder,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=LIMIT_S,
        )
        return done.stdout

    def train(self, trial: Trial, source: Path, data_url: str, train_url: str) -> None:
        """Raises CalledProcessError where the job fails."""
        variables = [
            w for name, value in trial.variables.items() for w in ("--env", f"{name}={value}")
        ]
        words = trial.command.format(data_url=data_url, train_url=train_url).split()
        options = ("--follow", "--device", "sim:1", "--activate", self._activate, *variables)
        self.jumar("run", *options, "--", *words, folder=source)


@contextlib.contextmanager
def lab(folder: Path, activate: Path) -> Generator[Lab]:
    """The lab, while it runs."""
    home = folder / "home"
    home.mkdir(mode=0o700)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    door = Door(folder / "door", port)
    door.start()
    made = Lab(home, activate)
    try:
        S3(door.credential.wire()).create_bucket("lab")
        save_credential(home / "store.json", "obs", door.credential)
        made.jumar("up", "--detach")
        yield made
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            made.jumar("down")
        door.stop()


def outcome(trial: Trial, here: Lab, checkouts: Path) -> str:
    """The last column of a row."""
    checkout = checkouts / trial.repository.partition("/")[2] / trial.folder
    if not checkout.is_dir():
        return f"not run: no {checkout}"
    if trial.cores > (os.cpu_count() or 1):
        return f"not run: wants {trial.cores} cores"
    with tempfile.TemporaryDirectory() as scratch:
        source, data = Path(scratch, "source"), Path(scratch, "data")
        shutil.copytree(checkout, source)
        made_data.make(trial.data[0], data / trial.data[1])
        here.jumar("data", "push", str(data), f"obs://lab/{trial.name}/data")
        data_url = f"obs://lab/{trial.name}/data/{trial.data_url}".rstrip("/")
        told: list[str] = []
        for number in range(1, RUNS + 1):
            began = time.monotonic()
            train_url = f"obs://lab/{trial.name}/out{number}"
            here.train(trial, source, data_url, train_url)
            rows: list[dict[str, Any]] = json.loads(
                here.jumar("data", "ls", "--json", "-r", train_url)
            )
            sent = [row for row in rows if row["key"].endswith(".ckpt") and row["size"]]
            assert sent, f"no checkpoint in {train_url}: {rows}"
            told.append(f"{time.monotonic() - began:.0f} s, {len(rows)} files sent")
        return "; ".join(told)


def main() -> None:
    """Run what was asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", type=Path, nargs="?")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--activate", type=Path, help="the environment to train in")
    given = parser.parse_intermixed_args()
    if given.checkouts is None or given.activate is None:
        names = ", ".join(trial.name for trial in trials())
        print(
            f"no folder of checkouts and environment given, so nothing is run; there are: {names}"
        )
        return
    print("| repository | commit | trains | |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, lab(Path(folder), given.activate) as here:
        for trial in trials():
            if not given.names or trial.name in given.names:
                said = outcome(trial, here, given.checkouts.resolve())
                print(
                    f"| {trial.repository} | {trial.commit} | {trial.trains} | {said} |", flush=True
                )


if __name__ == "__main__":
    main()
