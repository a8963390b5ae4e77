"""Engines and attempts for tests; every test ends with no process of its jobs left."""

import secrets
import signal
import tarfile
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.cluster_double.cluster import Double, running_double
from tests.real_cluster.cluster import RealCluster, running_cluster
from tests.waiting import wait_for

from jumar.engine.base import Attempt, Engine, Observation
from jumar.engine.kubernetes.engine import KubernetesEngine
from jumar.engine.local.engine import LocalEngine
from jumar.engine.shared.files import Stages
from jumar.launch.processes import process
from jumar.spec.devices import LOCAL_NODE, Card, CardRef, DeviceKind
from jumar.spec.job import JobSpec
from jumar.store.users import UserStores
from jumar.words.reasons import cause_sentence

PATIENCE_S = 180.0
"""Nothing is measured with it: how long a busy machine may take for what takes a moment."""
IDLE_LIMIT_S = 1.0
"""Quick enough for tests: how long what a command left running may do nothing."""
CARDS = tuple(
    Card(kind, number) for kind in (DeviceKind.CPU, DeviceKind.SIM) for number in range(4)
)


class Workshop:
    """Makes attempts for a local engine and waits for them."""

    is_honest = True
    """Whether the jobs leave the platform's files alone."""

    def __init__(self, home: Path) -> None:
        self.home = home
        # Quick enough for tests: results are sent often, and a store that is away is given up soon.
        self.stages = Stages(UserStores(home, owner="ann"), every_s=0.2, patience_s=1.0)
        self.engine = LocalEngine(home, CARDS, stages=self.stages, idle_limit_s=IDLE_LIMIT_S)
        self.attempts: list[Attempt] = []

    def attempt(self, command: list[str] | str, **fields: Any) -> Attempt:
        """An attempt that was not started."""
        made = make_attempt(self.home, command, **fields)
        self.attempts.append(made)
        return made

    def run(self, command: list[str] | str, **fields: Any) -> tuple[Attempt, Observation]:
        """Start and wait to the end."""
        made = self.attempt(command, **fields)
        self.engine.start(made)
        seen = wait_final(self.engine, made)
        if self.is_honest:
            # What launcher and engine say in English is what the words say of the cause.
            assert cause_sentence(seen.cause, seen.values, "en") == seen.reason
        return made, seen

    def run_into_limit(
        self, command: list[str] | str, came_far: Callable[[Attempt], bool], **fields: Any
    ) -> tuple[Attempt, Observation]:
        """Let the time limit end it, one that lets this machine come as far as the test is about."""
        limits_s = iter((3, 15, 75))
        made, seen = self.run(command, time_limit=next(limits_s), **fields)
        while not came_far(made):
            made, seen = self.run(command, time_limit=next(limits_s), **fields)
        return made, seen

    def left_over(self) -> list[int]:
        """Processes of any attempt made here."""
        return [
            stat.pid
            for made in self.attempts
            for stat in process.with_environment({"JUMAR_JOB_ID": made.job_id})
        ]


def make_attempt(
    home: Path,
    command: list[str] | str,
    *,
    number: int = 1,
    job_id: str | None = None,
    archive: Path | None = None,
    cards: Sequence[int] = (0,),
    **fields: Any,
) -> Attempt:
    """An attempt of a new job, or of the one named."""
    job_id = job_id or f"t{secrets.token_hex(4)}"
    spec = JobSpec.model_validate({"name": job_id, "command": command, "grace": 1, **fields})
    return Attempt(
        job_id=job_id,
        number=number,
        user="ann",
        spec=spec,
        directory=home / "jobs" / job_id,
        cards=tuple(CardRef(LOCAL_NODE, card) for card in cards),
        archive=archive,
    )


def wait_final(engine: Engine, attempt: Attempt, limit_s: float = PATIENCE_S) -> Observation:
    wait_for(
        lambda: engine.observe([attempt])[0].state.is_final,
        f"the end of {attempt.job_id}",
        limit_s,
    )
    return engine.observe([attempt])[0]


def log_of(attempt: Attempt, rank: int = 0) -> str:
    path = attempt.directory / "logs" / "node0" / f"rank{rank}.log"
    return path.read_text("utf-8") if path.exists() else ""


def pack(archive: Path, files: dict[str, str]) -> Path:
    """A tar file of the given texts."""
    folder = archive.parent / f"{archive.name}.files"
    with tarfile.open(archive, "w") as tar:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            tar.add(path, name)
    return archive


@pytest.fixture(scope="module")
def kubernetes_double() -> Generator[Double]:
    """A cluster with Kubernetes' own Jobs."""
    with running_double() as double:
        yield double


@pytest.fixture(scope="module")
def volcano_double() -> Generator[Double]:
    """One with Volcano."""
    with running_double(volcano=True) as double:
        yield double


@pytest.fixture(scope="session")
def real_cluster() -> Generator[RealCluster]:
    """A real control plane, where its programs are; tests that want it are part of the full test."""
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def real_engine(real_cluster: RealCluster, tmp_path: Path) -> Generator[KubernetesEngine]:
    made = real_cluster.engine(tmp_path)
    yield made
    made.close()
    real_cluster.machines.silent.clear()


@pytest.fixture
def workshop(tmp_path: Path) -> Generator[Workshop]:
    made = Workshop(tmp_path)
    yield made
    made.engine.close()
    wait_for(lambda: not made.left_over(), "no process is left")
    warm = made.engine.warm_pid
    if warm is not None:
        wait_for(lambda: _gone(made.engine, warm), "the warm process ends")


def _gone(engine: LocalEngine, pid: int) -> bool:
    engine.close()
    stat = process.read_stat(pid)
    return stat is None or stat.is_dead


def kill_9(pid: int) -> None:
    process.send(pid, signal.SIGKILL)
