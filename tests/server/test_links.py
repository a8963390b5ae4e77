"""Read-only links: what their holders see, and that they end when they are taken back."""

import re
import time

from tests.server.conftest import Running, events
from tests.server.test_why import SCRIPT, STACK

from jumar.spec.states import AttemptState

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def test_a_colleague_looks_at_one_job_until_the_link_is_revoked(running: Running) -> None:
    job = running.running_job(environment={"WHERE": "my-own-server"})
    other = running.running_job()
    running.log_path(job.id).write_text("epoch 1 loss 0.5\n")
    made = running.ask("POST", "/links", body=f"job={job.id}".encode(), headers=FORM).text
    address = re.search(r"/shared/[\w-]+", made)
    assert address is not None
    led = running.ask("GET", address[0], user=None)
    assert (led.status, led.headers["Location"]) == (303, f"/jobs/{job.id}")
    cookie = led.headers["Set-Cookie"].partition(";")[0]
    held = {"Cookie": cookie}
    page = running.ask("GET", f"/jobs/{job.id}", user=None, headers=held)
    assert page.status == 200
    assert "epoch 1 loss 0.5" in page.text
    for hidden in ("my-own-server", "/stop", "/rerun", "/submit?from", str(running.home)):
        assert hidden not in page.text, hidden
    assert running.ask("GET", f"/jobs/{other.id}", user=None, headers=held).status == 303
    assert running.api("GET", f"/jobs/{job.id}", user=None, headers=held).status == 401
    # Somebody who is signed in and may not open the job sees it by the link, too.
    assert running.ask("GET", f"/jobs/{job.id}", user="bob", headers=held).status == 200
    # Its owner keeps all rights.
    assert "/stop" in running.ask("GET", f"/jobs/{job.id}", headers=held).text
    place = f"/api/v1/jobs/{job.id}/logs/0/0/stream"
    with running.open(place, user="bob", headers=held) as stream:
        told = events(stream)
        while next(told).name != "log":
            pass
        (link,) = running.api("GET", "/links").json
        assert running.ask("POST", f"/links/{link['id']}/revoke").status == 303
        assert [event.name for event in told][-1] == "refused"
    assert running.ask("GET", f"/jobs/{job.id}", user=None, headers=held).status == 303
    assert running.ask("GET", address[0], user=None).status == 404


def test_a_link_shows_no_line_of_the_code(running: Running) -> None:
    job = running.running_job()
    running.log_path(job.id).write_text(STACK.format(running.home / "jobs" / job.id / "code"))
    code = running.home / "jobs" / job.id / "code"
    code.mkdir(exist_ok=True)
    (code / "train.py").write_text(SCRIPT)
    running.finish(job.id, AttemptState.FAILED, exit_code=1)
    made = running.api("POST", "/links", body={"jobs": [job.id], "days": 1}).json
    held = {"Cookie": f"jumar_links={made['secret']}"}
    assert "for one in items" in running.ask("GET", f"/jobs/{job.id}?lang=en").text
    page = running.ask("GET", f"/jobs/{job.id}?lang=en", user=None, headers=held).text
    assert "First fault" in page
    assert "for one in items" not in page
    told = running.api("GET", f"/jobs/{job.id}/logs/first-error", user=None, headers=held).json
    assert told["file"] == "logs/node0/rank0.log"


def test_a_link_is_worth_what_its_user_may_see(running: Running) -> None:
    jobs = [running.submit(device="sim:8").id for _ in range(2)]
    links = running.site.accounts.links
    made = running.api("POST", "/links", body={"jobs": jobs, "days": 1}).json
    held = {"Cookie": f"jumar_links={made['secret']}"}
    both = f"/compare?job={jobs[0]}&job={jobs[1]}"
    assert running.ask("GET", both, user=None, headers=held).status == 200
    assert (
        running.ask("GET", made["url"].removeprefix(running.url), user=None).headers["Location"]
        == both
    )
    assert (
        running.ask(
            "GET", f"{both}&job={running.submit('bob', device='sim:8').id}", user=None, headers=held
        ).status
        == 303
    )
    running.site.accounts.set_role("ann", "pending")
    assert running.ask("GET", both, user=None, headers=held).status == 303
    running.site.accounts.set_role("ann", "member")
    assert links.opens(made["secret"], jobs[0])
    over = links.new("ann", tuple(jobs), -1.0)
    assert not links.opens(over.secret, jobs[0])
    assert over.expires_at is not None
    assert over.expires_at < time.time()
    assert "secret" not in running.api("GET", "/links").text
    assert running.api("POST", "/links", user="bob", body={"jobs": jobs}).status == 403
