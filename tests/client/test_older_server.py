"""What a newer client is told by a server that does not know all its fields."""

import pytest

from jumar.client.older_server import blame_age
from jumar.errors import BadInput

ASKED = {"name": "train", "command": ["true"], "measure": True}


def test_a_field_that_only_the_server_does_not_know_is_told_as_its_age() -> None:
    with pytest.raises(BadInput) as found:
        blame_age(BadInput("job: measure: unknown field"), ASKED)
    assert found.value.message.startswith("measure: unknown to the server")
    assert "older than this client" in found.value.message
    assert "upgrade" in (found.value.hint or "")


def test_a_mistake_is_told_as_a_mistake() -> None:
    for message in (
        "job: colour: unknown field",
        "job: measure: unknown field\njob: name: missing",
    ):
        blame_age(BadInput(message), {**ASKED, "colour": 1})
