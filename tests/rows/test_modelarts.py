"""Tutorial 000: prepare data in OBS, adapt code to NPUs, train through a ModelArts entry script."""

import importlib.util
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cli.conftest import Jumar, caller
from tests.host.env.conftest import make_wheel
from tests.port.test_seeds import AFTER, BEFORE
from tests.ports import free_port
from tests.rows.conftest import LIMIT_S, Machine, Shell, new_bucket, offline, write
from tests.store.served import Served

from jumar.devices.smi_info import read_info
from jumar.devices.smi_reports import read_board

CLASSES, OF_EACH = 6, 40
PLAIN = str.maketrans("“”", '""')
# The tutorial's entry script, shortened; its lines with pip are for packages that are there.
ENTRY = """
import argparse, os, sys
parser = argparse.ArgumentParser()
parser.add_argument("--data_url", type=str, default="/home/ma-user/modelarts/inputs/data_url_0")
parser.add_argument("--train_url", type=str, default="/home/ma-user/modelarts/outputs/train_url_0/")
config = parser.parse_args()

def run(cmd):
    print(f"> {cmd}", flush=True)
    os.system(cmd)

if __name__ == "__main__":
    code_dir = sys.path[0]
    os.chdir(code_dir)
    run("ls -ahl %s" % config.data_url)
    run("cd %s && python3 train.py --config=configs/train_config.py --data_url=%s" % (code_dir, config.data_url))
    run("cp -r %s %s " % (code_dir, config.train_url))
    run("ls -al %s" % config.train_url)
    print("Done")
"""
TRAIN = """
import argparse, os, runpy
parser = argparse.ArgumentParser()
parser.add_argument("--config", type=str, default="configs/test_config")
parser.add_argument("--data_url", type=str, default="/home/ma-user/modelarts/inputs/data_url_0")
args = parser.parse_args()
config = runpy.run_path(args.config)
vgg_pth = args.data_url + "/vgg16-397923af.pth"
trainset_root = args.data_url + config["trainset_root"]
print("weights", open(vgg_pth).read(), "images", len(os.listdir(trainset_root)))
open("last.txt", "w").write("trained")
"""


@pytest.fixture
def flowers(tmp_path: Path) -> Path:
    """A data set, and its archive beside it."""
    folder = write(
        tmp_path / "flowers",
        {
            f"class{kind}/{number:03}.jpg": f"image {kind} {number}"
            for kind in range(CLASSES)
            for number in range(OF_EACH)
        },
    )
    shutil.make_archive(str(folder), "zip", folder)
    return folder


def test_row_01_the_archive_goes_to_dataset(
    jumar: Jumar, bucket: str, flowers: Path, platform: Served
) -> None:
    jumar("data", "push", "flowers.zip", f"{bucket}/dataset/")
    with platform.s3("admin").get(bucket.removeprefix("obs://"), "dataset/flowers.zip") as stored:
        assert stored.read() == flowers.with_suffix(".zip").read_bytes()


def test_row_02_the_unpacked_data_goes_to_dataset_unzip(
    jumar: Jumar, bucket: str, flowers: Path, tmp_path: Path
) -> None:
    jumar("data", "push", "flowers.zip", f"{bucket}/dataset/")
    jumar("data", "unzip", f"{bucket}/dataset/flowers.zip", f"{bucket}/dataset_unzip/flowers")
    # The tutorial's own way: unpacked on the local machine.
    jumar("data", "push", "flowers", f"{bucket}/dataset_unzip/by-hand")
    for name in ("flowers", "by-hand"):
        jumar("data", "pull", f"{bucket}/dataset_unzip/{name}", f"back-{name}")
        for path in flowers.rglob("*.jpg"):
            back = tmp_path / f"back-{name}" / path.relative_to(flowers)
            assert back.read_bytes() == path.read_bytes()


def test_row_03_a_few_dozen_stay_in_dataset_unzip_mini(
    jumar: Jumar, bucket: str, flowers: Path, tmp_path: Path
) -> None:
    whole, mini = f"{bucket}/dataset_unzip/flowers", f"{bucket}/dataset_unzip_mini/flowers"
    jumar("data", "push", "flowers", whole)
    jumar("data", "mini", whole, mini, "--per-class", "5")
    jumar("data", "pull", mini, "mini")
    kept = [path.parent.name for path in (tmp_path / "mini").rglob("*.jpg")]
    assert sorted(kept) == sorted(f"class{kind}" for kind in range(CLASSES) for _ in range(5))


def test_row_04_static_files_are_in_both_folders(
    jumar: Jumar, bucket: str, flowers: Path, tmp_path: Path
) -> None:
    static = {
        "pretrained/resnet50.pth": "weights" * 1000,
        **{f"pretrained/parts/{number}.txt": f"part {number}" for number in range(9)},
        "meta/classes.json": '["a", "b"]',
    }
    write(flowers, static)
    whole, mini = f"{bucket}/dataset_unzip/flowers", f"{bucket}/dataset_unzip_mini/flowers"
    jumar("data", "push", "flowers", whole)
    words = ("--per-class", "2", "--static", "pretrained/", "--static", "meta/*.json")
    jumar("data", "mini", whole, mini, *words)
    jumar("data", "pull", mini, "mini")
    for name, text in static.items():
        assert (tmp_path / "mini" / name).read_text() == text
    assert len(list((tmp_path / "mini").rglob("*.jpg"))) == 2 * CLASSES
    said = jumar("data", "mini", whole, mini, "--static", "weights/*", rc=2).stderr
    assert "matches weights/*" in said


def test_row_05_the_bucket_is_readable_by_everybody(
    jumar: Jumar, bucket: str, platform: Served, tmp_path: Path
) -> None:
    write(tmp_path, {"read.me": "for everybody"})
    jumar("data", "push", "read.me", f"{bucket}/dataset/")
    address = f"{platform.keys('ann').endpoint}/{bucket.removeprefix('obs://')}/dataset/read.me"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(address, timeout=LIMIT_S)
    jumar("store", "publish", f"{bucket}/dataset/")
    with urllib.request.urlopen(address, timeout=LIMIT_S) as answer:
        assert answer.read() == b"for everybody"
    jumar("store", "unpublish", f"{bucket}/dataset/")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(address, timeout=LIMIT_S)


def test_row_07_ak_and_sk_are_made_and_renewed_on_the_page(platform: Served) -> None:
    def shown(form: str) -> tuple[str, ...]:
        cookie = f"jumar_session={platform.tokens['bob']}"
        request = urllib.request.Request(
            f"{platform.url}/account/keys",
            data=form.encode(),
            headers={"Origin": platform.url, "Cookie": cookie},
        )
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            return tuple(re.findall(r"data-[as]k>([^<]+)<", answer.read().decode()))

    first = shown("")
    assert len(first) == 2
    assert first == shown("")
    renewed = shown("renew=true")
    assert set(first).isdisjoint(renewed)
    keys = platform.keys("bob")
    assert renewed == (keys.access_key, keys.secret_key)


def test_row_08_the_credential_is_validated(
    jumar_program: str, platform: Served, tmp_path: Path
) -> None:
    keys = platform.keys("ann")
    own = caller(jumar_program, tmp_path / "own-home", tmp_path)
    words = ("login", "obs", "--local", "--endpoint", keys.endpoint)
    wrong = own(*words, text=f"{keys.access_key}\n{keys.secret_key[::-1]}\n", rc=None)
    assert wrong.returncode != 0
    right = own(*words, text=f"{keys.access_key}\n{keys.secret_key}\n")
    assert "the credential is valid" in right.stderr
    assert "the credential is valid" not in wrong.stderr


def test_row_10_the_training_log_comes_to_the_local_machine(
    jumar: Jumar, follow: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    script = "echo epoch 1; until test -e go; do sleep 0.1; done; echo epoch 2"
    job = jumar("run", "--", "sh", "-c", script).stdout.strip()
    log = follow("logs", "-f", job)
    assert log.stdout is not None
    assert log.stdout.readline() == "epoch 1\n"
    (tmp_path / "go").touch()
    rest, _ = log.communicate(timeout=180)
    assert (rest, log.returncode) == ("epoch 2\n", 0)


@pytest.mark.parametrize("quotes", ["typed", "plain"])
def test_row_11_cuda_code_becomes_npu_code(jumar: Jumar, tmp_path: Path, quotes: str) -> None:
    before, after = BEFORE, AFTER
    if quotes == "plain":
        before, after = before.translate(PLAIN), after.translate(PLAIN)
    write(tmp_path, {"code/train.py": before})
    jumar("port", "code", "-o", "code-npu", "--npu-only", rc=None)
    assert (tmp_path / "code-npu/train.py").read_text("utf-8") == after


@dataclass(frozen=True)
class EntryJob:
    """What is left of a job of the entry script."""

    log: str
    code: str
    """Where its folder of code is in the store."""


@pytest.fixture(scope="session")
def entry_job(
    tmp_path_factory: pytest.TempPathFactory, jumar_program: str, platform: Served, machine: Machine
) -> EntryJob:
    folder = tmp_path_factory.mktemp("entry")
    jumar = Shell(caller(jumar_program, platform.home, folder), machine)
    bucket = new_bucket(jumar)
    data = {"vgg16-397923af.pth": "vgg", "train/1.jpg": "one", "train/2.jpg": "two"}
    write(folder / "data", data)
    write(
        folder / "code",
        {
            "modelarts_entry_train.py": ENTRY,
            "train.py": TRAIN,
            "configs/train_config.py": "trainset_root = '/train'\n",
        },
    )
    jumar("data", "push", "data", f"{bucket}/dataset_unzip_mini")
    done = jumar(
        *("run", "--follow", "--code", "code"),
        *("--input", f"data_url={bucket}/dataset_unzip_mini"),
        *("--output", f"train_url={bucket}/free_train/out"),
        *("--", "python", "modelarts_entry_train.py"),
    )
    return EntryJob(done.stdout, f"{bucket}/free_train/out/code")


def test_row_12_the_entry_script_runs_as_it_stands(entry_job: EntryJob) -> None:
    assert "vgg16-397923af.pth" in entry_job.log.partition("> cd ")[0]
    assert "--config=configs/train_config.py --data_url=" in entry_job.log
    assert entry_job.log.endswith("Done\n")


def test_row_13_pip3_install_in_the_entry_script_is_the_jobs_own(
    jumar: Jumar, tmp_path: Path
) -> None:
    make_wheel(tmp_path, "imageio-lite", "2.9.0", "version = '{version}'\n")
    entry = ENTRY.replace(
        'run("ls -ahl', 'run("pip3 install imageio-lite==2.9.0")\n    run("ls -ahl'
    )
    trained = "import imageio_lite; print('imageio', imageio_lite.version)\n"
    write(tmp_path / "code", {"entry.py": entry, "train.py": trained})
    words = ("run", "--follow", "--code", "code", *offline(tmp_path))
    done = jumar(*words, "--", "python3", "entry.py", "--data_url=.", "--train_url=out")
    assert "\nimageio 2.9.0\n" in done.stdout
    assert importlib.util.find_spec("imageio_lite") is None


def test_row_14_npu_smi_inside_the_job(jumar: Jumar) -> None:
    words = ("run", "--follow", "--device", "sim:2", "--", "sh", "-c")
    info = read_info(jumar(*words, "npu-smi info").stdout)
    assert [(chip.npu_id, chip.name, chip.health) for chip in info.chips] == [
        (0, "910B3", "OK"),
        (1, "910B3", "OK"),
    ]
    plain = jumar("run", "--follow", "--device", "sim:1", "--", "npu-smi", "info").stdout
    assert len(read_info(plain).chips) == 1
    asked = "npu-smi info -l && npu-smi info -m && npu-smi info -t board -i 1"
    told = jumar(*words, asked).stdout
    assert "Total Count                    : 2" in told
    assert read_board(told[told.rindex("\tNPU ID  ") :]).npu_id == 1
    assert "no simulated NPU 7" in jumar(*words, "npu-smi info -t board -i 7", rc=None).stdout


def test_row_15_the_code_folder_is_copied_to_obs(entry_job: EntryJob, jumar: Jumar) -> None:
    assert jumar("data", "cat", f"{entry_job.code}/last.txt").stdout == "trained"
    assert jumar("data", "cat", f"{entry_job.code}/modelarts_entry_train.py").stdout == ENTRY


def test_row_16_the_script_finds_weights_and_data_below_data_url(entry_job: EntryJob) -> None:
    assert "weights vgg images 2\n" in entry_job.log


@pytest.fixture
def at_modelarts(
    jumar: Shell, jumar_program: str, machine: Machine, bucket: str, tmp_path: Path
) -> Generator[Jumar]:
    """A person's own server whose jobs run on ModelArts; that is the platform of the other tests."""
    keys = json.loads(jumar("store", "keys", "--for", "modelarts", "--json").stdout)
    own = Shell(caller(jumar_program, tmp_path / "own-home", tmp_path), machine)
    places = ("--endpoint", keys["endpoint"], "--obs-endpoint", keys["obs_endpoint"])
    names = ("--project", keys["project_id"], "--bucket", bucket.removeprefix("obs://"))
    own("login", "modelarts", *places, *names, text=f"{keys['ak']}\n{keys['sk']}\n")
    own("up", "--detach", "--port", str(free_port()), JUMAR_ENGINE="modelarts")
    yield own
    own("down")


def test_row_17_the_tutorials_job_runs_on_modelarts(
    at_modelarts: Jumar, jumar: Jumar, bucket: str, tmp_path: Path
) -> None:
    code = write(
        tmp_path / "code",
        {"train.py": TRAIN, "configs/train_config.py": 'trainset_root = "/train"\n'},
    )
    at_modelarts("modelarts", "entry", "train.py", "-o", "code/modelarts_entry_train.py")
    data = {"vgg16-397923af.pth": "vgg", "train/1.jpg": "1", "train/2.jpg": "2"}
    write(tmp_path / "mini", data)
    jumar("data", "push", "mini", f"{bucket}/dataset_unzip_mini")
    places = (
        *("--input", f"data_url={bucket}/dataset_unzip_mini"),
        *("--output", f"train_url={bucket}/results"),
        *("--env", "SECRET_TOKEN=do-not-show"),
    )
    run = ("run", "--name", "there", "--code", str(code), "--device", "npu:1", *places)
    command = ("python", "modelarts_entry_train.py", "--config=configs/train_config.py")
    shown = at_modelarts(*run, "--dry-run", "--json", "--", *command).stdout
    assert "jumar_modelarts_boot.py" in shown
    assert "do-not-show" not in shown
    done = at_modelarts(*run, "--follow", "--", *command)
    assert "weights vgg images 2\n" in done.stdout
    assert jumar("data", "cat", f"{bucket}/results/code/last.txt").stdout == "trained"
    there = json.loads(at_modelarts("modelarts", "jobs", "--json").stdout)[0]
    assert there["phase"] == "Completed"
    write(code, {"train.py": "import sys; sys.exit(5)\n"})
    failed = at_modelarts(*run, "--follow", "--", *command, rc=1)
    assert "code 5" in failed.stderr
