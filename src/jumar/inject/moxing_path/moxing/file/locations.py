"""What a URL refers to inside a job: a local path, or a key in a bucket on a server.

The platform passes `JUMAR_STORE_FILE` (a JSON file with the folder of the built-in store and the
credentials) or `JUMAR_HOME`; `S3_ENDPOINT`, `ACCESS_KEY_ID` and `SECRET_ACCESS_KEY`, which ModelArts
sets, and `set_auth` work too."""

import itertools
import json
import os
import sys
import threading
from contextlib import contextmanager
from typing import Any, Dict, Generator, NamedTuple, Optional, Tuple, Union

from jumar_s3 import S3, Endpoint, Patience

_given: Dict[str, Any] = {}
"""What `set_auth` was told."""
_clients: Dict[Endpoint, S3] = {}
ASIDE = ".jumar-"
_RESULTS = ("train_url", "output_path")
_lock = threading.Lock()
_numbers = itertools.count()


class Local(NamedTuple):
    """A path on this machine."""

    path: str


class Remote(NamedTuple):
    """A key in a bucket."""

    s3: S3
    bucket: str
    key: str

    @property
    def prefix(self) -> str:
        """The key as a folder."""
        return self.key if self.key == "" or self.key.endswith("/") else self.key + "/"

    def at(self, key: str) -> "Remote":
        """Another key in the same bucket."""
        return self._replace(key=key)


Location = Union[Local, Remote]
Url = Union[str, "os.PathLike[str]"]


def text_of(url: Url) -> str:
    """A URL or a path as text."""
    return os.fspath(url)


def is_url(path: str) -> bool:
    """Whether it is not a plain path."""
    return path.startswith(("obs://", "s3://"))


def is_results(url: Url) -> bool:
    """Whether it is where the script was told to put its results. ModelArts makes that folder before the
    script starts, and scripts list it or copy from it first."""
    text = text_of(url).rstrip("/")
    if not is_url(text):
        return False
    told = {f"--{name}={value}" for name in _RESULTS for value in (text, text + "/")}
    pairs = zip(sys.argv, sys.argv[1:])
    return not told.isdisjoint(sys.argv) or any(f"{one}={other}" in told for one, other in pairs)


def aside_of(path: str) -> str:
    """A name beside `path` for an unfinished file; listings never show it."""
    folder = os.path.dirname(path)
    return os.path.join(folder, f"{ASIDE}{os.getpid()}-{next(_numbers)}")


@contextmanager
def written_aside(path: str) -> Generator[str, None, None]:
    """A name beside `path` to write to; the file is renamed to `path` once it is complete."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    aside = aside_of(path)
    try:
        yield aside
        os.replace(aside, path)
    except BaseException:
        if os.path.exists(aside):
            os.unlink(aside)
        raise


def find(url: Url) -> Location:
    """The location that a URL or a path refers to."""
    text = text_of(url)
    if not is_url(text):
        return Local(text[len("file://") :] if text.startswith("file://") else text)
    scheme, _, rest = text.partition("://")
    bucket, _, key = rest.partition("/")
    if not bucket or bucket in (".", "..") or "\0" in text:
        raise ValueError(f"{text!r} does not name a bucket")
    builtin, endpoint = _server(scheme)
    if endpoint is None:
        return Local(_inside(builtin, bucket, key))
    return Remote(_client(endpoint), bucket, key)


def set_auth(
    ak: Optional[str] = None,
    sk: Optional[str] = None,
    server: Optional[str] = None,
    port: Optional[int] = None,
    is_secure: Optional[bool] = None,
    region: Optional[str] = None,
    path_style: Optional[bool] = None,
    retry: Optional[int] = None,
    security_token: Optional[str] = None,
    **_: Any,
) -> None:
    """Use this server and these keys from now on, in this process; what is not given stays as it is.

    `is_secure` decides only where the server's address does not: the platform's own is kept as it is.
    Options of ModelArts about things that this module does not have (such as `obs_client_log`) change
    nothing."""
    values = {
        "access_key": ak,
        "secret_key": sk,
        "region": region,
        "path_style": path_style,
        # A temporary key belongs to its token, and no other.
        "token": security_token if security_token is not None or ak is None else "",
    }
    if server:
        _given["endpoint"] = f"{server.rstrip('/')}:{port}" if port is not None else server
    if is_secure is not None:
        _given["is_secure"] = is_secure
    if retry is not None:
        _given["retry"] = max(0, int(retry))
    _given.update({name: value for name, value in values.items() if value is not None})


def patience() -> Patience:
    """How long to try again: what so many retries take."""
    usual = Patience()
    if "retry" not in _given:
        return usual
    waits = (min(usual.first_s * 2**n, usual.longest_s) for n in range(min(_given["retry"], 1000)))
    return Patience(limit_s=sum(waits), damaged_tries=_given["retry"] + 1)


def _server(scheme: str) -> Tuple[str, Optional[Endpoint]]:
    values = _settings()
    home = os.environ.get("JUMAR_HOME") or os.path.expanduser("~/.jumar")
    builtin = str(values.get("builtin") or os.path.join(home, "store"))
    known = values.get(scheme) or values.get("obs") or values.get("door") or _from_environment()
    if not known and "endpoint" not in _given:
        return builtin, None
    return builtin, _endpoint({**(known or {}), **_given})


def _settings() -> Dict[str, Any]:
    home = os.environ.get("JUMAR_HOME") or os.path.expanduser("~/.jumar")
    path = os.environ.get("JUMAR_STORE_FILE") or os.path.join(home, "store.json")
    try:
        with open(path, encoding="utf-8") as file:
            values: Dict[str, Any] = json.load(file)
    except FileNotFoundError:
        return {}
    return values


def _endpoint(credential: Dict[str, Any]) -> Endpoint:
    address = str(credential["endpoint"])
    if "://" not in address:
        address = f"{'https' if credential.get('is_secure', True) else 'http'}://{address}"
    return Endpoint(
        address,
        str(credential.get("access_key") or ""),
        str(credential.get("secret_key") or ""),
        str(credential.get("region") or "us-east-1"),
        str(credential.get("token") or ""),
        bool(credential.get("path_style", True)),
        str(credential.get("certificate") or ""),
    )


def _from_environment() -> Optional[Dict[str, Any]]:
    read = os.environ.get
    if not read("S3_ENDPOINT") or not read("ACCESS_KEY_ID") or not read("SECRET_ACCESS_KEY"):
        return None
    return {
        "endpoint": read("S3_ENDPOINT"),
        "access_key": read("ACCESS_KEY_ID"),
        "secret_key": read("SECRET_ACCESS_KEY"),
        "region": read("S3_REGION"),
        "token": read("SECURITY_TOKEN"),
        "is_secure": read("S3_USE_HTTPS", "1") != "0",
    }


def _client(endpoint: Endpoint) -> S3:
    with _lock:
        if endpoint not in _clients:
            _clients[endpoint] = S3(endpoint)
        return _clients[endpoint]


def _inside(builtin: str, bucket: str, key: str) -> str:
    parts = [part for part in key.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ValueError(f"{key!r} is outside the bucket {bucket!r}")
    path = os.path.join(builtin, bucket, *parts)
    return path + "/" if key.endswith("/") and parts else path
