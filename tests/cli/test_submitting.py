"""Several jobs in one command, arrays, branches, all ranks, names behind TAB, mistyped words."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.rows.conftest import commit_all

from jumar.client.git_refs import commit_of
from jumar.errors import BadInput

Jumar = Callable[..., "subprocess.CompletedProcess[str]"]


def test_stop_does_what_it_can_and_names_the_rest(jumar: Jumar) -> None:
    jobs = [jumar("run", "--name", "halts", "--", "sleep", "600").stdout.strip() for _ in range(2)]
    told = jumar("stop", jobs[0], "no-such-job", jobs[1], rc=2)
    assert "error: no job 'no-such-job'" in told.stderr
    for job in jobs:
        assert f"halts ({job}) is sto" in told.stderr
    over = json.loads(jumar("run", "-F", "--json", "--", "true").stdout)["id"]
    again = jumar("stop", over, "--json", rc=2)
    assert (json.loads(again.stdout), "has already ended" in again.stderr) == ([], True)


def test_an_array_that_is_followed_has_failed_when_one_of_it_has(jumar: Jumar) -> None:
    script = "echo index $JUMAR_ARRAY_INDEX; test $JUMAR_ARRAY_INDEX != 6"
    done = jumar("run", "--array", "5-7", "-F", "--", "bash", "-c", script, rc=1)
    assert done.stdout.splitlines() == ["index 5", "index 6", "index 7"]
    assert jumar("logs", "-f", "bash").stdout == done.stdout
    assert jumar("logs", "bash-6").stdout == "index 6\n"
    assert json.loads(jumar("show", "bash-7", "--json").stdout)["array_index"] == 7
    refused = jumar("run", "--after", "bash-6", "--", "true", rc=2).stderr
    assert "would never start" in refused
    assert "any:" in refused


def test_an_array_has_one_name_one_line_and_one_end(jumar: Jumar) -> None:
    command = ("--", "bash", "-c", "echo index $JUMAR_ARRAY_INDEX; sleep 600")
    array = jumar("run", "--array", "3-5%1", "--name", "grid", *command).stdout.strip()
    after = jumar("run", "--after", "grid", "--name", "after-grid", "--", "true").stdout.strip()
    folded = [line.split()[:2] for line in jumar("jobs").stdout.splitlines()]
    assert [array, "grid[4-5]"] in folded
    assert f"waits for {array} to succeed" in jumar("show", after).stdout
    jobs = json.loads(jumar("jobs", "--json").stdout)
    ids = {job["array_index"]: job["id"] for job in jobs if job["array_id"] == array}
    assert json.loads(jumar("show", f"{array}-5", "--json").stdout)["id"] == ids[5]
    jumar("stop", "grid-5")
    states = [json.loads(jumar("show", ids[n], "--json").stdout)["state"] for n in (4, 5)]
    assert states == ["queued", "stopped"], "one of it, by its name"
    assert jumar("stop", array).stderr.startswith(f"grid ({array}): 1 stopping, 2 stopped")
    jumar("logs", "-f", f"{array}-3")
    ended = json.loads(jumar("show", after, "--json").stdout)
    assert (ended["state"], ended["cause"]) == ("stopped", "after-failed")
    assert ended["values"] == {"job": array}


def test_all_ranks_in_one_log(jumar: Jumar) -> None:
    words = ("--device", "sim:2", "--ranks", "device", "--name", "ranks", "--")
    jumar("run", *words, "bash", "-c", "echo I am $RANK; printf half")
    told = jumar("logs", "-f", "ranks", "--rank", "all").stdout.splitlines()
    expected = [f"[rank {rank}] {line}" for rank in (0, 1) for line in (f"I am {rank}", "half")]
    assert sorted(told) == sorted(expected)
    assert jumar("logs", "ranks", "--rank", "all", "-n", "1").stdout.splitlines() == expected[1::2]
    lines = jumar("logs", "ranks", "--rank", "all", "--json").stdout.splitlines()
    assert json.loads(lines[0]) == {"node": 0, "rank": 0, "text": "I am 0"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_jobs_and_devices(jumar: Jumar, shell: str) -> None:
    jumar("run", "--name", "completes-me", "-F", "--", "true")

    def offered(*words: str) -> str:
        typed = words[-1]
        at = typed if shell == "fish" else str(len(words) - 1)
        return jumar(
            _JUMAR_COMPLETE=f"{shell}_complete", COMP_WORDS=" ".join(words), COMP_CWORD=at
        ).stdout

    assert "completes-me" in offered("jumar", "stop", "comp")
    assert "sim:2" in offered("jumar", "run", "--device", "si")
    assert "sim" not in offered("jumar", "run", "--device", "np")


@pytest.mark.parametrize(
    ("words", "guess"),
    [(("stpo",), "jumar stop"), (("data", "psuh"), "push"), (("run", "--devcie"), "--device")],
)
def test_a_mistyped_word_is_guessed(jumar: Jumar, words: tuple[str, ...], guess: str) -> None:
    assert guess in jumar(*words, rc=2).stderr


def test_a_branch_or_tag_is_the_commit_that_it_was(jumar: Jumar, tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    repository.mkdir()
    (repository / "train.py").write_text("print('first')\n")
    commit = commit_all(repository).rpartition("@")[2]
    git = ["git", "-C", str(repository), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["branch", "feature/x"], ["tag", "-a", "v1", "-m", "one"], ["tag", "both"]):
        subprocess.run([*git, *words], check=True, timeout=60)
    url = f"file://{repository}"
    made = jumar("run", "--code", f"git+{url}@feature/x", "--json", "--", "python", "train.py")
    assert json.loads(made.stdout)["spec"]["code"] == {"git": url, "commit": commit, "ref": None}
    (tmp_path / "job.yaml").write_text(
        f"name: tagged\ncommand: [python, train.py]\ncode: {{git: '{url}', ref: v1}}\n"
    )
    assert jumar("run", "-f", "job.yaml", "-F").stdout == "first\n"
    (repository / "train.py").write_text("print('second')\n")
    subprocess.run([*git, "commit", "-qam", "more"], check=True, timeout=60)
    subprocess.run([*git, "branch", "both"], check=True, timeout=60)
    with pytest.raises(BadInput, match="both a branch and a tag"):
        commit_of(url, "both")
    assert commit_of(url, "refs/tags/both") == commit
    told = jumar("run", "--code", f"git+{url}@nowhere", "--", "true", rc=2).stderr
    assert "has no branch or tag 'nowhere'" in told
    with pytest.raises(BadInput) as caught:
        commit_of("http://name:secret@127.0.0.1:9/x", "main")
    assert "secret" not in str(caught.value)


def test_the_name_of_an_array_means_all_of_it(jumar: Jumar) -> None:
    script = 'test "$JUMAR_ARRAY_INDEX" && echo index $JUMAR_ARRAY_INDEX'
    jumar("run", "--array", "1-4%3", "--name", "many", "-F", "--", "bash", "-c", script)
    jumar("jobs", "rm", "many-3")
    again = jumar("rerun", "many", "-F")
    assert again.stdout.splitlines() == ["index 1", "index 2", "index 4"]
    alone = json.loads(jumar("rerun", "many-2", "--json").stdout)
    assert (alone["array_index"], alone["spec"]["array"]) == (2, "2%3")
    jumar("logs", "-f", alone["id"])
    shown = jumar("show", alone["id"], LC_ALL="zh_CN.UTF-8").stdout.splitlines()
    assert f"任务数组     {alone['array_id']}，序号 2" in shown
    whole = [job for job in _named(jumar, "many") if job["array_id"] != alone["array_id"]]
    newest = max(whole, key=lambda job: job["created_at"])["array_id"]
    assert jumar("jobs", "rm", newest).stderr == "removed 3 jobs\n"
    assert sum(job["array_id"] == newest for job in _named(jumar, "many")) == 0
    # By now the newest of that name is an array of one.
    assert jumar("jobs", "rm", "many").stderr == "removed 1 job\n"
    assert jumar("jobs", "rm", "many").stderr == "removed 3 jobs\n"


def test_places_are_shown_as_they_are_given(jumar: Jumar, tmp_path: Path) -> None:
    words = ("--input", f"data={tmp_path}", "--output", "a=x", "--output", "b=y")
    job = jumar("run", *words, "--hang-limit", "1m", "--", "true").stdout.strip()
    shown = jumar("show", job).stdout.splitlines()
    assert {f"inputs       data={tmp_path}", "outputs      a=x, b=y"} <= set(shown)
    assert any(line.startswith("note         hang_limit has no effect") for line in shown)
    assert "不起作用" in jumar("show", job, LC_ALL="zh_CN.UTF-8").stdout


def test_a_command_about_one_job_says_which_of_an_array_it_takes(jumar: Jumar) -> None:
    script = "echo accuracy: 0.$JUMAR_ARRAY_INDEX | tee out.txt; false"
    command = ("--name", "picked", "--", "bash", "-c", script)
    array = jumar("run", "--array", "1-2", "-F", *command, rc=1).stderr
    array = array.partition("(")[2].partition(")")[0]
    for words in (("show", "--json"), ("files",), ("why",), ("get",)):
        for name in ("picked", array):
            told = jumar(words[0], name, *words[1:]).stderr.splitlines()[0]
            assert re.match(f"{name} is an array: this is about {name}-[12] [(]", told), words
        assert "is an array" not in jumar(words[0], "picked-1", *words[1:]).stderr
    assert "is an array" in jumar("exec", "picked", "true", rc=2).stderr
    runs = json.loads(jumar("eval", "picked", "--json").stdout)["runs"]
    assert len({run["job"] for run in runs}) == 2, "a comparison is of all of it"


def test_a_measured_job_is_followed(jumar: Jumar) -> None:
    words = ("--time-limit", "1m", "--measure", "--follow", "--", "echo", "epoch 2/2")
    assert jumar("run", *words).stdout.startswith("epoch 2/2\nthe training ended within one")


def _named(jumar: Jumar, name: str) -> list[Any]:
    jobs = json.loads(jumar("jobs", "--all", "--json").stdout)
    return [job for job in jobs if job["name"] == name]
