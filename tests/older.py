"""Databases as an earlier jumar has left them."""

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine


def migrate(engine: Engine, revision: str) -> None:
    """Make the tables of this revision."""
    config = Config()
    config.set_main_option("script_location", "jumar.database:migrations")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
