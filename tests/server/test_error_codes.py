"""The codes of errors: one closed list, documented, sent by the server, understood by the client."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.conftest import Running

import jumar
from jumar import Client, errors
from jumar.errors import CODES, JumarError
from jumar.words.reasons import catalogue

SOURCE = Path(jumar.__file__).parent
PAGE = SOURCE.parents[1] / "docs" / "reference" / "api.md"


def _classes() -> list[type[JumarError]]:
    found = [one for one in vars(errors).values() if isinstance(one, type)]
    return [one for one in found if issubclass(one, JumarError)]


def test_every_error_has_a_code_and_a_meaning_of_its_own() -> None:
    classes = _classes()
    assert set(CODES.values()) == set(classes)
    assert len(CODES) == len(classes)
    for kind in classes:
        assert "code" in vars(kind), kind
        assert "__doc__" in vars(kind), kind
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.code)


def test_the_reference_has_the_whole_list_and_nothing_else() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (\d{3}) \| (.+) \|$", PAGE.read_text("utf-8"), re.M)
    kinds = sorted(CODES.values(), key=lambda kind: (kind.status, kind.code))
    meanings = [str(kind.__doc__).removesuffix(".") for kind in kinds]
    assert rows == [
        (kind.code, str(kind.status), said) for kind, said in zip(kinds, meanings, strict=True)
    ]


def _made(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node


def test_nobody_raises_the_root_which_says_nothing() -> None:
    """But for what the framework could not even read."""
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        for call in _made(ast.parse(path.read_text("utf-8")))
        if isinstance(call.func, ast.Name) and call.func.id == "JumarError"
    }
    assert found == {"server/edge/exchange.py"}


def test_no_class_elsewhere_makes_up_a_code() -> None:
    def tree(kind: type[JumarError]) -> Iterator[type[JumarError]]:
        yield kind
        for child in kind.__subclasses__():
            yield from tree(child)

    elsewhere = [kind for kind in tree(JumarError) if kind.__module__ != "jumar.errors"]
    assert all(kind.code in CODES for kind in elsewhere)
    assert not [kind for kind in elsewhere if {"code", "status"} & set(vars(kind))]


@pytest.mark.parametrize("kind", _classes())
def test_an_error_comes_back_as_the_class_it_was(kind: type[JumarError]) -> None:
    sent = kind("what happened", hint="what to do")
    got = errors.from_json(sent.as_json(), unknown=JumarError)
    assert (type(got), got.message, got.hint) == (kind, "what happened", "what to do")


def test_a_code_of_a_newer_server_is_still_an_error() -> None:
    values = {"code": "on-fire", "message": "run", "hint": None}
    assert type(errors.from_json(values, unknown=errors.Conflict)) is errors.Conflict


def test_the_client_raises_what_the_server_raised(running: Running) -> None:
    job = running.running_job("ann")
    running.finish(job.id)
    queued = running.submit("ann", device="sim:8")
    with Client(running.url, running.token("ann")) as ann:
        with pytest.raises(errors.JobNotFound):
            ann.get("no-such-job")
        with pytest.raises(errors.JobEnded):
            ann.stop(job.id)
        with pytest.raises(errors.JobNotEnded):
            ann.remove(queued.id)
        with pytest.raises(errors.LogNotFound):
            list(ann.logs(queued.id))
        with pytest.raises(errors.TokenNotFound):
            ann.revoke_token("0123456789")
        with pytest.raises(errors.SubmitRefused):
            ann.submit({"name": "wide", "command": "true", "device": "sim:99"})
        with pytest.raises(errors.CodeNotFound):
            ann.submit({"name": "x", "command": "true", "code": {"archive": "0" * 64}})
        with pytest.raises(errors.WrongPassword):
            ann.sign_in("ann", "not the one")
        with pytest.raises(errors.NotAllowed):
            ann.users()
    with Client(running.url, running.token("root")) as root:
        with pytest.raises(errors.UserNotFound):
            root.set_role("nobody", "member")
        with pytest.raises(errors.GroupNotFound):
            root.set_group_share("nothing", 2)
        root.create_group("vision")
        with pytest.raises(errors.NameTaken):
            root.create_group("vision")
    with Client(running.url, running.token("eve")) as eve, pytest.raises(errors.NotApproved):
        eve.get(job.id)
    with Client(running.url, "jm_nobody") as nobody, pytest.raises(errors.NotSignedIn):
        nobody.me()


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "path-not-found"),
        ("DELETE", "/jobs", 405, "method-not-allowed"),
        ("GET", "/jobs?limit=many", 422, "invalid-input"),
        ("GET", "/jobs/zzzz", 404, "job-not-found"),
    ],
)
def test_also_what_no_route_was_asked_for_has_a_code(
    shared: Running, method: str, path: str, status: int, code: str
) -> None:
    answer = shared.api(method, path)
    assert (answer.status, answer.json["error"]["code"]) == (status, code)


def test_an_unexpected_failure_has_a_code_and_tells_nothing_of_the_inside(
    shared: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("the inside")

    monkeypatch.setattr(shared.site.service, "cards", fail)
    answer = shared.api("GET", "/cards")
    assert (answer.status, answer.json["error"]["code"]) == (500, "internal-error")
    assert "inside" not in answer.text


def test_every_error_can_be_explained_in_chinese() -> None:
    assert set(catalogue("zh")["error"]) == set(CODES)
