import queue
import socket
from pathlib import Path

import pytest

from jumar.jobs.hints import HintSocket
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.news import Journal


@pytest.mark.parametrize("depth", [1, 120], ids=["short", "longer than an address may be"])
def test_a_supervisor_is_heard_wherever_the_home_is(tmp_path: Path, depth: int) -> None:
    home = tmp_path / ("d" * depth)
    home.mkdir()
    told: queue.SimpleQueue[str] = queue.SimpleQueue()
    hints = HintSocket(home, told.put)
    hints.start()
    Journal(JobDir(str(home), 1), "k7x2m9q4tb", str(home / "notify.sock")).hint()
    assert told.get(timeout=180) == "k7x2m9q4tb"
    hints.close()


def test_datagrams_of_anything_end_no_listening(tmp_path: Path) -> None:
    told: queue.SimpleQueue[str] = queue.SimpleQueue()
    hints = HintSocket(tmp_path, told.put)
    hints.start()
    notify = str(tmp_path / "notify.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for words in (b"", b"[" * 4000, b"\xff", b"[]", b'{"job_id": 7}', b"{" * 3):
            sender.sendto(words, notify)
    Journal(JobDir(str(tmp_path), 1), "k7x2m9q4tb", notify).hint()
    assert told.get(timeout=180) == "k7x2m9q4tb"
    hints.close()


def test_nobody_listening_is_no_trouble(tmp_path: Path) -> None:
    for notify in (tmp_path / "notify.sock", tmp_path / "gone" / "notify.sock"):
        Journal(JobDir(str(tmp_path), 1), "k7x2m9q4tb", str(notify)).hint()
