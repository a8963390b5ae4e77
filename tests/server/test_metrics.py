"""Metrics over REST: found in logs as they grow, whoever writes them."""

import json
import os
import re
import time
from pathlib import Path

import pytest
from tests.server.conftest import Running
from tests.server.test_webhooks import Chat
from tests.server.test_webhooks import chat as chat  # a fixture
from tests.track.events_file import event, record, simple, version
from tests.waiting import wait_for

from jumar.server.api.alerts import kept_alerts
from jumar.server.api.watching import Watch


def names(answer: object) -> dict[str, list[float | None]]:
    return {curve["name"]: curve["y"] for curve in json.loads(json.dumps(answer))["curves"]}


def test_a_log_that_grows_gives_more_points_and_nothing_new_is_no_content(running: Running) -> None:
    job = running.running_job(device="sim:2")
    address = f"/jobs/{job.id}/metrics"
    assert names(running.api("GET", address).json) == {}
    log = running.log_path(job.id)
    log.write_text("step 1 loss 0.5\nstep 2 loss 0.")
    first = running.api("GET", address).json
    assert names(first) == {"loss": [0.5]}
    assert running.api("GET", f"{address}?seen={first['revision']}").status == 204
    with log.open("a") as file:
        file.write("25\nstep 3 loss nan\n")
    more = running.api("GET", f"{address}?seen={first['revision']}").json
    assert names(more) == {"loss": [0.5, 0.25, None]}
    assert more["curves"][0]["not_finite_from"] == 3
    log.write_text("step 1 acc: 1\n")
    assert names(running.api("GET", address).json) == {"acc": [1]}


@pytest.mark.parametrize("what", ["metrics", "usage"])
def test_odd_questions_are_answered_alike_while_a_job_runs_and_afterwards(
    running: Running, what: str
) -> None:
    path = f"/jobs/{{}}/{what}"
    odd = ("seen=-1", "seen=x", "seen=1&seen=2", "user=bob", "seen=", "unknown=1", "points=1")
    odd = (*odd, "points=9999999", "axis=moon", "axis=time", "points=2&seen=7", "")
    ended = running.running_job()
    running.finish(ended.id)
    running.log_path(ended.id).write_text("step 1 loss 0.5\n")
    job = running.running_job()
    running.log_path(job.id).write_text("step 1 loss 0.5\n")
    for query in odd:
        now, then = (running.api("GET", f"{path.format(one.id)}?{query}") for one in (job, ended))
        assert (now.status, now.body) == (then.status, then.body), query
    for user, status in (("bob", 403), ("eve", 403), (None, 401), ("root", 200)):
        assert running.api("GET", path.format(job.id), user=user).status == status
    running.site.accounts.set_role("ann", "pending")
    assert running.api("GET", path.format(job.id)).status == 403


def test_a_long_log_is_read_over_several_questions(running: Running) -> None:
    job = running.running_job()
    with running.log_path(job.id).open("w") as file:
        file.writelines(f"{'#' * 4000}\n" for _ in range(5000))
        file.write("step 9 loss 0.5\n")
    asked = [running.api("GET", f"/jobs/{job.id}/metrics").json for _ in range(3)]
    assert [one["is_complete"] for one in asked] == [False, False, True]
    assert names(asked[-1]) == {"loss": [0.5]}


def test_what_only_the_last_rank_tells_is_found(running: Running) -> None:
    job = running.running_job(device="sim:2", ranks="device")
    running.log_path(job.id, 0).write_text("step 1 loss 1\n")
    running.log_path(job.id, 1).write_text("step 1 loss 2 acc 3\n")
    found = running.api("GET", f"/jobs/{job.id}/metrics").json["curves"]
    assert {(one["name"], one["log"], one["last"]) for one in found} == {("loss", "0-0", 1), ("acc", "0-1", 3)}  # fmt: skip


def test_jobs_are_compared_by_what_differs_and_as_csv(running: Running) -> None:
    jobs = [running.submit(name=f"run-{lr}", environment={"LR": lr, "SAME": "yes"}) for lr in "12"]
    for number, job in enumerate(jobs):
        running.log_path(job.id).write_text(f"step 1 loss {number}\n")
    query = "&".join(f"job={job.id}" for job in jobs)
    page = running.ask("GET", f"/compare?{query}").text
    assert "environment.LR" in page
    assert "environment.SAME" not in page
    running.finish(running.running_job(name="done").id)
    done = running.api("GET", "/jobs").json["jobs"][0]["id"]
    chinese = running.ask("GET", f"/compare?{query}&job={done}&lang=zh").text
    labels = [re.sub("<.*?>", "", one) for one in re.findall('<td class="muted">.*?</td>', chinese)]
    assert {"名称", "状态"} <= set(labels)
    assert ">已成功</code>" in chinese
    table = running.ask("GET", f"/compare/metrics.csv?{query}").text.splitlines()
    assert [line.split(",")[2:] for line in table[1:]] == [["loss", "step", "1.0", "0.0"], ["loss", "step", "1.0", "1.0"]]  # fmt: skip
    assert running.ask("GET", "/compare?" + "job=x&" * 20).status == 422
    added = running.ask("GET", f"/compare?job={jobs[0].id}&add={jobs[1].id}")
    assert added.headers["Location"] == f"/compare?{query}"


def test_runs_are_evaluated_in_ranges_and_shown_safely(running: Running) -> None:
    job = running.running_job(command=["python", "train.py", "--lr=0.1"])
    running.log_path(job.id).write_text("step 1 loss 0.5\nstep 2 loss 0.7\n")
    folder = running.log_path(job.id).parents[2] / "runs"
    folder.mkdir()
    (folder / "a.jsonl").write_text(
        '{"parameter": "lr", "value": 0.3}\n{"metric": "<b>loss", "value": 1, "step": 1}\n'
    )
    (folder / "b.jsonl").symlink_to("/etc/passwd")
    found = running.api("GET", f"/evaluation?job={job.id}").json["runs"]
    assert [(run["run"], run["parameters"]["lr"]) for run in found] == [("", 0.1), ("a", 0.3)]
    assert (found[0]["metrics"][0]["best"], found[0]["metrics"][0]["last"]) == (0.5, 0.7)
    page = running.ask("GET", f"/evaluation?job={job.id}&low.lr=0.2").text
    assert "&lt;b&gt;loss" in page
    assert "<b>loss" not in page
    for wrong in ("low.lr=x", "low.lr=2&high.lr=1"):
        assert running.ask("GET", f"/evaluation?job={job.id}&{wrong}").status == 422
    assert running.api("GET", "/evaluation?job=no-such").status == 404
    assert running.api("GET", "/evaluation?" + "job=x&" * 20).status == 422


@pytest.mark.parametrize(
    ("folders", "shown"), [(("exp",), [""]), (("exp", "other"), ["", "runs/exp", "runs/other"])]
)
def test_a_training_in_its_log_and_in_tensorboard_is_one_run(
    running: Running, folders: tuple[str, ...], shown: list[str]
) -> None:
    """Two of them may be other trainings than the one of the log."""
    job = running.running_job(name="both")
    running.log_path(job.id).write_text("step 1 loss 0.5 acc 0.1\nstep 9 loss 0.4 acc 0.2\n")
    told = [event(1.0 + at, at, simple("train/loss", 1 - at / 10)) for at in range(6)]
    records = (version(), *(record(one) for one in told))
    for name in folders:
        folder = job_folder(running, job.id) / "out/runs" / name
        written(folder / "events.out.tfevents.1.host", *records)
    runs = running.api("GET", f"/evaluation?job={job.id}").json["runs"]
    assert [one["run"] for one in runs] == shown
    counts = {one["name"]: one["count"] for one in runs[0]["metrics"]}
    assert counts == ({"loss": 2, "acc": 2} if shown[1:] else {"acc": 2, "train/loss": 6})


def job_folder(running: Running, job: str) -> Path:
    return running.log_path(job).parents[2]


def written(path: Path, *records: bytes, at: float = 0.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(b"".join(records))
    if at:
        os.utime(path, (at, at))


def test_event_files_anywhere_below_the_job_are_curves_as_they_grow(running: Running) -> None:
    job = running.running_job()
    root, address = job_folder(running, job.id), f"/jobs/{job.id}/metrics"
    begin = time.time()
    scalar = [record(event(begin + step, step, simple("loss", step))) for step in range(1, 9)]
    # Two files of one run, the second of which goes on from a checkpoint, in the midst of a data set.
    run = root / "code/runs/exp"
    written(run / "events.out.tfevents.1.host.7.0", version(), *scalar[:5])
    other = record(event(begin + 20, 4, simple("loss", 40)))
    written(run / "events.out.tfevents.2.host.8.0", version(), other)
    for number in range(1200):
        written(root / f"code/data/{number:04}.jpg", b"x")
    (root / "code/events.out.tfevents.link").symlink_to("/etc/passwd")
    found = running.api("GET", address).json
    (curve,) = found["curves"]
    assert (curve["x"], curve["y"]) == ([1, 2, 3, 4], [1, 2, 3, 40])
    assert (curve["run"], found["is_complete"]) == ("runs/exp", True)
    # A record that is half there is no reason to ask again at once.
    last = run / "events.out.tfevents.2.host.8.0"
    written(last, scalar[4], scalar[5][:30])
    grown = running.api("GET", f"{address}?seen={found['revision']}").json
    assert (grown["curves"][0]["x"], grown["is_complete"]) == ([1, 2, 3, 4, 5], True)
    written(last, scalar[5][30:])
    timed = running.api("GET", f"{address}?axis=time&points=4").json["curves"][0]
    assert timed["axis"] == "time"
    assert len(timed["x"]) == 4
    assert timed["x"] == sorted(timed["x"])
    assert running.api("GET", f"{address}?points=1").status == 422
    # Found by itself after a while, wherever it is.
    written(root / "out/board/events.out.tfevents.3.x", version(), *scalar)
    wait_for(
        lambda: (
            {one["run"] for one in running.api("GET", address).json["curves"]}
            == {"runs/exp", "board"}
        )
    )


def test_what_a_script_tells_is_before_its_log_and_no_secret_is_shown(running: Running) -> None:
    job = running.running_job(command=["python", "train.py", "--lr=0.1"])
    running.log_path(job.id).write_text("step 1 loss 0.5\nstep 1 acc 0.9\n")
    runs = job_folder(running, job.id) / "runs"
    runs.mkdir()
    (runs / "track-rank0.jsonl").write_text(
        '{"parameter": "batch", "value": 8}\n{"metrics": {"loss": 7}, "step": 1, "time": 1.0}\n'
    )
    (runs / "wandb-x.jsonl").write_text(
        '{"experiment": "exp"}\n{"parameter": "api_key", "value": "SECRET"}\n'
        '{"parameter": "max_tokens", "value": 5}\n{"metrics": {"train/loss": 3}, "step": 1}\n'
    )
    answer = running.api("GET", f"/jobs/{job.id}/metrics")
    told = {(one["name"], one["run"]): one["last"] for one in answer.json["curves"]}
    assert told == {("loss", ""): 7, ("acc", ""): 0.9, ("train/loss", "exp"): 3}
    assert "SECRET" not in answer.text
    found = running.api("GET", f"/evaluation?job={job.id}").json["runs"]
    assert [(one["run"], one["parameters"]) for one in found] == [
        ("", {"lr": 0.1, "batch": 8}),
        ("exp", {"lr": 0.1, "batch": 8, "max_tokens": 5}),
    ]


def test_what_is_wrong_with_a_training_is_shown_and_told_once(running: Running, chat: Chat) -> None:
    hook = {"kind": "dingtalk", "url": chat.url, "language": "en", "events": ["alert"]}
    assert running.api("POST", "/webhooks", body=hook, user="root").status == 201
    job, well = running.running_job("root", name="bad"), running.running_job("root", name="well")
    running.log_path(job.id).write_text("step 1 loss 0.5\nstep 7 loss nan\n")
    running.log_path(well.id).write_text("step 1 loss 0.5\nstep 7 loss 0.4 grad_norm inf\n")
    usage = running.site.service.sampler.alerts_path(job.id).with_name(f"{job.id}.jsonl")
    usage.parent.mkdir(exist_ok=True)
    rows = [[1000.0 + 2 * n, 0.0] for n in range(400)]
    columns = {"columns": [["use_pct", "3"]]}
    usage.write_text("\n".join(json.dumps(line) for line in (columns, *rows)) + "\n")
    for _ in range(2):
        Watch(running.site).look()
    wait_for(lambda: sum(text.count("/jobs/") for text in chat.texts()) >= 2)
    told = "\n".join(chat.texts())
    assert f"bad ({job.id}): loss is NaN or infinite from step 7 on" in told
    assert "card 3 has had nothing to do for 10 minutes" in told
    assert told.count("/jobs/") == 2
    alerts = running.api("GET", f"/jobs/{job.id}/metrics", user="root").json["alerts"]
    assert {one["kind"] for one in alerts} == {"not-finite", "idle-card"}
    assert all(one["since"] for one in alerts)
    assert {one["job"] for one in running.api("GET", "/alerts", user="root").json} == {job.id}
    assert running.api("GET", "/alerts", user="bob").json == []
    assert "is NaN or infinite" in running.ask("GET", "/alerts", user="root").text
    assert running.api("GET", f"/jobs/{well.id}/metrics", user="root").json["alerts"] == []
    # A file that somebody has spoilt is no alerts; that of a job that is removed goes with it.
    path = running.site.service.sampler.alerts_path(job.id)
    for spoilt in (b"\xff", b"[1]", b"{}", b'[{"kind": 1, "x": 2}]'):
        path.with_name("x").write_bytes(spoilt)
        assert kept_alerts(path.with_name("x")) == ()
    running.finish(job.id)
    assert running.api("DELETE", f"/jobs/{job.id}", user="root").status == 204
    wait_for(lambda: not path.exists())
