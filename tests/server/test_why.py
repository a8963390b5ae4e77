"""Why a job failed: over REST, by the client, and on its page."""

import errno
import html
import re
import secrets
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Running

from jumar.client import Client
from jumar.engine.shared.jobfiles import SharedFiles
from jumar.errors import EngineFailed
from jumar.jobs import diagnosis
from jumar.spec.causes import Cause
from jumar.spec.records import FilePage, JobRecord
from jumar.spec.states import AttemptState
from jumar.spec.verdicts import Verdict
from jumar.why.apart import JobCode, judge_apart
from jumar.why.signs import Source

LOG = """step 1
Traceback (most recent call last):
  File "/u/train.py", line 12, in <module>
    import einops
ModuleNotFoundError: No module named 'einops<b>'
"""


def failed(shared: Running, log: str, **seen: Any) -> JobRecord:
    job = shared.running_job("ann", name=f"j-{secrets.token_hex(4)}")
    logs = shared.home / "jobs" / job.id / "logs/node0"
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "rank0.log").write_text(log)
    return shared.finish(job.id, AttemptState.FAILED, **(seen or {"exit_code": 1}))


def test_the_client_and_the_page_tell_it(shared: Running) -> None:
    job = failed(shared, LOG)
    with Client(shared.url, shared.token("ann")) as client:
        verdict = client.why(job.name)
    assert (verdict.cause, verdict.whose) == ("module-missing", "script")
    assert (verdict.evidence[0].file, verdict.evidence[0].line) == ("logs/node0/rank0.log", 5)
    english = shared.ask("GET", f"/jobs/{job.id}?lang=en").text
    assert "First fault" in english
    # What stands between backticks is shown as code.
    shown = re.sub(r"</?code>", "`", html.unescape(english))
    assert verdict.remedy["en"] in shown
    assert "einops&lt;b&gt;" in english
    assert verdict.what["zh"] in shared.ask("GET", f"/jobs/{job.id}?lang=zh").text
    assert shared.api("GET", f"/jobs/{job.id}/why", user="bob").status == 403


def test_the_page_says_where_to_look_if_the_fault_is_elsewhere(shared: Running) -> None:
    said = "torch/distributed/elastic/multiprocessing/api.py:9] failed (exitcode: 1) local_rank: 5 (pid: 26) of binary: python\n"
    job = failed(shared, said)
    with Client(shared.url, shared.token("ann")) as client:
        verdict = client.why(job.name)
    assert (verdict.cause, verdict.kind) == ("child-failed", "consequence")
    page = shared.ask("GET", f"/jobs/{job.id}?lang=en").text
    assert "Look next" in page
    assert "Remedy" not in page
    assert "接下来查看" in shared.ask("GET", f"/jobs/{job.id}?lang=zh").text


@pytest.mark.parametrize(
    ("cause", "values", "found", "what"),
    [
        (Cause.SIGNAL, {"signal": "SIGSEGV"}, "crash", "The command was killed by SIGSEGV."),
        (Cause.SIGNAL, {"signal": "SIGKILL", "rank": 1}, "killed", "Rank 1 was killed by SIGKILL."),
        (Cause.EXIT_CODE, {"code": 3}, None, "The command exited with code 3. Nothing that"),
        (Cause.NO_PROGRESS, {"segments": 2}, "no-progress", "2 segments in a row left no new"),
    ],
)
def test_what_the_platform_saw_is_told_where_logs_say_nothing(
    shared: Running, cause: Cause, values: dict[str, Any], found: str | None, what: str
) -> None:
    job = failed(shared, "step 1\n", cause=cause, values=values)
    with Client(shared.url, shared.token("ann")) as client:
        verdict = client.why(job.name)
    assert verdict.cause == found
    assert verdict.what["en"].startswith(what)
    assert verdict.remedy["zh"]


def test_logs_say_more_than_an_exit_code(shared: Running) -> None:
    job = failed(shared, LOG, cause=Cause.EXIT_CODE, values={"code": 1})
    with Client(shared.url, shared.token("ann")) as client:
        assert client.why(job.name).cause == "module-missing"


def test_many_who_ask_at_once_hold_up_no_other_page(
    shared: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for a place takes none of the threads that all pages are made in."""
    job, over = failed(shared, LOG), threading.Event()

    def slow(*_sources: Any, **_told: Any) -> Any:
        over.wait(60)
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr("jumar.jobs.diagnosis.judge_apart", slow)
    paths = [f"/api/v1/jobs/{job.id}/why", f"/jobs/{job.id}/error"] * 25
    with ThreadPoolExecutor(len(paths)) as pool:
        asked = [pool.submit(shared.ask, "GET", path) for path in paths]
        try:
            # So long that all have come.
            time.sleep(1.0)
            began = time.monotonic()
            assert shared.api("GET", f"/jobs/{job.id}/logs").status == 200
            assert time.monotonic() - began < 10
        finally:
            over.set()
        # Where no child can be started, that is said, and not kept.
        assert {one.result().status for one in asked} == {503}
    assert shared.ask("GET", f"/jobs/{job.id}").status == 200
    monkeypatch.undo()
    with Client(shared.url, shared.token("ann")) as client:
        assert client.why(job.name).cause == "module-missing"


SCRIPT = "def run(items):\n    for one in items:\n        loss = one\n    return loss\nrun([])\n"
STACK = (
    'Traceback (most recent call last):\n  File "{0}/train.py", line 5, in <module>\n    run([])\n'
    '  File "{0}/train.py", line 4, in run\n    return loss\n'
    "UnboundLocalError: cannot access local variable 'loss' where it is not associated with a value\n"
)


@pytest.mark.parametrize("is_copied", [True, False])
def test_the_script_of_a_job_is_read_where_it_ran(
    shared: Running, tmp_path: Path, *, is_copied: bool
) -> None:
    """The copy that was sent, or the folder that is not copied."""
    job = shared.running_job("ann", **({} if is_copied else {"workdir": str(tmp_path)}))
    folder = shared.home / "jobs" / job.id
    code = folder / "code" if is_copied else tmp_path
    for one in (code, folder / "logs/node0"):
        one.mkdir(parents=True, exist_ok=True)
    (code / "train.py").write_text(SCRIPT)
    (code / ".git").mkdir()
    (code / ".git" / "hook.py").touch()
    (folder / "logs/node0/rank0.log").write_text(STACK.format(code))
    shared.finish(job.id, AttemptState.FAILED, exit_code=1)
    with Client(shared.url, shared.token("ann")) as client:
        verdict = client.why(job.id)
    assert "only inside a loop" in verdict.what["en"]
    assert [one.file for one in verdict.evidence[1:]] == ["train.py", "train.py"]
    page = shared.ask("GET", f"/jobs/{job.id}?lang=en").text
    assert "train.py:2</code> for one in items:" in page


def test_no_link_in_the_code_is_followed_out_of_it(shared: Running, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    job = failed(shared, "")
    code = shared.home / "jobs" / job.id / "code"
    code.mkdir(exist_ok=True)
    (code / "train.py").symlink_to(tmp_path / "train.py")
    (code.parent / "logs/node0/rank0.log").write_text(STACK.format(code))
    with Client(shared.url, shared.token("ann")) as client:
        verdict = client.why(job.name)
    assert verdict.cause == "name-missing"
    assert [one.file for one in verdict.evidence] == ["logs/node0/rank0.log"]


@pytest.mark.parametrize("trouble", [PermissionError(13, "no"), EngineFailed("too many names")])
def test_code_that_cannot_be_listed_hides_no_log(
    shared: Running, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    job = failed(shared, LOG)
    listed = SharedFiles.entries

    def entries(self: SharedFiles, job_id: str, path: str, **given: Any) -> FilePage:
        if path == "code":
            raise trouble
        return listed(self, job_id, path, **given)

    monkeypatch.setattr(SharedFiles, "entries", entries)
    with Client(shared.url, shared.token("ann")) as client:
        assert client.why(job.name).cause == "module-missing"


def test_paths_as_long_as_a_job_can_make_them_are_not_handed_on(
    shared: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = failed(shared, LOG)
    folder = shared.home / "jobs" / job.id / "code" / "/".join(["n" * 200] * 3)
    folder.mkdir(parents=True)
    for one in (folder / "a.py", shared.home / "jobs" / job.id / "code/b.py"):
        one.touch()
    told: list[JobCode | None] = []

    def seen(sources: Sequence[Source], *, code: JobCode | None, **given: Any) -> Verdict:
        told.append(code)
        return judge_apart(sources, code=code, **given)

    monkeypatch.setattr(diagnosis, "judge_apart", seen)
    with Client(shared.url, shared.token("ann")) as client:
        client.why(job.name)
    assert [code and list(code.listed) for code in told] == [["b.py"]]
