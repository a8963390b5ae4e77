"""Every call of the API, with text and numbers that no database and no terminal takes: never a 500."""

import json
import logging
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server.conftest import Answer, Running, serving

Json = dict[str, Any]
ODD_TEXT = {"nul": "a\0b", "half a pair": "a\ud800b"}
DIGITS = "9" * 5000
ODD_NUMBERS = (str(2**63), str(-(2**63) - 1), str(2**64), DIGITS, f"-{DIGITS}")
_PLACEHOLDER = "here goes what is odd"
# As pydantic writes them.
_FRAMEWORKS_WORDS = re.compile(r"Input |should (be|have|match)|Value error|unable to parse")


@dataclass(frozen=True)
class Part:
    """One value that a call takes."""

    where: str
    name: str
    schema: Json

    @property
    def is_number(self) -> bool:
        kinds = [one.get("type") for one in self.schema.get("anyOf", [self.schema])]
        return "integer" in kinds


@dataclass(frozen=True)
class Operation:
    """One call: its address, what it takes, and a body that fits."""

    method: str
    path: str
    parts: list[Part] = field(default_factory=list[Part])
    body: Any = None

    def ask(self, server: Running, job: str, part: Part, value: bytes) -> Answer:
        """The call with one odd value, encoded already."""
        known = {"job": job, "digest": "0" * 64, "kind": "obs", "name": "ann"}
        path, query, headers = self.path, "", dict[str, str]()
        for one in self.parts:
            sent = value.decode("latin-1") if one == part else known.get(one.name, "0")
            if one.where == "path":
                path = path.replace(f"{{{one.name}}}", sent)
            elif one == part and one.where == "query":
                query = f"?{one.name}={sent}"
            elif one == part and one.where == "header" and "%" not in sent:
                headers[one.name] = sent
        return server.ask(self.method, path + query, user="root", body=self.body, headers=headers)


@contextmanager
def odd_server(folder: Path, database_url: str) -> Generator[tuple[Running, str]]:
    """A server on that database, and a job on it that is over."""
    with serving(folder, database_url=database_url) as server:
        job = server.running_job("root")
        server.log_path(job.id).write_text("line\n")
        server.finish(job.id)
        yield server, job.id


def operations(server: Running) -> list[Operation]:
    """All calls that the server describes."""
    described = server.api("GET", "/openapi.json").json
    found: list[Operation] = []
    for path, methods in cast("dict[str, Json]", described["paths"]).items():
        for method, call in methods.items():
            parts = [Part(p["in"], p["name"], p["schema"]) for p in call.get("parameters", [])]
            content = call.get("requestBody", {}).get("content", {})
            schema = content.get("application/json", {}).get("schema")
            body = None if schema is None else _sample(schema, described)
            found.append(Operation(method.upper(), path, parts, body))
    assert len(found) > 20
    return found


def _sample(schema: Json, root: Json) -> Any:
    """A value of each field that the schema knows."""
    if "$ref" in schema:
        return _sample(root["components"]["schemas"][schema["$ref"].rpartition("/")[2]], root)
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return _sample(schema[choice][0], root)
    if "enum" in schema or "const" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    kind = schema.get("type")
    if kind == "object":
        fields = {name: _sample(one, root) for name, one in schema.get("properties", {}).items()}
        return fields or {"KEY": "value"}
    if kind == "array":
        return [_sample(schema["items"], root)]
    return {"integer": 1, "number": 1, "boolean": False, "null": None}.get(str(kind), "text")


def _with_one_odd(value: Any, wanted: type) -> Iterator[Any]:
    """`value` again and again, each time with another leaf of that type replaced."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        for name, inner in fields.items():
            yield from ({**fields, name: odd} for odd in _with_one_odd(inner, wanted))
    elif isinstance(value, list):
        for odd in _with_one_odd(value[0], wanted):
            yield [odd]
    elif type(value) is wanted:
        yield _PLACEHOLDER


def check(answer: Answer, what: object, *, is_refused: bool = False) -> None:
    """An answer in our form, and no failure of the server's."""
    assert answer.status < 500, (what, answer.status, answer.body)
    if is_refused:
        assert 400 <= answer.status < 500, (what, answer.status, answer.body)
        assert not _FRAMEWORKS_WORDS.search(answer.error), (what, answer.error)


def test_odd_text_in_any_parameter_is_refused(database_url: str, tmp_path: Path) -> None:
    with odd_server(tmp_path, database_url) as (server, job):
        for call in operations(server):
            for part in call.parts:
                for name, text in ODD_TEXT.items():
                    encoded = quote(text, errors="surrogatepass").encode()
                    answer = call.ask(server, job, part, encoded)
                    is_refused = name == "nul" and part.where != "header" and call.method != "HEAD"
                    check(answer, (call.method, call.path, part, name), is_refused=is_refused)


def test_odd_text_in_any_field_of_a_body_is_refused_by_name(
    database_url: str, tmp_path: Path
) -> None:
    with odd_server(tmp_path, database_url) as (server, job):
        bodies = [call for call in operations(server) if call.body is not None]
        assert {call.path for call in bodies} >= {"/api/v1/jobs", "/api/v1/users", "/api/v1/tokens"}
        for call in bodies:
            path = call.path.replace("{job}", job).replace("{name}", "ann").replace("{kind}", "obs")
            for odd in _with_one_odd(call.body, str):
                for text in ODD_TEXT.values():
                    body = json.dumps(odd).replace(json.dumps(_PLACEHOLDER), json.dumps(text))
                    answer = _send(server, call.method, path, body)
                    check(answer, (call.method, path, body), is_refused=True)
                    assert "character" in answer.error or "surrogate" in answer.error


def test_huge_numbers_are_refused_wherever_one_is_taken(database_url: str, tmp_path: Path) -> None:
    with odd_server(tmp_path, database_url) as (server, job):
        for call in operations(server):
            path = call.path.replace("{job}", job).replace("{name}", "ann").replace("{kind}", "obs")
            for number in ODD_NUMBERS:
                for part in call.parts:
                    answer = call.ask(server, job, part, number.encode())
                    is_refused = part.is_number and call.method != "HEAD"
                    check(
                        answer, (call.method, call.path, part, number[:30]), is_refused=is_refused
                    )
                for odd in _with_one_odd(call.body, int):
                    body = json.dumps(odd).replace(json.dumps(_PLACEHOLDER), number)
                    check(
                        _send(server, call.method, path, body), (path, body[:300]), is_refused=True
                    )


@pytest.mark.parametrize("wrong", ["true", "1.5", '"?"', "[]", "{}", "null", "[[1]]"])
def test_a_wrong_type_in_any_field_is_refused_in_our_words(shared: Running, wrong: str) -> None:
    bodies = [call for call in operations(shared) if call.body is not None]
    refused = 0
    for call in bodies:
        path = call.path.replace("{kind}", "obs")
        for kind in (str, int, bool):
            for odd in _with_one_odd(call.body, kind):
                body = json.dumps(odd).replace(json.dumps(_PLACEHOLDER), wrong)
                answer = _send(shared, call.method, path, body)
                is_refused = 400 <= answer.status < 500
                refused += is_refused
                check(answer, (path, body), is_refused=is_refused)
    # Among the calls was one that lets no more jobs start.
    shared.api("DELETE", "/drain", user="root")
    assert refused > 10


def _send(server: Running, method: str, path: str, body: str) -> Answer:
    return server.ask(
        method,
        path,
        user="root",
        body=body.encode(),
        headers={"Content-Type": "application/json"},
    )


@pytest.mark.parametrize("value", [*ODD_NUMBERS, "1\0", "½", "٣", "", "-1"])
def test_an_odd_last_event_id_is_refused(shared: Running, value: str) -> None:
    job = shared.running_job()
    shared.finish(job.id)
    if "\0" in value or not value.isascii():
        value = quote(value)
    headers = {"Last-Event-ID": value}
    answer = shared.api("GET", f"/jobs/{job.id}/logs/0/0/stream", headers=headers)
    assert (answer.status, answer.error) == (422, "Last-Event-ID is not an offset")


PAGES = [
    ("GET", "/jobs?text={}", None),
    ("GET", "/jobs?user={}", None),
    ("GET", "/jobs?state={}", None),
    ("GET", "/jobs?before={}", None),
    ("GET", "/jobs?seen={}", None),
    ("GET", "/jobs/{}", None),
    ("GET", "/jobs/{job}?log={}", None),
    ("GET", "/jobs/{job}?seen={}", None),
    ("GET", "/jobs/{job}?carried={}", None),
    ("GET", "/login?code={}", None),
    ("GET", "/login?next={}", None),
    ("GET", "/static/{}", None),
    ("GET", "/{}", None),
    ("POST", "/login", "name={}&password=x"),
    ("POST", "/login", "name=x&password={}"),
    ("POST", "/login", "code={}"),
    ("POST", "/login", "name=ann&password=x&next={}"),
    ("POST", "/register", "name={}&password=long%20enough&repeat=long%20enough"),
    ("POST", "/admin/users/{}/role", "role=member"),
    ("POST", "/admin/users/ann/role", "role={}"),
    ("POST", "/jobs/{}/stop", ""),
]


def test_no_page_fails_on_odd_values(database_url: str, tmp_path: Path) -> None:
    with odd_server(tmp_path, database_url) as (server, job):
        for method, path, body in PAGES:
            for value in ("%00", "a%00b", "%ED%A0%80", "%ff%fe", *ODD_NUMBERS):
                address = path.replace("{job}", job).replace("{}", value)
                sent = None if body is None else body.replace("{}", value).encode()
                headers = {"Content-Type": "application/x-www-form-urlencoded"}
                answer = server.ask(method, address, user="root", body=sent, headers=headers)
                check(answer, (method, address[:60], value[:20]))
                if "%00" in value:
                    assert answer.status == 422, (method, address)


def test_a_multipart_form_is_not_taken(shared: Running) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=x; charset=unicode_escape"}
    body = b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\na\0b\r\n--x--\r\n'
    answer = shared.ask("POST", "/login", user=None, body=body, headers=headers)
    assert answer.status == 415


def test_a_host_that_is_no_address_is_refused(shared: Running) -> None:
    for host in ("[", "[::1", "a]b", "127.0.0.1:port"):
        answer = shared.ask("GET", "/api/v1/server", user=None, headers={"Host": host})
        assert answer.status < 500, host


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
    ),
    st.sampled_from(["/jobs", "/plans", "/users", "/session", "/tokens", "/me/s3-keys"]),
)
@settings(max_examples=200)
def test_any_json_at_any_call_is_answered(shared: Running, value: object, path: str) -> None:
    check(shared.api("POST", path, body=value), (path, value))


@given(st.binary(max_size=200), st.sampled_from(["/jobs", "/users", "/tokens"]))
@settings(max_examples=100)
def test_any_bytes_at_any_call_are_answered(shared: Running, body: bytes, path: str) -> None:
    headers = {"Content-Type": "application/json"}
    check(shared.api("POST", path, body=body, headers=headers), (path, body))


@given(st.text(st.characters(), max_size=64))
@settings(max_examples=100)
def test_any_text_in_a_query_is_answered(shared: Running, text: str) -> None:
    encoded = quote(text, safe="", errors="surrogatepass")
    check(shared.api("GET", f"/jobs?text={encoded}&user={encoded}"), text)
    check(shared.api("GET", f"/jobs/{encoded or '-'}"), text)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """What fails is told by the assertion; thousands of lines of log are not."""
    caplog.set_level(logging.CRITICAL)
