"""Every operation of both APIs with whatever fits its description, or nearly does: no answer may be the
server's own failure. `python -m tests.modelarts.schemas --examples 40` does each operation so often, as
every kind of caller, and ends by itself."""

import argparse
import itertools
import json
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException
from schemathesis import GenerationMode
from tests.modelarts.conftest import Signer
from tests.server.conftest import Running, serving
from urllib3.exceptions import HTTPError

from jumar.client import Client
from jumar.modelarts.signing import Signed, authorization, date_header

ANSWER_S = 120.0
Send = Callable[[Any], int]


@dataclass(frozen=True)
class Door:
    """An API as one kind of caller meets it. `known`: values of path parameters that exist, new ones each
    time: the calls before may have deleted the others."""

    description: dict[str, Any]
    known: Callable[[], dict[str, Any]]
    send: Send
    is_known_caller: bool

    def operations(self) -> Iterator[Any]:
        schema: Any = schemathesis.openapi.from_dict(self.description)
        return (found.ok() for found in schema.get_all_operations())


@dataclass
class Tally:
    """What was answered, and what went wrong."""

    answers: Counter[int] = field(default_factory=Counter[int])
    faults: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        parts = ", ".join(f"{status}: {count}" for status, count in sorted(self.answers.items()))
        return f"{self.answers.total()} answers ({parts}), {len(self.faults)} faults"


def own_api(server: Running, user: str | None) -> Door:
    """The REST API, asked by a user or by nobody."""
    told = requests.get(f"{server.url}/api/v1/openapi.json", timeout=ANSWER_S).text
    # A kind of file that the generator does not know.
    description = json.loads(told.replace("application/x-tar", "application/octet-stream"))

    def send(case: Any) -> int:
        sent = case.as_transport_kwargs(base_url=server.url)
        if user is not None:
            sent["headers"] = {**sent["headers"], "Authorization": f"Bearer {server.token(user)}"}
        # Streams do not end by themselves: the head is enough.
        with requests.request(**sent, timeout=ANSWER_S, stream=True, allow_redirects=False) as got:
            return got.status_code

    def known() -> dict[str, Any]:
        job = server.submit("ann")
        server.log_path(job.id).write_text("a line\n")
        return {"job": job.id, "node": 0, "rank": 0, "user": "bob", "name": "bob"}

    return Door(description, known, send, user is not None)


def modelarts_api(server: Running, user: str | None) -> Door:
    """ModelArts' API, v1 and v2, signed by a user or by nobody."""
    with Client(server.url, server.token(user or "ann")) as client:
        signer = Signer(client.modelarts_keys())
    description = requests.get(f"{server.url}/v2/openapi.json", timeout=ANSWER_S).json()
    _narrow(description["components"]["schemas"])

    def send(case: Any) -> int:
        given = case.as_transport_kwargs(base_url=server.url)
        names = ("method", "url", "params", "json", "data")
        sent = requests.Request(**{name: given[name] for name in names if name in given}).prepare()
        told: Any = sent.body or b""
        body: bytes = told.encode() if isinstance(told, str) else told
        headers = {} if user is None else _signature(signer, str(sent.method), str(sent.url), body)
        return signer.send(str(sent.method), str(sent.path_url), headers, body)[0]

    count = itertools.count()

    def known() -> dict[str, Any]:
        # Never the same twice: what is equal within a second is one job.
        asked = {
            "job_name": f"x{next(count)}",
            "config": {"user_command": "train", "spec_id": 101},
        }
        made = signer("POST", "/training-jobs", asked, api="v1")[1]
        return {
            "project_id": signer.keys.project_id,
            "job": made["resource_id"],
            "number": made["job_id"],
            "version": made["version_id"],
            "task": "worker-0",
        }

    return Door(description, known, send, user is not None)


def _narrow(schemas: dict[str, Any]) -> None:
    """Names and flavors that there are: else no create would ever get further than these."""
    name = {"type": "string", "pattern": "^[a-z][a-z0-9_-]{0,20}$"}
    fields: dict[tuple[str, str], dict[str, Any]] = {
        ("_Resource", "flavor_id"): {"enum": ["modelarts.kat1.xlarge", "103"]},
        ("_Metadata", "name"): name,
        ("V1Config", "spec_id"): {"enum": [101, "103"]},
        ("V1Job", "job_name"): name,
        ("V1Board", "job_name"): name,
    }
    for (schema, field_name), narrower in fields.items():
        assert field_name in schemas[schema]["properties"], (schema, field_name)
        schemas[schema]["properties"][field_name] = narrower


def _signature(signer: Signer, method: str, url: str, body: bytes) -> dict[str, str]:
    place = urlsplit(url)
    headers = {"host": place.netloc, "x-sdk-date": date_header(time.time())}
    request = Signed(method=method, path=place.path, query=place.query, headers=headers, body=body)
    return {**headers, "authorization": authorization(signer.keys.ak, signer.keys.sk, request)}


def ask(door: Door, cases: Any, tally: Tally, *, examples: int, number: int) -> None:
    """Send cases; an AssertionError tells of the smallest one that the server fails at."""
    known = door.known()

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(case=cases, is_known=st.booleans())
    def run(case: Any, is_known: bool) -> None:
        for name in set(case.path_parameters or ()) & set(known):
            # In another's project every call ends before it begins.
            if is_known or name == "project_id":
                case.path_parameters[name] = known[name]
        status = door.send(case)
        tally.answers[status] += 1
        assert status < 500, (status, case.method, case.formatted_path, case.query, case.body)

    run()


def either(strategy_of: Callable[..., Any]) -> Any:
    """Cases that fit the description, and cases that do not."""
    return strategy_of() | strategy_of(generation_mode=GenerationMode.NEGATIVE)


def walk(door: Door, *, examples: int, number: int, until: float) -> Tally:
    """Each operation so often; those for which no time is left are faults."""
    tally = Tally()
    for operation in door.operations():
        if time.monotonic() > until:
            tally.faults.append(f"{operation.label}: no time was left")
            continue
        try:
            ask(door, either(operation.as_strategy), tally, examples=examples, number=number)
        except (AssertionError, OSError, HTTPError, HypothesisException) as error:
            tally.faults.append(f"{operation.label}: {type(error).__name__}: {error}"[:2000])
    if door.is_known_caller and 2 * tally.answers[401] > tally.answers.total():
        tally.faults.append("most answers were 401: the caller lost its keys on the way")
    return tally


@contextmanager
def fresh() -> Generator[Running]:
    """A server of its own for each caller: some calls take users or keys away."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as made:
        yield made


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--examples", type=int, default=40, help="per operation and caller")
    parser.add_argument("--minutes", type=float, default=60, help="in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="a part of a caller's name")
    wanted = parser.parse_args()
    until = time.monotonic() + 60 * wanted.minutes
    # What the generator has to say about its own search.
    warnings.simplefilter("ignore")
    apis = (("REST", own_api, ("root", "ann", None)), ("ModelArts", modelarts_api, ("ann", None)))
    faults = 0
    for api, door_of, users in apis:
        for user in users:
            name = f"{api} as {user or 'nobody'}"
            if wanted.only not in name:
                continue
            began = time.monotonic()
            with fresh() as server:
                door = door_of(server, user)
                tally = walk(door, examples=wanted.examples, number=wanted.seed, until=until)
                count = len(list(door.operations()))
            said = f"{name}: {count} operations, {tally}, {time.monotonic() - began:.0f} s"
            sys.stdout.write("\n".join([said, *tally.faults, ""]))
            sys.stdout.flush()
            faults += len(tally.faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
