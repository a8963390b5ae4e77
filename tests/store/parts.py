"""What tests of the store share: programs, waiting, copying, comparing."""

import shutil
import sysconfig
from pathlib import Path

import pytest

from jumar.inject.moxing_path.jumar_s3 import S3, S3Error
from jumar.inject.moxing_path.jumar_s3.retry import Patience
from jumar.store.credentials import Credential, StoreConfig
from jumar.store.places import open_place
from jumar.store.transfer.records import Options, Progress, Report
from jumar.store.transfer.run import transfer

QUICK = Patience(limit_s=120, first_s=0.05, longest_s=0.5)


def program(name: str) -> str:
    """A program of this environment; a test that needs it cannot do without."""
    path = Path(sysconfig.get_path("scripts")) / name
    found = str(path) if path.exists() else shutil.which(name)
    if found is None:
        pytest.fail(f"{name} is not installed: it is in requirements/dev.txt")
    return found


def answers(credential: Credential) -> bool:
    try:
        S3(credential.wire(), timeout_s=60).buckets()
    except (S3Error, OSError):
        return False
    return True


def copy(
    source: str | Path,
    target: str | Path,
    config: StoreConfig,
    *,
    options: Options | None = None,
    progress: Progress | None = None,
) -> Report:
    return transfer(
        open_place(str(source), config),
        open_place(str(target), config),
        options or Options(patience=QUICK),
        state=config.state,
        progress=progress,
    )


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
