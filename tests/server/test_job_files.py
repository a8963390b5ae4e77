"""Files of a job in a browser: folders, previews, and nothing that a job wrote acts as a page of ours."""

import json
import struct
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server.conftest import Running

from jumar.server.web import job_files
from jumar.server.web.preview import Preview, preview

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def looked(name: str, data: bytes) -> Preview:
    return preview(name, len(data), lambda offset, count: data[offset : offset + count])


def tensors(header: object, body: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


@pytest.fixture(scope="module")
def place(shared: Running) -> tuple[str, Path]:
    job = shared.running_job()
    folder = shared.home / "jobs" / job.id
    (folder / "out" / "deep").mkdir(parents=True)
    return job.id, folder


def test_each_kind_of_file_is_shown_as_what_it_is() -> None:
    assert looked("a.png", PNG).kind == "image"
    assert looked("evil.png", b"<svg onload=alert(1)>").kind == "text"
    table = looked("m.csv", b"step,loss\n1,0.5\n2,0.25\n")
    assert (table.kind, table.rows) == ("table", (("step", "loss"), ("1", "0.5"), ("2", "0.25")))
    assert looked("m.csv", b"a,b\n" + b"1,2\n" * 999).is_cut
    assert looked("c.json", b'{"a":1}').text == '{\n  "a": 1\n}'
    assert looked("c.json", b"{broken").text == "{broken"
    assert looked("log.txt", b"x" * 300_000).is_cut
    assert looked("weights.bin", b"\0\1\2").kind == "none"
    header = {"__metadata__": {"format": "pt"}, "w": {"dtype": "F32", "shape": [2, 3]}}
    known = looked("m.safetensors", tensors(header, bytes(24)))
    assert (known.kind, known.parameters, known.notes) == ("tensors", 6, (("format", "pt"),))
    assert known.rows == (("w", "F32", "2 × 3"),)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["a.safetensors", "a.csv", "a.json", "a.png", "a.txt"]),
    st.one_of(
        st.binary(max_size=200),
        st.binary(max_size=60).map(lambda data: struct.pack("<Q", len(data)) + data),
        st.recursive(
            st.one_of(st.none(), st.integers(), st.text(max_size=5)),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3),
                st.dictionaries(st.text(max_size=12), inner, max_size=3),
            ),
            max_leaves=6,
        ).map(tensors),
    ),
)
def test_no_file_however_odd_makes_a_preview_fail(name: str, data: bytes) -> None:
    assert looked(name, data).kind in ("image", "text", "table", "tensors", "none")


def test_folders_are_listed_level_by_level_and_files_are_shown(
    shared: Running, place: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    job, folder = place
    (folder / "out" / "loss.csv").write_text(f"step,{EVIL}\n1,2\n")
    for number in range(12):
        (folder / "out" / "deep" / f"ckpt{number}.txt").write_text("x")
    (folder / "out" / EVIL.replace("/", "")).write_text(EVIL)
    monkeypatch.setattr(job_files, "_PAGE_ROWS", 3)
    top = shared.ask("GET", f"/jobs/{job}/files").text
    assert "out/" in top
    assert "ckpt1" not in top
    listed = shared.ask("GET", f"/jobs/{job}/files?path=out").text
    assert "loss.csv" in listed
    assert "deep/" in listed
    assert "ckpt1" not in listed
    assert "ckpt11.txt" in shared.ask("GET", f"/jobs/{job}/files?path=out/deep").text
    shown = shared.ask("GET", f"/jobs/{job}/files?path=out/loss.csv").text
    for page in (
        listed,
        shown,
        shared.ask("GET", f"/jobs/{job}/files?path=out/{quote(EVIL.replace('/', ''))}").text,
    ):
        assert "<script>alert" not in page
        assert "<img src=x" not in page
    assert shared.ask("GET", f"/jobs/{job}/files?path=../..").status == 404


def test_only_images_are_sent_as_what_they_are_and_in_a_sandbox(
    shared: Running, place: tuple[str, Path]
) -> None:
    job, folder = place
    (folder / "plot.png").write_bytes(PNG)
    (folder / "page.html").write_text(EVIL)
    (folder / "evil.png").write_text("<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>")
    image = shared.ask("GET", f"/jobs/{job}/files/raw?path=plot.png")
    assert (image.status, image.body, image.headers["Content-Type"]) == (200, PNG, "image/png")
    assert "sandbox" in image.headers["Content-Security-Policy"]
    assert image.headers["X-Content-Type-Options"] == "nosniff"
    for name in ("page.html", "evil.png", "none.png"):
        assert shared.ask("GET", f"/jobs/{job}/files/raw?path={name}").status == 404
