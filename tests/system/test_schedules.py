"""Whatever ends a training on the way, its final weights are the same to the bit."""

from pathlib import Path

from tests.system.schedules import Schedule, reference, tried


def test_faults_of_all_kinds_leave_the_weights_as_they_are(tmp_path: Path) -> None:
    expected = reference("plain", tmp_path / "quiet")
    faults = ((1, "rank"), (2, "tear"), (3, "server"), (5, "shard"), (6, "preempt"), (8, "reboot"))
    assert tried(Schedule(faults), tmp_path / "faults", expected) == []
