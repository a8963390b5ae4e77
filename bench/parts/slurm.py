"""A Slurm of our own on this machine: munged, slurmctld and one slurmd, all in one folder."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_CONFIG = """\
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=1000,sched_interval=5,bf_interval=1
ReturnToService=2
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={node} CPUs=16 RealMemory=4000
PartitionName=all Nodes=node1 Default=YES State=UP
"""


def missing_parts() -> list[str]:
    """Programs that are not installed, or rights that are not held."""
    wanted = ("slurmctld", "slurmd", "sbatch", "munged")
    missing = [name for name in wanted if shutil.which(name, path=_path()) is None]
    return missing if os.geteuid() == 0 else [*missing, "root"]


@contextmanager
def slurm(folder: Path) -> Generator[dict[str, str]]:
    """Run it; yields the environment for its commands."""
    ports = _free_ports(2)
    config = folder / "slurm.conf"
    config.write_text(
        _CONFIG.format(host=socket.gethostname(), folder=folder, controller=ports[0], node=ports[1])
    )
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o400)
    environment = {**os.environ, "SLURM_CONF": str(config), "PATH": _path()}
    daemons = [
        [
            *("munged", "--foreground", "--force", f"--socket={folder}/munge.socket"),
            *(f"--key-file={folder}/munge.key", f"--seed-file={folder}/munge.seed"),
            *(f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log"),
        ],
        ["slurmctld", "-D", "-c"],
        ["slurmd", "-D", "-N", "node1"],
    ]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for daemon in daemons:
            running.append(
                subprocess.Popen(
                    daemon,
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
            time.sleep(0.5)
        _wait_until_idle(environment)
        yield environment
    finally:
        for process in reversed(running):
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=20)


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin"


def _free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _wait_until_idle(environment: dict[str, str]) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        seen = subprocess.run(
            ["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True, timeout=30
        )
        if seen.stdout.strip() == "idle":
            return
        time.sleep(0.2)
    raise RuntimeError("Slurm did not become idle within 60 s")
