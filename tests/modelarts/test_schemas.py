"""Whatever fits the description of an API, or nearly does: no answer is the server's own failure."""

import json
import time
from collections.abc import Callable, Generator
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from tests.modelarts.conftest import Signer
from tests.server.conftest import Running, serving

from jumar.client import Client
from jumar.modelarts.signing import Signed, authorization, date_header

Send = Callable[[Any], tuple[int, Any]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    with serving(tmp_path_factory.mktemp("schemas")) as made:
        yield made


def check(description: dict[str, Any], known: dict[str, Any], send: Send, examples: int) -> None:
    """`known`: values of path parameters that exist."""
    schema: Any = schemathesis.openapi.from_dict(description)
    cases = schema.as_strategy() | schema.as_strategy(generation_mode=GenerationMode.NEGATIVE)

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(case=cases, is_known=st.booleans())
    def run(case: Any, is_known: bool) -> None:
        if is_known:
            for name in set(case.path_parameters or ()) & set(known):
                case.path_parameters[name] = known[name]
        status, said = send(case)
        assert status < 500, (case.method, case.formatted_path, case.query, case.body, said)

    run()


@pytest.mark.parametrize(
    ("user", "examples"),
    [
        ("root", 25),
        pytest.param("root", 4000, marks=pytest.mark.full),
        pytest.param("ann", 4000, marks=pytest.mark.full),
    ],
)
def test_our_own_api(server: Running, user: str, examples: int) -> None:
    job = server.submit("ann")
    server.log_path(job.id).write_text("a line\n")
    told = requests.get(f"{server.url}/api/v1/openapi.json", timeout=60).text
    # A kind of file that the generator does not know.
    description = json.loads(told.replace("application/x-tar", "application/octet-stream"))

    def send(case: Any) -> tuple[int, Any]:
        sent = case.as_transport_kwargs(base_url=server.url)
        sent["headers"] = {**sent["headers"], "Authorization": f"Bearer {server.token(user)}"}
        # Streams do not end by themselves: the head is enough.
        with requests.request(**sent, timeout=60, stream=True, allow_redirects=False) as got:
            return got.status_code, got.headers

    known = {"job": job.id, "node": 0, "rank": 0, "user": "bob", "name": "bob"}
    check(description, known, send, examples)


@pytest.mark.parametrize("examples", [25, pytest.param(4000, marks=pytest.mark.full)])
def test_modelarts_api(server: Running, examples: int) -> None:
    with Client(server.url, server.token("ann")) as client:
        ann = Signer(client.modelarts_keys())
    config = {"user_command": "train", "spec_id": 101}
    made = ann("POST", "/training-jobs", {"job_name": "x", "config": config}, api="v1")[1]
    description = requests.get(f"{server.url}/v2/openapi.json", timeout=60).json()

    def send(case: Any) -> tuple[int, Any]:
        given = case.as_transport_kwargs(base_url=server.url)
        names = ("method", "url", "params", "json", "data")
        sent = requests.Request(**{name: given[name] for name in names if name in given}).prepare()
        place = urlsplit(str(sent.url))
        told: Any = sent.body or b""
        body: bytes = told.encode() if isinstance(told, str) else told
        headers = {"host": place.netloc, "x-sdk-date": date_header(time.time())}
        method = str(sent.method)
        request = Signed(
            method=method, path=place.path, query=place.query, headers=headers, body=body
        )
        headers["authorization"] = authorization(ann.keys.ak, ann.keys.sk, request)
        return ann.send(method, str(sent.path_url), headers, body)

    known = {
        "project_id": ann.keys.project_id,
        "job": made["resource_id"],
        "number": made["job_id"],
        "version": made["version_id"],
        "task": "worker-0",
    }
    check(description, known, send, examples)
