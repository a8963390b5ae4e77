"""A whole service, and the engine that a test has in its hands."""

import hashlib
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from tests.tars import tar_of
from tests.waiting import wait_for, wait_for_job

from jumar.database.access import open_database
from jumar.engine.memory import MemoryEngine
from jumar.jobs.service import JobService
from jumar.spec.devices import Card, DeviceKind
from jumar.spec.job import JobSpec
from jumar.spec.records import JobRecord
from jumar.spec.states import JobState

CARDS = tuple(Card(DeviceKind.SIM, number) for number in range(8))


class Platform:
    """A service on an engine that the test holds in its hands."""

    def __init__(self, url: str, home: Path, *, obedient: bool = True, **limits: Any) -> None:
        self.url = url
        self.home = home
        self.limits: dict[str, Any] = limits
        self.engine = MemoryEngine(CARDS, obedient=obedient)
        self.service = self._open()

    def _open(self) -> JobService:
        service = JobService(
            database=open_database(self.url),
            engine=self.engine,
            home=self.home,
            tick_s=0.02,
            **self.limits,
        )
        service.start()
        return service

    def start_again(self, cards: tuple[Card, ...] | None = None) -> None:
        """As after a crash: nothing but the database and the engine is left."""
        self.service.close()
        self.engine.stops.clear()
        if cards is not None:
            self.engine = MemoryEngine(cards)
        self.service = self._open()

    def upload(self, data: bytes = tar_of(train="print()")) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self.service.archives.receive(digest, iter([data]))
        return digest

    def submit(self, device: str = "sim:1", user: str = "ann", **fields: Any) -> str:
        values = {"name": "x", "command": "true", "device": device, **fields}
        return self.service.submit(JobSpec.model_validate(values), user=user).id

    def wait(self, job: str, *states: JobState, limit_s: float = 180) -> JobRecord:
        return wait_for_job(self.service, job, lambda record: record.state in states, limit_s)

    def wait_for_start(self, job: str, number: int, limit_s: float = 180) -> None:
        wait_for(
            lambda: (job, number) in self.engine.started(), f"attempt {number} starts", limit_s
        )

    def settle(self) -> None:
        """Long enough for several passes."""
        time.sleep(0.15)


@pytest.fixture
def make(database_url: str, tmp_path: Path) -> Generator[Callable[..., Platform]]:
    made: list[Platform] = []

    def make(**options: Any) -> Platform:
        made.append(Platform(database_url, tmp_path, **options))
        return made[-1]

    yield make
    for platform in made:
        platform.service.close()


@pytest.fixture
def platform(make: Callable[..., Platform]) -> Platform:
    return make()
