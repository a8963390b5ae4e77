"""What administrators see and do in a browser, and how jobs are tagged, sorted and ported from their pages."""

import re
from urllib.parse import urlencode

from tests.server.conftest import Running
from tests.waiting import wait_for

from jumar.jobs.holds import Holds
from jumar.jobs.roster import Roster
from jumar.spec.states import AttemptState, JobState

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def post(running: Running, path: str, body: str = "", user: str = "ann") -> int:
    return running.ask("POST", path, user=user, body=body.encode(), headers=FORM).status


def test_every_change_is_in_the_audit_log_and_no_question_or_secret(shared: Running) -> None:
    job = shared.submit(device="sim:8")
    assert post(shared, f"/jobs/{job.id}/stop") == 303
    assert shared.api("POST", "/tokens", body={"label": "ci"}).status == 201
    assert shared.api("POST", "/jobs", body={"name": "x"}).status == 422
    assert post(shared, "/submit/check", "name=x") == 200
    assert post(shared, "/admin/users/bob/role", "role=member", user="root") == 303

    def told() -> list[tuple[str, str, str]]:
        found = shared.api("GET", "/audit", user="root").json
        return [(one["user"], one["method"], one["path"]) for one in found]

    wanted = [
        ("root", "POST", "/admin/users/bob/role"),
        ("ann", "POST", "/api/v1/tokens"),
        ("ann", "POST", f"/jobs/{job.id}/stop"),
    ]
    # An answer is sent before it is written down.
    wait_for(lambda: told()[:3] == wanted)
    assert shared.api("GET", "/audit?user=root&limit=1", user="root").json[0]["user"] == "root"
    page = shared.ask("GET", "/admin/audit?user=ann", user="root").text
    assert f"/jobs/{job.id}/stop" in page
    assert "bob/role" not in page


def test_a_drain_is_begun_and_ended_on_the_page(shared: Running) -> None:
    assert post(shared, "/admin/drain", "why=%3Cb%3Enew+cards&hours=2h", user="root") == 303
    page = shared.ask("GET", "/admin/cards", user="root").text
    assert "&lt;b&gt;new cards" in page
    assert shared.site.service.draining.now() is not None
    assert post(shared, "/admin/drain", "hours=soon", user="root") == 422
    assert post(shared, "/admin/drain/end", user="root") == 303
    assert shared.site.service.draining.now() is None


def test_who_was_never_approved_is_rejected_for_good(running: Running) -> None:
    assert post(running, "/admin/users/eve/reject", user="root") == 303
    assert running.api("GET", "/me", user="eve").status == 401
    assert running.api("DELETE", "/users/eve", user="root").status == 404
    assert running.api("DELETE", "/users/bob", user="root").status == 409


def test_jobs_are_tagged_and_sorted_and_those_that_run_stay_on_the_first_page(
    running: Running,
) -> None:
    first = running.running_job(name="bbb", device="sim:8")
    others = [running.submit(name=name, device="sim:8").id for name in ("ccc", "aaa", "ddd")]
    assert post(running, f"/jobs/{others[0]}/tags", "tags=night,+best night") == 303
    tagged = running.api("GET", "/jobs?tag=night").json
    assert [(job["id"], job["tags"]) for job in tagged["jobs"]] == [(others[0], ["best", "night"])]
    assert tagged["counts"] == {"queued": 1}
    assert running.api("PUT", f"/jobs/{first.id}/tags", body={"tags": ["<b>"]}).status == 422
    assert running.api("PUT", f"/jobs/{first.id}/tags", body={"tags": ["x"] * 65}).status == 422

    def names(query: str) -> list[str]:
        return [job["name"] for job in running.api("GET", f"/jobs?{query}").json["jobs"]]

    assert names("sort=name") == ["aaa", "bbb", "ccc", "ddd"]
    assert names("sort=oldest") == ["bbb", "ccc", "aaa", "ddd"]
    assert names("sort=longest")[0] == "bbb"
    cursor = running.api("GET", "/jobs?sort=name&limit=3").json["next_before"]
    assert names(f"sort=name&limit=3&before={cursor}") == ["ddd"]
    assert running.api("GET", "/jobs?sort=upwards").status == 422
    page = running.ask("GET", "/jobs?sort=name&tag=night").text
    assert re.findall(r'data-job="(\w+)"', page) == [others[0]]
    assert running.ask("GET", "/jobs?sort=nonsense").status == 200
    running.site.service.stop(others[0])
    running.site.service.remove(others[0])
    assert running.api("GET", "/jobs?tag=night").json["total"] == 0


def test_a_failed_cuda_job_is_ported_and_run_again_with_one_button(running: Running) -> None:
    job = running.running_job(device="cpu:1")
    error = "RuntimeError: Found no NVIDIA driver on your system."
    trace = f'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\n{error}\n'
    running.log_path(job.id).write_text(trace)
    running.finish(job.id, AttemptState.FAILED, exit_code=1, reason="rank 0 exited with code 1")
    page = running.ask("GET", f"/jobs/{job.id}").text
    assert f'action="/jobs/{job.id}/port"' in page
    # The end of the log is on the page once.
    assert page.count("File &#34;t.py&#34;") == 1
    made = running.ask("POST", f"/jobs/{job.id}/port", body=b"", headers=FORM)
    spec = running.site.service.spec_of(made.headers["Location"].rpartition("/")[2])
    assert (spec.auto_port, str(spec.device)) == (True, "sim:1")
    (proof,) = spec.after
    proven = running.site.service.spec_of(proof.removeprefix("ok:"))
    assert str(proven.command).endswith('"$JUMAR_JOB_DIR/ported" --prove -- train')
    assert str(proven.device) == "cpu:1"


def test_a_card_on_hold_is_given_to_nobody_also_after_a_restart(running: Running) -> None:
    def put(name: str, card: str, why: str = "") -> int:
        body = urlencode({"card": card, "why": why})
        return post(running, f"/admin/cards/{name}", body, user="root")

    assert put("hold", "sim/local/0", "the fan is loud") == 303
    assert put("hold", "sim/local/99") == 404
    assert put("hold", "nonsense") == 422
    assert "the fan is loud" in running.ask("GET", "/", user="ann").text
    holder = running.running_job(device="sim:7")
    job = running.submit(device="sim:1")
    waiting = running.site.service.get(job.id).waiting
    assert waiting is not None
    assert "1 of the machine's cards is on hold" in waiting.text
    kept = Roster({}, lambda: None, placing=None)
    Holds(running.home / "holds.json", kept, ())
    assert [card.id for _, card in kept.holds] == [0]
    assert put("release", "sim/local/0") == 303
    assert put("release", "sim/local/0") == 404
    running.hint(job.id)
    running.wait(job.id, JobState.RUNNING)
    running.finish(holder.id)


def test_a_user_has_a_quota_of_their_own_and_loses_a_token_on_the_page(running: Running) -> None:
    def set_quota(devices: str, user: str = "ann") -> int:
        return post(running, f"/admin/users/{user}/quota", f"devices={devices}", user="root")

    assert [set_quota("2"), set_quota("many"), set_quota("2", "nobody")] == [303, 422, 404]
    first = running.running_job(device="sim:2")
    job, others = running.submit(device="sim:1"), running.running_job("bob", device="sim:3")
    waiting = running.site.service.get(job.id).waiting
    assert waiting is not None
    assert "2" in waiting.text
    assert waiting.cause == "limit"
    too_big = running.submit(device="sim:3")
    explained = running.site.service.get(too_big.id).waiting
    assert explained is not None
    assert explained.cause == "never"
    assert set_quota("") == 303
    running.wait(job.id, JobState.RUNNING)
    for one in (first, others):
        running.finish(one.id)
    running.tokens["lost"] = running.api(
        "POST", "/tokens", body={"label": "laptop"}, user="bob"
    ).json["token"]
    page = running.ask("GET", "/admin/users/bob", user="root").text
    token = re.findall(r"/admin/users/bob/tokens/(\w+)/revoke", page)[0]
    assert running.api("GET", "/me", user="lost").status == 200
    assert post(running, f"/admin/users/bob/tokens/{token}/revoke", user="root") == 303
    assert running.api("GET", "/me", user="lost").status == 401
    assert post(running, "/admin/users/bob/quota", "devices=1", user="ann") == 403
