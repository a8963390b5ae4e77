"""The folder that `jumar slurm setup` writes: files for every host, and scripts that put them in place."""

import os
import secrets
import shlex
import socket
from collections.abc import Sequence
from pathlib import Path

from jumar.errors import BadInput
from jumar.site.cluster.configs import Cluster, Places, cgroup_conf, gres_conf, slurm_conf
from jumar.site.cluster.hosts import Host
from jumar.wholefile import write_whole

_KEY_BYTES = 1024
_LOCAL_CARDS = 8
_LOCAL_CORES = 16
_LOCAL_MEMORY_MB = 8000
_SCRIPTS = Path(__file__).parent / "scripts"


def make_for_hosts(folder: Path, destinations: Sequence[str], hosts: Sequence[Host]) -> list[Path]:
    """All files for a cluster of these hosts; gives what was written."""
    _check_new(folder)
    cluster = Cluster(name="jumar", hosts=hosts, places=Places())
    written = _write_configs(folder, cluster)
    cgroups = folder / "cgroup.conf"
    write_whole(cgroups, cgroup_conf())
    values = {
        "HOSTS": shlex.join(destinations),
        "CONTROLLER": shlex.quote(destinations[0]),
        "COUNT": str(len(hosts)),
    }
    scripts = [_script(folder, name, values) for name in ("install.sh", "check.sh")]
    return [*written, cgroups, *scripts]


def make_local(folder: Path, count: int) -> list[Path]:
    """A cluster of several nodes on this machine, with cards that are plain files: for a trial."""
    if os.geteuid() != 0:
        raise BadInput(
            "--local needs root: slurmd runs as root", hint="sudo jumar slurm setup --local"
        )
    _check_new(folder)
    folder = folder.absolute()
    if len(str(folder)) > 80:
        raise BadInput(f"the path {folder} is too long for a socket", hint="use a shorter --output")
    for name in ("state", "spool", "log", "run", "munge", "dev"):
        (folder / name).mkdir()
    devices = [folder / "dev" / f"davinci{number}" for number in range(_LOCAL_CARDS)]
    for device in devices:
        device.touch()
    controller, *ports = _free_ports(count + 1)
    places = Places(
        state=str(folder / "state"),
        spool=f"{folder}/spool/%n",
        logs=str(folder / "log"),
        runs=str(folder / "run"),
        user="root",
        munge_socket=str(folder / "munge" / "socket"),
        controller_port=controller,
    )
    hosts = [
        Host(
            name=f"node{number}",
            # Of its own, as that of a host: rank tables tell nodes apart by it.
            address=f"127.0.1.{number}",
            cores=_LOCAL_CORES,
            memory_mb=_LOCAL_MEMORY_MB,
            npus=tuple(map(str, devices)),
            port=port,
            hostname=socket.gethostname(),
        )
        for number, port in enumerate(ports, start=1)
    ]
    cluster = Cluster(name="jumar", hosts=hosts, places=places, on_one_machine=True)
    written = _write_configs(folder, cluster)
    for host in hosts:
        (folder / "spool" / host.name).mkdir()
    values = {"FOLDER": shlex.quote(str(folder)), "NODES": " ".join(host.name for host in hosts)}
    scripts = [_script(folder, name, values) for name in ("start.sh", "stop.sh")]
    return [*written, *scripts]


def _check_new(folder: Path) -> None:
    """A key that is in use must not be replaced by the way."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_empty = not any(folder.iterdir())
    except OSError as error:
        raise BadInput(f"--output: {folder} cannot be used: {error.strerror}") from error
    if not is_empty:
        raise BadInput(f"--output: {folder} is not empty", hint="name a folder that does not exist")


def _write_configs(folder: Path, cluster: Cluster) -> list[Path]:
    texts = {"slurm.conf": slurm_conf(cluster), "gres.conf": gres_conf(cluster)}
    for name, text in texts.items():
        write_whole(folder / name, text)
    key = folder / "munge.key"
    descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(_KEY_BYTES))
    return [*(folder / name for name in texts), key]


def _script(folder: Path, name: str, values: dict[str, str]) -> Path:
    text = (_SCRIPTS / name).read_text("utf-8")
    for word, value in values.items():
        text = text.replace(f"@{word}@", value)
    path = folder / name
    write_whole(path, text)
    path.chmod(0o755)
    return path


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
