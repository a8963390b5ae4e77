import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Jumar = Callable[..., "subprocess.CompletedProcess[str]"]
Follow = Callable[..., "subprocess.Popen[str]"]


def submit(jumar: Jumar, *words: str, name: str = "job") -> str:
    return jumar("run", "--name", name, "--", *words).stdout.strip()


def show(jumar: Jumar, job: str) -> dict[str, Any]:
    return json.loads(jumar("show", job, "--json").stdout)


def ended(jumar: Jumar, job: str) -> dict[str, Any]:
    jumar("logs", "-f", job)
    return show(jumar, job)


@pytest.fixture
def held(jumar: Jumar) -> str:
    """A job that holds every slot, so that the next one waits."""
    job = jumar(
        "run", "--device", "cpu:4", "--priority", "1000", "--", "sleep", "600"
    ).stdout.strip()
    until = time.monotonic() + 180
    while show(jumar, job)["state"] != "running":
        assert time.monotonic() < until
        time.sleep(0.1)
    return job


def test_list_has_id_name_and_state(jumar: Jumar) -> None:
    job = submit(jumar, "true", name="列表")
    ended(jumar, job)
    listed = json.loads(jumar("jobs", "--json", "--all").stdout)
    (mine,) = [entry for entry in listed if entry["id"] == job]
    assert (mine["name"], mine["state"]) == ("列表", "succeeded")
    line = next(line for line in jumar("jobs").stdout.splitlines() if line.startswith(job))
    assert line.split()[1:4] == ["列表", "succeeded", "cpu:1"]


def test_list_by_state_and_user(jumar: Jumar) -> None:
    job = submit(jumar, "false")
    ended(jumar, job)
    failed = json.loads(jumar("jobs", "--json", "--state", "failed").stdout)
    assert job in [entry["id"] for entry in failed]
    assert {entry["state"] for entry in failed} == {"failed"}
    assert json.loads(jumar("jobs", "--json", "--all", "--user", "nobody-here").stdout) == []
    assert jumar("jobs", "--user", "nobody-here").stderr == "no jobs\n"


def test_no_colour_where_there_is_no_terminal(jumar: Jumar) -> None:
    ended(jumar, submit(jumar, "true"))
    assert "\033" not in jumar("jobs").stdout
    assert "\033" not in jumar("show", "job").stdout


def test_show_says_why_a_job_failed(jumar: Jumar) -> None:
    job = submit(jumar, "sh", "-c", "echo broken wheel; exit 4")
    record = ended(jumar, job)
    assert record["state"] == "failed"
    assert "4" in record["reason"]
    assert [attempt["exit_code"] for attempt in record["attempts"]] == [4]
    shown = jumar("show", job[:6]).stdout
    for words in ("failed", record["reason"], "broken wheel", record["directory"], "1: failed"):
        assert words in shown


def test_show_says_when_a_job_with_a_short_limit_is_asked_to_save(jumar: Jumar) -> None:
    job = jumar("run", "--time-limit", "60s", "--", "sh", "-c", "exit 75").stdout.strip()
    ended(jumar, job)
    shown = jumar("show", job).stdout
    assert "30s; at its time limit it is asked 20 s before" in shown
    assert "1: ended early" in shown
    assert "one segment only" in shown


def test_show_says_why_a_job_waits(jumar: Jumar, held: str) -> None:
    job = submit(jumar, "true", name="patient")
    record = show(jumar, "patient")
    assert record["state"] == "queued"
    assert record["waiting"]["needs"] == 1
    assert f"waits        {record['waiting']['text']}\n" in jumar("show", job).stdout
    top = jumar("top", "--once").stdout
    assert top.count(held) == 4
    stopped = json.loads(jumar("stop", "--json", job, held).stdout)
    assert [entry["id"] for entry in stopped] == [job, held]
    assert stopped[0]["state"] == "stopped"
    assert ended(jumar, held)["state"] == "stopped"


def test_follow_says_why_it_waits(jumar: Jumar, held: str, follow: Follow) -> None:
    process = follow("run", "--follow", "--", "echo", "at last")
    assert process.stderr is not None
    assert process.stderr.readline().startswith("submitted echo")
    assert process.stderr.readline().startswith("waiting: ")
    jumar("stop", held)
    stdout, _ = process.communicate(timeout=180)
    assert (stdout, process.returncode) == ("at last\n", 0)


def test_a_rank_that_an_ended_job_does_not_have_is_an_error(jumar: Jumar) -> None:
    job = jumar("run", "--follow", "--json", "--", "echo", "hello").stdout
    job_id = json.loads(job)["id"]
    for follow in ([], ["-f"]):
        told = jumar("logs", *follow, job_id, "--rank", "5", rc=2).stderr
        assert f"job {job_id} has no log of rank 5 on node 0\n" in told
        assert "the job has logs of: node 0 rank 0" in told


def test_log_tail(jumar: Jumar) -> None:
    job = submit(jumar, "seq", "1000")
    ended(jumar, job)
    assert jumar("logs", job, "--tail", "3").stdout == "998\n999\n1000\n"
    assert jumar("logs", job, "--tail", "0").stdout == ""
    assert jumar("logs", job, "-f", "--tail", "2").stdout == "999\n1000\n"
    assert jumar("logs", job).stdout.count("\n") == 1000


def test_a_log_is_passed_on_byte_by_byte(jumar: Jumar, jumar_program: str, live_home: Path) -> None:
    job = submit(jumar, "printf", r"\377\001caf\303\251")
    ended(jumar, job)
    done = subprocess.run(
        [jumar_program, "logs", job],
        env={**os.environ, "JUMAR_HOME": str(live_home)},
        capture_output=True,
        check=True,
        timeout=180,
    )
    assert done.stdout == b"\xff\x01caf\xc3\xa9"


def test_interrupted_logs_leave_the_job_alone(jumar: Jumar, follow: Follow) -> None:
    job = submit(jumar, "sh", "-c", "echo on; sleep 600")
    process = follow("logs", "-f", job)
    assert process.stdout is not None
    assert process.stdout.readline() == "on\n"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=180)
    assert process.returncode == 130
    assert f"jumar logs -f {job}" in stderr
    assert show(jumar, job)["state"] == "running"
    jumar("stop", job)


def test_rerun_is_a_new_job(jumar: Jumar) -> None:
    job = submit(jumar, "echo", "again")
    ended(jumar, job)
    assert jumar("rerun", job, "--follow").stdout == "again\n"
    done = jumar("rerun", job, "--follow", "--json")
    other = json.loads(done.stdout)
    assert "again\n" in done.stderr
    assert (other["state"], other["id"] != job) == ("succeeded", True)
    assert other["spec"] == show(jumar, job)["spec"]


def test_a_log_as_json_is_pieces_of_its_text(jumar: Jumar) -> None:
    job = submit(jumar, "sh", "-c", "echo 一; echo two")
    ended(jumar, job)
    for words in ((), ("--follow",)):
        pieces = jumar("logs", job, "--json", *words).stdout.splitlines()
        assert "".join(json.loads(piece)["text"] for piece in pieces) == "一\ntwo\n"


def test_stopping_one_that_has_ended_is_told(jumar: Jumar) -> None:
    job = jumar("run", "--", "true").stdout.strip()
    ended(jumar, job)
    assert jumar("stop", job, rc=2).stderr == (f"error: job {job} has already ended (succeeded)\n")


def test_one_that_does_not_exist_keeps_no_other_from_being_stopped(jumar: Jumar) -> None:
    job = submit(jumar, "sleep", "600")
    done = jumar("stop", "zzzzzzzzzz", job, rc=2)
    assert "error: no job 'zzzzzzzzzz'\n" in done.stderr
    assert ended(jumar, job)["state"] == "stopped"


def test_top_has_every_card(jumar: Jumar) -> None:
    cards = json.loads(jumar("top", "--json").stdout)
    assert sum(card["kind"] == "cpu" for card in cards) == 4
    assert len(jumar("top").stdout.splitlines()) == len(cards) + 1
