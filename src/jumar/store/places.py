"""From a URL (`obs://bucket/key`, `s3://bucket/key`, `hub://model/owner/name`, `file:///path` or a path) to
the store behind it."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from jumar.errors import BadInput
from jumar.spec.urls import SCHEMES, half_address
from jumar.store import hub
from jumar.store.base import Store
from jumar.store.credentials import StoreConfig
from jumar.store.folder import FolderStore
from jumar.store.objects import ObjectStore

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Url:
    """A parsed URL. The `key` of a file is its absolute path; a final `/` means a folder."""

    scheme: str
    bucket: str
    key: str

    def __str__(self) -> str:
        if self.scheme == "file":
            return self.key
        if self.scheme == hub.SCHEME:
            return f"{self.scheme}://{self.bucket}:{self.key}"
        return f"{self.scheme}://{self.bucket}/{self.key}"

    @property
    def is_file(self) -> bool:
        """Whether it is a path on this machine."""
        return self.scheme == "file"

    @property
    def path(self) -> Path:
        """The path of a file URL."""
        return Path(self.key)

    @property
    def says_folder(self) -> bool:
        """Whether it was written as a folder: with a final slash, or as a bare bucket."""
        return self.key == "" or self.key.endswith("/")

    def holds(self, other: "Url") -> bool:
        """Whether `other` is this place or below it."""
        if (self.scheme, self.bucket) != (other.scheme, other.bucket):
            return False
        mine, theirs = (
            os.path.realpath(one.key) if one.is_file else one.key for one in (self, other)
        )
        return f"{theirs}/".startswith(mine if mine in ("", "/") else f"{mine.rstrip('/')}/")

    def child(self, name: str) -> "Url":
        """The place `name` inside this folder."""
        folder = self.key if self.says_folder else self.key + "/"
        return Url(self.scheme, self.bucket, folder + name)


@dataclass(frozen=True, slots=True)
class Place:
    """A store and a key in it: what a URL refers to."""

    url: Url
    store: Store
    key: str

    @property
    def prefix(self) -> str:
        """The key as a folder: empty, or with a final slash."""
        return self.key if self.key == "" or self.key.endswith("/") else self.key + "/"


def parse_url(text: str) -> Url:
    """The URL that `text` means; paths are relative to the current folder."""
    if "\0" in text or not text:
        raise BadInput(f"{text!r} is not a URL or a path", hint="write obs://BUCKET/KEY or a path")
    half = half_address(text)
    if half is not None:
        raise BadInput(f"{text!r} is half an address", hint=f"write {half}://, or ./ before a path")
    match = _SCHEME.match(text)
    if match is None:
        return _file_url(text)
    scheme, rest = match[1].lower(), text[match.end() :]
    if scheme == "file":
        return _file_url("/" + unquote(rest).lstrip("/"))
    if scheme == hub.SCHEME:
        return Url(scheme, *hub.split(rest))
    if scheme not in SCHEMES:
        raise BadInput(
            f"{text!r}: {scheme}:// is not supported",
            hint="use obs://, s3://, hub://, file:// or a path",
        )
    bucket, _, key = rest.partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise BadInput(
            f"{text!r}: {bucket!r} is not a bucket name", hint=f"write {scheme}://BUCKET/KEY"
        )
    return Url(scheme, bucket, key)


def _file_url(text: str) -> Url:
    ending = "/" if text.endswith("/") or text.rstrip("/").endswith(("/.", "/..")) else ""
    path = os.path.abspath(os.path.expanduser(text))
    return Url("file", "", path if path == "/" else path + ending)


def open_place(url: Url | str, config: StoreConfig) -> Place:
    """The store behind a URL and the key in it."""
    place = parse_url(url) if isinstance(url, str) else url
    if place.is_file:
        return _file_place(place)
    return Place(place, open_bucket(place.scheme, place.bucket, config), place.key)


def open_bucket(scheme: str, bucket: str, config: StoreConfig) -> Store:
    """One bucket, on the credential's server or in the built-in store."""
    if scheme == hub.SCHEME:
        if config.hub is None:
            raise BadInput(
                f"hub://{bucket} is not reached from here", hint="jumar up, or jumar login"
            )
        return hub.HubStore(config.hub(), bucket)
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
    """Create a bucket unless it exists."""
    open_bucket(scheme, bucket, config).create()


def folder_exists(place: Place) -> bool:
    """Whether a folder or a bucket exists, even if it is empty."""
    return place.store.has_folder(place.prefix)


def _file_place(url: Url) -> Place:
    path = url.key.rstrip("/") or "/"
    if url.says_folder or os.path.isdir(path):
        return Place(url, FolderStore(path.rstrip("/"), f"{path.rstrip('/')}/"), "")
    folder, _, name = path.rpartition("/")
    if not name:
        raise BadInput("the root folder cannot hold data")
    return Place(url, FolderStore(folder, f"{folder}/"), name)
