import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

Jumar = Callable[..., "subprocess.CompletedProcess[str]"]
Follow = Callable[..., "subprocess.Popen[str]"]


def show(jumar: Jumar, job: str) -> dict[str, object]:
    return json.loads(jumar("show", job, "--json").stdout)


def wait_for(jumar: Jumar, job: str, *states: str) -> dict[str, object]:
    give_up_at = time.monotonic() + 180
    while (record := show(jumar, job))["state"] not in states:
        assert time.monotonic() < give_up_at, f"{job} is {record['state']}, not {states}"
        time.sleep(0.1)
    return record


def test_prints_the_id_and_nothing_else_on_stdout(jumar: Jumar) -> None:
    done = jumar("run", "--", "echo", "hi")
    job = done.stdout.strip()
    assert job.isalnum()
    assert f"jumar logs -f {job}" in done.stderr
    record = wait_for(jumar, job, "succeeded")
    assert record["name"] == "echo"
    assert jumar("logs", job).stdout == "hi\n"


def test_says_what_is_not_done_of_what_was_asked(jumar: Jumar) -> None:
    said = jumar("run", "--cpus", "1", "--", "true").stderr
    assert "note: cpus is not enforced" in said


def test_json_has_the_id(jumar: Jumar) -> None:
    record = json.loads(jumar("run", "--name", "js", "--json", "--", "true").stdout)
    assert record["name"] == "js"
    assert show(jumar, record["id"])["id"] == record["id"]


def test_follow_prints_the_log_and_ends_with_0(jumar: Jumar) -> None:
    done = jumar("run", "--follow", "--", "sh", "-c", "echo one; sleep 0.2; echo two")
    assert done.stdout == "one\ntwo\n"
    assert "succeeded after" in done.stderr.splitlines()[-1]


def test_a_failed_job_is_quoted_and_ends_with_1(jumar: Jumar) -> None:
    done = jumar("run", "-F", "--name", "bad", "--", "sh", "-c", "echo oh no >&2; exit 3", rc=1)
    assert "oh no" in done.stdout
    assert "bad (" in done.stderr
    assert "failed after" in done.stderr
    assert "reason: " in done.stderr
    assert "code 3" in done.stderr
    assert "last lines:\n  oh no" in done.stderr
    directory = done.stderr.rpartition("log: ")[2].strip()
    assert (Path(directory) / "node0" / "rank0.log").read_text() == "oh no\n"


def test_follow_with_json_keeps_stdout_for_the_record(jumar: Jumar) -> None:
    done = jumar("run", "-F", "--json", "--", "echo", "hi")
    assert json.loads(done.stdout)["state"] == "succeeded"
    assert "hi\n" in done.stderr


def test_runs_in_place_with_the_callers_python(jumar: Jumar, tmp_path: Path) -> None:
    (tmp_path / "where.py").write_text("import os, sys; print(os.getcwd(), sys.executable)")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = jumar("run", "-F", "--", "python", "where.py", PATH=path)
    folder, python = done.stdout.split()
    assert Path(folder) == tmp_path
    assert Path(python).parent == Path(sys.executable).parent


def test_the_name_is_the_scripts(jumar: Jumar, tmp_path: Path) -> None:
    (tmp_path / "train net.py").write_text("")
    job = jumar("run", "--", sys.executable, "train net.py").stdout.strip()
    assert show(jumar, job)["name"] == "train net"


def test_variables_given_and_taken(jumar: Jumar) -> None:
    done = jumar(
        "run", "-F", "--env", "A=1 = 2", "--env", "B", "--", "sh", "-c", "echo $A,$B,$C",
        B="from here", C="stays here",
    )  # fmt: skip
    assert done.stdout == "1 = 2,from here,\n"


def test_ascend_variables_are_passed_along(jumar: Jumar) -> None:
    done = jumar("run", "-F", "--", "sh", "-c", "echo $ASCEND_HOME_PATH", ASCEND_HOME_PATH="/a/b")
    assert done.stdout == "/a/b\n"


def test_code_is_copied(jumar: Jumar, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "hello.txt").write_text("first\n")
    (code / "away").symlink_to("/etc")
    job = jumar("run", "--code", "code", "--", "sh", "-c", "sleep 0.3; cat hello.txt; pwd")
    assert "left out: away" in job.stderr
    (code / "hello.txt").write_text("second\n")
    wait_for(jumar, job.stdout.strip(), "succeeded")
    log = jumar("logs", job.stdout.strip()).stdout.splitlines()
    assert log[0] == "first"
    assert log[1].endswith(f"/jobs/{job.stdout.strip()}/code")


def test_code_from_git(jumar: Jumar, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "a.txt").write_text("from git\n")
    git = ["git", "-C", str(repository), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "a"]):
        subprocess.run([*git, *words], check=True, timeout=180)
    head = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True, timeout=180
    )
    source = f"git+file://{repository}@{head.stdout.strip()}"
    assert jumar("run", "-F", "--code", source, "--", "cat", "a.txt").stdout.endswith("from git\n")


def test_flags_go_over_the_file(jumar: Jumar, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "name: from-file\ncommand: [echo, file]\npriority: 7\nenvironment: {A: file, B: file}\n"
    )
    plain = json.loads(jumar("run", "-f", "job.yaml", "--json").stdout)
    assert (plain["name"], plain["priority"]) == ("from-file", 7)
    other = json.loads(
        jumar(
            "run", "-f", "job.yaml", "--json", "--priority", "9", "--env", "A=flag",
            "--time-limit", "5m", "--", "echo", "flag",
        ).stdout
    )  # fmt: skip
    assert (other["name"], other["priority"]) == ("from-file", 9)
    assert other["spec"]["command"] == ["echo", "flag"]
    assert other["spec"]["time_limit"] == "5m"
    assert other["spec"]["environment"]["A"] == "flag"
    assert other["spec"]["environment"]["B"] == "file"


def test_distributed_starts_one_process_a_device(jumar: Jumar) -> None:
    script = "echo $RANK of $WORLD_SIZE"
    job = json.loads(
        jumar(
            "run", "--json", "--device", "cpu:2", "--distributed", "--", "sh", "-c", script
        ).stdout
    )
    wait_for(jumar, job["id"], "succeeded")
    assert jumar("logs", job["id"]).stdout == "0 of 2\n"
    assert jumar("logs", job["id"], "--rank", "1").stdout == "1 of 2\n"


def test_inputs_and_outputs_become_arguments(jumar: Jumar, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    done = jumar(
        "run", "-F", "--input", f"data_url={tmp_path}/data", "--output", "train_url=results",
        "--", "echo",
    )  # fmt: skip
    data, train = done.stdout.split()
    assert data == f"--data_url={tmp_path}/data"
    assert train.startswith("--train_url=/")
    assert train.endswith("/out/results")


def test_dry_run_prints_the_plan_and_queues_nothing(jumar: Jumar) -> None:
    before = jumar("jobs", "--all", "--json").stdout.count('"id"')
    done = jumar("run", "--dry-run", "--memory", "1G", "--", "echo", "hi")
    assert "1 process on this machine" in done.stdout
    assert "note: memory is not enforced" in done.stderr
    plan = json.loads(jumar("run", "--dry-run", "--json", "--", "echo", "hi").stdout)
    assert plan["details"]["argv"] == ["echo", "hi"]
    assert jumar("jobs", "--all", "--json").stdout.count('"id"') == before


def test_no_resume_is_a_field_of_the_job(jumar: Jumar) -> None:
    job = json.loads(jumar("run", "--no-resume", "--json", "--", "true").stdout)
    assert job["spec"]["resume"] is False


def test_follow_says_why_a_job_waits(jumar: Jumar, follow: Follow) -> None:
    holder = jumar("run", "--device", "cpu:4", "--", "sleep", "600").stdout.strip()
    wait_for(jumar, holder, "running")
    process = follow("run", "-F", "--device", "cpu:2", "--", "echo", "hi")
    assert process.stderr is not None
    assert process.stderr.readline().startswith("submitted echo (")
    assert process.stderr.readline().startswith("waiting: 0 of 4 cpu slots are free, needs 2;")
    jumar("stop", holder)
    stdout, stderr = process.communicate(timeout=180)
    assert stdout == "hi\n"
    assert "waiting" not in stderr
    assert process.returncode == 0


def test_interrupt_detaches(jumar: Jumar, follow: Follow) -> None:
    process = follow("run", "-F", "--", "sh", "-c", "echo started; sleep 600")
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=180)
    job = stderr.partition("(")[2].partition(")")[0]
    assert process.returncode == 130
    assert (
        f"still running; come back with: jumar logs -f {job}, stop it with: jumar stop {job}"
        in (stderr)
    )
    assert "Traceback" not in stderr
    assert show(jumar, job)["state"] == "running"
    jumar("stop", job)
    wait_for(jumar, job, "stopped")


def test_interrupt_stops_if_asked_to(jumar: Jumar, follow: Follow) -> None:
    process = follow("run", "-F", "--stop-on-interrupt", "--", "sh", "-c", "echo on; sleep 600")
    assert process.stdout is not None
    assert process.stdout.readline() == "on\n"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=180)
    assert process.returncode == 1
    assert "stopped after" in stderr
    job = stderr.partition("(")[2].partition(")")[0]
    assert show(jumar, job)["state"] == "stopped"
