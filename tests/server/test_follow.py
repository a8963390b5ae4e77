"""Following a log: every byte once, in order, until the job is over."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.server.conftest import Event, Running, events
from tests.waiting import wait_for

from jumar.server.api import follow
from jumar.server.api.open_log import Decoder
from jumar.spec.states import AttemptState, JobState

FOLLOWERS = 20


def stream(job_id: str, query: str = "") -> str:
    return f"/api/v1/jobs/{job_id}/logs/0/0/stream{query}"


def text_of(seen: list[Event]) -> str:
    return "".join(event.data["text"] for event in seen if event.name == "log")


@given(st.text(), st.lists(st.integers(0, 50)))
def test_text_cut_anywhere_comes_out_whole_and_offsets_are_bytes(
    text: str, cuts: list[int]
) -> None:
    data = text.encode("utf-8", "replace")
    decoder, out, place = Decoder(100), "", 0
    for cut in cuts:
        out += decoder.feed(data[place : place + cut])
        place = min(len(data), place + cut)
        assert decoder.offset == 100 + len(out.encode())
    out += decoder.feed(data[place:], final=True)
    assert out == data.decode()
    assert decoder.offset == 100 + len(data)


def test_a_finished_job_is_sent_whole_and_ends(running: Running) -> None:
    job = running.running_job()
    text = "".join(f"Zeile {number} – 进度 ✓\n" for number in range(20_000))
    running.log_path(job.id).write_text(text)
    running.finish(job.id, AttemptState.FAILED, reason="exited with code 3")
    with running.open(stream(job.id)) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        seen = list(events(answer))
    assert text_of(seen) == text
    assert seen[0] == Event(
        "state", {"state": "failed", "cause": None, "values": {}, "reason": "exited with code 3"}
    )
    assert seen[-1] == Event("end", {"state": "failed"})
    logs = [event for event in seen if event.name == "log"]
    assert len(logs) > 5
    assert logs[-1].id == str(len(text.encode()))
    for before, after in pairwise(logs):
        assert before.id == str(after.data["offset"])


def test_a_stream_goes_on_from_the_last_event_id(running: Running) -> None:
    job = running.running_job()
    text = "".join(f"行 {number}\n" for number in range(20_000))
    running.log_path(job.id).write_text(text)
    running.finish(job.id)
    with running.open(stream(job.id)) as answer:
        first = next(event for event in events(answer) if event.name == "log")
    assert first.id is not None
    with running.open(stream(job.id, "?tail=1"), headers={"Last-Event-ID": first.id}) as answer:
        rest = list(events(answer))
    assert first.data["text"] + text_of(rest) == text
    bad = running.ask("GET", stream(job.id), headers={"Last-Event-ID": "x"})
    assert bad.status == 422


def test_a_live_log_arrives_while_it_is_written(running: Running) -> None:
    job = running.submit(device="sim:8")
    with running.open(stream(job.id)) as answer:
        incoming = events(answer)
        assert next(incoming).name == "state"
        running.wait(job.id, JobState.RUNNING)
        log = running.log_path(job.id)
        with log.open("ab", buffering=0) as file:
            file.write("half é".encode()[:-1])
            received = next(event for event in incoming if event.name == "log")
            assert received.data == {"text": "half ", "offset": 0}
            assert received.id == "5"
            file.write("é".encode()[1:] + b" end\n")
            received = next(event for event in incoming if event.name == "log")
            assert received.data["text"] == "é end\n"
            file.write(b"last\n")
            running.finish(job.id)
        rest = list(incoming)
    assert text_of(rest) == "last\n"
    assert rest[-1] == Event("end", {"state": "succeeded"})
    assert (
        Event("state", {"state": "succeeded", "cause": None, "values": {}, "reason": None}) in rest
    )


def test_many_follow_one_log_that_is_open_once_and_each_gets_every_byte_once(
    running: Running,
) -> None:
    job = running.running_job()
    log = running.log_path(job.id)
    lines = [f"行 {number} – ✓\n" for number in range(600)]
    written = "".join(lines).encode()
    third, most = len("".join(lines[:200]).encode()), len("".join(lines[:400]).encode())
    log.write_bytes(written[:third])
    # From the beginning, from the middle, from the end of what is there, and from where it will end.
    begins = [0, 0, len(lines[0].encode()), third, most]
    texts: dict[int, str] = {}
    heard = [threading.Event() for _ in begins]

    def follow(number: int, begin: int) -> None:
        with running.open(stream(job.id, f"?offset={begin}")) as answer:
            said: list[Event] = []
            for event in events(answer):
                said.append(event)
                heard[number].set()
            texts[number] = text_of(said)

    threads = [threading.Thread(target=follow, args=pair) for pair in enumerate(begins)]
    for thread in threads:
        thread.start()
    for one in heard:
        assert one.wait(180)
    with log.open("ab", buffering=0) as file:
        # Cut inside of characters too.
        for place in range(third, len(written), 1009):
            file.write(written[place : place + 1009])
            opened = [link for link in Path("/proc/self/fd").iterdir() if _leads_to(link, log)]
            assert len(opened) <= 2, "this test's and the server's"
    running.finish(job.id)
    for thread in threads:
        thread.join(timeout=180)
    assert texts == {n: written[begin:].decode() for n, begin in enumerate(begins)}
    # A read that was under way has it for a moment longer.
    wait_for(lambda: not any(_leads_to(link, log) for link in Path("/proc/self/fd").iterdir()))


def _leads_to(link: Path, file: Path) -> bool:
    try:
        return link.readlink() == file
    except FileNotFoundError:
        return False


def test_who_asks_for_what_is_not_written_yet_keeps_nobody_from_the_log(running: Running) -> None:
    job = running.running_job()
    log = running.log_path(job.id)
    log.write_text("first\n")
    with (
        running.open(stream(job.id, "?offset=1000000")) as early,
        running.open(stream(job.id)) as usual,
    ):
        waiting, incoming = events(early), events(usual)
        assert next(waiting).name == next(incoming).name == "state"
        assert next(incoming).data["text"] == "first\n"
        for text in ("second\n", "third\n"):
            with log.open("a") as file:
                file.write(text)
            assert next(incoming).data["text"] == text
        running.finish(job.id)
        assert [event.name for event in incoming] == ["state", "end"]
        assert [event.name for event in waiting] == ["state", "end"]


def test_however_many_logs_are_followed_looking_at_them_has_a_limit(running: Running) -> None:
    pause_s: Callable[[], float] = vars(follow)["_pause_s"]
    with ExitStack() as stack:
        stack.enter_context(follow.followed(running.site, "one", 0, 0))
        assert pause_s() == follow.POLL_S
        for number in range(5000):
            stack.enter_context(follow.followed(running.site, f"job{number}", 0, 0))
        assert 5000 / pause_s() <= follow.MOST_LOOKS


def test_following_the_tail_begins_some_lines_before_the_end(running: Running) -> None:
    job = running.running_job()
    running.log_path(job.id).write_text("".join(f"{number}\n" for number in range(100)))
    running.finish(job.id)
    with running.open(stream(job.id, "?tail=2")) as answer:
        assert text_of(list(events(answer))) == "98\n99\n"
    with running.open(stream(job.id, "?offset=280")) as answer:
        assert text_of(list(events(answer))) == "96\n97\n98\n99\n"[2:]


def test_a_job_that_is_stopped_before_it_ran_ends_the_stream(running: Running) -> None:
    running.running_job(device="sim:8")
    job = running.submit(device="sim:8")
    with running.open(stream(job.id)) as answer:
        incoming = events(answer)
        assert next(incoming).data["state"] == "queued"
        running.site.service.stop(job.id)
        assert [event.name for event in incoming] == ["state", "end"]


def test_a_server_that_ends_lets_followers_go(running: Running) -> None:
    job = running.running_job()
    running.log_path(job.id).write_text("line\n")
    all_follow = threading.Barrier(FOLLOWERS + 1)
    ended: list[str] = []

    def follow() -> None:
        with running.open(stream(job.id)) as answer:
            incoming = events(answer)
            assert next(incoming).name == "state"
            all_follow.wait(180)
            # A stream that is cut off, and not ended, raises here.
            ended.extend(event.name for event in incoming if event.name != "log")
        ended.append("let go")

    threads = [threading.Thread(target=follow) for _ in range(FOLLOWERS)]
    for thread in threads:
        thread.start()
    all_follow.wait(180)
    running.server.end()
    for thread in threads:
        thread.join(timeout=180)
    assert ended == ["let go"] * FOLLOWERS
