"""What it cost to go on is an addition: a job is shown without it where it cannot be read."""

from pathlib import Path

from jumar.engine.shared.jobfiles import Roots
from jumar.engine.site.asking import Root
from jumar.engine.site.files import RootFiles
from jumar.jobs.going_on import GoingOn
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
