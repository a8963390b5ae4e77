"""Scripts of other platforms find their fixed paths, in jobs run by the engine for real."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tests.engine.conftest import CARDS, PATIENCE_S, Workshop, log_of, wait_final
from tests.engine.test_local_run import events
from tests.waiting import wait_for

from jumar.engine.local.engine import LocalEngine
from jumar.engine.shared.mounts import Mounts
from jumar.errors import SubmitRefused
from jumar.launch.processes.namespace import Mount, trial, view_of
from jumar.spec.states import AttemptState

PYTHON = sys.executable
ROOT = Path(__file__).parents[2]


@pytest.fixture
def paths(workshop: Workshop, tmp_path: Path) -> Workshop:
    """A workshop where the system allows mounts and has none of the paths itself."""
    taken = [path for path in ("/pod.env", "/cache", "/home/ma-user") if os.path.lexists(path)]
    if taken:
        pytest.skip(f"this machine has {taken[0]} itself")
    staging = tmp_path / "staging"
    staging.mkdir()
    view = view_of([Mount("/cache", str(tmp_path))], str(staging))
    assert view is not None
    refusal = trial(view)
    if refusal:
        pytest.skip(f"no mount namespaces here: {refusal}")
    return workshop


def warnings(directory: Path) -> list[str]:
    return [event["words"] for event in events(directory) if event["event"] == "warning"]


def test_pod_env_is_sourced_where_it_always_was(paths: Workshop) -> None:
    before = sorted(os.listdir("/"))
    made, seen = paths.run("source /pod.env && echo $DLWS_JOB_ID")
    assert (seen.state, log_of(made)) == (AttemptState.SUCCEEDED, f"{made.job_id}\n")
    assert sorted(os.listdir("/")) == before
    assert warnings(made.directory) == []


def test_the_cache_is_the_jobs_own_and_empty_for_each_attempt(
    paths: Workshop, tmp_path: Path
) -> None:
    code = tmp_path / "code"
    (code / "lib").mkdir(parents=True)
    (code / "main.py").write_text("import lib.work\n")
    (code / "lib" / "work.py").write_text(
        "with open('/cache/x', 'a+') as file:\n"
        "    file.write('more ')\n    file.seek(0)\n    print(file.read())\n"
    )
    fields: dict[str, Any] = {"workdir": str(code)}
    made, first = paths.run([PYTHON, "main.py"], **fields)
    again, second = paths.run([PYTHON, "main.py"], job_id=made.job_id, number=2, **fields)
    assert (first.state, second.state) == (AttemptState.SUCCEEDED, AttemptState.SUCCEEDED)
    assert log_of(again) == "more \nmore \n"
    assert (made.directory / "cache" / "x").read_text() == "more "
    assert not os.path.lexists("/cache")


def test_modelarts_folders_hold_inputs_and_outputs(paths: Workshop, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.txt").write_text("seven")
    before = sorted(os.listdir("/home"))
    made, seen = paths.run(
        "cd /home/ma-user/modelarts && cat inputs/data_url_0/a.txt > outputs/train_url_0/copy && ls /home",
        inputs={"data_url": str(data)},
        outputs={"train_url": "model"},
    )
    assert seen.state == AttemptState.SUCCEEDED, seen.tail
    assert (made.directory / "out" / "model" / "copy").read_text() == "seven"
    assert log_of(made).split() == sorted([*before, "ma-user"])
    assert sorted(os.listdir("/home")) == before


def test_every_rank_has_them_and_the_rest_of_the_machine(paths: Workshop, tmp_path: Path) -> None:
    check = (
        "import os; assert os.path.isdir('/cache') and os.listdir('/proc/self/fd')\n"
        "open('/dev/null', 'w').write('x'); print(sorted(os.listdir('/')), os.getcwd())"
    )
    made, seen = paths.run([PYTHON, "-c", check], device="sim:2", ranks="device", cards=(0, 1))
    assert seen.state == AttemptState.SUCCEEDED, seen.tail
    shown = f"{sorted([*os.listdir('/'), 'cache'])} {made.directory / 'code'}\n"
    assert [log_of(made, rank) for rank in (0, 1)] == [shown, shown]


# In the way of the adapters that public MindSpore scripts come with: one rank copies, the others wait for its lock.
LOCKING = """
import os, sys, time
lock = '/tmp/jumar_test_sync.lock' + '0'
if os.environ['RANK'] == '0' and not os.path.exists(lock):
    time.sleep(0.5)
    open(lock + '.data', 'w').write('copied')
    os.mknod(lock)
end = time.monotonic() + 60
while not os.path.exists(lock):
    assert time.monotonic() < end
    time.sleep(0.1)
print(open(lock + '.data').read(), open(sys.argv[1]).read())
"""


def test_locks_in_tmp_are_the_jobs_own_and_all_else_there_is_everybodys(paths: Workshop) -> None:
    """Else a job that finds the lock of another one takes its own data for copied."""
    stale = Path("/tmp/jumar_test_sync.lock0")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        data = Path(folder, "data.txt")
        data.write_text("seen")
        stale.touch()
        try:
            command = [PYTHON, "-c", LOCKING, str(data)]
            for _ in range(2):
                made, seen = paths.run(command, device="sim:2", ranks="device", cards=(0, 1))
                assert seen.state == AttemptState.SUCCEEDED, seen.tail
                assert [log_of(made, rank) for rank in (0, 1)] == ["copied seen\n"] * 2
                assert warnings(made.directory) == []
            assert not Path("/tmp/jumar_test_sync.lock0.data").exists()
        finally:
            stale.unlink()


def test_a_stop_reaches_the_script_and_codes_are_its_own(paths: Workshop) -> None:
    made = paths.attempt(
        "trap 'cat $JUMAR_STOP_FILE > /cache/saved; exit 0' TERM; echo ready; sleep 60 & wait", grace=10
    )  # fmt: skip
    paths.engine.start(made)
    wait_for(lambda: "ready" in log_of(made), "it is ready")
    paths.engine.stop(made, AttemptState.STOPPED)
    assert wait_final(paths.engine, made).state == AttemptState.STOPPED
    assert json.loads((made.directory / "cache" / "saved").read_text()) == {"why": "stopped"}
    _, seen = paths.run("test -d /cache && exit 42")
    assert seen.exit_code == 42
    _, seen = paths.run(["no-such-program", "/cache"])
    assert seen.reason == "command not found: no-such-program"


def test_a_job_that_mentions_none_stays_where_it_is(workshop: Workshop) -> None:
    made, _ = workshop.run("readlink /proc/self/ns/mnt; ls -d ~/.cache /var/cache")
    assert log_of(made).splitlines()[0] == os.readlink("/proc/self/ns/mnt")
    assert not (made.directory / "cache").exists()


def test_where_the_system_refuses_the_job_runs_without_and_is_told(workshop: Workshop) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can give up a right for a test")
    made = workshop.attempt("source $JUMAR_POD_ENV; echo $DLWS_JOB_ID; test -e /cache || echo none")
    program = (
        "from pathlib import Path\n"
        "from jumar.engine.local.engine import LocalEngine\n"
        "from tests.engine.conftest import CARDS, make_attempt, wait_final\n"
        f"home = Path({str(workshop.home)!r})\n"
        f"made = make_attempt(home, {made.spec.command!r}, job_id={made.job_id!r})\n"
        "engine = LocalEngine(home, CARDS)\n"
        "engine.start(made)\n"
        "print(wait_final(engine, made).state)\n"
        "engine.close()\n"
    )
    ended = subprocess.run(
        ["setpriv", "--bounding-set=-sys_admin", PYTHON, "-c", program],
        cwd=ROOT, check=True, timeout=PATIENCE_S, capture_output=True, text=True,
    )  # fmt: skip
    assert ended.stdout == "succeeded\n"
    assert log_of(made) == f"{made.job_id}\nnone\n"
    (warning,) = warnings(made.directory)
    assert warning.startswith("/cache cannot be made for this job:")
    assert "Operation not permitted" in warning


def test_logs_for_tensorboard_are_in_the_job_and_linked_from_home(
    workshop: Workshop, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    environment = {"HOME": str(home)}
    made, seen = workshop.run(
        "echo 1 > ~/tensorboard/$JUMAR_JOB_ID/logs/events", environment=environment
    )
    assert seen.state == AttemptState.SUCCEEDED
    assert (made.directory / "tensorboard" / "events").read_text() == "1\n"
    made, _ = workshop.run(["true"], environment=environment, endpoints=["tensorboard"])
    assert (home / "tensorboard" / made.job_id / "logs").is_symlink()
    made, _ = workshop.run("test -d $JUMAR_TENSORBOARD_DIR", environment=environment)
    assert not (home / "tensorboard" / made.job_id).exists()
    made, seen = workshop.run("ls ~/tensorboard; true", environment={"HOME": "/proc/1"})
    assert seen.state == AttemptState.SUCCEEDED
    assert "cannot be made" in warnings(made.directory)[0]


def test_the_sites_mounts_lie_over_what_the_machine_has(paths: Workshop, tmp_path: Path) -> None:
    for name in ("nfs/set", "more", "taken"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "nfs/set/a.txt").write_text("seven")
    (tmp_path / "more/b.txt").write_text("eight")
    (tmp_path / "taken/old.txt").write_text("hidden")
    table = {
        "/dlwsdata/storage": str(tmp_path / "nfs"),
        "/dlwsdata/storage/more": str(tmp_path / "more"),
        str(tmp_path / "taken"): str(tmp_path / "more"),
        "/gone": str(tmp_path / "gone"),
    }
    engine = LocalEngine(tmp_path, CARDS, stages=paths.stages, idle_limit_s=1, mounts=Mounts(table))
    paths.engine.close()
    paths.engine = engine
    fields: dict[str, Any] = {
        "workdir": "/dlwsdata/storage/set",
        "inputs": {"data": "/dlwsdata/storage/more/b.txt"},
        "outputs": {"model": "/dlwsdata/storage/out"},
    }
    command = (
        f"cat a.txt /dlwsdata/storage/set/a.txt {{data}} {tmp_path}/taken/b.txt && "
        f"ls {tmp_path}/taken /dlwsdata/storage && cp {{data}} {{model}}/copy"
    )
    made, seen = paths.run(command, **fields)
    assert seen.state == AttemptState.SUCCEEDED, log_of(made)
    assert log_of(made).startswith("sevenseveneighteight")
    assert "b.txt" in log_of(made)
    assert "old.txt" not in log_of(made)
    assert (tmp_path / "nfs/out/copy").read_text() == "eight"
    assert not (tmp_path / "nfs/more").exists()
    assert warnings(made.directory) == [
        f"/gone is missing for this job: {tmp_path}/gone does not exist on this machine"
    ]
    elsewhere = {"out/model": "/dlwsdata/storage/out"}
    with engine.files.open_file(made.job_id, "out/model/copy", elsewhere=elsewhere) as file:
        assert file.read() == b"eight"
    with pytest.raises(SubmitRefused, match="does not exist"):
        engine.plan(
            made.spec.model_copy(update={"inputs": {"data": "/dlwsdata/storage/none"}}), user="ann"
        )
