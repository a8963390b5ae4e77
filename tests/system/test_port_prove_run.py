"""A job that asked for CUDA, and the button on its page: ported, proven by a real run of both sides, run again."""

import http.client
import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.ports import free_port

from jumar.client import Client
from jumar.spec.states import JobState

JUMAR = str(Path(sys.executable).parent / "jumar")
SCRIPT = """
import torch
torch.manual_seed(1)
model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    loss = (model(torch.ones(2, 4).cuda()) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", loss.item(), flush=True)
"""


@pytest.mark.full
def test_a_cuda_job_is_ported_proven_and_run_again(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(SCRIPT)
    own = {"JUMAR_HOME": str(home), "JUMAR_CPU_SLOTS": "4", "JUMAR_PORT": str(free_port())}
    environment = {**os.environ, **own}
    subprocess.run([JUMAR, "up", "--detach"], env=environment, check=True, timeout=240)
    try:
        config: dict[str, str] = json.loads((home / "client.json").read_text())
        with closing(Client(config["url"], config["token"], patience_s=60)) as client:
            command = [sys.executable, "train.py"]
            spec = {"name": "cuda", "command": command, "workdir": str(project)}
            failed = client.wait(client.submit(spec).id, 400)
            assert failed.state is JobState.FAILED
            place = urlsplit(config["url"])
            with closing(http.client.HTTPConnection(place.hostname or "", place.port)) as line:
                head = {"Cookie": f"jumar_session={config['token']}", "Origin": config["url"]}
                line.request("POST", f"/jobs/{failed.id}/port", headers=head)
                ported = (line.getresponse().getheader("Location") or "").rpartition("/")[2]
            done = client.wait(ported, 400)
            proof = client.wait("cuda-proof", 400)
            told = b"".join(client.logs(proof.id)).decode()
            assert proof.state is JobState.SUCCEEDED, told
            assert done.state is JobState.SUCCEEDED
            assert "proven" in told.lower() or "equal" in told.lower(), told
    finally:
        subprocess.run([JUMAR, "down"], env=environment, check=False, timeout=240)
