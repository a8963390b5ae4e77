"""The bench's SeaweedFS once more, behind TLS and a line with latency."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from jumar.inject.moxing_path.jumar_s3 import S3
from jumar.store import weed
from jumar.store.credentials import Credential
from jumar.store.door import Door

ROUND_TRIP_S = 0.02
LINE = Path(__file__).parents[2] / "tests" / "store" / "slow_line.py"
_LIMIT_S = 60


def certificate(folder: Path) -> Path:
    """An authority, and beside it `server.pem` with its key, a certificate for localhost: some clients
    take no server that is its own authority."""
    ca, ca_key = folder / "ca.pem", folder / "ca-key.pem"
    _make("/CN=bench authority", ca, ca_key)
    extensions = ("basicConstraints=critical,CA:FALSE", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    signing = ["-CA", str(ca), "-CAkey", str(ca_key)]
    for extension in extensions:
        signing += ["-addext", extension]
    _make("/CN=localhost", folder / "server.pem", folder / "server-key.pem", *signing)
    return ca


def _make(subject: str, certificate: Path, key: Path, *more: str) -> None:
    words = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", subject)
    places = ("-keyout", str(key), "-out", str(certificate))
    subprocess.run(["openssl", *words, *places, *more], check=True, capture_output=True, timeout=60)


@contextmanager
def distant(door: Door, ca: Path) -> Generator[Credential]:
    """Its address over there; clients must trust `ca`."""
    ports = json.loads((door.folder / "ports.json").read_text())
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        port, grpc = one.getsockname()[1], two.getsockname()[1]
    gateway = subprocess.Popen(
        [
            *(weed.weed_program(), "-logtostderr=true", "s3", "-ip.bind=127.0.0.1"),
            f"-filer=127.0.0.1:{ports['filer']}.{ports['filer.grpc']}",
            *(f"-port={port}", f"-port.grpc={grpc}", "-port.iceberg=0", "-port.lance=0"),
            *("-iam=false", f"-config={door.folder / 's3.json'}"),
            f"-cert.file={ca.with_name('server.pem')}",
            f"-key.file={ca.with_name('server-key.pem')}",
        ],
        cwd=door.folder,
        env={},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    line = subprocess.Popen(
        [sys.executable, str(LINE), str(port), str(ROUND_TRIP_S)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert line.stdout is not None
        there = f"https://localhost:{int(line.stdout.readline())}"
        credential = replace(door.credential, endpoint=there)
        end = time.monotonic() + _LIMIT_S
        while not _answers(credential):
            if time.monotonic() > end:
                raise RuntimeError("SeaweedFS does not answer behind TLS")
            time.sleep(0.2)
        yield credential
    finally:
        for process in (line, gateway):
            process.kill()
            process.wait()


def _answers(credential: Credential) -> bool:
    try:
        return "bench" in S3(credential.wire()).buckets()
    except OSError:
        return False
