"""What a newer client is told by a server that does not know all its fields."""

import pytest

from jumar.client.older_server import unknown_to_an_older_server
from jumar.errors import BadInput

ASKED = {"name": "train", "command": ["true"], "measure": True}


def test_a_field_that_only_the_server_does_not_know_is_told_as_its_age() -> None:
    with pytest.raises(BadInput) as found, unknown_to_an_older_server(ASKED):
        raise BadInput("job: measure: unknown field", hint="all fields: jumar spec schema")
    assert found.value.message.startswith("measure: unknown to the server")
    assert "older than this client" in found.value.message
    assert "upgrade" in (found.value.hint or "")


def test_a_mistake_is_told_as_a_mistake() -> None:
    for message in (
        "job: colour: unknown field",
        "job: measure: unknown field\njob: name: missing",
    ):
        with (
            pytest.raises(BadInput) as found,
            unknown_to_an_older_server({**ASKED, "colour": 1}),
        ):
            raise BadInput(message, hint="all fields: jumar spec schema")
        assert found.value.message == message
