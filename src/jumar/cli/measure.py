"""`jumar run --measure`: one segment of a training, and how many of them all of it needs."""

import shlex
import tempfile
import time
from pathlib import Path
from typing import Any

from jumar.cli.follow import Write, leave, summarise
from jumar.cli.output import clock, local, note, print_json, say
from jumar.client import Client, LogChunk
from jumar.errors import BadInput, JumarError
from jumar.spec.causes import Cause
from jumar.spec.records import JobRecord
from jumar.spec.recovery import ADVANCE_BYTES, ADVANCE_FILE, read_advance
from jumar.spec.states import JobState
from jumar.track.pace import Pace, pace_of


def prepared(values: dict[str, Any]) -> dict[str, Any]:
    """The job as one segment; refused without the limit that it is about."""
    if not values.get("time_limit"):
        raise BadInput(
            "--measure needs a time limit: it measures how much of the training fits into one",
            hint="for example: jumar run --measure --time-limit 1h -- python train.py",
        )
    if values.get("array") is not None:
        raise BadInput(
            "--measure measures one training, not an array", hint="leave out --measure or the array"
        )
    return {**values, "segments": 1, "measure": True}


def measure(
    client: Client, job_id: str, *, as_json: bool, write: Write | None = None, stops: bool = False
) -> int:
    """Wait for the segment, then tell; 1 if the job failed or its log counts nothing. `write`: where its
    log is followed; `stops`: Ctrl-C ends the job too."""
    try:
        lines, ended_here = _followed(client, job_id, write)
    except KeyboardInterrupt:
        leave(client, job_id, stop=stops)
        return 130
    ended = client.wait(job_id)
    if ended.state not in (JobState.SUCCEEDED, JobState.TIMED_OUT):
        summarise(ended)
        return 1
    command = ended.spec["command"]
    words = command if isinstance(command, str) else shlex.join(command)
    last = ended.attempts[-1] if ended.attempts else None
    is_cut = JobState.TIMED_OUT in (ended.state, None if last is None else last.state)
    # One that left of its own accord, to be run again, was cut in the middle of nothing.
    is_asked = is_cut and (last is None or last.cause != Cause.RUN_AGAIN)
    asked_at = ended_here - _stopping_s(ended) if is_asked else None
    pace = pace_of(lines, words, asked_at=asked_at)
    if pace is None:
        pace = pace_of(lines, words, asked_at=asked_at, reported=_reported(client, ended))
    if is_cut and last is not None and last.advanced is False:
        note(local("it saved no checkpoint, so each segment would begin anew"))
        note("hint: save in $JUMAR_CKPT_DIR, or give it a longer time limit")
    if pace is None:
        note(local("the log counts neither epochs nor steps, so nothing can be said"))
        note("hint: print lines such as: epoch 3/90")
        return 1
    took_s = (ended.finished_at or time.time()) - (ended.started_at or ended.created_at)
    segments = pace.segments if is_cut else 1
    ends_at = None if segments is None else time.time() + segments * took_s
    if as_json:
        told = {"job": ended.id, "unit": pace.unit, "fit": pace.done, "total": pace.total}
        print_json({**told, "segment_s": took_s, "segments": segments, "ends_at": ends_at})
        return 0
    _tell(pace, segments, ends_at, is_cut=is_cut)
    return 0


def _tell(pace: Pace, segments: int | None, ends_at: float | None, *, is_cut: bool) -> None:
    is_epochs, done = pace.unit == "epochs", pace.done
    if not is_cut:
        ended = local(
            "the training ended within one segment; epochs: {fit}"
            if is_epochs
            else "the training ended within one segment; steps: {fit}",
            fit=done,
        )
        say(ended)
        return
    fits = local(
        "epochs that fit into one segment: {fit}"
        if is_epochs
        else "steps that fit into one segment: {fit}",
        fit=done,
    )
    say(fits)
    if segments is None or ends_at is None:
        note(
            f"hint: neither the log nor the command says how many {pace.unit} there are in all; "
            f"a command with --{pace.unit} N does"
        )
        return
    needs = local(
        "segments needed for {total} epochs: {segments}"
        if is_epochs
        else "segments needed for {total} steps: {segments}",
        total=pace.total,
        segments=segments,
    )
    say(needs)
    ends = local("started now, it would end at {clock}", clock=clock(ends_at))
    say(local("{label}: {text}", label=ends, text=f"jumar run --segments {segments} …"))


def _followed(
    client: Client, job_id: str, write: Write | None
) -> tuple[list[tuple[float, str]], float]:
    """The lines of the log and when each came, and when it was over, by this machine's clock."""
    lines: list[tuple[float, str]] = []
    rest = ""
    for event in client.follow(job_id):
        if isinstance(event, LogChunk):
            now = time.time()
            if write is not None:
                write(event.text)
            # A progress bar begins anew with a carriage return.
            *whole, rest = (rest + event.text).replace("\r", "\n").split("\n")
            lines.extend((now, line) for line in whole)
    now = time.time()
    if rest:
        lines.append((now, rest))
    return lines, now


def _reported(client: Client, ended: JobRecord) -> int:
    """How many steps its libraries told the platform; 0 where they told none."""
    path = ADVANCE_FILE.format(number=ended.attempt)
    with tempfile.TemporaryDirectory() as folder:
        try:
            client.fetch(ended.id, path, Path(folder))
            found = next(Path(folder).rglob(Path(path).name), None)
            told = read_advance(b"" if found is None else found.read_bytes()[:ADVANCE_BYTES])
        except (JumarError, OSError):
            return 0
    return told.made if told.counter is None else told.step


def _stopping_s(ended: JobRecord) -> float:
    """How long it took to end after it was asked to, by the server's clock."""
    last = ended.attempts[-1] if ended.attempts else None
    if last is None or last.ending_at is None or last.finished_at is None:
        return 0.0
    return max(last.finished_at - last.ending_at, 0.0)
