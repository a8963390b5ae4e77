"""Deleting what a URL names: one object, or all below it."""

from jumar.errors import BadInput
from jumar.store.base import Place


def remove_one(place: Place) -> None:
    """Delete one object; NotFound when it is not there."""
    if not place.key or place.key.endswith("/"):
        raise BadInput(f"{place.url} is a folder", hint="to delete all that is in it: add -r")
    place.store.stat(place.key)
    place.store.delete([place.key])


def remove_all(place: Place) -> int:
    """Delete all below, with its folders, or the one object of that name; gives how many."""
    keys = [entry.key for entry in place.store.walk(place.prefix)]
    place.store.delete(keys)
    folders = place.store.delete_folders(place.prefix)
    if not keys and not folders and place.key:
        keys = [place.store.stat(place.key).key]
        place.store.delete(keys)
    return len(keys)
