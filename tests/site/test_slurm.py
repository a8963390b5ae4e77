"""A site gives jobs to Slurm as the people who submit them, through root's program."""

import json
import os
import pwd
import shutil
import signal
import threading
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.site.conftest import Host, until
from tests.slurm import Cluster, running_cluster

pytestmark = pytest.mark.full
LIMIT_S = 240.0
_ENDS = ("succeeded", "failed", "stopped", "lost", "timed-out")


@pytest.fixture(scope="module")
def cluster() -> Generator[Cluster]:
    with running_cluster() as made:
        yield made


@pytest.fixture(scope="module")
def slurm_site(host: Host, cluster: Cluster) -> Host:
    conf = cluster.environ["SLURM_CONF"]
    host.configure(slurm=True, variables={"SLURM_CONF": conf})
    host.start_server(JUMAR_ENGINE="local,slurm", SLURM_CONF=conf)
    return host


def _submit(site: Host, user: str, *command: str) -> str:
    folder = site.home(user) / "work"
    folder.mkdir(mode=0o700, exist_ok=True)
    shutil.chown(folder, user, user)
    words = ["run", "--engine", "slurm", "--json", "--", *command]
    return json.loads(site.jumar(user, *words, folder=folder)[1])["id"]


def _submit_file(site: Host, user: str, text: str) -> str:
    file = site.home(user) / "job.yaml"
    file.write_text(f"name: x\n{text}")
    shutil.chown(file, user, user)
    words = ["run", "--engine", "slurm", "--json", "-f", str(file)]
    return json.loads(site.jumar(user, *words, folder=site.home(user))[1])["id"]


def _until(site: Host, user: str, job: str, *states: str) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        record = json.loads(site.jumar(user, "show", job, "--json")[1])
        if record["state"] in _ENDS and record["state"] not in states:
            log = (site.top / "server.log").read_text()[-3000:]
            raise AssertionError((record, log, site.log.read_text()[-2000:]))
        return record if record["state"] in states else None

    return until(found, f"{job} is {states}", LIMIT_S)


def test_each_job_is_one_of_its_own_user(slurm_site: Host, cluster: Cluster) -> None:
    command = ("sh", "-c", "id -un; touch made")
    jobs = {user: _submit(slurm_site, user, *command) for user in slurm_site.users[:2]}
    for user, job in jobs.items():
        _until(slurm_site, user, job, "succeeded")
        log = slurm_site.jumar(user, "logs", job)[1]
        assert log.split() == [user]
        made = slurm_site.home(user) / "work/made"
        assert made.stat().st_uid == pwd.getpwnam(user).pw_uid
        work = slurm_site.state / "jobs" / job / "work"
        assert work.stat().st_uid == pwd.getpwnam(user).pw_uid
        rows = cluster.call("squeue", "-h", "--states=all", f"--name=jumar-{job}", "-o", "%u")
        assert set(rows.split()) <= {user}
    ann, ben = jobs
    code, _, error = slurm_site.jumar(ben, "show", jobs[ann], check=False)
    assert code != 0, error
    slurm_site.jumar(ann, "jobs", "rm", "--yes", jobs[ann])
    until(lambda: not (slurm_site.state / "jobs" / jobs[ann]).exists(), "its files are gone")


def test_a_running_and_a_waiting_job_are_stopped(slurm_site: Host, cluster: Cluster) -> None:
    ann = slurm_site.users[0]
    running = _submit(slurm_site, ann, "sleep", "600")
    waiting = _submit_file(
        slurm_site, ann, "command: [sleep, '600']\nslurm: {extra: [--begin=now+1hour]}\n"
    )
    _until(slurm_site, ann, running, "running")
    in_queue = ("squeue", "-h", f"--name=jumar-{waiting}", "-o", "%T")
    until(lambda: cluster.call(*in_queue).strip() == "PENDING", "Slurm has it wait", LIMIT_S)
    slurm_site.jumar(ann, "stop", running, waiting)
    _until(slurm_site, ann, running, "stopped")
    _until(slurm_site, ann, waiting, "stopped")
    until(lambda: not cluster.call("squeue", "-h", "-u", ann).strip(), "nothing is left", LIMIT_S)


def test_what_slurm_refuses_is_told_on_the_job(slurm_site: Host) -> None:
    ann = slurm_site.users[0]
    job = _submit_file(slurm_site, ann, "command: [echo, hi]\nslurm: {partition: nowhere}\n")
    ended = _until(slurm_site, ann, job, "failed")
    assert ended["cause"] == "start-refused"
    assert "invalid partition" in ended["values"]["error"].lower()


@pytest.mark.parametrize("how", ["the same", "with columns", "with lines"])
def test_a_row_of_somebody_else_is_not_believed(
    slurm_site: Host, cluster: Cluster, how: str
) -> None:
    """Ben gives a job of his the comment of Ann's: hers ends as she ends it."""
    ann, ben = slurm_site.users[:2]
    job = _submit(slurm_site, ann, "sleep", "600")
    record = _until(slurm_site, ann, job, "running")
    comment = cluster.call("squeue", "-h", f"--name=jumar-{job}", "-O", "Comment:200").strip()
    assert comment.startswith(f"jumar:{job}:1:")
    if how == "with columns":
        comment = f"jumar:{job}:1:x|n|p|q|a|{ann}|"
    elif how == "with lines":
        comment = f"x\n77|COMPLETED|None|jumar:{job}:1:x|n|p|q|a|{ann}|"
    forged = ["sbatch", f"--comment={comment}", f"--job-name=jumar-{job}", "--wrap", "false"]
    command = [*slurm_site.identity(ben), *forged, "--output=/dev/null", "--chdir=/"]
    before = cluster.call("squeue", "-h", "--states=all", "-u", ben, "-o", "%T").count("FAILED")
    cluster.call(*command)
    until(
        lambda: (
            cluster.call("squeue", "-h", "--states=all", "-u", ben, "-o", "%T").count("FAILED")
            > before
        ),
        "his job has failed",
        LIMIT_S,
    )
    # The server has looked at the queue since.
    second = _submit(slurm_site, ann, "true")
    _until(slurm_site, ann, second, "succeeded")
    assert _until(slurm_site, ann, job, "running")["attempt"] == 1
    slurm_site.jumar(ann, "stop", job)
    assert _until(slurm_site, ann, job, "stopped")["attempt"] == record["attempt"] == 1


def test_who_holds_up_sbatch_holds_up_nobody_else(slurm_site: Host) -> None:
    """Ben stops each of his processes that root's program starts for Slurm."""
    ann, ben = slurm_site.users[:2]
    uid, is_over = slurm_site.uid(ben), threading.Event()
    stopped = set[int]()
    attacker = threading.Thread(target=_stop_sbatch, args=(uid, is_over, stopped))
    attacker.start()
    try:
        slow = [_submit(slurm_site, ben, "true") for _ in range(8)]
        until(lambda: stopped, "he has stopped one", LIMIT_S)
        job = _submit(slurm_site, ann, "true")
        _until(slurm_site, ann, job, "succeeded")
        # Each takes half a minute: hers did not wait until all of his were tried.
        assert len(stopped) < len(slow)
    finally:
        is_over.set()
        attacker.join()
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    for one in slow:
        _until(slurm_site, ben, one, "succeeded")


def _stop_sbatch(uid: int, is_over: threading.Event, stopped: set[int]) -> None:
    while not is_over.wait(0.005):
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if path.stat().st_uid == uid and (path / "comm").read_text() == "sbatch\n":
                    os.kill(int(path.name), signal.SIGSTOP)
                    stopped.add(int(path.name))
