"""`launch: ray` on two nodes of a real Slurm, with the real Ray."""

import json
import os
import sys
import time
from pathlib import Path

import pytest
from tests.direct.test_direct import Person
from tests.slurm import Cluster

from jumar.launch.processes import process

LIMIT_S = 450.0
SCRIPT = """
import os, sys, time
import ray

ray.init(logging_level="ERROR", log_to_driver=False)
print("nodes", len(ray.nodes()), "NPU", ray.cluster_resources()["NPU"], flush=True)


@ray.remote(resources={"NPU": 1}, num_cpus=0)
class Worker:
    def seen(self):
        return ray.util.get_node_ip_address(), os.environ["ASCEND_RT_VISIBLE_DEVICES"]

    def leave(self):
        os.kill(os.getpid(), 9)


workers = [Worker.remote() for _ in range(4)]
print(sorted(ray.get([worker.seen.remote() for worker in workers])), flush=True)
try:
    ray.get(workers[0].leave.remote())
except ray.exceptions.RayError as error:
    print("lost", type(error).__name__, flush=True)
time.sleep(600)
"""


def of_job(job: str) -> list[int]:
    """Living processes of the job, Ray's included."""
    return [stat.pid for stat in process.with_environment({"JUMAR_JOB_ID": job})]


@pytest.mark.full
def test_a_ray_cluster_has_the_job_s_nodes_and_cards_and_ends_with_it(
    jumar_program: str, slurm_cluster: Cluster, tmp_path: Path
) -> None:
    person = Person(jumar_program, slurm_cluster, tmp_path)
    person.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    spec = {"name": "ray", "command": ["python", "r.py"], "device": "npu:2", "nodes": 2, "type": "distributed",
            "launch": "ray", "grace": 5}  # fmt: skip
    (tmp_path / "job.yaml").write_text(json.dumps(spec))
    (tmp_path / "r.py").write_text(SCRIPT)
    job = person("run", "--engine", "slurm", "-f", "job.yaml").strip()
    folder = tmp_path / ".jumar/slurm/jobs" / job
    log = folder / "logs/node0/rank0.log"
    give_up_at = time.monotonic() + LIMIT_S
    while not (log.exists() and "lost" in log.read_text()):
        assert time.monotonic() < give_up_at, log.read_text() if log.exists() else "no log"
        assert not list(folder.glob("attempts/1/slurm.over.json")), log.read_text()
        time.sleep(0.5)
    # Ray itself has more to say, of cards that it misses.
    lines = log.read_text().splitlines()
    nodes, seen, lost = (line for line in lines if line.startswith(("nodes ", "[(", "lost ")))
    assert nodes == "nodes 2 NPU 4.0"
    cards = [(f"127.0.1.{node}", str(card)) for node in (1, 2) for card in (0, 1)]
    assert seen == str(cards)
    assert "Actor" in lost
    assert of_job(job)
    person("stop", job)
    assert person.wait(job, "stopped", "failed")["state"] == "stopped"
    assert of_job(job) == []
