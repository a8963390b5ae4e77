"""Files in and out without git: by commands, from the browser, as a zip file; what pages show of them."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
import io
import json
import struct
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.hub.conftest import Hubbed

from jumar.client import Client, downloaded
from jumar.errors import BadInput, NotAllowed, NotFound

TENSORS = {"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {}}


def test_files_go_up_once_and_come_down_as_a_zip(hub: Hubbed, tmp_path: Path) -> None:
    head = json.dumps(TENSORS).encode()
    model = tmp_path / "downloaded"
    (model / "sub").mkdir(parents=True)
    (model / ".cache/huggingface").mkdir(parents=True)
    (model / ".cache/huggingface/notes").write_text("x")
    (model / "w.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + b"\0" * 24)
    (model / "README.md").write_text("---\nlicense: mit\n---\n# Hi\n")
    (model / "sub/rows.jsonl").write_text('{"a": 1, "b": "<b>x"}\n{"a": 2}\n')
    (model / "link.txt").symlink_to("README.md")
    pq.write_table(pa.table({"label": [1, 2, 3]}), model / "rows.parquet")
    assert downloaded.read(model).kind == "model"
    repo = hub.repo("sent", kind="model")
    sent: list[str] = []
    with Client(hub.running.url, hub.running.token("ann")) as client:
        files = downloaded.files_below(model)
        made = client.upload_files(repo, files, on_sent=sent.append)
        again = client.upload_files(repo, files, on_sent=sent.append)
    assert made.commit == again.commit
    # Of two files with one content only one was sent, and neither again.
    assert sorted(sent) == ["README.md", "rows.parquet", "sub/rows.jsonl", "w.safetensors"]
    listed = hub.running.ask("GET", "/hf/api/models/ann/sent/tree/main?recursive=true").json
    assert {one["path"] for one in listed if "lfs" in one} == {"w.safetensors", "rows.parquet"}
    page = "/repos/model/ann/sent"
    answer = hub.running.ask("GET", f"{page}/folder")
    with zipfile.ZipFile(io.BytesIO(answer.body)) as zipped:
        assert zipped.testzip() is None
        assert set(zipped.namelist()) == {*files, ".gitattributes"}
        assert zipped.read("w.safetensors") == (model / "w.safetensors").read_bytes()
    part = hub.running.ask("GET", f"{page}/folder?path=sub")
    with zipfile.ZipFile(io.BytesIO(part.body)) as zipped:
        assert zipped.namelist() == ["rows.jsonl"]
    for path, words in (
        ("w.safetensors", ("F32", "2 x 3", "24")),
        ("sub/rows.jsonl", ("<th>a</th>", "&lt;b&gt;x")),
        ("rows.parquet", ("<th>label</th>", "<td>3</td>", "3 / 3")),
    ):
        shown = hub.running.ask("GET", f"{page}?path={path}").text
        assert all(word in shown for word in words), path
    assert 'id="repo-upload"' in hub.running.ask("GET", page).text
    assert 'id="repo-upload"' not in hub.running.ask("GET", page, user="bob").text


def test_hostile_files_cost_the_page_nothing(hub: Hubbed, tmp_path: Path) -> None:
    repo = hub.repo("odd", kind="dataset")
    contents = {
        "a.safetensors": b"\xff" * 8 + b"{}",
        "b.safetensors": struct.pack("<Q", 5) + b"[" * 100,
        "c.safetensors": struct.pack("<Q", 9) + b'{"a": [1]}',
        "d.jsonl": b"[" * 100_000,
        "e.jsonl": b"\xff\xfe{}",
        "f.parquet": b"PAR1" + b"\xff" * 500 + b"PAR1",
        "g.parquet": b"",
        "h.safetensors": b"",
    }
    files: dict[str, Path] = {}
    for name, content in contents.items():
        files[name] = tmp_path / name
        files[name].write_bytes(content)
    with Client(hub.running.url, hub.running.token("ann")) as client:
        client.upload_files(repo, files)
    for name in contents:
        shown = hub.running.ask("GET", f"/repos/dataset/ann/odd?path={name}")
        assert shown.status == 200, name
    assert not list((hub.running.home / "hub/spool").iterdir())


def test_who_may_not_write_sends_nothing(hub: Hubbed, tmp_path: Path) -> None:
    repo = hub.repo("closed", kind="model")
    (tmp_path / "a.txt").write_text("a")
    with Client(hub.running.url, hub.running.token("bob")) as client:
        for ask in (
            lambda: client.missing_objects(repo, {"a" * 64: 1}),
            lambda: client.send_object(repo, io.BytesIO(b"a"), 1),
            lambda: client.commit_objects(repo, {"a": "a" * 64}),
        ):
            try:
                ask()
            except NotAllowed:
                continue
            raise AssertionError("was let in")
    for files, words in (({"../x": "a" * 64}, "path"), ({"x": "a" * 64}, "was not uploaded")):
        body = {"files": files}
        answer = hub.running.api("POST", "/repos/model/ann/closed/commits", body=body)
        assert answer.status == 422
        assert words in answer.text


def test_a_cache_of_hugging_face_is_known(tmp_path: Path) -> None:
    cached = tmp_path / "datasets--Org--rows-1"
    for sha in ("a", "b"):
        (cached / "snapshots" / sha).mkdir(parents=True)
        (cached / "snapshots" / sha / "x.csv").write_text(sha)
    (cached / "refs").mkdir()
    (cached / "refs/main").write_text("a\n")
    found = downloaded.read(cached)
    assert (found.kind, found.name, found.folder.name) == ("dataset", "rows-1", "a")
    (tmp_path / "empty").mkdir()
    assert downloaded.read(tmp_path / "empty").kind == ""
    try:
        downloaded.files_below(tmp_path / "none")
    except BadInput:
        return
    raise AssertionError("found what is not there")


def test_a_repository_without_a_commit_says_that_it_is_empty(hub: Hubbed) -> None:
    hub.repo("bare", kind="project")
    with Client(hub.running.url, hub.running.token("ann")) as client, pytest.raises(NotFound) as no:
        client.submit({"name": "a", "command": "true", "code": "hub://project/ann/bare"})
    assert no.value.message == "the repository is empty"
    assert no.value.hint == "push or upload something to it first"
