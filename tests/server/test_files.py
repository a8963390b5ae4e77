"""The files of a job, listed and brought by the client, from a server that is real in all but its jobs."""

import os
import secrets
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from tests.server.conftest import LIMIT_S, Running

from jumar.client import Client
from jumar.client.connection import Call, job_call
from jumar.client.fetching import Fetched
from jumar.errors import JobFileNotFound, StorageFull
from jumar.launch.jobdir import browse
from jumar.spec.records import JobFile

BIG = os.urandom(300_000)


@pytest.fixture
def client(shared: Running) -> Generator[Client]:
    with Client(shared.url, shared.token("ann")) as made:
        yield made


@pytest.fixture
def job(shared: Running) -> str:
    return shared.submit("ann", name=f"j-{secrets.token_hex(4)}").id


@pytest.fixture
def folder(shared: Running, job: str) -> Path:
    """The folder of a job with some results."""
    made = shared.home / "jobs" / job
    (made / "attempts/1").mkdir(parents=True)
    (made / "attempts/1/store.json").write_text("a secret key")
    (made / "job.json").write_text("a secret")
    (made / "out/model").mkdir(parents=True)
    (made / "out/model/big.bin").write_bytes(BIG)
    (made / "out/empty").mkdir()
    (made / "out/权重 %2F#?.txt").write_text("odd name")
    (made / "logs/node0").mkdir(parents=True)
    (made / "logs/node0/rank0.log").write_text("line\n")
    (made / "latest").symlink_to("out/model")
    return made


def paths(found: Iterator[JobFile]) -> list[str]:
    return [entry.path for entry in found]


def ask(shared: Running, job: str, path: str, **headers: str) -> tuple[int, bytes, str]:
    address = f"/jobs/{job}/files/content?path={quote(path)}"
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = shared.api("GET", address, headers=sent)
    return answer.status, answer.body, answer.headers.get("ETag", "")


def test_all_is_listed_but_what_is_the_platforms(client: Client, job: str, folder: Path) -> None:
    expected = [
        "latest",
        "logs",
        "logs/node0",
        "logs/node0/rank0.log",
        "out",
        "out/empty",
        "out/model",
        "out/model/big.bin",
        "out/权重 %2F#?.txt",
    ]
    assert paths(client.files(job)) == expected
    # A page that ends anywhere is followed by the rest.
    for limit in (1, 2, 3):
        found: list[str] = []
        while True:
            after = found[-1] if found else ""
            rows = client._connection.json(  # pyright: ignore[reportPrivateUsage] - pages of this size
                _page(job, after, limit)
            )
            found += [row["path"] for row in rows["files"]]
            if rows["next_after"] is None:
                break
        assert found == expected
    # Through a link that stays inside, the place is the real one.
    assert paths(client.files(job, "latest/")) == ["out/model/big.bin"]


def _page(job: str, after: str, limit: int) -> Call:
    query = {"after": after, "limit": limit}
    return job_call("GET", job, "/files", query=query, repeatable=True)


@pytest.mark.parametrize(
    "path",
    [
        *("job.json", "attempts/1/store.json", "x/../job.json", "out/../attempts/1/store.json"),
        *("..", "../../jumar.db", "/etc/passwd", "leaves", "leaves/passwd", "up/jumar.db", "loop"),
        *("pipe", "out", "nothing", "latest/big.bin/x", "a/" * 300, "x" * 300),
        "hidden/1/store.json",
    ],
)
def test_nothing_but_the_jobs_own_plain_files_is_read(
    shared: Running, job: str, folder: Path, path: str
) -> None:
    (folder / "leaves").symlink_to("/etc")
    (folder / "up").symlink_to("../../")
    (folder / "loop").symlink_to("loop")
    (folder / "hidden").symlink_to(folder / "attempts")
    os.mkfifo(folder / "pipe")
    status, body, _ = ask(shared, job, path)
    assert (status, b"secret" in body) == (404, False)


def test_links_inside_and_outputs_elsewhere_are_read(
    shared: Running, client: Client, folder: Path, tmp_path: Path
) -> None:
    outputs, ckpt = tmp_path / "results", tmp_path / "ckpt"
    (outputs / "deep").mkdir(parents=True)
    (outputs / "deep/model.pt").write_text("weights")
    (outputs / "again").symlink_to(outputs / "deep")
    ckpt.mkdir()
    made = shared.submit("ann", outputs={"train_url": str(outputs)}, ckpt=str(ckpt)).id
    own = shared.home / "jobs" / made
    (own / "out").mkdir(parents=True)
    (own / "out/train_url").symlink_to(outputs)
    (own / "ckpt").symlink_to(ckpt)
    (own / "code").symlink_to(own / "out")
    assert "out/train_url/deep/model.pt" in paths(client.files(made))
    for path in ("out/train_url/deep/model.pt", "out/train_url/again/model.pt"):
        assert ask(shared, made, path)[:2] == (200, b"weights")
    assert ask(shared, made, "code/train_url/deep/model.pt")[:2] == (200, b"weights")


def test_ranges_and_conditions(shared: Running, job: str, folder: Path) -> None:
    path = "out/model/big.bin"
    status, body, etag = ask(shared, job, path)
    assert (status, body) == (200, BIG)
    assert ask(shared, job, path, Range="bytes=100-199")[:2] == (206, BIG[100:200])
    rest = {"Range": "bytes=299999-"}
    assert ask(shared, job, path, If_Match=etag, **rest)[:2] == (206, BIG[-1:])
    assert ask(shared, job, path, If_Range=etag, **rest)[:2] == (206, BIG[-1:])
    assert ask(shared, job, path, Range="bytes=300000-")[0] == 416
    (folder / path).write_bytes(BIG + b"more")
    assert ask(shared, job, path, If_Match=etag, **rest)[0] == 412
    assert ask(shared, job, path, If_Range=etag, **rest)[:2] == (200, BIG + b"more")


def test_all_is_brought_and_a_second_call_brings_only_what_is_new(
    client: Client, job: str, folder: Path, tmp_path: Path
) -> None:
    (folder / "out/away").symlink_to("/etc/passwd")
    (folder / "out/up").symlink_to("../../x")
    (folder / "out/own").symlink_to(folder / "out/model")
    (folder / "out/sly").symlink_to(folder / "../../x")
    os.mkfifo(folder / "out/pipe")
    os.mkfifo(os.fsencode(folder / "out") + b"/\xff\xfe")
    first = client.fetch(job, folder=tmp_path)
    assert (first.files, first.already_here, first.failed) == (3, 0, [])
    odd = ["out/\\udcff\\udcfe", "out/away", "out/pipe", "out/sly", "out/up"]
    assert sorted(one.path for one in first.left_out) == odd
    assert (tmp_path / "out/model/big.bin").read_bytes() == BIG
    assert (tmp_path / "out/权重 %2F#?.txt").read_text() == "odd name"
    assert (tmp_path / "latest").readlink() == Path("out/model")
    assert (tmp_path / "out/own").readlink() == Path("model")
    assert (tmp_path / "out/empty").is_dir()
    assert not list(tmp_path.rglob("*.part"))
    (folder / "logs/node0/rank0.log").write_text("line\nline\n")
    second = client.fetch(job, folder=tmp_path)
    assert (second.files, second.already_here, second.bytes) == (1, 2, 10)


def test_one_file_and_one_folder_go_where_people_expect(
    client: Client, job: str, folder: Path, tmp_path: Path
) -> None:
    client.fetch(job, "out/model/big.bin", tmp_path)
    client.fetch(job, "latest", tmp_path)
    client.fetch(job, "out/", tmp_path)
    for place in ("big.bin", "latest/big.bin", "out/model/big.bin"):
        assert (tmp_path / place).read_bytes() == BIG
    with pytest.raises(JobFileNotFound):
        client.fetch(job, "nothing", tmp_path)


def test_the_folder_here_is_not_left_through_links(
    client: Client, job: str, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here/out").symlink_to(tmp_path / "elsewhere")
    brought = client.fetch(job, folder=tmp_path / "here")
    assert not list((tmp_path / "elsewhere").iterdir())
    assert {one.path for one in brought.failed} >= {"out/model/big.bin"}
    assert (tmp_path / "here/logs/node0/rank0.log").exists()


def test_what_has_no_room_here_is_refused_at_once(
    client: Client, job: str, folder: Path, tmp_path: Path
) -> None:
    with (folder / "out/sparse").open("wb") as file:
        file.truncate(1 << 43)
    with pytest.raises(StorageFull):
        client.fetch(job, "out/sparse", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_cut_is_gone_on_with_and_a_change_begins_anew(
    shared: Running, job: str, folder: Path, tmp_path: Path
) -> None:
    """Through a wire that breaks after so many bytes, again and again."""
    with _cutting(shared, 70_000) as url, Client(url, shared.token("ann")) as client:
        brought = client.fetch(job, "out/model/big.bin", tmp_path)
    assert (tmp_path / "big.bin").read_bytes() == BIG
    assert brought.failed == []
    assert brought.bytes == len(BIG)
    # A part of an older version is of no use.
    with _cutting(shared, 70_000, most=1) as url, Client(url, shared.token("ann")) as client:
        (tmp_path / "again").mkdir()
        cut = _cut(client, job, tmp_path / "again")
    assert [one.path for one in cut.failed] == ["out/model/big.bin"]
    assert len(list((tmp_path / "again").iterdir())) == 1
    (folder / "out/model/big.bin").write_bytes(BIG[::-1])
    with Client(shared.url, shared.token("ann")) as client:
        client.fetch(job, "out/model/big.bin", tmp_path / "again")
    assert (tmp_path / "again/big.bin").read_bytes() == BIG[::-1]


def _cut(client: Client, job: str, folder: Path) -> Fetched:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jumar.client.fetching._MOST_TRIES", 1)
        patch.setattr(client._connection, "patience_s", 0.1)  # pyright: ignore[reportPrivateUsage]
        return client.fetch(job, "out/model/big.bin", folder)


@contextmanager
def _cutting(shared: Running, after: int, most: int = 1000) -> Generator[str]:
    """A way to the server on which each connection breaks after so many bytes of an answer; of none at
    all once `most` have broken."""
    place, cuts = urlsplit(shared.url), 0
    listener = socket.create_server(("127.0.0.1", 0))

    def carry(near: socket.socket) -> None:
        nonlocal cuts
        if cuts >= most:
            near.close()
            return
        with near, socket.create_connection((place.hostname, place.port), timeout=LIMIT_S) as far:
            threading.Thread(target=_pump, args=(near, far, 1 << 40), daemon=True).start()
            cuts += _pump(far, near, after)

    def accept() -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=carry, args=(near,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with closing(listener):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def _pump(source: socket.socket, target: socket.socket, most: int) -> bool:
    """Whether it ended because it was too much."""
    try:
        while most > 0:
            block = source.recv(min(65536, most))
            if not block:
                return False
            target.sendall(block)
            most -= len(block)
    except OSError:
        return False
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
    return True


def test_a_folder_with_too_many_names_and_one_too_deep_are_said(
    client: Client, job: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browse, "MOST_NAMES", 5)
    for number in range(6):
        (folder / f"out/empty/{number}").touch()
    with pytest.raises(JobFileNotFound, match="more than 5"):
        list(client.files(job, "out/empty"))
    monkeypatch.setattr(browse, "MOST_DEPTH", 2)
    kinds = {entry.path: entry.kind for entry in client.files(job, "logs")}
    assert kinds == {"logs/node0": "other"}
