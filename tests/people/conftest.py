from collections.abc import Generator

import pytest

from jumar.database.access import Database, open_database


@pytest.fixture
def database(database_url: str) -> Generator[Database]:
    database = open_database(database_url)
    yield database
    database.close()
