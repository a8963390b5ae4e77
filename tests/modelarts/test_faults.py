"""Our own engine against our own server, in two processes with real jobs, and what goes wrong between them."""

import hashlib
import json
import os
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.engine.conftest import pack
from tests.modelarts.conftest import Signer
from tests.modelarts.line import Line, stormy
from tests.ports import free_port
from tests.store.served import run_jumar
from tests.waiting import wait_for

from jumar.client import Client
from jumar.database.access import open_database
from jumar.engine.modelarts.engine import ModelArtsEngine
from jumar.jobs.service import JobService
from jumar.modelarts.account import Account
from jumar.spec.job import JobSpec
from jumar.spec.records import JobRecord
from jumar.spec.states import JobState
from jumar.store.credentials import StoreConfig
from jumar.store.places import make_bucket

# Two steps per segment, of five; what it knows is in its checkpoints.
CODE = {
    "train.py": """
import argparse, os, sys
parser = argparse.ArgumentParser()
for name in ("data_url", "train_url"):
    parser.add_argument("--" + name)
given = parser.parse_args()
print("read", open(given.data_url + "/1.txt").read(), flush=True)
sys.stdout.buffer.write(b"not text \\xff\\n" + b"x" * 99 + b"\\n")
open(given.train_url + "/model.txt", "w").write("weights")
""",
    "steps.py": """
import os, sys
path = os.path.join(os.environ["JUMAR_CKPT_DIR"], "last.txt")
step = int(open(path).read()) if os.path.exists(path) else 0
for step in range(step + 1, min(step + 2, 5) + 1):
    print("step", step, flush=True)
open(path, "w").write(str(step))
sys.exit(0 if step == 5 else 75)
""",
    "wait.py": "import time\nprint('waiting', flush=True)\ntime.sleep(600)\n",
}
SEEN = b"read one\nnot text \xff\n" + b"x" * 99 + b"\n"


@dataclass
class Far:
    """A server that stands in for ModelArts: a process, which can be killed and started again."""

    home: Path
    port: int

    def start(self) -> None:
        run_jumar(self.home, "up", "--detach", "--port", str(self.port))

    def kill(self) -> None:
        os.kill(int((self.home / "server.pid").read_text()), signal.SIGKILL)

    def client(self) -> Client:
        values = json.loads((self.home / "client.json").read_text())
        return Client(values["url"], values["token"])

    def stores(self) -> StoreConfig:
        return StoreConfig(builtin=self.home / "store", state=self.home / "transfers")

    def names(self) -> list[str]:
        with self.client() as client:
            return sorted(job.name for job in client.jobs())


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Generator[Far]:
    made = Far(tmp_path_factory.mktemp("far") / "home", free_port())
    made.start()
    try:
        make_bucket("obs", "lab", made.stores())
        yield made
    finally:
        run_jumar(made.home, "down", rc=None)


@contextmanager
def serving(home: Path, far: Far, endpoint: str) -> Generator[JobService]:
    """A person's own server, without its door: jobs go to ModelArts at `endpoint`."""
    with far.client() as client:
        keys = client.modelarts_keys()
    known = Account(
        endpoint=endpoint,
        project_id=keys.project_id,
        bucket="lab",
        obs_endpoint="http://127.0.0.1:1",
        access_key=keys.ak,
        secret_key=keys.sk,
    )
    home.mkdir(exist_ok=True)
    engine = ModelArtsEngine(home, lambda: known, stores=far.stores(), poll_s=0.1, settle_s=0.5)
    database = open_database(f"sqlite:///{home / 'jumar.db'}")
    service = JobService(database=database, engine=engine, home=home, tick_s=0.2)
    service.start()
    try:
        yield service
    finally:
        service.close()


def submit(service: JobService, folder: Path, script: str, **fields: Any) -> JobRecord:
    archive = pack(folder / "code.tar", CODE)
    data = archive.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if not service.archives.has(digest):
        service.archives.receive(digest, iter([data]))
    values = {"name": script.removesuffix(".py"), "command": ["python", script]}
    spec = JobSpec.model_validate({**values, "code": {"archive": digest}, **fields})
    return service.submit(spec, user="ann")


@pytest.mark.parametrize(
    ("seed", "cut_s", "limit_s"),
    [(1, 0.5, 1.0), pytest.param(2, 60.0, 3.0, marks=pytest.mark.full)],
)
def test_no_job_is_lost_and_none_is_made_twice(
    tmp_path: Path,
    far: Far,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    cut_s: float,
    limit_s: float,
) -> None:
    monkeypatch.setattr("jumar.modelarts.service.REQUEST_LIMIT_S", limit_s)
    monkeypatch.setattr("jumar.engine.modelarts.errand._LONGEST_PAUSE_S", min(cut_s, 3.0))
    line = Line(f"http://127.0.0.1:{far.port}")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/1.txt").write_text("one")
    home, before = tmp_path / "near", set(far.names())
    with serving(home, far, line.url) as service:
        places = {"data_url": str(tmp_path / "data")}, {"train_url": str(tmp_path / "out")}
        # What is asked at once has no patience for a storm.
        run = submit(service, tmp_path, "train.py", inputs=places[0], outputs=places[1])
        steps = submit(
            service, tmp_path, "steps.py", ckpt=f"obs://lab/ckpt{seed}/", segments=3, time_limit=600
        )
        wait = submit(service, tmp_path, "wait.py")
        line.fate = stormy(seed)
        runs = lambda: service.get(wait.id).state is JobState.RUNNING  # noqa: E731
        wait_for(runs, "it runs there", limit_s=180 + 10 * cut_s)
    # The person's server is started again while the network is down.
    line.fate = "cut"
    with serving(home, far, line.url) as service:
        met = line.met["cut"]
        wait_for(lambda: line.met["cut"] > met + 1, "the cut is met")
        if cut_s > 1:
            time.sleep(cut_s)
        service.stop(wait.id)
        line.fate = stormy(seed + 100)
        far.kill()
        wait_for(lambda: line.met["whole"] > 3, "the killed server was asked for")
        far.start()
        for job, state in (
            (run, JobState.SUCCEEDED),
            (steps, JobState.SUCCEEDED),
            (wait, JobState.STOPPED),
        ):
            over = lambda job=job: service.get(job.id).state.is_final  # noqa: E731
            wait_for(over, f"{job.name} ends", limit_s=180 + 10 * cut_s)
            assert service.get(job.id).state is state, service.get(job.id)
        logs = {job.id: _log(home, job) for job in (run, steps)}
    line.close()
    assert logs[run.id] == SEEN
    assert logs[steps.id] == b"".join(b"step %d\n" % number for number in range(1, 6))
    assert (tmp_path / "out/model.txt").read_text() == "weights"
    parts = [f"jumar-{steps.id}-{number}" for number in (1, 2, 3)]
    wanted = [f"jumar-{run.id}-1", *parts, f"jumar-{wait.id}-1"]
    assert sorted(set(far.names()) - before) == sorted(wanted)
    assert len(far.names()) == len(set(far.names()))
    assert min(line.met[fate] for fate in ("500", "429", "cut", "lost", "slow", "late")) > 0
    with far.client() as client:
        assert all(job.state.is_final for job in client.jobs())


def _log(home: Path, job: JobRecord) -> bytes:
    return (home / "jobs" / job.id / "logs/node0/rank0.log").read_bytes()


def test_what_was_done_is_not_done_again_after_a_restart(far: Far) -> None:
    with far.client() as client:
        ask = Signer(client.modelarts_keys())
    now = time.time()
    create = {
        "metadata": {"name": "once"},
        "algorithm": {"command": "sleep 600"},
        "spec": {"resource": {"flavor_id": "modelarts.vm.cpu.2u"}},
    }

    def act(*words: Any) -> Any:
        return ask(*words, at=now)

    job = act("POST", "/training-jobs", create)[1]["metadata"]["id"]
    place = f"/training-jobs/{job}"
    edit = "PUT", place, {"description": "one"}
    stop = "POST", f"{place}/actions", {"action_type": "terminate"}
    before = [act(*edit), act("PUT", place, {"description": "two"}), act(*stop)]
    names = far.names()
    far.kill()
    far.start()
    assert act("POST", "/training-jobs", create)[1]["metadata"]["id"] == job
    assert far.names() == names
    assert act(*edit) == before[0]
    assert ask("GET", place)[1]["metadata"]["description"] == "two"
    assert act(*stop) == before[2]
    wait_for(lambda: ask("GET", place)[1]["status"]["phase"] == "Terminated", "it is stopped")
    deleted = act("DELETE", place)
    far.kill()
    far.start()
    assert act("DELETE", place) == deleted
    assert ask("GET", place)[0] == 404
