"""Signing in at a real OpenID Connect provider, which runs in this process."""

import base64
import http.client
import json
import time
from collections.abc import Generator
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import oidc_provider_mock  # pyright: ignore[reportMissingTypeStubs]
import pytest
from tests.server.conftest import Answer, Running, serving

from jumar.errors import BadInput, NotSignedIn
from jumar.people.oidc import Oidc, OidcOptions, Visit
from jumar.tls import client_context

# The provider's own, of the library that it is made with.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def issuer() -> Generator[str]:
    with oidc_provider_mock.run_server_in_thread() as server:
        yield f"http://localhost:{server.server_port}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, issuer: str) -> Generator[Running]:
    with serving(tmp_path_factory.mktemp("oidc"), oidc_issuer=issuer) as running:
        yield running


def follow(site: Running, subject: str, name: str, issuer: str) -> Answer:
    """Go to the provider, sign in there as `subject`, and come back."""
    told = {"preferred_username": name}
    _at(issuer, "PUT", f"/users/{subject}", json.dumps(told).encode(), "application/json")
    left = site.ask("GET", "/login/oidc?next=/jobs", user=None)
    assert left.status == 303
    parts = urlsplit(left.headers["Location"])
    form = urlencode({"sub": subject}).encode()
    agreed = _at(issuer, "POST", f"{parts.path}?{parts.query}", form, FORM["Content-Type"])
    back = urlsplit(agreed)
    cookie = left.headers["Set-Cookie"].partition(";")[0]
    return site.ask("GET", f"{back.path}?{back.query}", user=None, headers={"Cookie": cookie})


def _at(issuer: str, method: str, path: str, body: bytes, kind: str) -> str:
    connection = http.client.HTTPConnection(urlsplit(issuer).netloc, timeout=30)
    connection.request(method, path, body, {"Content-Type": kind})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status < 400
    return answer.headers.get("Location") or ""


def session_of(answer: Answer) -> dict[str, str]:
    cookies = answer.headers.get_all("Set-Cookie") or []
    return {"Cookie": next(c for c in cookies if c.startswith("jumar_session=")).partition(";")[0]}


def test_people_of_the_provider_come_in_and_wait_for_approval(site: Running, issuer: str) -> None:
    assert "Sign in with Lab login" in site.ask("GET", "/login", user=None).text
    first = follow(site, "subject-1", "mia", issuer)
    assert (first.status, first.headers["Location"]) == (303, "/jobs")
    me = site.api("GET", "/me", user=None, headers=session_of(first)).json
    assert (me["name"], me["role"]) == ("mia", "pending")
    site.site.accounts.set_role("mia", "member")
    # The same subject is the same user, whatever they are called by now.
    again = follow(site, "subject-1", "mia-renamed", issuer)
    me = site.api("GET", "/me", user=None, headers=session_of(again)).json
    assert (me["name"], me["role"]) == ("mia", "member")


def test_nobody_takes_over_an_account_of_another(site: Running, issuer: str) -> None:
    for subject, name in (("subject-2", "root"), ("subject-3", "../etc")):
        refused = follow(site, subject, name, issuer)
        assert refused.status in (401, 409), name
        assert not any("jumar_session" in c for c in refused.headers.get_all("Set-Cookie") or [])
    assert site.api("GET", "/me", user="root").json["role"] == "admin"


def test_an_answer_that_this_browser_did_not_ask_for_is_refused(site: Running) -> None:
    left = site.ask("GET", "/login/oidc?next=//evil.org", user=None)
    state = parse_qs(urlsplit(left.headers["Location"]).query)["state"][0]
    cookie = {"Cookie": left.headers["Set-Cookie"].partition(";")[0]}
    for query, headers in (
        (f"state={state}&code=x", {}),
        ("state=other&code=x", cookie),
        (f"state={state}", cookie),
        (f"state={state}&code=stolen", cookie),
        ("error=access_denied", cookie),
    ):
        answer = site.ask("GET", f"/login/oidc/back?{query}", user=None, headers=headers)
        assert answer.status == 401, query
        assert "did not work" in answer.text
        assert not any("jumar_session" in c for c in answer.headers.get_all("Set-Cookie") or [])


@pytest.mark.parametrize(
    "change",
    [
        {"iss": "https://other.example.org"},
        {"aud": "another"},
        {"aud": ["jumar", "x"], "azp": "x"},
        {"exp": 1},
        {"nonce": "of another visit"},
        {"sub": ""},
        {"exp": "never"},
    ],
)
def test_an_id_token_for_somebody_else_is_refused(
    site: Running, issuer: str, change: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    oidc = site.site.oidc
    assert oidc is not None
    claims: dict[str, object] = {
        "iss": issuer,
        "aud": "jumar",
        "exp": time.time() + 60,
        "nonce": "n",
        "sub": "subject-9",
        "preferred_username": "nina",
        **change,
    }
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    told = {"id_token": f"x.{body}.y"}
    monkeypatch.setattr(oidc, "_ask", lambda method, address, sent, headers: told)  # pyright: ignore
    monkeypatch.setattr(oidc, "_provider", lambda: type("P", (), {"token": "", "userinfo": None}))
    with pytest.raises(NotSignedIn):
        oidc.sign_in(Visit("s", "n", "v"), "code", "")


def test_a_provider_elsewhere_without_tls_is_refused(site: Running) -> None:
    database, tokens = site.site.service.database, site.site.accounts.tokens
    for issuer in ("http://login.example.org", "ftp://x", "", "https://"):
        options = OidcOptions(issuer=issuer, client_id="x", client_secret="y")
        with pytest.raises(BadInput):
            Oidc(options, database, tokens, client_context(""))


def test_a_server_without_a_provider_has_no_such_door(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        assert "Sign in with" not in running.ask("GET", "/login", user=None).text
        assert running.ask("GET", "/login/oidc", user=None).status == 404
