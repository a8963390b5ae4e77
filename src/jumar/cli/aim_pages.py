"""`jumar eval JOB --aim`: the job's Aim repository in the pages of the real Aim."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from jumar.cli.arrays import one_of
from jumar.cli.connect import connected
from jumar.cli.output import note
from jumar.errors import BadInput, NotFound
from jumar.settings import home_of

_USUAL = "code/aim"


def open_in_aim(jobs: Sequence[str], path: str) -> NoReturn:
    """Copy the repository here and become Aim, which prints its address and serves until it is stopped."""
    if len(jobs) != 1:
        raise BadInput("Aim shows one job", hint="such as: jumar eval JOB --aim")
    beside = os.path.dirname(sys.executable)
    aim = shutil.which("aim", path=os.pathsep.join((beside, os.environ.get("PATH", os.defpath))))
    if aim is None:
        raise BadInput(
            "Aim is not installed here",
            hint=f"install it with: pip install 'jumar[aim]'; without it: jumar eval {jobs[0]}",
        )
    repository = _fetched(jobs[0], path.strip("/") or _USUAL)
    # A run whose script has just ended is in no index yet.
    subprocess.run([aim, "storage", "--repo", repository, "reindex", "-y"], check=False)
    note("Aim shows it until you press Ctrl-C")
    os.execv(aim, [aim, "up", "--repo", os.fspath(repository)])


def _fetched(job: str, path: str) -> Path:
    with connected() as client:
        found = one_of(client, job).id
        into = home_of() / "aim" / found
        try:
            client.fetch(found, path, into)
        except NotFound:
            raise _no_repository(job, path) from None
    repository = into / path.rpartition("/")[2]
    if not (repository / ".aim").is_dir():
        raise _no_repository(job, path)
    return repository


def _no_repository(job: str, path: str) -> BadInput:
    return BadInput(
        f"job {job} has no Aim repository at {path}",
        hint="the script needs --aim_repo, and aim in its pip-requirements.txt; or name another --path",
    )
