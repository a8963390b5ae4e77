"""`obs://bucket/key`, `s3://bucket/key`, `file:///path` and plain paths, as one record."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from jumar.errors import BadInput
from jumar.spec.urls import SCHEMES

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Url:
    """A place of bytes. `key` of a file is its absolute path; a final `/` says: a folder."""

    scheme: str
    bucket: str
    key: str

    def __str__(self) -> str:
        if self.scheme == "file":
            return self.key
        return f"{self.scheme}://{self.bucket}/{self.key}"

    @property
    def is_file(self) -> bool:
        """Whether it is a path of this machine."""
        return self.scheme == "file"

    @property
    def path(self) -> Path:
        """The path of a file URL."""
        return Path(self.key)

    @property
    def says_folder(self) -> bool:
        """Whether it was written as a folder: with a final slash, or a bucket alone."""
        return self.key == "" or self.key.endswith("/")

    def holds(self, other: "Url") -> bool:
        """Whether `other` is this place, or lies below it."""
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


def parse_url(text: str) -> Url:
    """The place that `text` names; a path is taken from the current folder."""
    if "\0" in text or not text:
        raise BadInput(f"{text!r} is not a place for data", hint="write obs://BUCKET/KEY or a path")
    match = _SCHEME.match(text)
    if match is None:
        return _file(text)
    scheme, rest = match[1].lower(), text[match.end() :]
    if scheme == "file":
        return _file("/" + unquote(rest).lstrip("/"))
    if scheme not in SCHEMES:
        raise BadInput(
            f"{text!r}: {scheme}:// is not known here",
            hint="use obs://, s3://, file:// or a path",
        )
    bucket, _, key = rest.partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise BadInput(
            f"{text!r}: {bucket!r} is not a bucket's name", hint=f"write {scheme}://BUCKET/KEY"
        )
    return Url(scheme, bucket, key)


def _file(text: str) -> Url:
    ending = "/" if text.endswith("/") or text.rstrip("/").endswith(("/.", "/..")) else ""
    path = os.path.abspath(os.path.expanduser(text))
    return Url("file", "", path if path == "/" else path + ending)
