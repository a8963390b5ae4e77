"""Metrics over REST: found in logs as they grow, whoever writes them."""

import json

from tests.server.conftest import Running


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
