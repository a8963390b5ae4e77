"""A server whose jobs are pods, as people use it."""

import json
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.cli.conftest import Jumar, caller
from tests.cluster_double.api import NAMESPACE
from tests.cluster_double.cluster import Double

CONFIG = """
engine = "kubernetes"
[kubernetes]
namespace = "{namespace}"
kubeconfig = "{kubeconfig}"
image = "any:1"
python = "{python}"
"""


@pytest.fixture
def jumar(jumar_program: str, kubernetes_double: Double, tmp_path: Path) -> Generator[Jumar]:
    home = tmp_path / "home"
    home.mkdir()
    file = kubernetes_double.api.kubeconfig(tmp_path / "kubeconfig")
    values = {"namespace": NAMESPACE, "kubeconfig": file, "python": sys.executable}
    (home / "config.toml").write_text(CONFIG.format(**values))
    call = caller(jumar_program, home, tmp_path)
    yield call
    call("down")


def test_code_is_sent_and_the_log_comes_back(jumar: Jumar, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("import os\nprint('in', os.getcwd())\n")
    (code / "job.yaml").write_text("name: x\ncommand: [python3, train.py]\ncode: .\n")
    done = jumar("run", "-f", "job.yaml", "--follow", "--engine", "kubernetes", cwd=code)
    assert done.stdout.startswith("in ")
    waits = jumar("run", "--device", "npu:64", "--json", "--", "true", cwd=code)
    assert "no code is sent" in waits.stderr
    job = json.loads(waits.stdout)["id"]
    jumar("stop", job)
    shown = json.loads(jumar("show", job, "--json").stdout)
    assert shown["state"] in ("stopping", "stopped")
    refused = jumar("run", "--engine", "local", "--", "true", rc=2).stderr
    assert "runs jobs on kubernetes, not on local" in refused
