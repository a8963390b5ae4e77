"""`slurm: {ssh: …}`: a laptop, a real sshd on a login node with nothing of jumar, a real Slurm."""

import json
import os
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cli.sshd import running_sshd
from tests.direct.test_direct import LIMIT_S, Person
from tests.slurm import Cluster

from jumar.direct.far_client import FarClient
from jumar.direct.over_ssh import Login
from jumar.errors import EngineFailed

TRAIN = """
import os, sys, time
print(os.environ["JUMAR_JOB_DIR"], os.environ["ASCEND_RT_VISIBLE_DEVICES"], open("data.txt").read(), flush=True)
while "wait" in sys.argv:
    time.sleep(0.1)
"""
CUT = """\
#!/bin/sh
/usr/bin/sbatch "$@"
code=$?
case "$*" in *--test-only*) exit $code ;; esac
[ -e {marker} ] || {{ touch {marker}; kill -9 $PPID; }}
exit $code
"""


@dataclass
class Laptop:
    call: Person
    far: Path
    """The home there."""


@pytest.fixture(scope="module")
def laptop(
    jumar_program: str, slurm_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Laptop]:
    folder = tmp_path_factory.mktemp("far")
    far, near, programs = folder / "far", folder / "near", folder / "bin"
    for one in (far, near, programs):
        one.mkdir()
    # A login shell finds it before Slurm's own.
    (far / ".profile").write_text(f'PATH="{programs}:$PATH"\n')
    (programs / "sbatch").write_text(CUT.format(marker=folder / "cut"))
    (programs / "sbatch").chmod(0o755)
    variables = {"HOME": str(far), "SLURM_CONF": slurm_cluster.environ["SLURM_CONF"]}
    with running_sshd(folder / "sshd", variables) as sshd:
        # What is there cannot be seen from here.
        hidden = folder / "jumar"
        hide = f'mount -t tmpfs none "{far}" && exec "$0" "$@"'
        hidden.write_text(
            f"#!/bin/sh\nexec unshare --mount sh -c '{hide}' {jumar_program} \"$@\"\n"
        )
        hidden.chmod(0o755)
        call = Person(str(hidden), slurm_cluster, near)
        # What ~/.ssh/config says of `login`.
        (near / "bin").mkdir()
        ssh = near / "bin/ssh"
        first = sshd.path.partition(":")[0]
        options = f"-p {sshd.port} -o HostName=127.0.0.1 -o User={sshd.user}"
        ssh.write_text(f'#!/bin/sh\nexec {first}/ssh {options} "$@"\n')
        ssh.chmod(0o755)
        # No Slurm on the laptop.
        call.environ.pop("SLURM_CONF")
        call.environ["PATH"] = f"{near / 'bin'}:{os.environ['PATH']}"
        code = near / "code"
        code.mkdir()
        (code / "train.py").write_text(TRAIN)
        (code / "data.txt").write_text("data")
        spec = {
            "name": "far",
            "command": ["python3", "train.py"],
            "device": "npu:2",
            "grace": 2,
            "slurm": {"ssh": "ann@login", "extra": ["--nodelist=node1"]},
        }
        (near / "job.yaml").write_text(json.dumps(spec))
        yield Laptop(call, far)


def test_a_laptop_submits_follows_lists_and_stops(laptop: Laptop) -> None:
    """The first connection is cut just when Slurm has taken the job: it is found, not submitted twice."""
    call = laptop.call
    told = call("run", "-f", "job.yaml", "--engine", "slurm", rc=2)
    assert "another machine" in told
    words = ("run", "-f", "job.yaml", "--code", "code", "--engine", "slurm")
    job = json.loads(call(*words, "--follow", "--json"))
    assert (job["state"], job["engine"]) == ("succeeded", "slurm")
    there = laptop.far / ".jumar/slurm/jobs" / job["id"]
    assert call("logs", "far") == f"{there} 0,1 data\n"
    assert job["directory"] == str(there)
    # What jumar brings: one file, and what this job is.
    assert [path.suffix for path in (laptop.far / ".jumar/launch").iterdir()] == [".pyz"]
    long = call(*words, "--name", "long", "--", "python3", "train.py", "wait").strip()
    call.wait("long", "running")
    listed = {one["name"]: one["state"] for one in json.loads(call("jobs", "--json"))}
    assert listed == {"far": "succeeded", "long": "running"}
    call("stop", "long")
    assert call.wait(long, "stopped")["cause"] == "stopped"
    assert call("logs", "--tail", "1", long).endswith("data\n")


def test_what_slurm_refuses_there_is_told_and_leaves_nothing(laptop: Laptop) -> None:
    jobs = laptop.far / ".jumar/slurm/jobs"
    jobs.mkdir(parents=True, exist_ok=True)
    before = sorted(jobs.iterdir())
    words = ("run", "-f", "job.yaml", "--code", "code", "--engine", "slurm", "--device", "npu:9")
    assert "Slurm refuses the job" in laptop.call(*words, rc=2)
    stored = ("--input", "data=obs://bucket/digits")
    assert "over SSH" in laptop.call(*words[:-2], *stored, rc=2)
    assert sorted(jobs.iterdir()) == before


def stub_ssh(folder: Path, script: str) -> str:
    (folder / "ssh").write_text(f"#!{sys.executable}\n{script}")
    (folder / "ssh").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


EVIL = """
import base64, json, sys
print("Welcome!\\njumar-far=have\\n" + json.dumps({"jumar-far": {
    "home": "/far", "python": "python3", "program": "x", "user": "ann"}}), flush=True)
files = {"../../../owned": [1.0, "x"], "/tmp/owned": [1.0, "x"], "attempts/1/../../../owned": [1.0, "x"]}
for line in sys.stdin:
    do = json.loads(line)["do"]
    jobs = {"a123456789": files, "../../oh": files}
    print(json.dumps({"answer": {"now": 1e9, "jobs": jobs} if do == "look" else [0, "", ""]}), flush=True)
"""


def test_a_far_end_that_lies_writes_nothing_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", stub_ssh(tmp_path, EVIL))
    with FarClient(tmp_path / "home", "ann@login") as client:
        assert client.page().jobs == ()
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert names == {"ssh", "jumar-launch.pyz", "last"}


def test_a_login_that_cannot_be_reached_is_told_and_a_plan_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", stub_ssh(tmp_path, "import sys; sys.exit(255)"))
    spec = {"name": "a", "command": ["true"], "device": "npu:2", "workdir": "/x"}
    with FarClient(tmp_path / "home", "ann@login") as client:
        plan = client.plan(spec)
        assert "--gres=npu:2" in plan.details["sbatch"]
        assert any("cannot be reached" in note for note in plan.notes)
        with pytest.raises(EngineFailed, match="cannot be reached") as told:
            client.submit(spec)
        assert told.value.hint == "this must work: ssh ann@login true"
        with pytest.raises(EngineFailed):
            client.page()


ECHO = """
import json, sys, time
print("jumar-far=have\\n" + json.dumps({"jumar-far": {
    "home": "/far", "python": "python3", "program": "x", "user": "ann"}}), flush=True)
for line in sys.stdin:
    said = json.loads(line)
    time.sleep(0.001)
    print(json.dumps({"answer": said["number"]}), flush=True)
"""


def test_who_ask_at_once_each_get_their_own_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", stub_ssh(tmp_path, ECHO))
    with closing(Login("login1", tmp_path / "launch.pyz")) as login, ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(login.ask, "echo", {"number": number}) for number in range(200)]
        assert [one.result(timeout=LIMIT_S) for one in asked] == list(range(200))
