"""From a URL to the store that holds it."""

import os

from jumar.errors import BadInput
from jumar.store.base import Place, Store
from jumar.store.credentials import StoreConfig
from jumar.store.folder import FolderStore
from jumar.store.objects import ObjectStore
from jumar.store.url import Url, parse_url


def open_place(url: Url | str, config: StoreConfig) -> Place:
    """The store behind a URL and the key in it."""
    place = parse_url(url) if isinstance(url, str) else url
    if place.is_file:
        return _file_place(place)
    return Place(place, open_bucket(place.scheme, place.bucket, config), place.key)


def open_bucket(scheme: str, bucket: str, config: StoreConfig) -> Store:
    """One bucket: of the credential's server, or of the built-in store."""
    credential = config.credential(scheme)
    name = f"{scheme}://{bucket}/"
    if credential is None:
        return FolderStore(str(config.builtin / bucket), name, confined=True)
    return ObjectStore(credential.wire(), bucket, name, makes_bucket=credential.makes_buckets)


def buckets(scheme: str, config: StoreConfig) -> tuple[str, ...]:
    """Names of all buckets."""
    credential = config.credential(scheme)
    if credential is not None:
        store = ObjectStore(credential.wire(), "", f"{scheme}://")
        return tuple(store.call("", store.s3.buckets))
    if not config.builtin.is_dir():
        return ()
    return tuple(sorted(item.name for item in config.builtin.iterdir() if item.is_dir()))


def make_bucket(scheme: str, bucket: str, config: StoreConfig) -> None:
    """Make a bucket; one that is there is fine."""
    store = open_bucket(scheme, bucket, config)
    if isinstance(store, FolderStore):
        os.makedirs(store.root, exist_ok=True)
    elif isinstance(store, ObjectStore) and bucket not in buckets(scheme, config):
        store.call("", lambda: store.s3.create_bucket(bucket))


def folder_exists(place: Place) -> bool:
    """Whether a folder or a bucket is there, be it empty."""
    store = place.store
    if isinstance(store, FolderStore):
        return os.path.isdir(f"{store.root}/{place.key}" if place.key else store.root)
    return isinstance(store, ObjectStore) and store.has_any(place.prefix)


def _file_place(url: Url) -> Place:
    path = url.key.rstrip("/") or "/"
    if url.says_folder or os.path.isdir(path):
        return Place(url, FolderStore(path.rstrip("/"), f"{path.rstrip('/')}/"), "")
    folder, _, name = path.rpartition("/")
    if not name:
        raise BadInput("the root folder is no place for data")
    return Place(url, FolderStore(folder, f"{folder}/"), name)
