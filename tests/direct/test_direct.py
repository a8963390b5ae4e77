"""Jobs handed to Slurm with no server: nothing of jumar runs between commands."""

import json
import os
import pwd
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pydantic
import pytest
from tests.slurm import Cluster

import jumar
from jumar.launch.processes import process

LIMIT_S = 180.0


class Person:
    """Somebody on a login node."""

    def __init__(self, program: str, cluster: Cluster, home: Path, account: str | None = None):
        self.home = home
        self._words = [program]
        if account is not None:
            found = pwd.getpwnam(account)
            ids = [f"--reuid={found.pw_uid}", f"--regid={found.pw_gid}", "--clear-groups"]
            self._words = ["setpriv", *ids, program]
        hidden = ("JUMAR_SERVER", "JUMAR_TOKEN", "JUMAR_ENGINE")
        self.environ = {k: v for k, v in cluster.environ.items() if k not in hidden}
        self.environ.update(JUMAR_HOME=str(home / ".jumar"), HOME=str(home), USER=account or "root")

    def __call__(self, *words: str, rc: int = 0) -> str:
        done = subprocess.run(
            [*self._words, *words],
            env=self.environ,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == rc, (done.stdout, done.stderr)
        return done.stdout if rc == 0 else done.stderr

    def wait(self, job: str, *states: str) -> dict[str, Any]:
        give_up_at = time.monotonic() + LIMIT_S
        while True:
            shown = json.loads(self("show", job, "--json"))
            if shown["state"] in states:
                return shown
            assert time.monotonic() < give_up_at, shown
            time.sleep(0.2)


@pytest.fixture
def person(jumar_program: str, slurm_cluster: Cluster, tmp_path: Path) -> Person:
    return Person(jumar_program, slurm_cluster, tmp_path)


def test_run_jobs_show_logs_and_stop_without_a_server(person: Person) -> None:
    told = person("run", "--engine", "slurm", "--name", "hi", "--device", "npu:2", "--follow", "--",
                  "sh", "-c", "echo cards $ASCEND_RT_VISIBLE_DEVICES; exit 3", rc=1)  # fmt: skip
    assert "exited with code 3" in told
    assert person("logs", "hi") == "cards 0,1\n"
    job = person("run", "--engine", "slurm", "--name", "long", "--", "sleep", "300").strip()
    person.wait("long", "running")
    listed = {one["name"]: one["state"] for one in json.loads(person("jobs", "--json"))}
    assert listed == {"hi": "failed", "long": "running"}
    person("stop", job[:6])
    ended = person.wait(job, "stopped")
    assert ended["cause"] == "stopped"
    assert "this needs a jumar server" in person("users", rc=2)
    assert not (person.home / ".jumar/jumar.db").exists()
    left = process.with_environment({"JUMAR_HOME": str(person.home / ".jumar")})
    assert [stat.pid for stat in left if stat.pid != os.getpid()] == []


SEGMENTS = """
import os, pathlib, time
folder = pathlib.Path(os.environ["JUMAR_CKPT_DIR"])
done = sum(int(path.read_text()) for path in folder.glob("*.txt"))
(folder / f"{done}.txt").write_text("1")
if done < 2:
    time.sleep(300)
print("trained", done + 1, "in segment", os.environ["JUMAR_SEGMENT"])
"""


def test_segments_go_on_by_themselves(person: Person) -> None:
    (person.home / "train.py").write_text(SEGMENTS)
    job = person("run", "--engine", "slurm", "--time-limit", "3s", "--grace", "1s", "--segments",
                 "5", "--", "python3", "train.py").strip()  # fmt: skip
    shown = person.wait(job, "succeeded")
    assert shown["segment"] == 3
    assert person("logs", job) == "trained 3 in segment 3\n"


def test_a_node_that_goes_down_costs_an_attempt_and_not_the_job(
    person: Person, slurm_cluster: Cluster
) -> None:
    wait = "[ $JUMAR_ATTEMPT = 2 ] || sleep 300"
    spec = {
        "name": "down",
        "command": wait,
        "grace": 1,
        "slurm": {"extra": ["--exclude=node[1-2]"]},
    }
    (person.home / "job.yaml").write_text(json.dumps(spec))
    job = person("run", "--engine", "slurm", "-f", "job.yaml").strip()
    person.wait(job, "running")
    begun = person.home / ".jumar/slurm/jobs" / job / "attempts/1/slurm.json"
    number = json.loads(begun.read_text())["job"]
    node = slurm_cluster.call("squeue", "-h", "-j", number, "-o", "%N").strip()
    try:
        slurm_cluster.call("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
        shown = person.wait(job, "succeeded")
    finally:
        slurm_cluster.call("scontrol", "update", f"nodename={node}", "state=resume", check=False)
    first, second = shown["attempts"]
    assert (first["state"], first["cause"]) == ("lost", "node-lost")
    assert second["state"] == "succeeded"


TRAINS = """
import hashlib, os, pathlib, signal, sys, time
import torch

END = 12


class Training:
    def __init__(self):
        torch.manual_seed(7)
        self.model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.step = 0

    def train(self):
        loss = self.model(torch.randn(16, 8)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.step += 1

    def save(self, path):
        state = self.model.state_dict(), self.optimizer.state_dict(), self.step, torch.get_rng_state()
        torch.save(state, path + ".new")
        os.replace(path + ".new", path)

    def load(self, path):
        model, optimizer, self.step, random = torch.load(path, weights_only=True)
        self.model.load_state_dict(model)
        self.optimizer.load_state_dict(optimizer)
        torch.set_rng_state(random)

    def digest(self):
        return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in self.model.parameters())).hexdigest()


path = os.path.join(os.environ["JUMAR_CKPT_DIR"], "state.pt")
training, began = Training(), 0
if os.path.exists(path):
    training.load(path)
    began = training.step
while training.step < END:
    training.train()
    training.save(path)
    if training.step == began + 4 and training.step < END:
        # The time limit comes in the middle.
        time.sleep(600)
whole = Training()
while whole.step < END:
    whole.train()
print("segment", os.environ["JUMAR_SEGMENT"], "began at", began)
print("weights", training.digest() == whole.digest())
"""


@pytest.mark.full
def test_segments_end_with_the_weights_of_a_run_that_nobody_cut(person: Person) -> None:
    """Real torch, cut by the time limit twice."""
    (person.home / "train.py").write_text(TRAINS)
    python = sys.executable
    job = person("run", "--engine", "slurm", "--time-limit", "25s", "--grace", "2s", "--segments",
                 "auto", "--", python, "train.py").strip()  # fmt: skip
    shown = person.wait(job, "succeeded")
    # A busy machine may take more of them.
    assert shown["segment"] >= 3
    assert person("logs", job).endswith("weights True\n")


def test_the_plan_is_printed_with_no_cluster_at_hand(
    jumar_program: str, tmp_path: Path, slurm_cluster: Cluster
) -> None:
    person = Person(jumar_program, slurm_cluster, tmp_path)
    person.environ["SLURM_CONF"] = str(tmp_path / "none")
    (tmp_path / "job.yaml").write_text(
        "name: big\ncommand: [sh, -c, 'true']\ndevice: npu:8\nnodes: 4\ntype: distributed\n"
        "slurm: {partition: npu, extra: [--exclude=node7]}\n"
    )
    plan = json.loads(person("run", "-f", "job.yaml", "--engine", "slurm", "--dry-run", "--json"))
    assert plan["engine"] == "slurm"
    assert {"--nodes=4", "--gres=npu:8", "--partition=npu", "--exclude=node7"} <= set(
        plan["details"]["sbatch"]
    )


APPTAINER = """#!/bin/sh
echo "$1" "$2" "$3" >&2
while [ "${1#*.sif}" = "$1" ]; do case $1 in --pwd=*) cd "${1#--pwd=}";; esac; shift; done
echo "in $1 with $APPTAINERENV_COLOUR"
shift
exec "$@"
"""


def test_a_job_with_an_image_runs_in_the_cluster_s_apptainer(
    jumar_program: str, slurm_cluster: Cluster, tmp_path: Path
) -> None:
    person = Person(jumar_program, slurm_cluster, tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/apptainer").write_text(APPTAINER)
    (tmp_path / "bin/apptainer").chmod(0o755)
    person.environ["PATH"] = f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}"
    words = ("--image", "/data/a.sif", "--env", "COLOUR=a b", "--device", "npu:2")
    show = "pwd; echo cards $ASCEND_RT_VISIBLE_DEVICES; exit 3"
    job = person("run", "--engine", "slurm", *words, "--", "sh", "-c", show).strip()
    assert person.wait(job, "failed")["attempts"][0]["exit_code"] == 3
    log = person("logs", job)
    assert log.startswith("exec --cleanenv --no-home\nin /data/a.sif with a b\n")
    assert f"{tmp_path}\n" in log


@pytest.fixture
def open_program(slurm_cluster: Cluster) -> str:
    """`jumar` with a Python that every account may run."""
    python = shutil.which("python3.11", path="/usr/bin") or "/usr/bin/python3"
    path = os.pathsep.join(
        {str(Path(jumar.__file__).parents[1]): None, str(Path(pydantic.__file__).parents[1]): None}
    )
    program = slurm_cluster.folder.parent / "jumar"
    main = "import sys; from jumar.cli import main; sys.exit(main())"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {python} -c "{main}" "$@"\n')
    program.chmod(0o755)
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(program)]
    tried = subprocess.run([*as_nobody, "--version"], capture_output=True, timeout=60, check=False)
    if tried.returncode:
        pytest.skip("other accounts cannot run this checkout, or its Python is not the system's")
    return str(program)


def test_two_real_accounts_have_jobs_of_their_own(
    open_program: str, slurm_cluster: Cluster
) -> None:
    """Each job runs as who submitted it, in a home that the other cannot read."""
    people: dict[str, Person] = {}
    try:
        for name in ("nobody", "games"):
            home = slurm_cluster.folder.parent / f"home-{name}"
            home.mkdir(mode=0o700)
            shutil.chown(home, name, pwd.getpwnam(name).pw_gid)
            people[name] = Person(open_program, slurm_cluster, home, name)
        jobs = {name: call("run", "--engine", "slurm", "--name", "me", "--", "id", "-un").strip() for name, call in people.items()}  # fmt: skip
        for name, call in people.items():
            call.wait("me", "succeeded")
            assert call("logs", "me") == f"{name}\n"
            assert [one["id"] for one in json.loads(call("jobs", "--json"))] == [jobs[name]]
    finally:
        for call in people.values():
            shutil.rmtree(call.home, ignore_errors=True)
