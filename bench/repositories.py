"""Public training code, ported and trained on simulated NPUs: is the loss that of the CPU?

`python bench/repositories.py CHECKOUTS [NAME…] [--python BIN]`: CHECKOUTS has one folder a repository,
as fetched by you at the commit that `repositories.toml` names; BIN is the folder of a Python that has
torch and what the repositories import. Each folder is copied, its data are made up, and
`jumar port --prove` does the rest: the original on the CPU, the port with no edit by hand on simulated
NPUs, every loss and every bit of every parameter compared. Prints the table of
docs/reference/repositories.md."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parts import made_data

TABLE = Path(__file__).with_suffix(".toml")
COMMAND = "from jumar.cli import main; main()"
LIMIT = "5m"


@dataclass(frozen=True)
class Trial:
    """One row of the table."""

    name: str
    repository: str
    commit: str
    trains: str
    command: str
    folder: str = "."
    """What is ported, in the checkout; the command runs here."""
    data: tuple[tuple[str, str], ...] = ()
    """Kinds of made-up data and where they go, in `folder`."""
    prepare: str = ""
    """The repository's own preparation of these data."""
    steps: int = 5
    devices: int = 1
    skipped: str = ""
    """Why it is not run."""


def trials() -> list[Trial]:
    """The table."""
    document = tomllib.loads(TABLE.read_text("utf-8"))
    commits: dict[str, str] = document["commits"]
    rows: list[dict[str, Any]] = document["trial"]
    return [
        Trial(
            commit=commits[row["repository"]],
            data=tuple((kind, place) for kind, place in row.pop("data", ())),
            **row,
        )
        for row in rows
    ]


def environment(python: Path | None) -> dict[str, str]:
    """One thread, no network, no display; the Python that the repositories need."""
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", "WANDB_MODE": "disabled"}
    environ["HF_HUB_OFFLINE"] = "1"
    if python is not None:
        environ["PATH"] = os.pathsep.join((str(python.resolve()), environ["PATH"]))
    return environ


def proof(trial: Trial, checkouts: Path, environ: dict[str, str]) -> dict[str, Any] | str:
    """The certificate of one trial, or why there is none."""
    checkout = checkouts / trial.repository.partition("/")[2] / trial.folder
    if not checkout.is_dir():
        return f"no {checkout}"
    with tempfile.TemporaryDirectory() as scratch:
        source, out = Path(scratch, "source"), Path(scratch, "out")
        shutil.copytree(checkout, source, symlinks=True)
        for kind, place in trial.data:
            made_data.make(kind, source / place)
        if trial.prepare:
            subprocess.run(
                ["sh", "-c", trial.prepare],
                cwd=source,
                env=environ,
                check=True,
                stdout=subprocess.DEVNULL,
            )
        words = [sys.executable, "-c", COMMAND, "port", str(source), "-o", str(out), "--prove"]
        words += ["--steps", str(trial.steps), "--devices", str(trial.devices), "--time", LIMIT]
        done = subprocess.run(
            [*words, "--", "sh", "-c", trial.command],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            document = json.loads((out / "jumar-report" / "report.json").read_text("utf-8"))
        except OSError:
            return done.stdout.strip().splitlines()[-1]
        return document["proof"]


def outcome(trial: Trial, found: dict[str, Any] | str) -> str:
    """The last columns of a row: both losses, and what the comparison says."""
    if isinstance(found, str):
        return f"| | | did not run: {found} |"
    losses = found["losses"]
    last = losses[-1] if losses else {"original": "", "ported": ""}
    verdict = found["verdict"]
    if verdict == "proven":
        verdict = "equal" if found["largest"] == 0 else f"equal within {found['largest']:.1g}"
    elif found.get("difference"):
        verdict = f"{verdict}: {found['difference']['what']}, {found['largest']:.1g}"
    elif found["ported_failure"] or found["original_failure"]:
        verdict = f"{verdict}: {(found['ported_failure'] or found['original_failure'])['what']}"
    return f"| {last['original']} | {last['ported']} | {verdict} |"


def main() -> None:
    """Run what was asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", type=Path, nargs="?")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--python", type=Path, help="the folder of the Python to train with")
    arguments = parser.parse_intermixed_args()
    if arguments.checkouts is None:
        names = ", ".join(trial.name for trial in trials() if not trial.skipped)
        print(f"no folder of checkouts given, so nothing is run; there are: {names}")
        return
    environ = environment(arguments.python)
    print("| repository | commit | trains | steps | NPUs | loss, CPU | loss, simulated | |")
    print("|---|---|---|---|---|---|---|---|")
    for trial in trials():
        if arguments.names and trial.name not in arguments.names:
            continue
        found = trial.skipped or proof(trial, arguments.checkouts, environ)
        print(
            f"| {trial.repository} | {trial.commit} | {trial.trains} | {trial.steps} "
            f"| {trial.devices} {outcome(trial, found)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
