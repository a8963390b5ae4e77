import getpass
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from jumar.devices.owners import with_owners
from jumar.spec.devices import Card, CardProcess, DeviceKind


@pytest.fixture
def job_process() -> Iterator[int]:
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "JUMAR_JOB_ID": "abcdefghij"},
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process.pid
    process.communicate(timeout=180)


def owned(process: CardProcess) -> CardProcess:
    (card,) = with_owners((Card(DeviceKind.NPU, 0, processes=(process,)),))
    return card.processes[0]


def test_a_jobs_process_has_user_job_and_name(job_process: int):
    found = owned(CardProcess(job_process))
    assert (found.job_id, found.user) == ("abcdefghij", getpass.getuser())
    assert found.name


def test_a_process_of_no_job_is_foreign():
    found = owned(CardProcess(os.getpid()))
    assert found.user == getpass.getuser()
    assert found.job_id == os.environ.get("JUMAR_JOB_ID")


def test_the_number_inside_the_container_is_used_where_it_is_told(job_process: int):
    assert owned(CardProcess(999_999_999, container_pid=job_process)).job_id == "abcdefghij"


def test_a_number_that_is_another_program_here_is_not_claimed(job_process: int):
    found = owned(CardProcess(job_process, "some_other_tool"))
    assert (found.user, found.job_id) == (None, None)


def test_a_process_that_is_gone_stays_unknown():
    assert owned(CardProcess(999_999_999, "python")) == CardProcess(999_999_999, "python")
