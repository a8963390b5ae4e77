"""Delete what a URL names: one object, or everything below it."""

from jumar.errors import BadInput, NotFound
from jumar.store.places import Place


def remove_one(place: Place) -> None:
    """Delete one object; NotFound if it does not exist."""
    if not place.key or place.key.endswith("/"):
        raise BadInput(f"{place.url} is a folder", hint="to delete everything in it, add -r")
    try:
        place.store.stat(place.key)
    except NotFound as error:
        if next(iter(place.store.walk(f"{place.key}/")), None) is None:
            raise
        raise BadInput(
            f"{place.url} is a folder", hint="to delete everything in it, add -r"
        ) from error
    place.store.delete([place.key])


def remove_all(place: Place) -> int:
    """Delete everything below, including folders, or the object of that name; returns how many."""
    keys = [entry.key for entry in place.store.walk(place.prefix)]
    place.store.delete(keys)
    folders = place.store.delete_folders(place.prefix)
    if not keys and not folders and place.key:
        keys = [place.store.stat(place.key).key]
        place.store.delete(keys)
    return len(keys)
