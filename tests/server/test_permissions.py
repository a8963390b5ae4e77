"""Who may do what: every call, asked by every kind of user."""

import hashlib
import re
import secrets

import pytest
from fastapi.routing import APIRoute
from tests.server.conftest import Running
from tests.tars import tar_of

from jumar.server.app import create_app

STRANGER, PENDING, OWNER, OTHER, ADMIN = None, "eve", "ann", "bob", "root"
EVERYBODY = (STRANGER, PENDING, OWNER, OTHER, ADMIN)
SPEC = {"name": "x", "command": "true"}
TAR = tar_of(train="print()")
DIGEST = hashlib.sha256(TAR).hexdigest()

# method, path, body, then the status for a stranger, a pending user, the owner, another member,
# an administrator.
TABLE = [
    ("GET", "/server", None, (200, 200, 200, 200, 200)),
    ("GET", "/me", None, (401, 200, 200, 200, 200)),
    ("GET", "/jobs", None, (401, 403, 200, 200, 200)),
    ("POST", "/jobs", SPEC, (401, 403, 201, 201, 201)),
    ("POST", "/plans", SPEC, (401, 403, 200, 200, 200)),
    ("GET", "/jobs/{job}", None, (401, 403, 200, 403, 200)),
    ("POST", "/jobs/{job}/stop", None, (401, 403, 200, 403, 200)),
    ("POST", "/jobs/{job}/rerun", None, (401, 403, 201, 403, 201)),
    ("POST", "/jobs/{job}/upload", None, (401, 403, 409, 403, 409)),
    ("DELETE", "/jobs/{job}", None, (401, 403, 409, 403, 409)),
    # The owner, asked before the other two, has removed it.
    ("DELETE", "/jobs/{done}", None, (401, 403, 204, 404, 404)),
    ("GET", "/jobs/{job}/logs", None, (401, 403, 200, 403, 200)),
    ("GET", "/jobs/{job}/why", None, (401, 403, 200, 403, 200)),
    ("GET", "/jobs/{job}/metrics", None, (401, 403, 200, 403, 200)),
    ("GET", "/jobs/{job}/steps", None, (401, 403, 200, 403, 200)),
    ("GET", "/evaluation?job={job}", None, (401, 403, 200, 403, 200)),
    ("POST", "/jobs/{job}/evaluate", {"command": ["true"]}, (401, 403, 404, 403, 404)),
    ("POST", "/jobs/{job}/publish", {"name": "x"}, (401, 403, 409, 403, 409)),
    ("GET", "/jobs/{job}/usage", None, (401, 403, 200, 403, 200)),
    ("GET", "/usage?days=30", None, (401, 403, 200, 200, 200)),
    ("GET", "/jobs/{job}/files", None, (401, 403, 200, 403, 200)),
    ("GET", "/jobs/{job}/files/content?path=logs/node0/rank0.log", None, (401, 403, 200, 403, 200)),
    ("POST", "/jobs/{job}/exec", {"command": ["true"]}, (401, 403, 409, 403, 409)),
    ("POST", "/jobs/{job}/exec/" + "0" * 32, b"", (401, 403, 404, 403, 404)),
    ("GET", "/jobs/{job}/endpoints", None, (401, 403, 200, 403, 200)),
    # The engine of these tests runs nothing, so nothing can be opened.
    ("POST", "/jobs/{job}/endpoints/jupyter", None, (401, 403, 409, 403, 409)),
    ("DELETE", "/jobs/{job}/endpoints/jupyter", None, (401, 403, 204, 403, 204)),
    ("GET", "/jobs/{job}/logs/0/0/search?text=line", None, (401, 403, 200, 403, 200)),
    ("GET", "/jobs/{job}/logs/first-error", None, (401, 403, 404, 403, 404)),
    ("PUT", "/jobs/{job}/tags", {"tags": ["a"]}, (401, 403, 200, 403, 200)),
    ("POST", "/links", {"jobs": ["{job}"]}, (401, 403, 404, 404, 404)),
    ("GET", "/links", None, (401, 403, 200, 200, 200)),
    ("GET", "/links?all=true", None, (401, 403, 403, 403, 200)),
    ("DELETE", "/links/nothing", None, (401, 403, 404, 404, 404)),
    ("GET", "/audit", None, (401, 403, 403, 403, 200)),
    ("DELETE", "/users/bob", None, (401, 403, 403, 403, 409)),
    ("GET", "/jobs/{job}/logs/0/0", None, (401, 403, 200, 403, 200)),
    ("GET", "/jobs/{done}/logs/0/0/stream", None, (401, 403, 200, 403, 200)),
    ("HEAD", f"/code/{DIGEST}", None, (401, 403, 404, 404, 404)),
    ("GET", "/backup", None, (401, 403, 403, 403, 200)),
    ("PUT", "/restore", b"no backup", (401, 403, 403, 403, 422)),
    ("GET", "/repair", None, (401, 403, 403, 403, 200)),
    ("POST", "/repair", None, (401, 403, 403, 403, 200)),
    ("PUT", f"/code/{DIGEST}", TAR, (401, 403, 204, 204, 204)),
    ("POST", "/code", TAR, (401, 403, 201, 201, 201)),
    ("GET", "/alerts", None, (401, 403, 200, 200, 200)),
    ("PUT", "/cards/sim/local/7/hold", {"why": "fan"}, (401, 403, 403, 403, 200)),
    ("DELETE", "/cards/sim/local/7/hold", None, (401, 403, 403, 403, 204)),
    ("GET", "/cards", None, (401, 403, 200, 200, 200)),
    ("GET", "/repos", None, (401, 403, 200, 200, 200)),
    ("POST", "/repos", {"kind": "no such", "name": "x"}, (401, 403, 422, 422, 422)),
    ("GET", "/repos/model/ann/none", None, (401, 403, 404, 404, 404)),
    ("PATCH", "/repos/model/ann/none", {"private": True}, (401, 403, 404, 404, 404)),
    ("DELETE", "/repos/model/ann/none", None, (401, 403, 404, 404, 404)),
    # Whether there is one is told before what is wrong with the body.
    ("PATCH", "/repos/model/ann/none", {"private": "perhaps"}, (401, 403, 404, 404, 404)),
    (
        "POST",
        "/repos/model/ann/none/missing",
        {"objects": {"a" * 64: 1}},
        (401, 403, 404, 404, 404),
    ),
    (
        "POST",
        "/repos/model/ann/none/commits",
        {"files": {"a": "a" * 64}},
        (401, 403, 404, 404, 404),
    ),
    ("POST", "/repo-objects/model/ann/none", b"x", (401, 403, 404, 404, 404)),
    ("POST", "/repos/collect", None, (401, 403, 403, 403, 200)),
    ("GET", "/images", None, (401, 403, 200, 200, 200)),
    ("GET", "/users", None, (401, 403, 403, 403, 200)),
    ("PATCH", "/users/eve", {"role": "member"}, (401, 403, 403, 403, 200)),
    ("GET", "/share", None, (401, 403, 200, 200, 200)),
    ("GET", "/drain", None, (401, 403, 200, 200, 200)),
    ("PUT", "/drain", {"until": 1.0}, (401, 403, 403, 403, 422)),
    ("DELETE", "/drain", None, (401, 403, 403, 403, 200)),
    ("GET", "/webhooks", None, (401, 403, 200, 200, 200)),
    ("POST", "/webhooks", {"kind": "slack", "url": "http://x.org"}, (401, 403, 403, 403, 201)),
    ("POST", "/webhooks/nothing/test", None, (401, 403, 404, 404, 404)),
    ("DELETE", "/webhooks/nothing", None, (401, 403, 404, 404, 404)),
    ("GET", "/groups", None, (401, 403, 200, 200, 200)),
    ("POST", "/groups", {"name": "default"}, (401, 403, 403, 403, 409)),
    ("PATCH", "/groups/default", {"share": 1}, (401, 403, 403, 403, 200)),
    ("PUT", "/groups/default/members/ann", {"share": 1}, (401, 403, 403, 403, 200)),
    ("DELETE", "/groups/default/members/ann", None, (401, 403, 403, 403, 409)),
    ("DELETE", "/groups/default", None, (401, 403, 403, 403, 409)),
    ("POST", "/users/bob/reset", None, (401, 403, 403, 403, 200)),
    ("PUT", "/me/password", {"old": "", "new": "short"}, (401, 403, 422, 422, 422)),
    ("POST", "/tokens", {"label": "ci"}, (401, 403, 201, 201, 201)),
    ("GET", "/tokens", None, (401, 403, 200, 200, 200)),
    ("GET", "/tokens?user=ann", None, (401, 403, 200, 403, 200)),
    ("GET", "/tokens?user=nobody", None, (401, 403, 403, 403, 404)),
    # The owner, asked before the other two, has taken it back; to another member it never was.
    ("DELETE", "/tokens/{token}", None, (401, 403, 204, 404, 404)),
    ("DELETE", "/tokens/{bobs}", None, (401, 403, 404, 204, 404)),
    ("DELETE", "/tokens/{roots}", None, (401, 403, 404, 404, 204)),
    ("GET", "/ssh-keys", None, (401, 403, 200, 200, 200)),
    ("POST", "/ssh-keys", {"key": "no key"}, (401, 403, 422, 422, 422)),
    ("DELETE", "/ssh-keys", {"fingerprint": "SHA256:x"}, (401, 403, 404, 404, 404)),
    ("GET", "/jobs/{name}", None, (401, 403, 200, 404, 404)),
    ("GET", "/jobs/{name}?user=ann", None, (401, 403, 200, 403, 200)),
    ("POST", "/jobs/{name}/stop?user=ann", None, (401, 403, 200, 403, 200)),
    ("GET", "/jobs/nothing?user=ann", None, (401, 403, 404, 403, 404)),
    ("GET", "/jobs/nothing?user=nobody", None, (401, 403, 403, 403, 404)),
    ("GET", "/stores", None, (401, 403, 200, 200, 200)),
    ("PUT", "/stores/obs", {"access_key": "AK"}, (401, 403, 422, 422, 422)),
    ("DELETE", "/stores/s3", None, (401, 403, 204, 204, 204)),
    ("POST", "/login-codes", None, (401, 403, 201, 201, 201)),
    ("POST", "/me/modelarts-keys", {"renew": False}, (401, 403, 200, 200, 200)),
]

# Open to strangers by their nature, or in need of an S3 door: tried in tests of their own.
OPEN_OR_ELSEWHERE = {("POST", "/users"), ("POST", "/session"), ("POST", "/me/s3-keys")}


# What the holder of a read-only link to {job} and {done} may do besides what strangers may.
LINKED = {
    "/jobs/{job}/logs": 200,
    "/jobs/{job}/logs/0/0": 200,
    "/jobs/{job}/logs/0/0/search?text=line": 200,
    "/jobs/{job}/logs/first-error": 404,
    "/jobs/{done}/logs/0/0/stream": 200,
    "/jobs/{job}/metrics": 200,
    "/jobs/{job}/steps": 200,
    "/jobs/{job}/usage": 200,
}
LINKED_PAGES = {
    "/jobs/{job}": 200,
    "/jobs/{job}/error": 404,
    "/compare?job={job}": 200,
    "/compare/metrics.csv?job={job}": 200,
}


def with_link(shared: Running, *jobs: str) -> dict[str, str]:
    """What the browser of who was given a link to these jobs sends."""
    return {"Cookie": f"jumar_links={shared.site.accounts.links.new('ann', jobs, None).secret}"}


@pytest.mark.parametrize(("method", "path", "body", "statuses"), TABLE, ids=lambda v: str(v)[:40])
def test_every_call_answers_every_kind_of_user_as_the_table_says(
    shared: Running, method: str, path: str, body: object, statuses: tuple[int, ...]
) -> None:
    job = shared.running_job("ann", name=f"train-{secrets.token_hex(4)}")
    done = shared.running_job("ann")
    tokens = shared.site.accounts.tokens
    made = {
        name: tokens.new(user, "x").id
        for name, user in {"token": "ann", "bobs": "bob", "roots": "root"}.items()
    }
    for record in (job, done):
        shared.log_path(record.id).write_text("line\n")
    shared.finish(done.id)
    address = path.format(job=job.id, done=done.id, name=job.name, **made)
    if path.startswith("/code"):
        (shared.home / "code" / f"{DIGEST}.tar").unlink(missing_ok=True)
    shared.site.accounts.set_role("eve", "pending")
    held = with_link(shared, job.id, done.id)
    linked = shared.api(method, address, user=None, body=body, headers=held).status
    assert linked == (LINKED.get(path, statuses[0]) if method == "GET" else statuses[0])
    answered = [shared.api(method, address, user=user, body=body).status for user in EVERYBODY]
    # Those that go on would leave no room for the next ones.
    shared.site.service.stop(job.id)
    assert tuple(answered) == statuses


PAGES = [
    ("/", (303, 303, 200, 200, 200)),
    ("/jobs", (303, 303, 200, 200, 200)),
    ("/jobs/{job}", (303, 403, 200, 403, 200)),
    ("/admin", (303, 303, 303, 303, 303)),
    ("/admin/users", (303, 403, 403, 403, 200)),
    ("/admin/cards", (303, 403, 403, 403, 200)),
    ("/admin/audit", (303, 403, 403, 403, 200)),
    ("/links", (303, 403, 200, 200, 200)),
    ("/shared/nothing", (404, 404, 404, 404, 404)),
    ("/jobs/{job}/error", (303, 403, 404, 403, 404)),
    ("/jobs/{job}/files", (303, 403, 200, 403, 200)),
    ("/jobs/{job}/files/raw?path=none", (303, 403, 404, 403, 404)),
    ("/jobs/{job}/open/jupyter", (303, 403, 409, 403, 409)),
    ("/jobs/{job}/terminal", (303, 403, 409, 403, 409)),
    ("/repos", (303, 403, 200, 200, 200)),
    ("/repos/model/ann/none", (303, 403, 404, 404, 404)),
    ("/repos/model/ann/none/file?path=x", (303, 403, 404, 404, 404)),
    ("/repos/project/ann/none/train", (303, 403, 404, 404, 404)),
    ("/login/oidc", (404, 404, 404, 404, 404)),
    ("/login/oidc/back", (404, 404, 404, 404, 404)),
    ("/account", (303, 403, 200, 200, 200)),
    ("/metrics", (401, 403, 200, 200, 200)),
    ("/compare", (303, 403, 200, 200, 200)),
    ("/compare?job={job}", (303, 403, 200, 403, 200)),
    ("/compare/metrics.csv?job={job}", (303, 403, 200, 403, 200)),
    ("/evaluation?job={job}", (303, 403, 200, 403, 200)),
    ("/evaluation/report.csv?job={job}", (303, 403, 200, 403, 200)),
    ("/submit", (303, 403, 200, 200, 200)),
    ("/submit?from={job}", (303, 403, 200, 403, 200)),
    ("/submit/browse", (303, 403, 200, 200, 200)),
    ("/jobs/ann/{job}", (303, 403, 303, 403, 303)),
    ("/login", (200, 200, 200, 200, 200)),
    ("/register", (200, 200, 200, 200, 200)),
    ("/waiting", (303, 200, 303, 303, 303)),
]


@pytest.mark.parametrize(("path", "statuses"), PAGES)
def test_every_page_answers_every_kind_of_user(
    shared: Running, path: str, statuses: tuple[int, ...]
) -> None:
    # More cards than are free: it waits, so that nothing about it changes.
    job = shared.submit("ann", device="sim:8")
    (shared.home / "jobs" / job.id).mkdir(parents=True, exist_ok=True)
    shared.site.accounts.set_role("eve", "pending")
    address = path.format(job=job.id)
    answered = [shared.ask("GET", address, user=user).status for user in EVERYBODY]
    assert tuple(answered) == statuses
    held = with_link(shared, job.id)
    linked = shared.ask("GET", address, user=None, headers=held)
    assert linked.status == LINKED_PAGES.get(path, statuses[0])


def test_an_administrator_removes_anybodys_job_and_another_member_nobodys(running: Running) -> None:
    job = running.running_job("ann")
    running.finish(job.id)
    refused = running.api("DELETE", f"/jobs/{job.id}", user="bob")
    assert (refused.status, "belongs to ann" in refused.error) == (403, True)
    assert running.api("DELETE", f"/jobs/{job.id}", user="root").status == 204
    assert running.api("GET", f"/jobs/{job.id}", user="ann").status == 404


def test_a_role_change_counts_from_the_next_request_on(running: Running) -> None:
    assert running.api("GET", "/jobs", user="eve").status == 403
    running.api("PATCH", "/users/eve", user="root", body={"role": "member"})
    assert running.api("GET", "/jobs", user="eve").status == 200
    running.api("PATCH", "/users/eve", user="root", body={"role": "pending"})
    assert running.api("GET", "/jobs", user="eve").status == 403


def test_a_wrong_token_is_a_stranger(running: Running) -> None:
    answer = running.api("GET", "/me", user=None, headers={"Authorization": "Bearer jm_guess"})
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"


FORMS = [
    ("/admin/users/bob/reset", b"", (303, 403, 403, 403, 200)),
    ("/admin/users/bob/role", b"role=member", (303, 403, 403, 403, 303)),
    ("/admin/users/bob/reject", b"", (303, 403, 403, 403, 409)),
    ("/admin/drain", b"hours=never", (303, 403, 403, 403, 422)),
    ("/admin/drain/end", b"", (303, 403, 403, 403, 303)),
    ("/links", b"job={job}&days=1", (303, 403, 200, 403, 200)),
    ("/links/nothing/revoke", b"", (303, 403, 404, 404, 404)),
    ("/jobs/{job}/tags", b"tags=a+b", (303, 403, 303, 403, 303)),
    ("/jobs/{job}/stop", b"", (303, 403, 303, 403, 303)),
    ("/jobs/{job}/port", b"", (303, 403, 303, 403, 303)),
    ("/jobs/{job}/rerun", b"", (303, 403, 303, 403, 303)),
    ("/jobs/{job}/upload", b"", (303, 403, 409, 403, 409)),
    ("/repos", b"kind=none&name=x", (303, 403, 422, 422, 422)),
    ("/repos/project/ann/none/train", b"name=x&boot_file=x", (303, 403, 422, 422, 422)),
    ("/submit", b"name=x&command=true&device_kind=cpu", (303, 403, 303, 303, 303)),
    ("/jobs/stop", b"job={job}", (303, 403, 303, 403, 303)),
    ("/submit/check", b"name=x", (303, 403, 200, 200, 200)),
    ("/submit/templates/99/delete", b"", (303, 403, 404, 404, 404)),
    ("/account/keys", b"", (303, 403, 404, 404, 404)),
    ("/account/tokens", b"label=ci&days=30", (303, 403, 200, 200, 200)),
    ("/account/tokens/{token}/revoke", b"", (303, 403, 303, 404, 404)),
    ("/account/password", b"new=long+enough&repeat=long+ago", (303, 403, 422, 422, 422)),
]


@pytest.mark.parametrize(("path", "form", "statuses"), FORMS)
def test_every_form_of_people_answers_every_kind_of_user(
    shared: Running, path: str, form: bytes, statuses: tuple[int, ...]
) -> None:
    shared.site.accounts.set_role("eve", "pending")
    # All cards are taken, so that the job waits.
    shared.submit("root", device="sim:8")
    job = shared.submit("ann", device="sim:8").id
    address = path.format(token=shared.site.accounts.tokens.new("ann", "x").id, job=job)
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    sent = form.replace(b"{job}", job.encode())
    held = {**kind, **with_link(shared, job)}
    assert shared.ask("POST", address, user=None, body=sent, headers=held).status == statuses[0]
    answers = [
        shared.ask("POST", address, user=user, body=sent, headers=kind) for user in EVERYBODY
    ]
    assert tuple(answer.status for answer in answers) == statuses
    assert answers[0].headers["Location"].startswith("/login")


def test_every_call_is_in_the_table(shared: Running) -> None:
    described = shared.api("GET", "/openapi.json", user=None).json["paths"]
    calls = {
        (method.upper(), path.removeprefix("/api/v1"))
        for path, methods in described.items()
        for method in methods
    }
    tried = {(method, path.partition("?")[0]) for method, path, _, _ in TABLE}
    missing = {
        (method, path)
        for method, path in calls
        if not any(
            method == other and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), tried_path)
            for other, tried_path in tried
        )
    }
    assert missing == OPEN_OR_ELSEWHERE


def test_every_page_and_form_is_in_the_tables(shared: Running) -> None:
    routes = {
        (method, route.path)
        for route in create_app(shared.site).routes
        if isinstance(route, APIRoute) and route.endpoint.__module__.startswith("jumar.server.web")
        for method in route.methods or ()
    }
    tried = {("GET", path.partition("?")[0]) for path, _ in PAGES}
    tried |= {("POST", path) for path, _, _ in FORMS}
    # Strangers sign in and register by them; the two of SSH keys are tried with those.
    open_or_elsewhere = {"/login", "/logout", "/register"}
    missing = {
        (method, path)
        for method, path in routes
        if path not in open_or_elsewhere
        and not path.startswith("/account/ssh-keys")
        and not any(
            method == other and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), tried_path)
            for other, tried_path in tried
        )
    }
    assert missing == set()
