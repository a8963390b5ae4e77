import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

Jumar = Callable[..., "subprocess.CompletedProcess[str]"]


def test_the_exit_code_is_the_scripts_own(jumar: Jumar, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import sys\nprint('out')\nsys.exit(int(sys.argv[1]))\n", "utf-8"
    )
    assert jumar("try", "--", sys.executable, "train.py", "7", rc=7).stdout == "out\n"


def test_torch_npu_is_there_in_the_script_and_its_children(jumar: Jumar, tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(
        "import torch_npu\nprint(torch_npu.npu.device_count())\n", "utf-8"
    )
    (tmp_path / "train.py").write_text(
        "import os, subprocess, sys\n"
        "subprocess.run([sys.executable, 'child.py'], check=True)\n"
        "print(os.environ['JUMAR_SIM_DEVICES'], os.environ['JUMAR_SIM_MODE'])\n",
        "utf-8",
    )
    done = jumar("try", "--devices", "3", "--mode", "strict", "--", sys.executable, "train.py")
    assert done.stdout == "3\n3 strict\n"


def test_the_report_is_written(jumar: Jumar, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\ntorch.ones(2).npu().sum().item()\n", "utf-8")
    done = jumar("try", "--report", "report.json", "--", sys.executable, "train.py")
    assert "trial on simulated NPUs" in done.stderr
    assert json.loads((tmp_path / "report.json").read_text())["devices"] == 8


def test_a_script_that_never_steps_is_ended_with_its_children(jumar: Jumar, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen(['sleep', '300'])\n"
        "open('pid', 'w').write(str(child.pid))\n"
        "try:\n    time.sleep(300)\nexcept KeyboardInterrupt:\n    print('asked to end')\n",
        "utf-8",
    )
    # Long enough for a busy machine to come as far as the sleep.
    jumar("try", "--time", "5s", "--", sys.executable, "train.py")
    pid = int((tmp_path / "pid").read_text())
    for _ in range(600):
        if not os.path.exists(f"/proc/{pid}"):
            break
        time.sleep(0.1)
    assert not os.path.exists(f"/proc/{pid}")


def test_a_trial_that_is_asked_to_end_takes_its_command_along(
    follow: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    started = follow("try", "--", "sh", "-c", "echo $$ > pid; sleep 300")
    pid = tmp_path / "pid"
    for _ in range(600):
        if pid.exists() and pid.read_text().strip():
            break
        time.sleep(0.1)
    started.terminate()
    assert started.wait(timeout=180) == 143
    assert not os.path.exists(f"/proc/{pid.read_text().strip()}")


def test_a_killed_command_is_not_said_to_have_used_no_npu(jumar: Jumar, tmp_path: Path) -> None:
    killed = jumar("try", "--", "sh", "-c", "kill -9 $$", rc=137)
    assert "no report: signal 9 killed the command" in killed.stderr
    assert "used no simulated NPU" in jumar("try", "--", "true").stderr
    script = tmp_path / "old.py"
    script.write_text("device = 'cuda'\n")
    assert (
        "hint: the script is written for CUDA" in jumar("try", "--", "python", str(script)).stderr
    )


def test_mistakes_are_named(jumar: Jumar, tmp_path: Path) -> None:
    assert "not a program" in jumar("try", "--", "no-such-program", rc=2).stderr
    assert "--time" in jumar("try", "--time", "soon", "--", "true", rc=2).stderr
    assert "--python" in jumar("try", "--python", "python3", "--", "true", rc=2).stderr
    for report in ("no/folder/r.json", "no/folder"):
        said = jumar("try", "--report", report, "--", "true", rc=2).stderr
        assert "cannot write" in said
        assert not (tmp_path / "no").exists()


TRAIN_ON_CUDA = """import argparse, os, torch
parser = argparse.ArgumentParser()
parser.add_argument("--data", default="data")
data = parser.parse_args().data
print("files", sorted(os.listdir(os.path.join(data, "cat"))), flush=True)
model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    model(torch.randn(8, 4).to("cuda")).square().mean().backward()
    optimizer.step()
    print("step", step, model.weight.device, flush=True)
open("left-behind.txt", "w").close()
"""


def pictures(folder: Path) -> None:
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for number in range(6):
            (folder / name / f"{number}.jpg").write_bytes(b"picture")


def test_a_script_for_cuda_is_ported_and_tried_with_mini_data_in_a_copy(
    jumar: Jumar, tmp_path: Path
) -> None:
    lab = tmp_path / "lab"
    pictures(lab / "data")
    (lab / "train.py").write_text(TRAIN_ON_CUDA, "utf-8")
    before = sorted(lab.rglob("*"))
    words = ["--port", "--mini", "data=2", "--steps", "3", "--report", "../trial", "--json"]
    done = jumar("try", *words, "--", sys.executable, "train.py", cwd=lab)
    said = json.loads(done.stdout)
    assert said["exit_code"] == 0
    assert said["trial"]["steps"] == 3
    assert said["port"]["summary"]["changes"] == 3
    assert {event["file"] for event in said["port"]["trial"]["events"]} == {"train.py"}
    assert done.stderr.count("jpg") == 2
    assert "step 1 npu:0" in done.stderr
    assert "step 2" not in done.stderr
    assert sorted(lab.rglob("*")) == before
    page = (tmp_path / "trial/report.html").read_text("utf-8")
    assert "Trial on simulated NPUs" in page
    assert "ACCELERATOR" in page
    assert json.loads((tmp_path / "trial/trial.json").read_text())["steps"] == 3


def test_mini_data_takes_the_place_of_the_word_that_names_it(jumar: Jumar, tmp_path: Path) -> None:
    pictures(tmp_path / "data")
    listing = "import os, sys; print(sorted(os.listdir(sys.argv[1] + '/dog')))"
    words = ["--mini", "data=1", "--", sys.executable, "-c", listing]
    assert len(json.loads(jumar("try", *words, "data/").stdout.replace("'", '"'))) == 1
    assert "the command does not contain data" in jumar("try", *words, rc=2).stderr
    assert "is not DIR" in jumar("try", "--mini", "data=x", "--", "true", rc=2).stderr
    assert (
        "gone does not exist" in jumar("try", "--mini", "gone=1", "--", "ls", "gone", rc=2).stderr
    )


def test_a_folder_for_the_report_has_a_page(jumar: Jumar, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\ntorch.ones(2).npu().sum().item()\n", "utf-8")
    done = jumar("try", "--report", "trial", "--", sys.executable, "train.py")
    assert f"report: {tmp_path / 'trial/report.html'}" in done.stderr
    page = (tmp_path / "trial/report.html").read_text("utf-8")
    assert "train.py:2" in page
    assert "模拟 NPU 试运行" in page


def test_a_script_outside_of_the_ported_folder_is_named(jumar: Jumar, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "train.py").write_text("raise SystemExit('no card')\n", "utf-8")
    done = jumar("try", "--port", "--", "python", "../train.py", cwd=tmp_path / "code", rc=1)
    assert "hint: ../train.py is outside of this folder and was not ported" in done.stderr
