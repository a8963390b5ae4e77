"""What it cost to go on is an addition: a job is shown without it where it cannot be read."""

import json
from pathlib import Path

import pytest

from jumar.engine.shared.jobfiles import Roots, SharedFiles
from jumar.engine.site.asking import Root
from jumar.engine.site.files import RootFiles
from jumar.jobs.going_on import GoingOn
from jumar.jobs.noted import checkpoint_notes
from jumar.spec.records import AttemptRecord
from jumar.spec.states import AttemptState


def test_attempts_are_shown_while_root_does_not_answer(tmp_path: Path) -> None:
    (tmp_path / "state/control/j123456789/1").mkdir(parents=True)
    files = RootFiles(tmp_path / "state", tmp_path, Roots(), Root(tmp_path / "nobody"))
    attempts = tuple(
        AttemptRecord(
            number=number,
            state=AttemptState.FAILED,
            created_at=100.0 * number,
            started_at=100.0 * number + 8.0,
            finished_at=100.0 * number + 50.0,
        )
        for number in (1, 2, 3)
    )
    shown = GoingOn(files).added("j123456789", attempts)
    assert [one.number for one in shown] == [1, 2, 3]
    assert shown[2].recovery is not None
    assert (shown[2].recovery.start_s, shown[2].recovery.repeated_steps) == (8.0, None)


@pytest.mark.parametrize(
    "line",
    [
        b'{"attempt": 2, "event": "checkpoint"',
        b'["checkpoint"]',
        b'{"attempt": "2", "event": "checkpoint", "words": "x"}',
        b'{"attempt": 2, "event": "checkpoint", "words": 7}',
        b'{"attempt": 2, "event": "other", "words": "checkpoint"}',
        b'"checkpoint"' + b"[" * 100_000,
    ],
)
def test_notes_of_checkpoints_are_read_whatever_the_job_wrote(line: bytes, tmp_path: Path) -> None:
    told = {"attempt": 2, "event": "checkpoint", "words": "set aside:\n/x\ud800"}
    directory = tmp_path / "jobs" / "j123456789"
    directory.mkdir(parents=True)
    (directory / "events.jsonl").write_bytes(line + b"\n" + json.dumps(told).encode() + b"\n")
    files = SharedFiles(tmp_path / "jobs")
    ((number, notes),) = checkpoint_notes(files, "j123456789").items()
    assert number == 2
    assert len(notes) == 1
    assert notes[0].startswith("set aside: /x")
    notes[0].encode("utf-8")
