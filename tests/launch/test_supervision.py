"""Each promise of the launcher's supervision, with real processes and real signals."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.launch.conftest import PATIENCE_S, PYTHON, Launcher, logs_of, wait_for_notice
from tests.waiting import wait_for

SAVES = (
    "import os, signal, sys, time\n"
    "def save(number, frame):\n"
    "    print('saved', signal.Signals(number).name, flush=True)\n"
    "    sys.exit(int(os.environ.get('CODE', 0)))\n"
    "for name in ('SIGTERM', 'SIGINT'): signal.signal(getattr(signal, name), save)\n"
    "for name in ('SIGUSR1', 'SIGUSR2'):\n"
    "    signal.signal(getattr(signal, name), lambda n, f: print('heard', signal.Signals(n).name, flush=True))\n"
    "print('ready', flush=True)\n"
    "while True: time.sleep(0.05)\n"
)


def test_ranks_run_with_a_log_each_and_one_prefixed_stream(
    launcher: Launcher, tmp_path: Path
) -> None:
    script = launcher.script(
        "import os, sys\n"
        "print('out', os.environ['RANK'], sys.argv[1:])\n"
        "print('err', os.environ['RANK'], file=sys.stderr)\n"
    )
    ended = launcher.run("--devices", "cpu:3", "--log-dir", "logs", script, "--lr", "1")
    assert ended.code == 0
    assert ended.lines() == sorted(
        [f"[rank {r}] out {r} ['--lr', '1']" for r in range(3)]
        + [f"[rank {r}] err {r}" for r in range(3)]
    )
    assert ended.errors == ""
    for rank in range(3):
        text = (tmp_path / f"logs/node0/rank{rank}.log").read_text()
        assert text == f"out {rank} ['--lr', '1']\nerr {rank}\n"


def test_lines_of_ranks_are_never_mixed(launcher: Launcher) -> None:
    script = launcher.script(
        "import os, sys\n"
        "for i in range(3000):\n"
        "    sys.stdout.write('ab' + os.environ['RANK']); sys.stdout.write('c' * 50 + '\\n')\n"
        "sys.stdout.write('no end of line')\n"
    )
    ended = launcher.run("--devices", "cpu:4", script)
    lines = ended.output.splitlines()
    assert len(lines) == 4 * 3001
    assert all(re.fullmatch(r"\[rank (\d)\] (?:ab\1c{50}|no end of line)", line) for line in lines)


def test_without_a_log_folder_logs_stay_only_after_a_failure(
    launcher: Launcher, tmp_path: Path
) -> None:
    # A rank that said nothing, or never came, has none.
    for program, code in (("true", 0), ("false", 1), ("./no-such-program", 127)):
        ended = launcher.run("--devices", "cpu:2", program)
        assert (ended.code, "logs are in" in ended.errors) == (code, False)
        assert not list(tmp_path.glob("jumar-launch-*"))
    ended = launcher.run("--devices", "cpu:2", "--log-dir", "", "sh", "-c", "echo why; exit 3")
    (kept,) = tmp_path.glob("jumar-launch-*")
    assert str(kept) in ended.errors


def test_the_first_failing_rank_is_named_with_its_tail_and_the_rest_are_consequences(
    launcher: Launcher,
) -> None:
    script = launcher.script(
        "import os, sys, time\n"
        "rank = int(os.environ['RANK'])\n"
        "if rank == 2: time.sleep(0.3); raise ValueError('bad batch')\n"
        "time.sleep(60)\n"
    )
    ended = launcher.run("--devices", "cpu:4", "--grace", "2", script)
    assert ended.code == 1
    assert "jumar launch: rank 2 exited with code 1" in ended.errors
    assert "ValueError: bad batch" in ended.errors
    assert "as a consequence: ranks 0, 1, 3 ended by the launcher" in ended.errors


def test_a_rank_that_only_lost_its_peer_is_not_the_cause(launcher: Launcher) -> None:
    script = launcher.script(
        "import os, signal, sys, time\n"
        "if os.environ['RANK'] == '1':\n"
        "    print('[ERROR] EI0006: Getting socket times out.', flush=True); sys.exit(5)\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n"
        "time.sleep(60)\n"
    )
    ended = launcher.run("--devices", "cpu:2", "--grace", "1", script)
    # Rank 0 had to be asked to end: it is the one that rank 1 has waited for.
    assert ended.code == 122
    assert "jumar launch: rank 0 did not answer the others" in ended.errors
    assert "as a consequence: rank 1 exited with code 5 (EI0006)" in ended.errors


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGTERM, 75)]
)
def test_ranks_that_save_when_asked_make_it_a_success(
    launcher: Launcher, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    script = launcher.script(SAVES)
    running = launcher.start(
        "--devices", "cpu:2", "--log-dir", "logs", script, environ={"CODE": str(code)}
    )
    wait_for(lambda: logs_of(tmp_path / "logs").count("ready") == 2, "ranks are ready")
    running.send_signal(number)
    ended = launcher.end(running)
    assert ended.code == code
    assert ended.output.count(f"saved {number.name}") == 2


def test_user_signals_are_passed_on_and_end_nothing(launcher: Launcher, tmp_path: Path) -> None:
    running = launcher.start("--devices", "cpu:2", "--log-dir", "logs", launcher.script(SAVES))
    logs = tmp_path / "logs"
    wait_for(lambda: logs_of(logs).count("ready") == 2, "ranks are ready")
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        running.send_signal(number)
        wait_for(lambda n=number: logs_of(logs).count(f"heard {n.name}") == 2, "both heard it")
    assert running.poll() is None
    running.terminate()
    assert launcher.end(running).code == 0


def test_grace_is_kept_and_then_all_is_killed(launcher: Launcher, tmp_path: Path) -> None:
    script = launcher.script(
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('ready', flush=True)\nwhile True: time.sleep(1)\n"
    )
    running = launcher.start("--devices", "cpu:2", "--grace", "1", "--log-dir", "logs", script)
    wait_for(lambda: logs_of(tmp_path / "logs").count("ready") == 2, "ranks are ready")
    before = time.monotonic()
    running.terminate()
    ended = launcher.end(running)
    assert time.monotonic() - before > 0.9
    assert ended.code == 128 + signal.SIGKILL


def test_a_second_interrupt_ends_the_grace(launcher: Launcher, tmp_path: Path) -> None:
    script = launcher.script(
        "import signal, time\n"
        "signal.signal(signal.SIGINT, lambda *_: print('not yet', flush=True))\n"
        "print('ready', flush=True)\nwhile True: time.sleep(1)\n"
    )
    running = launcher.start("--devices", "cpu:1", "--grace", "600", "--log-dir", "logs", script)
    wait_for(lambda: "ready" in logs_of(tmp_path / "logs"), "the rank is ready")
    running.send_signal(signal.SIGINT)
    wait_for(lambda: "not yet" in logs_of(tmp_path / "logs"), "the rank was asked")
    assert running.poll() is None
    running.send_signal(signal.SIGINT)
    assert launcher.end(running).code == 137


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -SEGV $$"], 128 + signal.SIGSEGV),
        (["no-such-program"], 127),
        (["/dev/null"], 126),
        (["sh", "-c", "exit 75"], 75),
        (["sh", "-c", "exit $((75 * (1 - RANK)))"], 75),
        (["sh", "-c", "test $RANK = 0 && exit 75; sleep 0.2; exit 3"], 3),
    ],
)
def test_exit_codes(launcher: Launcher, command: list[str], code: int) -> None:
    assert launcher.run("--devices", "cpu:2", *command).code == code


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--devices", "tpu:2", "true"],
        ["--devices", "0", "true"],
        ["--devices", "cpu:-1", "true"],
        ["--grace", "soon", "true"],
        ["--no-such-option", "true"],
        ["--nodes", "2", "--node-rank", "0", "true"],
        ["--nodes", "2", "--node-rank", "2", "--rdzv", "localhost:1", "true"],
        ["--devices", "npu:3", "true"],
        ["--rdzv", "localhost:99999", "true"],
        ["--log-dir", "/proc/1/no", "true"],
        ["--no_python", "-m", "x"],
        ["--nnodes=4:1", "true"],
        ["--nnodes=1:", "true"],
        ["--nnodes=1:1:1", "true"],
    ],
)
def test_bad_arguments_are_one_line_and_a_hint(launcher: Launcher, arguments: list[str]) -> None:
    ended = launcher.run(*arguments)
    assert ended.code == 2
    error, hint = ended.errors.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--devices", "npu:1", "true"], "this machine has no NPU"),
        (["--restarts", "-1", "true"], "--restarts"),
        (["--nodes", "0", "true"], "--nodes"),
        (["nosuch.py"], "error: nosuch.py does not exist"),
    ],
)
def test_bad_arguments_are_named(launcher: Launcher, arguments: list[str], said: str) -> None:
    ended = launcher.run(*arguments)
    assert (ended.code, ended.output) == (2, "")
    assert said in ended.errors.splitlines()[0]


def test_a_range_with_equal_ends_is_a_number(launcher: Launcher) -> None:
    arguments = ("--dry-run", "--rdzv_endpoint=127.0.0.1:29400", "--node_rank=1", "true")
    range_, number = (launcher.run(f"--nnodes={text}", *arguments) for text in ("2:2", "2"))
    assert (range_.code, range_.output) == (0, number.output)


def test_a_rank_that_hangs_while_others_are_done_is_named(
    launcher: Launcher, tmp_path: Path
) -> None:
    running = launcher.start(
        "--devices", "cpu:3", "--straggler", "0.3", "sh", "-c",
        "test $RANK != 1 || until test -e told; do sleep 0.1; done",
    )  # fmt: skip
    wait_for_notice(running, r"still running \d+ s after rank \d, \d was done: rank 1$")
    (tmp_path / "told").touch()
    assert launcher.end(running).code == 0


def test_restarts_have_a_bound_and_say_so(launcher: Launcher) -> None:
    ended = launcher.run(
        "--devices", "cpu:2", "--restarts", "2", "sh", "-c",
        "echo try $TORCHELASTIC_RESTART_COUNT; test $RANK = 1 && exit 4; sleep 30",
    )  # fmt: skip
    assert ended.code == 4
    assert [f"[rank 1] try {n}" in ended.output for n in range(4)] == [True, True, True, False]
    assert ended.errors.count("all ranks are started again") == 2


def test_a_restart_may_help(launcher: Launcher) -> None:
    ended = launcher.run(
        "--devices", "cpu:2", "--restarts", "5", "sh", "-c",
        'test "$TORCHELASTIC_RESTART_COUNT" -ge 2 || exit 1',
    )  # fmt: skip
    assert ended.code == 0


def test_the_stream_is_whole_even_when_ranks_write_faster_than_it_is_read(
    launcher: Launcher,
) -> None:
    ended = launcher.run("--devices", "cpu:2", "sh", "-c", "yes line | head -n 700000")
    assert (ended.code, len(ended.output.splitlines())) == (0, 1_400_000)
    # One long line must not be looked through again for each block that it grows by.
    ended = launcher.run(
        "--devices", "cpu:1", "sh", "-c", "head -c 40000000 /dev/zero | tr '\\0' x"
    )
    assert (ended.code, len(ended.output)) == (0, len("[rank 0] \n") + 40_000_000)


@pytest.mark.parametrize("where", [">/dev/full 2>&1", ">&-", ">&- 2>&- <&-"])
def test_ranks_run_to_their_end_where_nothing_can_be_printed(
    launcher: Launcher, tmp_path: Path, where: str
) -> None:
    work = r"echo x; test \$TORCHELASTIC_RESTART_COUNT = 1 || exit 3; echo y >done\$RANK"
    command = f'{PYTHON} -m jumar.launch --devices cpu:2 --restarts 1 sh -c "{work}" {where}'
    ended = subprocess.run(["sh", "-c", command], cwd=tmp_path, check=False, timeout=PATIENCE_S)
    assert ended.returncode == 0
    assert sorted(path.name for path in tmp_path.glob("done*")) == ["done0", "done1"]


WITHOUT_PROCESSES = """
import os, resource
from jumar.launch.processes.spawn import CannotStart, Program, spawn
if os.getuid() == 0:
    os.setresuid(65534, 65534, 65534)  # root has no such limit
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
try:
    spawn(Program(["true"], {}, "/", "/dev/null"))
except CannotStart as error:
    print(error)
"""


def test_a_user_who_may_have_no_more_processes_is_told() -> None:
    ended = subprocess.run(
        [PYTHON, "-c", WITHOUT_PROCESSES],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert ended.stdout.startswith("cannot start true: no more processes: "), ended.stderr


def test_a_folder_that_is_gone_is_said(launcher: Launcher, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    command = f"cd gone && rmdir ../gone && exec {PYTHON} -m jumar.launch true"
    ended = subprocess.run(
        ["sh", "-c", command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (ended.returncode, ended.stderr.partition("\n")[0]) == (
        2,
        "error: the current folder is gone",
    )


def test_a_reader_that_leaves_does_not_end_the_run(launcher: Launcher, tmp_path: Path) -> None:
    running = launcher.start(
        "--devices", "cpu:1", "--log-dir", "logs", "sh", "-c",
        "for i in 1 2 3 4 5 6; do echo line $i; sleep 0.05; done",
    )  # fmt: skip
    assert running.stdout is not None
    running.stdout.close()
    running.stdout = None
    assert running.wait(PATIENCE_S) == 0
    assert logs_of(tmp_path / "logs").count("line") == 6


def test_modules_and_torchrun_spellings_work(launcher: Launcher) -> None:
    launcher.script("import sys, os; print(os.environ['LOCAL_RANK'], sys.argv[1:])", "mod.py")
    ended = launcher.run(
        "--nproc_per_node=2", "--nnodes=1:1", "--node_rank=0", "--master_addr=127.0.0.1",
        "--master_port=29511", "--max_restarts=1", "--rdzv_id=7", "-m", "mod", "--lr", "1",
    )  # fmt: skip
    assert ended.code == 0
    assert ended.lines() == ["[rank 0] 0 ['--lr', '1']", "[rank 1] 1 ['--lr', '1']"]


def test_a_script_that_declares_local_rank_gets_it(launcher: Launcher) -> None:
    script = launcher.script(
        "import argparse\np = argparse.ArgumentParser()\n"
        "p.add_argument('--local_rank', type=int, default=-1)\np.add_argument('--lr')\n"
        "print(p.parse_args())\n"
    )
    ended = launcher.run("--devices", "cpu:2", script, "--lr", "3")
    assert ended.lines() == [f"[rank {r}] Namespace(local_rank={r}, lr='3')" for r in range(2)]
    ended = launcher.run("--devices", "cpu:1", "--use_env", script)
    assert ended.lines() == ["[rank 0] Namespace(local_rank=-1, lr=None)"]
    for way in (["-m", "train"], [PYTHON, script]):
        ended = launcher.run("--devices", "cpu:1", *way)
        assert ended.lines() == ["[rank 0] Namespace(local_rank=0, lr=None)"]
    launcher.script(
        "import argparse\np = argparse.ArgumentParser()\n"
        "p.add_argument('-l', '--local-rank', '--local_rank', dest='place', type=int)\n"
        "print(p.parse_args())\n"
    )
    assert launcher.run("--devices", "cpu:1", script).lines() == ["[rank 0] Namespace(place=0)"]


def test_options_that_only_torchrun_has_are_taken(launcher: Launcher) -> None:
    ended = launcher.run(
        "--nproc_per_node=1", "--standalone", "--rdzv_backend=c10d", "--tee", "3", "-r", "3",
        "--local_ranks_filter=0", "--event-log-handler", "null", "--numa-binding=node",
        "--signals-to-handle=SIGTERM", "--shutdown-timeout", "3", "--start_method=spawn",
        launcher.script("print('ran')"),
    )  # fmt: skip
    assert (ended.code, ended.output) == (0, "[rank 0] ran\n")


def test_without_python_a_script_is_run_by_its_first_line(
    launcher: Launcher, tmp_path: Path
) -> None:
    script = launcher.script("#!/bin/sh\necho $0 $RANK\n")
    os.chmod(script, 0o755)
    ended = launcher.run("--no-python", "--nproc_per_node=1", script)
    assert (ended.code, ended.output) == (0, f"[rank 0] {script} 0\n")


def test_the_interpreter_is_the_one_asked_for(launcher: Launcher) -> None:
    script = launcher.script("import sys; print(sys.executable)")
    ended = launcher.run("--devices", "cpu:1", "--python", "/usr/bin/python3", script)
    assert ended.output == "[rank 0] /usr/bin/python3\n"
    ended = launcher.run("--devices", "cpu:1", script)
    assert ended.output == f"[rank 0] {PYTHON}\n"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("--num_processes 8 --mixed_precision bf16", "write -d N"),
        ("--num-processes=8", "for --num-processes of accelerate write -d N"),
        ("--num_gpus 8", "for --num_gpus of deepspeed write -d gpu:N"),
        ("-np 8 --allow-run-as-root", "for -np of mpirun write -d N"),
        ("--worker_num=8 --local_worker_num=8", "for --local_worker_num of msrun write -d N"),
    ],
)
def test_options_of_other_launchers_are_translated(
    launcher: Launcher, words: str, hint: str
) -> None:
    ended = launcher.run(*words.split(), "train.py")
    assert ended.code == 2
    assert hint in ended.errors.splitlines()[-1]
