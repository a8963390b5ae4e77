"""How a database is reached, SQLite or PostgreSQL, and how its tables are brought up to date."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import QueuePool

from jumar.database.sqlite_file import prepared
from jumar.errors import BadInput, HomeUnusable


def make_engine(url: str) -> Engine:
    """The engine for an address; BadInput when it is none."""
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "postgresql":
            return create_engine(
                parsed.set(drivername="postgresql+psycopg"), pool_size=10, pool_pre_ping=True
            )
        if parsed.get_backend_name() != "sqlite":
            raise BadInput(
                f"no support for {parsed.get_backend_name()!r} as a database",
                hint="write sqlite:////path/to/file or postgresql://user@host/name",
            )
        engine = create_engine(parsed, poolclass=QueuePool, pool_size=10, max_overflow=40)
    except (ArgumentError, ValueError) as error:
        raise BadInput(f"not a database address: {url.split('@')[-1]!r}") from error
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise HomeUnusable(
            "PostgreSQL needs a driver", hint="pip install 'jumar[postgres]'"
        ) from error
    return prepared(engine)


def migrate(engine: Engine) -> None:
    """Bring the tables up to date; HomeUnusable when a newer jumar has been there."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    script = ScriptDirectory.from_config(config)
    with engine.connect() as plain:
        connection = plain.execution_options(jumar_writes=True)
        with connection.begin():
            current = MigrationContext.configure(connection).get_current_revision()
            known = {revision.revision for revision in script.walk_revisions()}
            if current is not None and current not in known:
                raise HomeUnusable(
                    f"this database was written by a newer jumar (schema {current!r})",
                    hint="upgrade jumar, or set JUMAR_HOME to another folder",
                )
            if current == script.get_current_head():
                return
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
