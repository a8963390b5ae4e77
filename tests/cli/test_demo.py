import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

Jumar = Callable[..., "subprocess.CompletedProcess[str]"]


def test_demo_learns_to_read_digits(jumar_program: str, live_home: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "JUMAR_HOME": str(live_home)}
    done = subprocess.run(
        [jumar_program, "demo", "--json"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["state"] == "succeeded"
    assert result["accuracy"] >= 0.98
    metrics = [
        json.loads(line)
        for line in (Path(result["results"]) / "metrics.jsonl").read_text().splitlines()
    ]
    losses = [entry["loss"] for entry in metrics if "loss" in entry]
    assert losses[0] > 1.5
    assert losses[-1] < 0.2
    assert metrics[-1]["accuracy"] == pytest.approx(result["accuracy"], abs=1e-4)
    assert (Path(result["results"]) / "digits.pt").stat().st_size > 100_000
    assert result["url"].endswith(f"/jobs/{result['id']}")
    assert "?code=" in result["login_url"]
    record = json.loads(
        subprocess.run(
            [jumar_program, "show", result["id"], "--json"],
            env=environment,
            capture_output=True,
            check=True,
            timeout=180,
        ).stdout
    )
    assert record["spec"]["device"] == "sim:2"
    ported = Path(record["directory"], "code", "train.py").read_text()
    assert "torch.accelerator" in ported
    assert "torch.cuda" not in ported
    assert (Path(result["report"]) / "report.html").is_file()
    log = Path(record["directory"], "logs", "node0", "rank0.log").read_text()
    assert "trial on simulated NPUs" in log
    assert {"rank0.log", "rank1.log"} == {
        path.name for path in Path(record["directory"], "logs", "node0").iterdir()
    }


def test_without_torch_it_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['torch'] = None; sys.argv = ['jumar', 'demo']\n"
        "from jumar.cli import main; main()"
    )
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": str(tmp_path), "JUMAR_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 2
    assert "needs torch" in done.stderr
    assert f"hint: install them beside jumar: {sys.executable} -m pip install" in done.stderr
    assert not (tmp_path / "home").exists()


def test_without_torch_the_shells_python_is_taken_if_it_has_it() -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from jumar.cli import demo; print(vars(demo)['_python_with_torch']())"
    )
    beside = Path(sys.executable).parent
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": str(beside)},
        capture_output=True,
        text=True,
        check=True,
        timeout=180,
    )
    assert Path(found.stdout.strip()).parent == beside


def test_the_wheel_brings_the_example(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=root,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "installed")
    for name in ("job.yaml", "train.py", "digits.py"):
        assert f"jumar/examples/digits/{name}" in names
    code = "from jumar.cli.demo import example_folder; print(example_folder('digits'))"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True,
        text=True,
        check=True,
        timeout=180,
    )
    assert found.stdout.strip() == str(tmp_path / "installed" / "jumar" / "examples" / "digits")
