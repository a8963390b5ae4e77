"""The two forms of the built-in store: a folder, or SeaweedFS behind the S3 door.

`door` in `store.json` means the door; `obs://` and the clients of the door then see the same data.
Data never changes form silently: a folder with buckets in it must be migrated first."""

import time
from collections.abc import Iterable
from pathlib import Path

from jumar.errors import Conflict, HomeUnusable
from jumar.store.credentials import (
    credentials_path,
    door_of,
    read_private,
    save_credential,
    write_private,
)
from jumar.store.door import USUAL_PORT, Door
from jumar.store.rights import Guest
from jumar.tls import Certificate

_MOVING = "moving.json"


def is_door(home: Path) -> bool:
    """Whether the built-in store is behind the S3 door."""
    return door_of(home) is not None


def open_door(
    home: Path,
    host: str,
    port: int,
    guests: Iterable[Guest],
    certificate: Certificate | None = None,
) -> Door:
    """Open the door of a home, which `obs://` then means; host and port default to the last ones."""
    if not is_door(home):
        _refuse_folder_with_data(home)
        set_aside_old_objects(home)
    known = read_private(_listen_path(home))
    door = Door(
        home,
        port or int(known.get("port", USUAL_PORT)),
        host or str(known.get("host", "127.0.0.1")),
        certificate,
    )
    door.start(guests)
    try:
        enter_door(door)
    except BaseException:
        door.stop()
        raise
    return door


def enter_door(door: Door) -> None:
    """Make `obs://` mean the door, now and after a restart."""
    write_private(_listen_path(door.home), {"host": door.host, "port": door.port})
    save_credential(credentials_path(door.home), "door", door.credential)


def leave_door(home: Path) -> None:
    """Make `obs://` mean the folder."""
    save_credential(credentials_path(home), "door", None)


def set_aside_old_objects(home: Path) -> None:
    """Objects left behind by a migration away from the door must not reappear."""
    data = home / "door" / "data"
    if not (home / "door" / _MOVING).exists():
        set_aside(data)


def mark_moving(home: Path) -> None:
    """From here on, what is behind the door belongs to a migration that can be resumed."""
    set_aside_old_objects(home)
    write_private(home / "door" / _MOVING, {"began": time.time()})


def unmark_moving(home: Path) -> None:
    """The migration is done."""
    (home / "door" / _MOVING).unlink(missing_ok=True)


def set_aside(folder: Path) -> Path | None:
    """Rename a folder unless it is empty, so that its name is free; returns the new path."""
    if not folder.is_dir() or not any(folder.iterdir()):
        return None
    stamp = time.strftime("%Y%m%d-%H%M%S")
    aside = folder.with_name(f"{folder.name}-before-{stamp}")
    try:
        folder.rename(aside)
    except OSError as error:
        raise HomeUnusable(f"cannot rename {folder}: {error.strerror}") from error
    return aside


def _refuse_folder_with_data(home: Path) -> None:
    store = home / "store"
    if store.is_dir() and any(item.is_dir() for item in store.iterdir()):
        raise Conflict(
            f"the built-in store is a folder with buckets in it ({store}), which S3 clients "
            "would not see",
            hint="migrate it first: jumar store migrate --to s3",
        )


def _listen_path(home: Path) -> Path:
    return home / "door" / "listen.json"
