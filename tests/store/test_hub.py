"""Repositories as a store, where this machine fails or somebody calls it off."""

import hashlib
import json
import socket
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO

import pytest

from jumar.errors import StorageFull
from jumar.inject.moxing_path.jumar_s3 import Stopped
from jumar.store.base import Entry
from jumar.store.folder import FolderStore
from jumar.store.hub import HubServer, HubStore
from jumar.store.transfer.from_hub import fetch_from_hub
from jumar.store.transfer.records import Options, Progress

WHOLE = b"w" * (3 << 20)
TOLD = {"sha": "c" * 40, "lastModified": "2026-01-01T00:00:00+00:00"}
ENTRY = Entry("model.ckpt", len(WHOLE), 1.0, hashlib.sha256(WHOLE).hexdigest())


class _Hub(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = WHOLE if "/resolve/" in self.path else json.dumps(TOLD).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def store() -> Generator[HubStore]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at = ("127.0.0.1", server.server_port)
    try:
        reach = HubServer("localhost", lambda: (socket.create_connection(at, timeout=60), ""))
        yield HubStore(reach, "model/ann/lenet@main")
    finally:
        server.shutdown()
        server.server_close()


def test_a_full_disk_is_not_taken_for_a_server_that_is_away(
    store: HubStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def on_a_full_disk(_: str) -> BinaryIO:
        return Path("/dev/full").open("wb")

    monkeypatch.setattr("jumar.store.folder._new_file", on_a_full_disk)
    folder, progress = FolderStore(str(tmp_path), f"{tmp_path}/"), Progress()
    with pytest.raises(StorageFull):
        fetch_from_hub(store, ENTRY, folder, "model.ckpt", Options(), progress)
    assert progress.bytes == 0


def test_what_is_called_off_ends_with_the_next_block(store: HubStore, tmp_path: Path) -> None:
    folder, progress = FolderStore(str(tmp_path), f"{tmp_path}/"), Progress()
    progress.stop.set()
    with pytest.raises(Stopped):
        fetch_from_hub(store, ENTRY, folder, "model.ckpt", Options(), progress)
    assert not list(tmp_path.iterdir())
    progress.stop.clear()
    fetch_from_hub(store, ENTRY, folder, "model.ckpt", Options(), progress)
    assert (tmp_path / "model.ckpt").read_bytes() == WHOLE
    assert progress.bytes == len(WHOLE)
