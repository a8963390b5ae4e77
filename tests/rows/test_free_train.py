"""Tutorial 004: a bucket with four folders, moxing, checkpoints from job to job."""

import importlib.util
import json
import os
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.cli.conftest import Jumar, caller, environment_for
from tests.host.env.conftest import make_wheel
from tests.ports import free_port
from tests.rows.conftest import LIMIT_S, offline, wait_for_state, write
from tests.store.served import Served

COPY = """
import os
import moxing as mox
mox.file.copy_parallel("{bucket}/free_train/data", "/cache/")
print(sorted(os.listdir("/cache/data")))
os.makedirs("/cache/ckpt")
open("/cache/ckpt/last_epoch.ckpt", "w").write("weights")
mox.file.copy_parallel("/cache/ckpt/", "{bucket}/free_train/data")
"""
RESUME = """
import os
import moxing as mox
mox.file.copy_parallel("{bucket}/free_train/ckpt", "/cache/")
path = "/cache/ckpt/last_epoch.ckpt"
epoch = 0
if os.path.exists(path):
    epoch = int(open(path).read())
    print("resume from", epoch)
for epoch in range(epoch, epoch + 3):
    print("epoch", epoch)
os.makedirs("/cache/ckpt", exist_ok=True)
open(path, "w").write(str(epoch + 1))
mox.file.copy_parallel("/cache/ckpt", "{bucket}/free_train/")
"""


def test_row_65_a_bucket_with_code_data_log_and_out(jumar: Jumar, bucket: str) -> None:
    listed = jumar("data", "ls", f"{bucket}/free_train/").stdout
    for folder in ("code/", "data/", "log/", "out/"):
        assert folder in listed


def test_row_68_bucket_and_script_in_a_file_and_keys_in_none(
    jumar: Jumar, bucket: str, tmp_path: Path, platform: Served
) -> None:
    write(
        tmp_path,
        {
            "src/code/test.py": "import sys; print('code/test.py', sys.argv[1:])",
            "job.yaml": f"""
name: free-train
code: src
command: [python, code/test.py]
outputs: {{train_url: {bucket}/free_train/out}}
""",
        },
    )
    done = jumar("run", "-f", "job.yaml", "--follow")
    assert done.stdout.startswith("code/test.py ['--train_url=")
    account = platform.config().obs
    assert account is not None
    secret = account.secret_key.encode()
    folders = (tmp_path, platform.home / "jobs")
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if secret in path.read_bytes()]


def test_row_69_moxing_copies_to_and_from_cache(jumar: Jumar, bucket: str, tmp_path: Path) -> None:
    write(
        tmp_path, {"data/a.bin": "a", "data/b.bin": "b", "code/test.py": COPY.format(bucket=bucket)}
    )
    jumar("data", "push", "data", f"{bucket}/free_train/data")
    done = jumar("run", "--follow", "--code", "code", "--", "python", "test.py")
    assert done.stdout.endswith("['a.bin', 'b.bin']\n")
    kept = f"{bucket}/free_train/data/last_epoch.ckpt"
    assert jumar("data", "cat", kept).stdout == "weights"


def test_row_71_the_next_job_goes_on_from_last_epoch_ckpt(
    jumar: Jumar, bucket: str, tmp_path: Path
) -> None:
    write(tmp_path, {"code/test.py": RESUME.format(bucket=bucket)})
    words = ("run", "--follow", "--code", "code", "--", "python", "test.py")
    assert jumar(*words).stdout.endswith("epoch 0\nepoch 1\nepoch 2\n")
    second = jumar(*words).stdout
    assert second.endswith("resume from 3\nepoch 3\nepoch 4\nepoch 5\n")


def test_row_72_data_is_uploaded_to_free_train_data(
    jumar: Jumar, bucket: str, tmp_path: Path, platform: Served
) -> None:
    write(tmp_path, {"your data location/train/1.txt": "one", "your data location/2.txt": "two"})
    jumar("data", "push", "your data location", f"{bucket}/free_train/data")
    store = platform.s3("admin")
    for key, text in (("train/1.txt", b"one"), ("2.txt", b"two")):
        with store.get(bucket.removeprefix("obs://"), f"free_train/data/{key}") as stored:
            assert stored.read() == text


@pytest.fixture
def own(jumar_program: str, tmp_path: Path) -> Generator[Jumar]:
    """A platform that may be killed."""
    call = caller(jumar_program, tmp_path / "home", tmp_path)
    call("up", "--detach", "--port", str(free_port()))
    yield call
    call("down")


def test_row_75_a_job_outlives_the_shell_and_the_server(
    own: Jumar, jumar_program: str, tmp_path: Path
) -> None:
    # A terminal of its own that is closed while `jumar` still follows the job.
    script = "echo began; until test -e go; do sleep 0.1; done; echo done"
    hears_it = ("env", "--default-signal=HUP")  # Not so under nohup.
    shell = subprocess.Popen(
        [*hears_it, jumar_program, "run", "--name", "long", "--follow", "--", "sh", "-c", script],
        env=environment_for(tmp_path / "home"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert shell.stdout is not None
    assert shell.stdout.readline() == "began\n"
    os.killpg(shell.pid, signal.SIGHUP)
    shell.communicate(timeout=LIMIT_S)
    os.kill(int((tmp_path / "home/server.pid").read_text()), signal.SIGKILL)
    (tmp_path / "go").touch()
    own("up", "--detach", "--port", str(free_port()))
    assert wait_for_state(own, "long", "succeeded", "failed", "lost") == "succeeded"
    assert own("logs", "long").stdout == "began\ndone\n"


def test_row_70_pip_install_by_os_system_is_the_jobs_own(jumar: Jumar, tmp_path: Path) -> None:
    make_wheel(tmp_path, "mindnlp", "0.4.0", "version = '{version}'\n")
    script = """
import os
os.system("pip install mindnlp")
import mindnlp
print("mindnlp", mindnlp.version)
"""
    write(tmp_path / "code", {"train.py": script})
    words = ("run", "--follow", "--code", "code", *offline(tmp_path))
    done = jumar(*words, "--", "python", "-u", "train.py")
    assert done.stdout.splitlines()[-1] == "mindnlp 0.4.0"
    assert importlib.util.find_spec("mindnlp") is None


# The loop is the reader's; the lines about ckpt are the tutorial's own.
CHAIN = """
import os, sys, time
import moxing as mox


class Model:
    epoch = 0

    def load(self, path):
        if os.path.exists(path):
            self.epoch = int(open(path).read())

    def save(self, path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w").write(str(self.epoch))


model = Model()
mox.file.copy_parallel('obs://your_bucket_name/free_train/ckpt', '/cache/')
model.load("/cache/ckpt/last_epoch.ckpt")
while model.epoch < 6:
    model.epoch += 1
    print(f"epoch {model.epoch}/6", flush=True)
    model.save("/cache/ckpt/last_epoch.ckpt")
    mox.file.copy_parallel('/cache/ckpt', 'obs://your_bucket_name/free_train/', )
    if model.epoch in (2, 4):
        time.sleep(600)
"""


def test_row_73_one_limit_after_the_other_until_it_is_done(
    jumar: Jumar, bucket: str, tmp_path: Path
) -> None:
    script = CHAIN.replace("obs://your_bucket_name", bucket)
    write(tmp_path, {"code/test.py": script})
    limits = ("--time-limit", "12s", "--segments", "8")
    jumar("run", "--name", "chain", *limits, "--code", "code", "--", "python", "test.py")
    assert wait_for_state(jumar, "chain", "succeeded", "failed", "timed-out") == "succeeded"
    assert jumar("logs", "chain").stdout == "".join(f"epoch {n}/6\n" for n in range(1, 7))
    shown = json.loads(jumar("show", "chain", "--json").stdout)
    causes = [(one["segment"], one["cause"]) for one in shown["attempts"]]
    assert causes == [(1, "time-limit"), (2, "time-limit"), (3, "done")]


def test_row_74_how_many_epochs_fit_into_one_limit(jumar: Jumar, tmp_path: Path) -> None:
    loop = "for n in range(400): print(f'epoch {n + 1}/400', flush=True); time.sleep(0.1)"
    write(tmp_path, {"code/test.py": f"import time\n{loop}\n"})
    words = ("run", "--name", "pace", "--measure", "--time-limit", "6s", "--code", "code", "--json")
    done = jumar(*words, "--", "python", "test.py")
    told = json.loads(done.stdout)
    assert "it saved no checkpoint" in done.stderr
    shown = json.loads(jumar("show", "pace", "--json").stdout)
    assert (shown["state"], shown["cause"]) == ("succeeded", "measured")
    fit = len(jumar("logs", "pace").stdout.splitlines())
    assert (told["unit"], told["fit"], told["total"]) == ("epochs", fit, 400)
    assert told["segments"] == -(-400 // fit)
    # A log that counts nothing: what the platform was told.
    tell = "import json, os, time; os.makedirs('steps', exist_ok=True); "
    tell += "open('steps/attempt-1.json', 'w').write(json.dumps({'counter': 'x', 'step': 25}))"
    write(tmp_path, {"code/test.py": f"import os; os.chdir(os.environ['JUMAR_JOB_DIR'])\n{tell}\n"})
    told = json.loads(jumar(*words, "--", "python", "test.py", "--max_steps", "100").stdout)
    assert (told["unit"], told["fit"], told["total"]) == ("steps", 25, 100)
    refused = jumar("run", "--measure", "--", "python", "test.py", rc=2)
    assert "hint: for example: jumar run --measure --time-limit 1h" in refused.stderr


def _account(jumar: Jumar, bucket: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """What `jumar store keys` gives somebody for ModelArts' clients, and how to log in with it."""
    keys = json.loads(jumar("store", "keys", "--for", "modelarts", "--json").stdout)
    places = ("--endpoint", keys["endpoint"], "--obs-endpoint", keys["obs_endpoint"])
    names = ("--project", keys["project_id"], "--bucket", bucket.removeprefix("obs://"))
    return keys, ("login", "modelarts", *places, *names)


def test_row_66_ak_sk_and_project_id(jumar: Jumar, bucket: str, platform: Served) -> None:
    keys, login = _account(jumar, bucket)
    assert set(keys) == {"ak", "sk", "project_id", "endpoint", "obs_endpoint"}
    done = jumar(*login, text=f"{keys['ak']}\n{keys['sk']}\n")
    assert "the credential is valid" in done.stderr
    saved = platform.home / "modelarts.json"
    assert saved.stat().st_mode & 0o077 == 0
    assert keys["sk"] not in done.stdout + done.stderr
    for wrong in (f"{keys['ak']}\nwrong\n", f"NOBODY\n{keys['sk']}\n", "\n\n"):
        refused = jumar(*login, text=wrong, rc=2)
        assert keys["sk"] not in refused.stderr
    elsewhere = tuple(word.replace("default", "other") for word in login)
    assert "is not one of" in jumar(*elsewhere, text=f"{keys['ak']}\n{keys['sk']}\n", rc=2).stderr
    jumar("login", "modelarts", "--forget")
    assert not saved.exists()


def test_row_67_training_jobs_of_modelarts_are_listed(jumar: Jumar, bucket: str) -> None:
    keys, login = _account(jumar, bucket)
    assert "jumar login modelarts" in jumar("modelarts", "jobs", rc=2).stderr
    jumar(*login, text=f"{keys['ak']}\n{keys['sk']}\n")
    jumar("run", "--name", "seen-there", "--follow", "--", "true")
    listed = json.loads(jumar("modelarts", "jobs", "--json").stdout)
    assert ("seen-there", "Completed") in [(one["name"], one["phase"]) for one in listed]
    assert "seen-there" in jumar("modelarts", "jobs").stdout
    assert "modelarts.vm.gpu.free" in jumar("modelarts", "flavors").stdout
    jumar("login", "modelarts", "--forget")
