"""What keeps a store from working, or from working well: looked at step by step, each with its remedy.

Nothing is written unless that is asked for, and what is written is removed."""

import os
import secrets
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit
from xml.etree import ElementTree

from jumar.errors import JumarError, NotFound
from jumar.inject.moxing_path.jumar_s3 import S3, S3Error
from jumar.inject.moxing_path.jumar_s3.asking import proxy_for
from jumar.inject.moxing_path.jumar_s3.wire import Proxy
from jumar.spec.amounts import bytes_text
from jumar.store.errors import MOST_SKEW_S, NETWORK, explain_network, explain_s3
from jumar.store.folder import FolderStore
from jumar.store.objects import ObjectStore
from jumar.store.places import Place

Verdict = Literal["ok", "warn", "fail", "unknown"]
_LIMIT_S = 10.0
_SOON_S = 14 * 86_400
_SLOW_BYTES_PER_S = 1 << 20
_SAMPLE_BYTES = 8 << 20
_LEAST_SAMPLE_BYTES = 256 << 10
_LOOKED_AT = 1000
_OLD_UPLOAD_S = 86_400
_LOW_DISK_BYTES = 1 << 30
_NOT_ENCRYPTED = ("ServerSideEncryptionConfigurationNotFoundError", "NoSuchEncryptionConfiguration")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    verdict: Verdict
    seen: str
    fix: str | None = None


def examine(place: Place, *, write: bool) -> Iterator[Finding]:
    """All findings, as they come; after one that nothing works without, no more."""
    if isinstance(place.store, ObjectStore):
        yield from _Bucket(place, place.store).findings(write)
    elif isinstance(place.store, FolderStore):
        yield from _folder(place, place.store, write)


def _folder(place: Place, store: FolderStore, write: bool) -> Iterator[Finding]:
    if not place.url.is_file:
        yield Finding(
            "credentials", "ok", "none: this is the built-in store, a folder of this machine"
        )
    # Of a path the store is the folder above.
    root = os.path.join(store.root, place.key) if place.url.is_file else str(store.root)
    if not os.path.isdir(root):
        fix = (
            "jumar data push ./data " + str(place.url)
            if not place.url.is_file
            else "make it, or see the path"
        )
        name = root if place.url.is_file else store.name
        words = "is not a folder" if os.path.exists(root) else "does not exist"
        yield Finding("reachable", "fail", f"{name} {words}", fix)
        return
    yield Finding("reachable", "ok", f"the folder {root}")
    space = os.statvfs(root)
    free = space.f_bavail * space.f_frsize
    verdict: Verdict = "ok" if free > _LOW_DISK_BYTES else "warn"
    yield Finding(
        "space", verdict, f"{bytes_text(free)} free", None if verdict == "ok" else "free some space"
    )
    if not os.access(root, os.W_OK):
        yield Finding("write", "warn", "this user cannot write there", f"see: ls -ld {root}")
    elif write:
        yield from _written(place)


class _Bucket:
    """A bucket of an S3 server, from the name of the server up to the rate of a connection."""

    def __init__(self, place: Place, store: ObjectStore) -> None:
        self._place, self._store = place, store
        self._s3 = S3(store.endpoint, _LIMIT_S)
        host, _ = self._s3.place(store.bucket, "")
        self._host = urlsplit(f"//{host}").hostname or host
        self._port = urlsplit(f"//{host}").port or (443 if self._s3.secure else 80)

    def findings(self, write: bool) -> Iterator[Finding]:
        for step in (self._credentials, self._network, self._bucket, self._manners):
            for finding in step():
                yield finding
                if finding.verdict == "fail":
                    return
        if write:
            yield from _written(self._place)
        yield from self._rate(write)

    def _credentials(self) -> Iterator[Finding]:
        endpoint = self._store.endpoint
        if not endpoint.access_key:
            yield Finding(
                "credentials",
                "warn",
                f"no key for {endpoint.url}: only public objects can be read",
                "jumar login obs --region REGION, or --endpoint URL",
            )
            return
        kind = "a temporary key" if endpoint.token else "a key"
        yield Finding("credentials", "ok", f"{kind} for {endpoint.url}")

    def _network(self) -> Iterator[Finding]:
        try:
            proxy = proxy_for(self._host, self._port, secure=self._s3.secure)
        except ValueError as error:
            yield Finding("proxy", "fail", str(error), "set HTTPS_PROXY=http://HOST:PORT")
            return
        through = f"through {proxy.host}:{proxy.port}" if proxy else "none: connected directly"
        yield Finding("proxy", "ok", through)
        host, port = (proxy.host, proxy.port) if proxy else (self._host, self._port)
        yield from _dns(host, is_proxy=proxy is not None)
        began = time.monotonic()
        try:
            socket.create_connection((host, port), _LIMIT_S).close()
        except OSError as error:
            yield Finding(
                "reachable",
                "fail",
                f"{host}:{port}: {error.strerror or error}",
                "see NO_PROXY and HTTPS_PROXY"
                if proxy
                else "is the server running, is a firewall in the way, or is a proxy needed (HTTPS_PROXY)?",
            )
            return
        took = (time.monotonic() - began) * 1000
        yield Finding("reachable", "ok", f"{host}:{port} in {took:.0f} ms")
        yield self._tls(proxy)

    def _tls(self, proxy: Proxy | None) -> Finding:
        if not self._s3.secure:
            is_near = self._host == "localhost" or self._host.startswith("127.")
            return Finding(
                "tls",
                "ok" if is_near else "warn",
                "not encrypted: http://",
                None if is_near else "if the server speaks https://, log in with that address",
            )
        if proxy is not None:
            return Finding("tls", "ok", "through the proxy; the certificate is checked next")
        try:
            with (
                socket.create_connection((self._host, self._port), _LIMIT_S) as raw,
                self._s3.tls_context().wrap_socket(raw, server_hostname=self._host) as wrapped,
            ):
                told = wrapped.getpeercert() or {}
                version = wrapped.version()
        except (OSError, ValueError) as error:
            found = explain_network(error, "the handshake", self._store.endpoint.url)  # pyright: ignore[reportArgumentType]
            return Finding("tls", "fail", found.message, found.hint)
        left = ssl.cert_time_to_seconds(str(told["notAfter"])) - time.time()
        seen = f"{version}, certificate valid for {left / 86_400:.0f} more days"
        is_soon = left < _SOON_S
        return Finding(
            "tls", "warn" if is_soon else "ok", seen, "renew it on the server" if is_soon else None
        )

    def _bucket(self) -> Iterator[Finding]:
        """One signed request says whether clock, key, style and bucket are right."""
        query = {"list-type": "2", "max-keys": "1"}
        try:
            with self._s3.answer("GET", self._store.bucket, query=query) as answer:
                text, headers = answer.text(), answer.headers
        except S3Error as error:
            if error.code not in ("NotImplemented", "InvalidArgument", "InvalidRequest"):
                yield self._refused(error)
                return
            text, headers = b"<ListBucketResult/>", dict[str, str]()
        except NETWORK as error:
            found = explain_network(error, "a listing", self._store.endpoint.url)
            yield Finding("answer", "fail", found.message, found.hint)
            return
        root = _parsed(text)
        if root is None or not root.tag.endswith("ListBucketResult"):
            seen, fix = "the answer is no listing", "is this the address of an S3 server?"
            yield Finding("answer", "fail", seen, fix)
            return
        yield Finding("answer", "ok", f"the key can list {self._store.name}")
        yield _clock(headers)
        yield self._region(headers)
        is_in_path = self._s3.place(self._store.bucket, "")[1].startswith("/" + self._store.bucket)
        style = "in the path" if is_in_path else "in the host name"
        yield Finding("style", "ok", f"the bucket is named {style}")
        names = {child.tag.rpartition("}")[2] for child in root}
        version = 2 if names & {"KeyCount", "NextContinuationToken"} else 1
        yield Finding("list", "ok", f"listing API version {version}")

    def _refused(self, error: S3Error) -> Finding:
        found = explain_s3(error, self._store.name, self._store.endpoint.url)
        fix = found.hint
        if error.status in (400, 404, 405) and self._works_in_other_style():
            fix = "the bucket answers when it is named in the " + (
                "host name: log in with --region"
                if self._store.endpoint.path_style
                else "path: log in with --endpoint"
            )
        return Finding("answer", "fail", found.message, fix)

    def _works_in_other_style(self) -> bool:
        endpoint = self._store.endpoint
        other = S3(endpoint._replace(path_style=not endpoint.path_style), _LIMIT_S)
        try:
            other.page(self._store.bucket, limit=1)
        except (S3Error, *NETWORK):
            return False
        return True

    def _region(self, headers: dict[str, str]) -> Finding:
        asked = self._store.endpoint.region
        real = headers.get("x-amz-bucket-region", "") or self._location()
        if not real:
            return Finding(
                "region", "unknown", f"{asked} is used; the server does not name its own"
            )
        if real == asked:
            return Finding("region", "ok", real)
        return Finding(
            "region",
            "warn",
            f"the bucket is in {real}, the key is for {asked}",
            f"jumar login obs --region {real}",
        )

    def _location(self) -> str:
        try:
            with self._s3.answer("GET", self._store.bucket, query={"location": ""}) as answer:
                root = _parsed(answer.text())
        except (S3Error, *NETWORK):
            return ""
        if root is None or not root.tag.endswith(
            ("LocationConstraint", "Location", "BucketLocation")
        ):
            return ""
        # Some servers put it into the root, OBS below it.
        return next((e.text.strip() for e in root.iter() if e.text and e.text.strip()), "")

    def _manners(self) -> Iterator[Finding]:
        yield self._encryption()
        try:
            uploads = list(self._s3.unfinished_uploads(self._store.bucket, self._place.key))
        except (S3Error, *NETWORK):
            yield Finding("uploads", "unknown", "the server does not list unfinished uploads")
            return
        old = [one for one in uploads if 0 < one.begun_at < time.time() - _OLD_UPLOAD_S]
        if old:
            seen = f"{len(old)} unfinished uploads are older than a day"
            yield Finding("uploads", "warn", seen, f"jumar data sweep {self._place.url}")
        else:
            yield Finding("uploads", "ok", "no unfinished uploads older than a day")

    def _encryption(self) -> Finding:
        try:
            with self._s3.answer("GET", self._store.bucket, query={"encryption": ""}) as answer:
                root = _parsed(answer.text())
        except S3Error as error:
            if error.code in _NOT_ENCRYPTED:
                return Finding("encryption", "ok", "objects are not encrypted by default")
            return Finding("encryption", "unknown", f"the server does not say ({error.code})")
        except NETWORK:
            root = None
        found = (
            [e.text or "" for e in root.iter() if e.tag.endswith("SSEAlgorithm")]
            if root is not None
            else []
        )
        if not found:
            return Finding("encryption", "unknown", "the server does not say")
        return Finding(
            "encryption", "ok", f"{found[0]}: copies are checked by CRC-32 and size, not by tag"
        )

    def _rate(self, write: bool) -> Iterator[Finding]:
        """From an object that is there, or one that is made for it."""
        store, prefix = self._store, self._place.prefix
        try:
            page = self._s3.page(store.bucket, prefix, limit=_LOOKED_AT)
            best = max(page.objects, key=lambda one: one.size, default=None)
            if best is not None and best.size >= _LEAST_SAMPLE_BYTES:
                yield self._read_rate(best.key, min(best.size, _SAMPLE_BYTES))
                return
            if not write:
                seen = "no object here is large enough to measure it"
                yield Finding("rate", "unknown", seen, "run it with --write")
                return
            key = prefix + _own_name()
            try:
                store.put_small(key, os.urandom(_SAMPLE_BYTES))
                yield self._read_rate(key, _SAMPLE_BYTES)
            finally:
                store.delete([key])
        except (JumarError, S3Error, *NETWORK) as error:
            yield Finding("rate", "fail", str(error))

    def _read_rate(self, key: str, size: int) -> Finding:
        began = time.monotonic()
        with self._s3.get(self._store.bucket, key, 0, size) as reading:
            reading.read()
        rate = size / max(time.monotonic() - began, 1e-6)
        is_slow = rate < _SLOW_BYTES_PER_S
        return Finding(
            "rate",
            "warn" if is_slow else "ok",
            f"{bytes_text(rate)}/s over one connection",
            "is the bucket in another region, or a proxy in between? copies use more connections: "
            "--workers 64"
            if is_slow
            else None,
        )


def _dns(host: str, *, is_proxy: bool) -> Iterator[Finding]:
    whose = "the proxy " if is_proxy else ""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        fix = "is the address or the region right (jumar login obs), and does DNS work?"
        yield Finding(
            "dns", "fail", f"{whose}{host} does not resolve: {error.strerror or error}", fix
        )
        return
    addresses = list(dict.fromkeys(str(row[4][0]) for row in found))
    shown = ", ".join(addresses[:3]) + (" …" if len(addresses) > 3 else "")
    yield Finding("dns", "ok", f"{whose}{host} resolves to {shown}")


def _clock(headers: dict[str, str]) -> Finding:
    from email.utils import parsedate_to_datetime

    try:
        there = parsedate_to_datetime(headers.get("date", "")).timestamp()
    except (ValueError, TypeError):
        return Finding("clock", "unknown", "the server does not say its time")
    apart = there - time.time()
    side = "behind" if apart > 0 else "ahead of"
    seen = f"{abs(apart):.0f} s {side} the server's" if abs(apart) >= 2 else "as the server's"
    # Servers refuse from 15 minutes on; a clock that is off by a third of that will get there.
    is_off = abs(apart) > MOST_SKEW_S
    fix = "set the clock: timedatectl set-ntp true"
    return Finding("clock", "warn" if is_off else "ok", seen, fix if is_off else None)


def _parsed(text: bytes) -> ElementTree.Element | None:
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return None


def _own_name() -> str:
    return f"jumar-data-doctor-{secrets.token_hex(8)}"


def _written(place: Place) -> Iterator[Finding]:
    """A small object: written, read, removed."""
    key, data = place.prefix + _own_name(), secrets.token_bytes(64)

    def attempt(action: Callable[[], object], what: str) -> Finding | None:
        try:
            action()
        except JumarError as error:
            return Finding("write", "fail", f"{what}: {error.message}", error.hint)
        return None

    failed = attempt(lambda: place.store.write(key, data), "an object could not be written")
    if failed is None:
        try:
            is_same = place.store.read(key) == data
        except NotFound:
            is_same = False
        failed = attempt(lambda: place.store.delete([key]), f"{key} could not be removed")
        if not is_same:
            failed = Finding("write", "fail", "what was read back is not what was written")
    yield failed or Finding("write", "ok", "an object was written, read and removed")
