"""Jobs on this machine, with real processes: what they see, how they end, what is said of it."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.engine.conftest import PATIENCE_S, Workshop, log_of, pack, wait_final
from tests.waiting import wait_for

from jumar.engine.local.starter import Starter
from jumar.engine.shared.files import write_files
from jumar.engine.shared.jobfiles import Roots
from jumar.launch.processes import process
from jumar.spec.states import AttemptState

PYTHON = sys.executable


def events(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines()]


def test_output_is_in_the_log_in_the_order_written(workshop: Workshop) -> None:
    made, seen = workshop.run("for i in 1 2 3; do echo out $i; echo err $i >&2; done")
    assert seen.state == AttemptState.SUCCEEDED
    assert log_of(made) == "".join(f"out {i}\nerr {i}\n" for i in (1, 2, 3))
    assert [event["event"] for event in events(made.directory)] == [
        "attempt-started",
        "ranks-started",
        "rank-exited",
        "attempt-finished",
    ]


def test_an_exit_code_is_told_with_the_tail(workshop: Workshop) -> None:
    _, seen = workshop.run([PYTHON, "-c", "print('before'); raise ValueError('no such layer')"])
    assert (seen.state, seen.exit_code) == (AttemptState.FAILED, 1)
    assert seen.reason == "the command exited with code 1"
    assert seen.tail is not None
    assert seen.tail.startswith("Traceback")
    assert seen.tail.endswith("ValueError: no such layer")


def test_a_signal_is_told_by_name(workshop: Workshop) -> None:
    _, seen = workshop.run("echo soon; kill -SEGV $$")
    assert seen.state == AttemptState.FAILED
    assert seen.reason == "the command was killed by SIGSEGV"
    assert seen.tail == "soon"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["no-such-program-here"], "command not found: no-such-program-here"),
        (
            "no-such-program-here --x",
            "the command exited with code 127: a program that it calls was not found or cannot be run",
        ),
    ],
)
def test_a_command_that_cannot_run_is_named(
    workshop: Workshop, command: list[str] | str, reason: str
) -> None:
    made, seen = workshop.run(command)
    assert (seen.state, seen.reason) == (AttemptState.FAILED, reason)
    result = json.loads((made.directory / "attempts/1/result.json").read_text())
    assert result["cause"] == "missing-command"


def test_a_file_that_is_not_executable_is_named(workshop: Workshop, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("echo no")
    _, seen = workshop.run([str(script)])
    assert seen.reason == f"{script} is not executable"
    script.chmod(0o755)
    _, seen = workshop.run([str(script)])
    assert seen.reason == f"{script} is not a program (no #! line?)"
    script.write_text("#!/no/such/python\n")
    _, seen = workshop.run([str(script)])
    assert seen.reason == (f"the interpreter named in the first line of {script} does not exist")


def test_a_time_limit_ends_the_job(workshop: Workshop) -> None:
    # The shell's own words about a child that heard the signal before it did are not wanted.
    made, seen = workshop.run_into_limit(
        "exec 2>/dev/null; trap 'cat $JUMAR_STOP_FILE; exit 0' TERM; echo ready; sleep 600 & wait",
        lambda attempt: "ready" in log_of(attempt),
    )
    assert seen.state == AttemptState.TIMED_OUT
    assert seen.reason == "reached its time limit"
    assert json.loads(log_of(made).removeprefix("ready\n")) == {"why": "timed-out"}


def test_who_leaves_before_the_launcher_sees_the_request_was_asked(workshop: Workshop) -> None:
    # As a loop that looks for the file after every step may: the launcher hears of both at once.
    command = """echo '{"why": "preempted"}' > $JUMAR_STOP_FILE; exit %d"""
    assert workshop.run(command % 75)[1].state == AttemptState.PREEMPTED
    assert workshop.run(command % 0)[1].state == AttemptState.SUCCEEDED
    assert workshop.run(command % 3)[1].state == AttemptState.FAILED


@pytest.mark.parametrize(
    ("step", "saved", "came"), [(135, "x", True), (51, "x", False), (135, None, False)]
)
def test_what_a_library_saved_in_a_folder_of_its_own_is_progress(
    workshop: Workshop, step: int, saved: str | None, came: bool
) -> None:
    told = {"counter": "out#0", "resumed": {"out#0": 51}, "step": step, "saved": saved}
    words = shlex.quote(json.dumps(told))
    to = "$JUMAR_JOB_DIR/steps"
    _, seen = workshop.run(f"mkdir -p {to}; echo {words} > {to}/attempt-1.json; exit 75")
    assert seen.advanced is came


def test_a_job_that_ignores_the_request_is_killed_after_its_grace(workshop: Workshop) -> None:
    made = workshop.attempt("trap '' TERM; echo ready; while :; do sleep 0.1; done", grace=1)
    workshop.engine.start(made)
    wait_for(lambda: "ready" in log_of(made), "it is ready")
    before = time.monotonic()
    workshop.engine.stop(made, AttemptState.STOPPED)
    assert wait_final(workshop.engine, made).state == AttemptState.STOPPED
    assert time.monotonic() - before > 0.9


def test_a_program_behind_a_shell_hears_the_request(workshop: Workshop) -> None:
    script = (
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), exit(0)))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    made = workshop.attempt(f"cd /; {PYTHON} -c {shlex.quote(script)}; echo after", grace=10)
    workshop.engine.start(made)
    wait_for(lambda: "ready" in log_of(made), "it is ready")
    workshop.engine.stop(made, AttemptState.STOPPED)
    assert wait_final(workshop.engine, made).state == AttemptState.STOPPED
    assert "saved" in log_of(made)


DAEMON = (
    'setsid -f sh -c \'trap "" TERM HUP; (trap "" TERM; exec sleep 300) & exec sleep 300\'; '
    "sleep 0.2; "
)


@pytest.mark.parametrize("with_cgroup", [True, False])
def test_daemons_in_sessions_of_their_own_are_ended_with_the_job(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, with_cgroup: bool
) -> None:
    if not with_cgroup:
        hide_cgroups(workshop, monkeypatch, tmp_path)
    _, ended = workshop.run(DAEMON + "echo done")
    assert ended.state == AttemptState.SUCCEEDED
    assert workshop.left_over() == []
    made = workshop.attempt(DAEMON + "echo up; sleep 300")
    workshop.engine.start(made)
    wait_for(lambda: "up" in log_of(made), "the daemon runs")
    claim = json.loads((made.directory / "attempts/1/node0/claim.json").read_text())
    assert (claim["cgroup"] is None) or with_cgroup
    workshop.engine.stop(made, AttemptState.STOPPED)
    assert wait_final(workshop.engine, made).state == AttemptState.STOPPED
    assert workshop.left_over() == []
    if claim["cgroup"]:
        assert not os.path.exists(claim["cgroup"])


def hide_cgroups(workshop: Workshop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Supervisors of this engine find no cgroup v2."""
    boot = tmp_path / "site"
    boot.mkdir()
    (boot / "sitecustomize.py").write_text(
        "import jumar.launch.processes.tree as c\nc.MOUNTINFO = '/nonexistent'\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(boot))
    workshop.engine.prepare()
    monkeypatch.delenv("PYTHONPATH")


def test_every_rank_gets_its_variables_and_its_own_log(workshop: Workshop) -> None:
    code = "import os,json; print(json.dumps(dict(os.environ)))"
    made, seen = workshop.run(
        [PYTHON, "-c", code],
        device="sim:3",
        ranks="device",
        cards=(3, 1, 2),
        time_limit="1h",
        environment={"LR": "0.1", "JUMAR_MINE": "kept"},
    )
    assert seen.state == AttemptState.SUCCEEDED
    ranks = [json.loads(log_of(made, rank)) for rank in range(3)]
    assert [rank["RANK"] for rank in ranks] == ["0", "1", "2"]
    assert [rank["LOCAL_RANK"] for rank in ranks] == ["0", "1", "2"]
    assert {rank["WORLD_SIZE"] for rank in ranks} == {rank["LOCAL_WORLD_SIZE"] for rank in ranks}
    assert len({rank["MASTER_PORT"] for rank in ranks}) == 1
    one = ranks[1]
    assert (one["WORLD_SIZE"], one["MASTER_ADDR"], one["NODE_RANK"]) == ("3", "127.0.0.1", "0")
    assert one["JUMAR_SIM_DEVICES"] == "3"
    assert (one["LR"], one["JUMAR_MINE"], one["PYTHONUNBUFFERED"]) == ("0.1", "kept", "1")
    assert one["JUMAR_JOB_ID"] == made.job_id
    assert one["JUMAR_ATTEMPT"] == "1"
    assert one["JUMAR_CKPT_DIR"] == str(made.directory / "ckpt")
    assert one["JUMAR_RESUME_FROM"] == ""
    assert 3000 < int(one["JUMAR_DEADLINE"]) - time.time() < 3700
    assert int(one["OMP_NUM_THREADS"]) >= 1


def test_secrets_and_settings_of_the_server_do_not_reach_the_job(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUMAR_TOKEN", "jm_secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.setenv("HARMLESS", "seen")
    made, _ = workshop.run("env", environment={"MY_TOKEN": "mine"})
    assert "jm_secret" not in log_of(made)
    assert "hidden" not in log_of(made)
    assert "HARMLESS=seen" in log_of(made)
    assert "MY_TOKEN=mine" in log_of(made)


def test_the_first_failing_rank_is_named_and_the_others_are_ended(workshop: Workshop) -> None:
    code = (
        "import os,sys,time\n"
        "if os.environ['RANK'] == '2': time.sleep(0.3); sys.exit('rank two is broken')\n"
        "time.sleep(60)\n"
    )
    _, seen = workshop.run([PYTHON, "-c", code], device="sim:4", ranks="device", cards=(0, 1, 2, 3))
    assert seen.reason == "rank 2 exited with code 1"
    assert seen.tail == "rank two is broken"


def test_inputs_and_outputs_are_passed_as_the_command_wants(
    workshop: Workshop, tmp_path: Path
) -> None:
    data = tmp_path / "my data"
    data.mkdir()
    fields: dict[str, Any] = {
        "inputs": {"data_url": str(data)},
        "outputs": {"train_url": "model", "logs": f"file://{tmp_path}/kept"},
    }
    made, _ = workshop.run(["printf", "%s\n", "x", "--d={data_url}"], **fields)
    own = made.directory / "out" / "model"
    assert log_of(made).splitlines() == [
        "x",
        f"--d={data}",
        f"--train_url={own}",
        f"--logs={tmp_path}/kept",
    ]
    assert own.is_dir()
    assert (tmp_path / "kept").is_dir()
    assert (made.directory / "inputs" / "data_url").resolve() == data
    made, _ = workshop.run("printf '%s\n' {data_url} $JUMAR_OUTPUT_TRAIN_URL", **fields)
    assert log_of(made).splitlines()[0] == str(data)


def test_an_input_that_no_longer_exists_fails_the_attempt(
    workshop: Workshop, tmp_path: Path
) -> None:
    _, seen = workshop.run(["true"], inputs={"d": str(tmp_path / "gone")})
    assert (seen.state, seen.cause) == (AttemptState.FAILED, "inputs")
    assert seen.reason == f"the inputs could not be fetched: {tmp_path}/gone does not exist"


def test_uploaded_code_is_unpacked_and_kept_between_attempts(
    workshop: Workshop, tmp_path: Path
) -> None:
    archive = pack(
        tmp_path / "code.tar", {"a/main.py": "print('hello'); open('note', 'a').write('x')"}
    )
    code = {"archive": "0" * 64}
    made, seen = workshop.run([PYTHON, "a/main.py"], code=code, archive=archive)
    assert seen.state == AttemptState.SUCCEEDED
    assert log_of(made) == "hello\n"
    again, _ = workshop.run(
        [PYTHON, "a/main.py"], code=code, archive=archive, job_id=made.job_id, number=2
    )
    assert log_of(again) == "hello\nhello\n"
    assert (made.directory / "code" / "note").read_text() == "xx"


def test_the_tail_is_of_this_attempt_only(workshop: Workshop) -> None:
    made, _ = workshop.run("echo from the first; exit 1")
    _, seen = workshop.run("echo from the second; exit 1", job_id=made.job_id, number=2)
    assert seen.tail == "from the second"
    assert log_of(made) == "from the first\nfrom the second\n"


def test_a_commit_of_a_git_repository_is_fetched(workshop: Workshop, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b.example"]
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    commits: list[str] = []
    for text in ("one", "two"):
        (repository / "main.sh").write_text(f"echo {text}")
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-q", "-m", text], check=True)
        commits.append(
            subprocess.run(
                [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
            ).stdout.strip()
        )
    for commit, text in ((commits[0], "one"), (commits[1], "two"), (commits[0][:9], "one")):
        code = {"git": f"file://{repository}", "commit": commit}
        made, seen = workshop.run(["sh", "main.sh"], code=code)
        assert (seen.state, log_of(made)) == (AttemptState.SUCCEEDED, f"{text}\n")
    code = {"git": f"file://{repository}", "commit": "0" * 40}
    made, seen = workshop.run(["sh", "main.sh"], code=code)
    assert seen.state == AttemptState.FAILED
    assert seen.reason == "the code could not be fetched: git checkout exited with code 128"
    assert seen.tail is not None
    assert "fatal" in seen.tail
    assert not (made.directory / "code").exists()


def test_the_server_is_told_by_datagram(workshop: Workshop) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
        door.bind(str(workshop.home / "notify.sock"))
        door.settimeout(PATIENCE_S)
        made, _ = workshop.run(["true"])
        told = [json.loads(door.recv(4096)) for _ in range(3)]
    assert told == [{"job_id": made.job_id}] * 3


def test_scripts_for_other_platforms_find_a_pod_env(workshop: Workshop) -> None:
    command = 'unset LR; . "$JUMAR_POD_ENV"; echo $DLWS_JOB_ID $DLWS_ROLE_NAME $LR'
    made, seen = workshop.run(command, environment={"LR": "a b"})
    assert seen.state == AttemptState.SUCCEEDED
    assert log_of(made) == f"{made.job_id} master a b\n"
    assert (made.directory / "pod.env").stat().st_mode & 0o077 == 0


def test_a_stop_before_the_start_runs_nothing(workshop: Workshop) -> None:
    made = workshop.attempt("echo ran")
    workshop.engine.stop(made, AttemptState.STOPPED)
    workshop.engine.start(made)
    assert wait_final(workshop.engine, made).state == AttemptState.STOPPED
    assert log_of(made) == ""


def test_a_full_disk_still_ends_with_a_result(workshop: Workshop, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    small = tmp_path / "jobs"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("no mounts here")
    try:
        _, seen = workshop.run("head -c 10000000 /dev/zero > $JUMAR_JOB_DIR/big")
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
    assert seen.state == AttemptState.FAILED
    assert seen.reason == "the command exited with code 1: no space left on the disk"


def test_memory_that_runs_out_is_told(workshop: Workshop) -> None:
    group = Path("/sys/fs/cgroup/memory") / f"jumar-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(32 << 20))
    except OSError:
        pytest.skip("no memory cgroup can be made here")
    try:
        eat = f"{PYTHON} -c 'x = bytearray(200 << 20)'"
        # The launcher puts a program into the job's group while it starts up.
        settled = (
            "for i in $(seq 100); do grep -q /jumar- /proc/$$/cgroup && break; sleep 0.05; done"
        )
        _, seen = workshop.run(f"{settled}; echo $$ > {group}/cgroup.procs; exec {eat}")
    finally:
        wait_for(lambda: not (group / "cgroup.procs").read_text(), "the group is empty")
        group.rmdir()
    assert seen.reason == "the command was killed because memory ran out"


def test_a_lost_warm_process_is_replaced(workshop: Workshop) -> None:
    workshop.run(["true"])
    first = workshop.engine.warm_pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    _, seen = workshop.run(["true"])
    assert seen.state == AttemptState.SUCCEEDED
    assert workshop.engine.warm_pid != first


def test_without_a_warm_process_supervisors_are_started_cold(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Starter) -> socket.socket:
        raise OSError("no processes left")

    monkeypatch.setattr(Starter, "_start_warm", broken)
    made, seen = workshop.run("echo cold")
    assert seen.state == AttemptState.SUCCEEDED
    assert log_of(made) == "cold\n"


def test_of_many_starters_of_one_attempt_one_runs_it(workshop: Workshop) -> None:
    made = workshop.attempt("echo ran; sleep 0.3")
    notify = workshop.home / "notify.sock"
    write_files(Roots().of(made), made, env_cache=workshop.home / "envs", notify=notify)
    command = [PYTHON, "-m", "jumar.launch", str(made.directory), "--attempt", "1"]
    rivals = [subprocess.Popen(command) for _ in range(6)]
    codes = sorted(rival.wait(PATIENCE_S) for rival in rivals)
    assert codes == [0, 3, 3, 3, 3, 3]
    assert log_of(made) == "ran\n"
    assert wait_final(workshop.engine, made).state == AttemptState.SUCCEEDED


def test_jobs_go_on_without_the_server(workshop: Workshop) -> None:
    """Another process starts a job and is killed; this one finds it by its directory."""
    made = workshop.attempt("echo begun; sleep 0.5; echo done")
    program = (
        "import os,signal,sys; from pathlib import Path\n"
        "from jumar.engine.local.engine import LocalEngine\n"
        "from tests.engine.conftest import CARDS, make_attempt\n"
        f"made = make_attempt(Path({str(workshop.home)!r}), {made.spec.command!r}, job_id={made.job_id!r})\n"
        f"LocalEngine(Path({str(workshop.home)!r}), CARDS).start(made)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(__file__).parents[2]
    server = subprocess.run([PYTHON, "-c", program], cwd=root, check=False, timeout=PATIENCE_S)
    assert server.returncode == -signal.SIGKILL
    seen = wait_final(workshop.engine, made)
    assert seen.state == AttemptState.SUCCEEDED
    assert log_of(made) == "begun\ndone\n"
    wait_for(lambda: not _warm_of(workshop.home), "its warm process ends")


def _warm_of(home: Path) -> list[int]:
    found: list[int] = []
    for stat in process.all_stats():
        try:
            log = os.readlink(f"/proc/{stat.pid}/fd/1")
        except OSError:
            continue
        if log == str(home / "launch.log"):
            found.append(stat.pid)
    return found


NUMBERS = """
import os, random
import numpy
import torch

model = torch.nn.Linear(8, 8)
data = torch.randn(4, 8) + random.random() + float(numpy.random.rand())
model(data).sum().backward()
print(model.weight.grad.numpy().tobytes().hex(), hash("x"))
print(torch.are_deterministic_algorithms_enabled(), os.environ["CUBLAS_WORKSPACE_CONFIG"], flush=True)
"""


def test_a_deterministic_job_gives_the_same_numbers(workshop: Workshop) -> None:
    command = [PYTHON, "-c", NUMBERS]
    own = {"CUBLAS_WORKSPACE_CONFIG": ":16:8"}
    said: list[str] = []
    for fields in ({}, {"environment": own}):
        made, seen = workshop.run(command, deterministic=True, **fields)
        assert seen.state is AttemptState.SUCCEEDED, seen.tail
        said.append(log_of(made))
    assert said[0].endswith("True :4096:8\n")
    assert said[1] == said[0].replace(":4096:8", ":16:8")
    spec = workshop.attempt(command, deterministic=True).spec
    (note,) = workshop.engine.plan(spec, user="ann").notes
    assert "operators that have no deterministic form say so" in note
