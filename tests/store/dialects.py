"""A small S3 server in memory that speaks as few servers at hand do: the first version of listings only,
as OBS documents it, or tags of encrypted objects. And servers that err, each in one way."""

import base64
import hashlib
import re
import ssl
import threading
import time
from bisect import bisect_left
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qsl, quote_plus, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

from jumar.store.credentials import Credential

Lists = Literal["1", "2", "refuses-2", "without-token", "same-token", "same-page", "same-marker"]


@dataclass
class Stored:
    data: bytes
    etag: str
    mtime: float = field(default_factory=time.time)


@dataclass
class Dialect:
    """How the server speaks, what it keeps, and what it was asked."""

    lists: Lists = "1"
    most_keys: int = 1000
    gives_next_marker: bool = False
    """Without a delimiter, too."""
    encodes: bool = True
    """Whether it knows `encoding-type=url`."""
    encryption: dict[str, str] = field(default_factory=dict[str, str])
    """Headers that say so; tags are then none of the bytes."""
    tells_only: tuple[str, ...] = ("PUT", "POST", "GET", "HEAD")
    """The methods whose answers have those headers."""
    tag: str | None = None
    """The tag of each object, whatever it holds."""
    most_parts: int = 1000
    taken_over: bool = False
    """Whether another program has the port now, which says 200 to everything."""
    stalls: int = 0
    """So many of the next reads and writes of objects are not answered, until the client gives up."""
    moved_to: str = ""
    """Another server, to which all questions about the bucket are sent."""
    proxy_authorization: str = ""
    """What a request must carry if the server is reached as a proxy."""
    most_uploads: int = 1000
    repeats_uploads: bool = False
    """Whether the list of unfinished uploads never ends."""
    refuses_completion: bool = False
    ignores_ranges: bool = False
    breaks_after: int = 0
    """The next answer with a range of more bytes breaks off after so many."""
    ranges: list[str] = field(default_factory=list[str])
    """What was asked for of objects, as the requests say it; empty for a whole one."""
    objects: dict[str, Stored] = field(default_factory=dict[str, Stored])
    uploads: dict[str, dict[int, Stored]] = field(default_factory=dict[str, dict[int, Stored]])
    upload_keys: dict[str, str] = field(default_factory=dict[str, str])
    connections: int = 0
    """How many were opened."""
    asked: list[str] = field(default_factory=list[str])
    md5s: list[str] = field(default_factory=list[str])
    """The Content-MD5 of each write, empty where there was none."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    endpoint: str = ""

    @property
    def credential(self) -> Credential:
        return Credential(self.endpoint, access_key="AK", secret_key="SK")

    def put(self, key: str, data: bytes) -> Stored:
        made = Stored(data, self._tag(data))
        with self.lock:
            self.objects[key] = made
        return made

    def _tag(self, data: bytes) -> str:
        if self.tag is not None:
            return self.tag
        # As long as an MD5, and of other bytes.
        return hashlib.md5(data + (b"encrypted" if self.encryption else b"")).hexdigest()


@contextmanager
def speaking(
    dialect: Dialect, port: int = 0, tls: ssl.SSLContext | None = None
) -> Generator[Dialect]:
    """The server, while it runs; its bucket is `lab`."""
    handler = type("Handler", (_Handler,), {"dialect": dialect})
    server = _Server(("127.0.0.1", port), handler)
    if tls is not None:
        # Each connection's own thread shakes hands.
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    dialect.endpoint = f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
    try:
        yield dialect
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients hang up when they want."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    dialect: Dialect

    def setup(self) -> None:
        with self.dialect.lock:
            self.dialect.connections += 1
        super().setup()

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        asked = self.headers.get("proxy-authorization", "")
        if self.dialect.proxy_authorization not in ("", asked):
            self._read()
            self._say_error(407, "ProxyAuthenticationRequired")
        elif self.dialect.moved_to and urlsplit(self.path).path.startswith("/lab"):
            self._read()
            self._say(307, Location=f"{self.dialect.moved_to}{self.path}")
        elif self.dialect.taken_over:
            self._read()
            self._say(200, b"<html><body>It works!</body></html>")
        elif self.command in ("GET", "PUT") and "?" not in self.path and self._is_to_stall():
            self._read()
            # The client hangs up.
            self.rfile.readline()
            self.close_connection = True
        else:
            getattr(self, f"do_{self.command}")()
        self.wfile.flush()

    def _is_to_stall(self) -> bool:
        with self.dialect.lock:
            stalls = self.dialect.stalls > 0 and self.path.startswith("/lab/")
            self.dialect.stalls -= stalls
            return stalls

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def _read(self) -> tuple[str, dict[str, str], bytes]:
        parts = urlsplit(self.path)
        key = unquote(parts.path).removeprefix("/lab").removeprefix("/")
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        with self.dialect.lock:
            self.dialect.asked.append(f"{self.command} {self.path}")
        return key, dict(parse_qsl(parts.query, keep_blank_values=True)), body

    def _say(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        if self.command in self.dialect.tells_only:
            for name, value in self.dialect.encryption.items():
                self.send_header(name, value)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _say_error(self, status: int, code: str) -> None:
        self._say(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())

    def do_HEAD(self) -> None:
        key, _, _ = self._read()
        found = self.dialect.objects.get(key)
        if found is None:
            self._say(404)
            return
        length = str(len(found.data))
        self._say(200, b"", ETag=f'"{found.etag}"', Content_Length=length, **_dated(found))

    def do_GET(self) -> None:
        key, query, _ = self._read()
        if key == "" and self.path.partition("?")[0] == "/":
            self._say(
                200,
                b"<ListAllMyBucketsResult><Buckets><Bucket><Name>lab</Name></Bucket></Buckets>"
                b"</ListAllMyBucketsResult>",
            )
        elif key == "" and "uploads" in query:
            self._list_uploads(query)
        elif key == "":
            self._list(query)
        elif "uploadId" in query:
            self._list_parts(query)
        else:
            self._get(key)

    def _get(self, key: str) -> None:
        found = self.dialect.objects.get(key)
        if found is None:
            self._say_error(404, "NoSuchKey")
            return
        tags = {"ETag": f'"{found.etag}"', **_dated(found)}
        with self.dialect.lock:
            self.dialect.ranges.append(self.headers.get("range", ""))
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        if asked is None or self.dialect.ignores_ranges:
            self._say(200, found.data, **tags)
            return
        start, end = int(asked[1]), min(int(asked[2] or len(found.data)), len(found.data) - 1)
        span = f"bytes {start}-{end}/{len(found.data)}"
        length = end + 1 - start
        with self.dialect.lock:
            breaks = 0 < self.dialect.breaks_after < length
            sent = self.dialect.breaks_after if breaks else length
            self.dialect.breaks_after *= not breaks
        self.close_connection = breaks
        tags.update(Content_Range=span, Content_Length=str(length))
        self._say(206, found.data[start : start + sent], **tags)

    def do_PUT(self) -> None:
        key, query, body = self._read()
        source = unquote(self.headers.get("x-amz-copy-source", "")).removeprefix("/lab/")
        if source:
            found = self._copied(source)
            if found is None:
                return
            body = found
        given = self.headers.get("content-md5", "")
        with self.dialect.lock:
            self.dialect.md5s.append(given)
        if given and base64.b64decode(given) != hashlib.md5(body).digest():
            self._say_error(400, "BadDigest")
        elif "uploadId" in query:
            upload = self.dialect.uploads.get(query["uploadId"])
            if upload is None:
                self._say_error(404, "NoSuchUpload")
                return
            part = Stored(body, self.dialect._tag(body))  # pyright: ignore[reportPrivateUsage]
            upload[int(query["partNumber"])] = part
            self._say_put(part, "CopyPartResult" if source else "")
        else:
            self._say_put(self.dialect.put(key, body), "CopyObjectResult" if source else "")

    def _say_put(self, made: Stored, copied: str) -> None:
        text = f'<{copied}><ETag>"{made.etag}"</ETag></{copied}>' if copied else ""
        self._say(200, text.encode(), ETag=f'"{made.etag}"')

    def _copied(self, source: str) -> bytes | None:
        """The bytes of another object, or of a range of it; None if that was refused."""
        found = self.dialect.objects.get(source)
        if found is None:
            self._say_error(404, "NoSuchKey")
            return None
        if self.headers.get("x-amz-copy-source-if-match", f'"{found.etag}"') != f'"{found.etag}"':
            self._say_error(412, "PreconditionFailed")
            return None
        asked = self.headers.get("x-amz-copy-source-range", "")
        if not asked:
            return found.data
        start, end = map(int, asked.removeprefix("bytes=").split("-"))
        return found.data[start : end + 1]

    def do_POST(self) -> None:
        key, query, body = self._read()
        dialect = self.dialect
        if "delete" in query:
            for name in re.findall(r"<Key>(.*?)</Key>", body.decode()):
                dialect.objects.pop(unescape(name), None)
            self._say(200, b"<DeleteResult/>")
        elif "uploads" in query:
            name = f"u{len(dialect.uploads)}-{time.time_ns()}"
            dialect.uploads[name] = {}
            dialect.upload_keys[name] = key
            text = f"<R><UploadId>{name}</UploadId></R>"
            self._say(200, text.encode())
        elif dialect.refuses_completion:
            self._say_error(503, "SlowDown")
        elif query["uploadId"] not in dialect.uploads:
            self._say_error(404, "NoSuchUpload")
        else:
            parts = dialect.uploads.pop(query["uploadId"])
            made = dialect.put(key, b"".join(parts[number].data for number in sorted(parts)))
            whole = hashlib.md5(b"".join(bytes.fromhex(p.etag) for _, p in sorted(parts.items())))
            made.etag = f"{dialect.tag or whole.hexdigest()}-{len(parts)}"
            if dialect.encryption:
                made.etag = f"{hashlib.md5(made.etag.encode()).hexdigest()}-{len(parts)}"
            self._say(200, f"<R><ETag>{made.etag}</ETag></R>".encode())

    def do_DELETE(self) -> None:
        key, query, _ = self._read()
        if "uploadId" in query:
            self.dialect.uploads.pop(query["uploadId"], None)
        else:
            self.dialect.objects.pop(key, None)
        self._say(204)

    def _list_parts(self, query: dict[str, str]) -> None:
        upload = self.dialect.uploads.get(query["uploadId"])
        if upload is None:
            self._say_error(404, "NoSuchUpload")
            return
        after = int(query.get("part-number-marker") or 0)
        found = [number for number in sorted(upload) if number > after]
        rows = "".join(
            f"<Part><PartNumber>{number}</PartNumber><Size>{len(upload[number].data)}</Size>"
            f"<ETag>{upload[number].etag}</ETag></Part>"
            for number in found[: self.dialect.most_parts]
        )
        cut = str(len(found) > self.dialect.most_parts).lower()
        self._say(
            200,
            f"<ListPartsResult><IsTruncated>{cut}</IsTruncated>{rows}</ListPartsResult>".encode(),
        )

    def _list_uploads(self, query: dict[str, str]) -> None:
        """In the order of keys, then of names, as many at a time as it likes."""
        dialect = self.dialect
        after = (query.get("key-marker", ""), query.get("upload-id-marker", ""))
        found = sorted((dialect.upload_keys[name], name) for name in dialect.uploads)
        found = [one for one in found if one > after and one[0].startswith(query.get("prefix", ""))]
        shown = found[: dialect.most_uploads]
        rows = "".join(
            f"<Upload><Key>{escape(self._shown(key, query))}</Key><UploadId>{name}</UploadId>"
            "<Initiated>2026-01-02T03:04:05.000Z</Initiated></Upload>"
            for key, name in shown
        )
        has_more = len(found) > len(shown) or dialect.repeats_uploads
        if dialect.repeats_uploads:
            shown = [("a", "same")]
        head = f"<IsTruncated>{str(has_more).lower()}</IsTruncated>"
        if self.dialect.encodes:
            head += "<EncodingType>url</EncodingType>"
        if has_more:
            key, name = shown[-1]
            head += f"<NextKeyMarker>{escape(self._shown(key, query))}</NextKeyMarker>"
            head += f"<NextUploadIdMarker>{name}</NextUploadIdMarker>"
        root = "ListMultipartUploadsResult"
        self._say(200, f"<{root}>{head}{rows}</{root}>".encode())

    def _list(self, query: dict[str, str]) -> None:
        lists = self.dialect.lists
        is_second = "list-type" in query
        if is_second and lists == "refuses-2":
            self._say_error(501, "NotImplemented")
            return
        is_second = is_second and lists not in ("1", "refuses-2", "same-marker")
        after = query.get("continuation-token" if is_second else "marker", "")
        if lists in ("same-token", "same-page", "same-marker"):
            after = ""
        names, has_more = self._names(query, after)
        text = "".join(self._row(name, query) for name in names)
        fields = {"Name": "lab", "IsTruncated": str(has_more).lower()}
        if query.get("encoding-type") == "url" and self.dialect.encodes:
            fields["EncodingType"] = "url"
        if is_second:
            fields["KeyCount"] = str(len(names))
            if has_more and lists != "without-token":
                token = f"{time.time_ns()}" if lists == "same-page" else names[-1]
                fields["NextContinuationToken"] = token
        else:
            fields["Marker"] = self._shown(after, query)
            if has_more and (query.get("delimiter") or self.dialect.gives_next_marker):
                fields["NextMarker"] = self._shown(names[-1], query)
        head = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in fields.items())
        space = "http://obs.myhwclouds.com/doc/2015-06-30/"
        self._say(
            200, f'<ListBucketResult xmlns="{space}">{head}{text}</ListBucketResult>'.encode()
        )

    def _names(self, query: dict[str, str], after: str) -> tuple[list[str], bool]:
        """Keys, and common prefixes, each once; whether there are more."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        most = min(int(query.get("max-keys") or 1000), self.dialect.most_keys)
        names: list[str] = []
        with self.dialect.lock:
            keys = sorted(self.dialect.objects)
        for key in keys[bisect_left(keys, max(prefix, after)) :]:
            rest = key.removeprefix(prefix)
            if not key.startswith(prefix):
                continue
            name = prefix + rest.partition(delimiter)[0] + delimiter if delimiter else key
            name = name if delimiter and delimiter in rest else key
            if name.encode() <= after.encode() or name in names[-1:]:
                continue
            if len(names) == most:
                return names, True
            names.append(name)
        return names, False

    def _row(self, name: str, query: dict[str, str]) -> str:
        shown, found = escape(self._shown(name, query)), self.dialect.objects.get(name)
        delimiter = query.get("delimiter")
        is_folder = delimiter and name.endswith(delimiter) and name != query.get("prefix")
        if found is None or is_folder:
            return f"<CommonPrefixes><Prefix>{shown}</Prefix></CommonPrefixes>"
        when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(found.mtime))
        return (
            f"<Contents><Key>{shown}</Key><LastModified>{when}</LastModified>"
            f'<ETag>"{found.etag}"</ETag><Size>{len(found.data)}</Size></Contents>'
        )

    def _shown(self, name: str, query: dict[str, str]) -> str:
        encodes = self.dialect.encodes and query.get("encoding-type") == "url"
        return quote_plus(name, safe="/") if encodes else name


def _dated(found: Stored) -> dict[str, str]:
    when = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(found.mtime))
    return {"Last_Modified": when}
