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
    started = time.monotonic()
    done = jumar("try", "--time", "1s", "--", sys.executable, "train.py", rc=None)
    assert done.returncode == 0
    assert time.monotonic() - started < 40
    pid = int((tmp_path / "pid").read_text())
    for _ in range(50):
        if not os.path.exists(f"/proc/{pid}"):
            break
        time.sleep(0.1)
    assert not os.path.exists(f"/proc/{pid}")


def test_mistakes_are_named(jumar: Jumar) -> None:
    assert "not a program" in jumar("try", "--", "no-such-program", rc=2).stderr
    assert "--time" in jumar("try", "--time", "soon", "--", "true", rc=2).stderr
    assert (
        "cannot write"
        in jumar("try", "--report", "/no/such/folder/r.json", "--", "true", rc=2).stderr
    )
