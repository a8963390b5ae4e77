"""Whatever fits the description of an API, or nearly does: no answer is the server's own failure. The full
size, each operation as every kind of caller, is a program: `tests.modelarts.schemas`."""

from collections.abc import Generator
from typing import Any

import pytest
import schemathesis
from tests.modelarts.schemas import Door, Tally, ask, either, modelarts_api, own_api
from tests.server.conftest import Running, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    with serving(tmp_path_factory.mktemp("schemas")) as made:
        yield made


def check(door: Door) -> None:
    tally = Tally()
    schema: Any = schemathesis.openapi.from_dict(door.description)
    ask(door, either(schema.as_strategy), tally, examples=25, number=1)
    assert tally.answers


def test_our_own_api(server: Running) -> None:
    check(own_api(server, "root"))


def test_modelarts_api(server: Running) -> None:
    check(modelarts_api(server, "ann"))
