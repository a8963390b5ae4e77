"""Search over the whole log by the server, and the way to the first error."""

import os
from io import FileIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server.conftest import Running

from jumar.server.api import log_search
from jumar.server.api.log_search import Hit, Hits, offset_of_line, search
from jumar.server.api.open_log import OpenLog
from jumar.spec.states import AttemptState


def opened(path: Path, data: bytes) -> OpenLog:
    path.write_bytes(data)
    return OpenLog(FileIO(os.open(path, os.O_RDONLY)))


def all_hits(log: OpenLog, text: str, limit: int = 3) -> list[Hit]:
    """As a client asks for them, piece by piece."""
    place = Hits(hits=(), next_offset=0, next_line=1, size=1)
    found: list[Hit] = []
    while place.next_offset < place.size:
        place = search(log, text, start=place.next_offset, line=place.next_line, limit=limit)
        found += place.hits
    return found


def test_every_line_is_found_once_whatever_the_blocks_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"step {number} " + ("Needle" if number % 7 == 0 else "hay") for number in range(500)]
    log = opened(tmp_path / "log", "\n".join(lines).encode())
    for block in (64, 4096, 1 << 20):
        monkeypatch.setattr(log_search, "_BLOCK", block)
        found = all_hits(log, "needle")
        assert [hit.line for hit in found] == [n + 1 for n in range(500) if n % 7 == 0]
        assert all(log.read(hit.offset, 6) == b"Needle" for hit in found)
    assert found[1].before == ("step 5 hay", "step 6 hay")
    assert found[1].after == ("step 8 hay", "step 9 hay")
    log.close()


def test_colours_progress_bars_long_lines_and_chinese_are_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_search, "_BLOCK", 256)
    data = b"\x1b[32mlo\x1b[1mss\x1b[0m: 0.5\n" + b"x" * 1000 + b"deep" + b"y" * 1000 + b"\n"
    data += "10%\r20% 训练\r30%\n\xff\n".encode()
    log = opened(tmp_path / "log", data)
    assert [hit.text for hit in all_hits(log, "loss: 0.5")] == ["loss: 0.5"]
    (deep,) = all_hits(log, "deep")
    assert (deep.line, len(deep.text) < 700, "deep" in deep.text) == (2, True, True)
    assert [hit.text for hit in all_hits(log, "训练")] == ["20% 训练"]
    assert all_hits(log, "nowhere") == []
    log.close()


def test_a_text_that_lies_over_the_end_of_a_block_of_one_long_line_is_found_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_search, "_BLOCK", 16)
    log = opened(tmp_path / "log", b"a" * 13 + b"needle" + b"b" * 40)
    assert [hit.offset for hit in all_hits(log, "needle")] == [13]
    log.close()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([b"ab", b"a", b"b", b"", b"\x1b[1mab", b"cab"]), max_size=12))
def test_lines_are_found_as_grep_would(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    log = opened(tmp_path_factory.mktemp("grep") / "log", b"\n".join(lines))
    try:
        found = [hit.line for hit in all_hits(log, "AB", limit=2)]
        assert found == [number for number, line in enumerate(lines, 1) if b"ab" in line]
        for number in found:
            before = b"\n".join(lines[: number - 1])
            assert offset_of_line(log, number) == (len(before) + 1 if number > 1 else 0)
    finally:
        log.close()


def test_a_log_is_searched_over_rest_and_odd_questions_are_refused(shared: Running) -> None:
    job = shared.running_job()
    shared.log_path(job.id).write_text("one\n<b>two</b>\nthree two\n")
    place = f"/jobs/{job.id}/logs/0/0/search"
    answer = shared.api("GET", f"{place}?text=TWO&limit=1").json
    assert [(hit["line"], hit["text"]) for hit in answer["hits"]] == [(2, "<b>two</b>")]
    more = f"offset={answer['next_offset']}&line={answer['next_line']}"
    rest = shared.api("GET", f"{place}?text=TWO&{more}").json
    assert [hit["line"] for hit in rest["hits"]] == [3]
    assert rest["next_offset"] == rest["size"]
    for odd in ("?text=", "?text=x&offset=-1", "?text=x&limit=9999", "?text=x&line=0"):
        assert shared.api("GET", place + odd).status == 422, odd
    assert shared.api("GET", f"/jobs/{job.id}/logs/0/9/search?text=x").status == 404
    shared.site.service.stop(job.id)


def test_the_first_error_is_led_to_in_the_log_of_its_rank(shared: Running) -> None:
    job = shared.running_job(device="sim:2", ranks="device")
    shared.log_path(job.id, 0).write_text("fine\n" * 10)
    noise = "step\n" * 20_000
    trace = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nValueError: boom\n'
    shared.log_path(job.id, 1).write_text(noise + trace)
    shared.finish(job.id, AttemptState.FAILED, exit_code=1, reason="rank 1 exited with code 1")
    found = shared.api("GET", f"/jobs/{job.id}/logs/first-error").json
    assert (found["node"], found["rank"]) == (0, 1)
    led = shared.ask("GET", f"/jobs/{job.id}/error")
    assert led.status == 303
    assert f"log=0-1&at={found['offset']}" in led.headers["Location"]
    page = shared.ask("GET", led.headers["Location"].partition("#")[0]).text
    assert "ValueError: boom" in page
    assert "data-at" in page


def test_the_part_of_a_huge_log_that_is_asked_for_is_in_the_page(shared: Running) -> None:
    job = shared.running_job()
    lines = [f"line {number}\n" for number in range(30_000)]
    shared.log_path(job.id).write_text("".join(lines))
    at = len("".join(lines[:9000]))
    page = shared.ask("GET", f"/jobs/{job.id}?log=0-0&at={at}").text
    assert "line 9000\n" in page
    assert "line 29999\n" not in page
    shared.site.service.stop(job.id)
