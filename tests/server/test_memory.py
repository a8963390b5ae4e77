"""A server that serves huge logs stays small."""

import http.client
import json
import os
import threading
import time
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from tests.waiting import wait_for

from jumar.client import Client
from jumar.server.process import manage as process
from jumar.settings import Settings
from jumar.spec.states import JobState

GIB = 1 << 30
MOST_MB = 150
FOLLOWERS = 20
LEAST_BYTES = 1_000_000


@pytest.fixture
def settings(tmp_path: Path) -> Generator[Settings]:
    settings = Settings(home=tmp_path / "home", cpu_slots=2, sim_cards=0)
    process.start_detached(settings)
    yield settings
    process.stop(settings)


def test_five_gigabytes_and_twenty_followers_fit_into_150_megabytes(settings: Settings) -> None:
    values = json.loads((settings.home / "client.json").read_text())
    with Client(values["url"], values["token"]) as client:
        job = client.submit({"name": "big", "command": "echo begun; sleep 600"})
        wait_for(lambda: client.get(job.id).state is JobState.RUNNING)
        log = settings.home / "jobs" / job.id / "logs" / "node0" / "rank0.log"
        wait_for(log.exists)
        with log.open("ab") as file:
            file.truncate(5 * GIB)
            file.seek(0, os.SEEK_END)
            file.write(b"".join(b"line %d\n" % number for number in range(1000)))
        server = psutil.Process(int((settings.home / "server.pid").read_text()))
        read_for(values["url"], values["token"], job.id, seconds=4.0)
        used_mb = server.memory_info().rss / 1e6
        assert b"line 999\n" in b"".join(client.logs(job.id, tail=20))
        client.stop(job.id)
    assert used_mb < MOST_MB, used_mb


def read_for(url: str, token: str, job_id: str, seconds: float) -> None:
    """Many followers at once, each for as long and for a megabyte: every second one reads slowly."""
    until = time.monotonic() + seconds

    def follow(number: int) -> None:
        place = urlsplit(url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=180)
        path = f"/api/v1/jobs/{job_id}/logs/0/0/stream?offset=0"
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        received = 0
        while time.monotonic() < until or received < LEAST_BYTES:
            received += len(answer.read1(65536))
            time.sleep(0.01 * (number % 2))
        connection.close()

    threads = [threading.Thread(target=follow, args=(number,)) for number in range(FOLLOWERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=240)
        assert not thread.is_alive()
