"""What a user's own processes and files say of a job of Slurm on a site is heard with limits."""

import contextlib
import errno
import json
import socket
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from jumar.engine.base import Attempt, StartHindered
from jumar.engine.shared.files import Stages
from jumar.engine.site import slurm as site_slurm
from jumar.engine.site.slurm import SiteSlurmEngine, heard, is_told, understood
from jumar.engine.slurm.asking import Row, Slurm
from jumar.errors import EngineFailed, SubmitRefused
from jumar.root.program import Site
from jumar.spec.job import JobSpec
from jumar.spec.states import AttemptState
from jumar.store.users import UserStores
from jumar.words.reasons import cause_sentence


def test_a_launcher_that_says_too_much_is_not_listened_to() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:

        def flood() -> None:
            # It ends where nobody listens.
            with theirs, contextlib.suppress(OSError):
                theirs.sendall(b"x" * (1 << 20))

        thread = threading.Thread(target=flood, daemon=True)
        thread.start()
        with pytest.raises(EngineFailed, match="more than it should"):
            heard(ours)


def test_a_launcher_that_says_a_word_at_a_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_slurm, "_ANSWER_LIMIT_S", 0.3)
    ours, theirs = socket.socketpair()
    is_over = threading.Event()

    def drip() -> None:
        with theirs, contextlib.suppress(OSError):
            # Shorter than any limit between two words; in the end it is over anyhow.
            for _ in range(600):
                theirs.sendall(b" ")
                if is_over.wait(0.05):
                    return

    thread = threading.Thread(target=drip, daemon=True)
    with ours:
        thread.start()
        with pytest.raises(EngineFailed, match="does not answer"):
            heard(ours)
        is_over.set()
        thread.join()


@pytest.mark.parametrize("said", [b"", b"7", b"[]", b"\xff", b"[" * 100_000, b'{"trouble": [1]}'])
def test_whatever_a_launcher_says_has_an_end(said: bytes) -> None:
    with pytest.raises(EngineFailed):
        understood(said, ["sbatch"])


def test_long_words_of_a_launcher_are_cut() -> None:
    trouble = ["folder-closed", "x" * 9999, {"folder": "f" * 9999, "error": {"a": 1}}]
    with pytest.raises(StartHindered) as raised:
        understood(json.dumps({"trouble": trouble}).encode(), ["sbatch"])
    assert raised.value.values == {"folder": "f" * 500, "error": "{'a': 1}"}


class NoRows(Slurm):
    """A cluster that has no jobs."""

    def rows(self, name: str | None = None) -> list[Row]:
        return []


@dataclass(frozen=True)
class Somebody:
    name: str
    uid: int


def _account_of(user: str) -> Somebody:
    if user == "gone":
        raise SubmitRefused("gone has no account on this machine")
    return Somebody(user, 1234)


def _attempt(tmp_path: Path, job: str, user: str) -> Attempt:
    values = {"name": "x", "command": "true", "type": "distributed", "nodes": 2}
    spec = JobSpec.model_validate(values)
    return Attempt(
        job_id=job, number=1, segment=1, user=user, spec=spec, directory=tmp_path / job, cards=()
    )


def _engine(tmp_path: Path) -> SiteSlurmEngine:
    site = Site(
        server="jumar",
        state=str(tmp_path / "state"),
        run=str(tmp_path / "run"),
        root_run=str(tmp_path / "root"),
        launcher=["/nobody"],
        users=["*"],
        variables={},
        map={},
    )
    stages = Stages(UserStores(tmp_path))
    return SiteSlurmEngine(site, tmp_path, _account_of, stages=stages, slurm=NoRows())


def test_what_cannot_be_read_of_one_user_hides_no_job_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = _engine(tmp_path)
    read: list[str] = []

    def listed(job_id: str, _path: str) -> None:
        if job_id == "j000000001":
            raise OSError(errno.EIO, "a disk that fails")
        read.append(job_id)

    monkeypatch.setattr(engine.root_files, "listed", listed)
    attempts = [
        _attempt(tmp_path, f"j00000000{number}", user) for number, user in enumerate("abc", 1)
    ]
    seen = engine.observe(attempts)
    assert [one.job_id for one in seen] == [attempt.job_id for attempt in attempts]
    assert read == ["j000000002", "j000000003"]


def test_an_account_that_is_gone_hides_no_job_of_others_and_its_own_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = _engine(tmp_path)
    gone, there = (
        _attempt(tmp_path, "j000000001", "gone"),
        _attempt(tmp_path, "j000000002", "ann"),
    )
    seen = engine.observe([gone, there])
    assert [(one.job_id, one.state) for one in seen] == [("j000000002", AttemptState.STARTING)]
    monkeypatch.setattr(site_slurm, "GONE_LIMIT_S", 0.0)
    _, lost = engine.observe([gone, there])
    assert (lost.job_id, lost.state) == ("j000000001", AttemptState.LOST)
    told = cause_sentence(lost.cause, lost.values, "en")
    assert told is not None
    assert told.startswith("gone has no account on this machine")


@pytest.mark.parametrize(
    ("path", "is_read"),
    [
        ("slurm.json", True),
        ("node1/result.json", True),
        ("node2/result.json", False),
        ("node01/result.json", False),
        ("node9999/claim.json", False),
        ("code.tar", False),
    ],
)
def test_only_nodes_of_the_job_are_read(tmp_path: Path, path: str, is_read: bool) -> None:
    assert is_told(path, _attempt(tmp_path, "j000000001", "ann")) is is_read
