"""What the errors of a database mean for a person."""

from sqlalchemy.exc import DataError, InterfaceError, OperationalError, SQLAlchemyError

from jumar.errors import BadInput, DatabaseAway, HomeUnusable, JumarError, StorageFull


def in_words(error: SQLAlchemyError) -> JumarError:
    """What the database's own error means for a person."""
    cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
    lowered = cause.lower()
    if "disk is full" in lowered or "no space left" in lowered:
        return StorageFull(
            f"no room left for the platform's database: {cause}", hint="free some disk space"
        )
    if "disk i/o error" in lowered:
        return StorageFull(
            f"the platform's database cannot be written: {cause}",
            hint="is the disk full, or broken? look at: df -h, dmesg",
        )
    if "readonly" in lowered or "unable to open" in lowered:
        return HomeUnusable(
            f"the platform's database cannot be written: {cause}",
            hint="set JUMAR_HOME to a folder that you can write to",
        )
    if is_damage(error):
        return HomeUnusable(
            f"the platform's database is damaged: {cause}",
            hint="make the list again with: jumar repair, or: jumar restore FILE",
        )
    if isinstance(error, DataError):
        return BadInput(f"the database cannot keep this: {cause}")
    if _is_passing(error, lowered):
        # Its own words name hosts and sockets; they are for the log.
        return DatabaseAway("the database does not answer", hint="try again in a moment")
    return HomeUnusable(f"the database answered: {cause}")


def is_damage(error: SQLAlchemyError) -> bool:
    """Whether SQLite says that the file makes no sense."""
    words = str(getattr(error, "orig", error)).lower()
    return "malformed" in words or "not a database" in words


def _is_passing(error: SQLAlchemyError, words: str) -> bool:
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    # SQLite has one class of errors for many things.
    if type(error.orig).__module__.startswith("sqlite3"):
        return "locked" in words or "busy" in words
    return True
