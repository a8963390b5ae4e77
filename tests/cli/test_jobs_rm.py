"""`jumar jobs rm`, on a server of its own: it removes by age too."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import environment_for

Jumar = Callable[..., "subprocess.CompletedProcess[str]"]


def ended(jumar: Jumar, name: str = "job") -> str:
    return json.loads(jumar("run", "--name", name, "-F", "--json", "--", "true").stdout)["id"]


def listed(jumar: Jumar) -> set[str]:
    return {job["id"] for job in json.loads(jumar("jobs", "--all", "--json").stdout)}


def test_named_jobs_go_and_each_that_is_refused_is_named(fresh_jumar: Jumar) -> None:
    first, second = ended(fresh_jumar, "first"), ended(fresh_jumar, "second")
    runs = fresh_jumar("run", "--", "sleep", "600").stdout.strip()
    refused = fresh_jumar("jobs", "rm", runs, "zzzzzzzzzz", "first", first, rc=2)
    assert "error: no job 'zzzzzzzzzz'" in refused.stderr
    assert "only jobs that have ended are removed" in refused.stderr
    assert f"hint: end it first: jumar stop {runs}" in refused.stderr
    assert refused.stderr.endswith("removed 1 job\n")
    assert listed(fresh_jumar) == {second, runs}
    removed = json.loads(fresh_jumar("jobs", "rm", second, "--json").stdout)
    assert [job["id"] for job in removed] == [second]
    assert listed(fresh_jumar) == {runs}
    fresh_jumar("stop", runs)


def test_all_that_ended_long_ago_go(fresh_jumar: Jumar) -> None:
    jobs = {ended(fresh_jumar) for _ in range(2)}
    assert fresh_jumar("jobs", "rm", "--older-than", "30d").stderr == "no jobs to remove\n"
    assert listed(fresh_jumar) == jobs
    assert fresh_jumar("jobs", "rm", "--older-than", "1s", "--user", "nobody").stderr == (
        "no jobs to remove\n"
    )
    # Longer than that.
    fresh_jumar("run", "-F", "--", "sleep", "1.1")
    removed = json.loads(fresh_jumar("jobs", "rm", "--older-than", "1s", "--json").stdout)
    assert {job["id"] for job in removed} >= jobs
    assert not jobs & listed(fresh_jumar)


@pytest.mark.parametrize(
    "words", [(), ("job", "--older-than", "1d"), ("--older-than", "soon"), ("job", "--user", "ann")]
)
def test_wrong_words_remove_nothing(jumar: Jumar, words: tuple[str, ...]) -> None:
    assert jumar("jobs", "rm", *words, rc=2).stderr.startswith("error: ")


@pytest.mark.parametrize(("answer", "rc"), [(b"n\n", 130), (b"y\n", 0)])
def test_at_a_terminal_it_asks(
    jumar: Jumar, jumar_program: str, live_home: Path, answer: bytes, rc: int
) -> None:
    job = ended(jumar, "asked")
    keyboard, terminal = os.openpty()
    process = subprocess.Popen(
        [jumar_program, "jobs", "rm", job],
        env=environment_for(live_home),
        stdin=terminal,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(terminal)
    os.write(keyboard, answer)
    _, stderr = process.communicate(timeout=180)
    os.close(keyboard)
    assert f"{job}  asked (" in stderr
    assert "Remove 1 job and everything in" in stderr
    assert process.returncode == rc
    assert (job in listed(jumar)) == (rc != 0)
