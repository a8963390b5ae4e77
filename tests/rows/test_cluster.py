"""Tutorial 001: an Ascend 910B cluster without a queue; samples, ports, one card to many."""

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.conftest import Jumar, caller, environment_for
from tests.cli.sshd import running_sshd
from tests.host.env.conftest import make_wheel
from tests.ports import free_port
from tests.rows.conftest import (
    FOREIGN,
    LIMIT_S,
    Machine,
    Shell,
    commit_all,
    npu_smi_info,
    offline,
    wait_for_state,
    write,
)
from tests.store.served import Served

from jumar.host.env.needs import needed_by
from jumar.host.versions import Version
from jumar.inject.simulated import environment as simulated

SAMPLE = "PyTorch/built-in/cv/classification/MobileNetV3-Large_ID1784_for_PyTorch"
TRAIN_1P = """\
for parameter in $*; do
    case $parameter in --data_path=*) data_path=${parameter#*=} ;; esac
done
python3 main.py --data $data_path
"""
# One card, as written for CUDA; the lines that the tutorial changes for many cards are there.
TRAIN = """
import torch
from torch.utils.data import DataLoader, TensorDataset

def main():
    train_data = TensorDataset(torch.rand(32, 1), torch.rand(32, 1))
    train_dataloader = DataLoader(dataset=train_data, batch_size=8, shuffle=True)
    model = torch.nn.Linear(1, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for inputs, labels in train_dataloader:
            loss = torch.nn.functional.mse_loss(model(inputs.cuda()), labels.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, inputs.cuda().device.type, flush=True)
    torch.save(model.state_dict(), "model.pth")

if __name__ == "__main__":
    main()
"""
TRANSFER = "import torch\nimport torch_npu\nfrom torch_npu.contrib import transfer_to_npu\n"
# The tutorial's script for many cards, as its reader writes it by hand.
MANY = """
import argparse, os
import torch, torch_npu
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)
parser.parse_args()
local_rank = int(os.environ["LOCAL_RANK"])
world_size = int(os.environ["WORLD_SIZE"])
device = torch.device("npu", local_rank)
torch.distributed.init_process_group(backend="hccl", rank=local_rank)
torch_npu.npu.set_device(device)
model = torch.nn.Linear(1, 1).to(device)
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank], output_device=local_rank)
model(torch.ones(4, 1).to(device)).sum().backward()
total = torch.ones(1).to(device)
torch.distributed.all_reduce(total)
with open(f"rank{local_rank}.txt", "w") as file:
    print(f"{int(total)} of {world_size} on {device}", file=file)
torch.distributed.destroy_process_group()
"""
# Its loop; this machine's cores and a free port stand for 24 cores a card and 29500.
TRAIN_SH = """
cur_path=`pwd`
export MASTER_ADDR=127.0.0.1
export MASTER_PORT={port}
export WORLD_SIZE=2
for i in $(seq 0 1)
do
        export LOCAL_RANK=$i
        nohup taskset -c {cores} python3 -u train.py --local_rank=$i > ${{cur_path}}/train.log 2>&1 &
done
"""


def test_row_19_the_variables_of_set_env_sh_are_there(jumar: Jumar, machine: Machine) -> None:
    script = "import os; print(os.environ['ASCEND_OPP_PATH'], os.environ['LD_LIBRARY_PATH'])"
    done = jumar("run", "--follow", "--device", "npu:1", "--", "python3", "-c", script)
    opp, libraries = done.stdout.split()
    assert opp == f"{machine.toolkit}/latest/opp"
    assert libraries.startswith(f"{machine.toolkit}/latest/lib64:")


def test_row_20_who_uses_which_card(jumar: Jumar) -> None:
    job = jumar("run", "--name", "mine", "--device", "npu:1", "--", "sleep", "600").stdout.strip()
    wait_for_state(jumar, job, "running")
    rows = {line.split()[0]: line for line in jumar("top", "--once").stdout.splitlines()}
    mine = [card for card, line in rows.items() if f" {job} " in line]
    jumar("stop", job)
    assert len(mine) == 1
    assert mine[0].startswith("npu:")
    assert "python3.7 41005 FOREIGN" in rows[f"npu:{FOREIGN}"]
    listed = json.loads(jumar("devices", "--json").stdout)
    assert {card["id"]: card["name"] for card in listed if card["kind"] == "npu"} == dict.fromkeys(
        range(4), "910B3"
    )


def test_row_21_each_job_sees_the_card_that_is_its_own(jumar: Jumar, tmp_path: Path) -> None:
    show = "echo $ASCEND_RT_VISIBLE_DEVICES; until test -e go; do sleep 0.1; done"
    words = ("run", "--device", "npu:1", "--", "sh", "-c", show)
    jobs = [jumar(*words).stdout.strip() for _ in range(2)]
    for job in jobs:
        wait_for_state(jumar, job, "running")
    (tmp_path / "go").touch()
    for job in jobs:
        wait_for_state(jumar, job, "succeeded")
    seen = {jumar("logs", job).stdout.strip() for job in jobs}
    assert len(seen) == 2
    assert seen <= {"0", "1", "2"}


def test_row_28_a_sample_from_git_with_its_packages_data_and_script(
    jumar: Jumar, tmp_path: Path
) -> None:
    make_wheel(tmp_path, "timmlike", "1.11")
    main = "import os, sys, timmlike; print(timmlike.__version__, sorted(os.listdir(sys.argv[2])))"
    files = {"test/train_full_1p.sh": TRAIN_1P, "1.11_requirements.txt": "timmlike==1.11\n"}
    repository = tmp_path / "ModelZoo-PyTorch"
    write(repository / SAMPLE, {**files, "main.py": main})
    write(tmp_path / "set/tiny-imagenet-200", {"train/1.jpg": "", "val/2.jpg": ""})
    shutil.make_archive(str(tmp_path / "tiny-imagenet-200"), "zip", tmp_path / "set")
    steps = (
        f"cd {SAMPLE}",
        f"cp {tmp_path}/tiny-imagenet-200.zip ./",
        "jumar data unzip tiny-imagenet-200.zip . >/dev/null",
        "bash ./test/train_full_1p.sh --data_path=./tiny-imagenet-200",
    )
    done = jumar(
        *("run", "--follow", "--code", commit_all(repository), *offline(tmp_path)),
        *("--requirements", f"{SAMPLE}/1.11_requirements.txt"),
        *("--", "bash", "-c", " && ".join(steps)),
    )
    assert done.stdout.splitlines()[-1] == "1.11 ['train', 'val']"


@pytest.mark.parametrize("way", ["import", "--auto-port"])
def test_row_29_a_cuda_script_runs_on_npus_by_transfer(
    jumar: Jumar, tmp_path: Path, way: str
) -> None:
    write(tmp_path, {"train.py": TRANSFER + TRAIN if way == "import" else TRAIN})
    flags = () if way == "import" else (way,)
    done = jumar("run", "-F", "--device", "sim:1", *flags, "--", "python3", "train.py")
    said = [line for line in done.stdout.splitlines() if line.startswith("epoch")]
    assert said == ["epoch 0 npu", "epoch 1 npu"]
    assert (tmp_path / "model.pth").exists()


def test_row_30_a_port_and_all_report_files_of_the_analysis_tool(
    jumar: Jumar, tmp_path: Path
) -> None:
    net = "import torch\ntorch.cuda.cudart()\ngraph = torch.cuda.CUDAGraph()\n"
    write(tmp_path, {"src/train.py": TRAIN, "src/sub/net.py": net})
    jumar("port", "src", "-o", "src_msft", "--npu-only", "--torch", "1.11", rc=None)
    assert ".npu()" in (tmp_path / "src_msft/train.py").read_text()
    assert (tmp_path / "src_msft/sub/net.py").exists()
    report = tmp_path / "src_msft/jumar-report"
    for name, told in (
        ("cuda_op_list.csv", "sub/net.py,torch.cuda.CUDAGraph"),
        ("unknown_api.csv", "sub/net.py,2,2,torch.cuda.cudart"),
        ("unsupported_api.csv", "sub/net.py,3,3,torch.cuda.CUDAGraph"),
        ("change_list.csv", "\ntrain.py,"),
        ("msFmkTranspltlog.txt", "sub/net.py:3"),
    ):
        assert told in (report / name).read_text("utf-8"), name


def test_row_31_a_script_for_one_card_trains_on_two(jumar: Jumar, tmp_path: Path) -> None:
    write(tmp_path, {"src/train.py": TRAIN})
    jumar("port", "src", "-o", "many", "--npu-only", "--distributed", "train.py")
    text = (tmp_path / "many/train.py").read_text()
    for line in ("DistributedSampler(train_data)", 'backend="hccl"', "DistributedDataParallel("):
        assert line in text
    assert (tmp_path / "many/run_distributed_npu.sh").exists()
    words = ("--device", "sim:2", "--distributed", "--code", "many", "--output", "train_url=out")
    done = jumar("run", "-F", "--json", *words, "--", "python3", "train.py")
    job = json.loads(done.stdout)
    assert job["state"] == "succeeded", done.stderr
    # Each rank has seen its half; the first one speaks and saves for both.
    assert "epoch 1 npu" in done.stderr
    assert (Path(job["directory"]) / "code/model.pth").exists()


def expect_two_ranks(folder: Path) -> None:
    for rank in (0, 1):
        assert (folder / f"rank{rank}.txt").read_text() == f"2 of 2 on npu:{rank}\n"


def test_row_32_train_sh_with_its_loop_of_nohup_is_waited_for(jumar: Jumar, tmp_path: Path) -> None:
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    script = TRAIN_SH.format(port=free_port(), cores=cores)
    write(tmp_path, {"train.py": MANY, "train.sh": script})
    jumar("run", "--follow", "--device", "sim:2", "--", "bash", "./train.sh")
    assert (tmp_path / "train.log").exists()
    expect_two_ranks(tmp_path)


def test_row_33_the_launcher_instead_of_train_sh(
    jumar: Jumar, jumar_program: str, machine: Machine, tmp_path: Path
) -> None:
    write(tmp_path, {"train.py": MANY, "cards.json": jumar("devices", "--json").stdout})
    # Cards are looked for where drivers put them; here the list says which there are.
    words = ("launch", "--cards", "cards.json", "--devices", "npu:2", "train.py")
    done = subprocess.run(
        [jumar_program, *words],
        env=simulated(environment_for(tmp_path / "home", **machine.variables), devices=2),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    expect_two_ranks(tmp_path)


TUTORIAL_PLAN = (
    *("env", "plan", "--torch", "1.11", "--cann", "7.0.RC1.alpha003"),
    *("--python", "3.7", "--machine", "aarch64"),
)


def test_row_26_the_addresses_of_torch_npu_and_torchvision(jumar: Jumar) -> None:
    address = (
        "https://gitee.com/ascend/pytorch/releases/download/v5.0.rc3-pytorch1.11.0/"
        "torch_npu-1.11.0.post4-cp37-cp37m-linux_aarch64.whl"
    )
    told = jumar(*TUTORIAL_PLAN).stdout
    assert f"torch_npu==1.11.0.post4 is at {address}\n" in told
    assert "torchvision==0.12.0 " in told
    create = ("env", "create", *TUTORIAL_PLAN[2:], "--with", "uv", "--dry-run")
    assert f"'torch_npu @ {address}'" in jumar(*create).stdout
    # Wheels that were carried to a machine without a network come first.
    assert address not in jumar(*create, "--find-links", "wheels").stdout.splitlines()[-1]


def test_row_27_ascends_apex_fits_torch_1_11(jumar: Jumar) -> None:
    page = "https://ascend-repo.obs.cn-east-2.myhuaweicloud.com/MindX/OpenSource/pytorch1_11_0/"
    told = jumar(*TUTORIAL_PLAN).stdout
    assert f"pip install apex --no-index --find-links {page}index.html\n" in told
    (extra,) = json.loads(jumar(*TUTORIAL_PLAN, "--json").stdout)["extras"]
    assert extra["name"] == "apex"


def test_row_25_torch_for_aarch64_is_fetched_for_a_machine_without_a_network(
    jumar: Jumar, tmp_path: Path
) -> None:
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    for machine in ("aarch64", "x86_64"):
        for name, version in (("torch", "2.14.0"), ("torch_npu", "2.14.0")):
            make_wheel(shelf, name, version, tag=f"{tag}-{tag}-manylinux_2_28_{machine}")
    for package in needed_by("torch", Version.parse("2.14")):
        make_wheel(shelf, package.name, "1.0")
    make_wheel(shelf, "torchvision", "0.29.0")
    words = ("--torch", "2.14", "--cann", "9.1.0", "--python", minor, "--no-index", "--find-links")
    for machine in ("aarch64", platform.machine()):
        jumar("env", "download", *words, "shelf", "--machine", machine, "--to", machine)
        (torch,) = (tmp_path / machine).glob("torch-*.whl")
        assert torch.name == f"torch-2.14.0-{tag}-{tag}-manylinux_2_28_{machine}.whl"
    shutil.rmtree(shelf)
    # The plug-in is a stub, which sees none of the cards: that is told by the exit code.
    made = jumar("env", "create", *words, platform.machine(), "--at", "made", "--json", rc=None)
    check = json.loads(made.stdout)["check"]
    assert check["packages"]["torch-npu"] == "2.14.0"
    assert {"package": "torch", "outcome": "works"}.items() <= check["imports"][0].items()


def test_row_23_the_shared_conda_is_activated(jumar: Jumar, tmp_path: Path) -> None:
    # Laid out as conda does it; conda itself cannot be installed here.
    prefix = tmp_path / "miniconda3/envs/mindspore"
    write(
        prefix,
        {
            "conda-meta/history": "",
            "etc/conda/activate.d/cann.sh": "export GE_HOME=$CONDA_PREFIX/ge\n",
        },
    )
    (prefix / "bin").mkdir()
    (prefix / "bin/python").symlink_to(sys.executable)
    words = ("--activate", "mindspore", "--env", f"HOME={tmp_path}", "--follow", "--")
    told = jumar("run", *words, "bash", "-c", "command -v python; echo $CONDA_DEFAULT_ENV $GE_HOME")
    assert told.stdout.splitlines() == [f"{prefix}/bin/python", f"mindspore {prefix}/ge"]


def test_row_18_the_other_machine_is_used_over_ssh(
    jumar_program: str, tmp_path: Path, platform: Served
) -> None:
    """With the queue of that machine; a queue of several machines is another step."""
    far = tmp_path / "far-jumar"
    far.write_text(f'#!/bin/sh\nJUMAR_HOME={platform.home} exec {jumar_program} "$@"\n')
    far.chmod(0o755)
    near = caller(jumar_program, tmp_path / "near", tmp_path)
    with running_sshd(tmp_path / "sshd") as sshd:
        place = f"ssh://{sshd.user}@127.0.0.1:{sshd.port}"
        error = near("login", f"{place}/nowhere/jumar", rc=2, PATH=sshd.path).stderr
        assert "was not found" in error
        near("login", f"{place}{far}", PATH=sshd.path)
        stored = json.loads((tmp_path / "near/login.json").read_text())
        assert stored == {"url": f"{place}{far}", "token": ""}
        write(
            tmp_path, {"code/train.py": "print('there')\nopen('model.pt', 'w').write('trained')\n"}
        )
        words = ("run", "--code", "code", "--follow", "--json", "--", "python", "train.py")
        job = json.loads(near(*words, PATH=sshd.path).stdout)["id"]
        near("get", job, "code/model.pt", PATH=sshd.path)
    assert (tmp_path / "model.pt").read_text() == "trained"
    # It is the same queue.
    assert json.loads(caller(jumar_program, platform.home, tmp_path)("show", job, "--json").stdout)


def test_row_22_foreign_processes_are_cleaned_at_the_hour_and_jobs_are_spared(
    jumar_program: str, machine: Machine, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        holder, other = (subprocess.Popen(["sleep", "600"]) for _ in range(2))
        for process in (holder, other):
            stack.callback(process.wait, timeout=LIMIT_S)
            stack.callback(process.kill)
        programs = tmp_path / "bin"
        text = npu_smi_info().replace("41005", str(holder.pid)).replace("python3.7", "sleep")
        write(programs, {"npu-smi": "#!/bin/sh\ncat $0.txt\n", "npu-smi.txt": text})
        (programs / "npu-smi").chmod(0o755)
        at = time.strftime("%H:%M:%S", time.localtime(time.time() + 6))
        shell = Shell(
            caller(jumar_program, tmp_path / "home", tmp_path),
            replace(
                machine,
                variables={
                    **machine.variables,
                    "PATH": f"{programs}:{machine.variables['PATH']}",
                    "JUMAR_SWEEP": at,
                    "JUMAR_SWEEP_WARNING_S": "3",
                    "JUMAR_DEFAULT_TIME_LIMIT_S": "28800",
                    "JUMAR_LONGEST_TIME_LIMIT_S": "86400",
                },
            ),
        )
        shell("up", "--detach")
        stack.callback(shell, "down")
        job = shell("run", "--device", "npu:3", "--", "sleep", "600").stdout.strip()
        assert wait_for_state(shell, job, "running", "failed") == "running"
        shown = json.loads(shell("show", job, "--json").stdout)
        assert shown["spec"]["time_limit"] == "8h"
        assert FOREIGN not in [card["id"] for card in shown["attempts"][0]["cards"]]
        assert holder.wait(LIMIT_S) == -signal.SIGTERM
        assert "belongs to no job" in (tmp_path / "home/server.log").read_text()
        assert other.poll() is None
        assert wait_for_state(shell, job, "running", "failed") == "running"
        shell("stop", job)
        refused = shell("run", "--time-limit", "2d", "--", "true", rc=2).stderr
        assert "longer than jobs may run here" in refused
