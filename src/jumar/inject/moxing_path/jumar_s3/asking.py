"""How requests are made: addresses, signatures, one connection per thread."""

import hashlib
import threading
import time
from typing import TYPE_CHECKING, Dict, Optional, Tuple
from urllib.parse import quote, urlsplit

from .answers import Answer
from .sign import EMPTY_SHA256, UNSIGNED, Endpoint, Request, authorization, query_text, stamp
from .wire import Body, Connection, Response

if TYPE_CHECKING:
    from ssl import SSLContext


class Asking:
    """Requests to one server."""

    def __init__(self, endpoint: Endpoint, timeout_s: float = 60.0) -> None:
        parts = urlsplit(endpoint.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{endpoint.url!r} is not the address of an S3 server")
        self.endpoint = endpoint
        self.secure = parts.scheme == "https"
        """Whether connections are encrypted."""
        self._host = parts.hostname
        self._port = parts.port
        self._timeout_s = timeout_s
        self._local = threading.local()
        self._tls_context: Optional[SSLContext] = None
        self._making_tls = threading.Lock()

    def close(self) -> None:
        """Close this thread's connection."""
        kept = getattr(self._local, "kept", None)
        if kept is not None:
            kept.close()

    def place(self, bucket: str, key: str) -> Tuple[str, str]:
        """The host and the path of a key."""
        host = self._host if ":" not in self._host else f"[{self._host}]"
        path = "/" + quote(key, safe="/-_.~")
        if bucket and self.endpoint.path_style:
            path = "/{}{}".format(quote(bucket, safe="-_.~"), path if key else "")
        elif bucket:
            host = f"{bucket}.{host}"
        if self._port is not None and self._port != (443 if self.secure else 80):
            host = f"{host}:{self._port}"
        return host, path

    def answer(
        self,
        method: str,
        bucket: str = "",
        key: str = "",
        query: Optional[Dict[str, str]] = None,
        headers: Optional[Dict[str, str]] = None,
        body: Optional[Body] = None,
        length: Optional[int] = None,
    ) -> Answer:
        """Send a request; raises S3Error if the server refuses."""
        host, path = self.place(bucket, key)
        text = query_text(query or {})
        sent = self.signed(method, host, path, text, headers or {}, body)
        if isinstance(body, bytes):
            length = len(body)
        if length is not None or method in ("PUT", "POST"):
            sent["content-length"] = str(length or 0)
        answer = Answer(self._ask(host, method, path + ("?" + text if text else ""), sent, body))
        if answer.raw.status >= 300:
            with answer:
                raise answer.error()
        return answer

    def _ask(
        self, host: str, method: str, target: str, headers: Dict[str, str], body: Optional[Body]
    ) -> Response:
        connection = self._connection(host)
        # A server closes idle connections, sometimes at the very moment one is used.
        again = (
            connection.is_open and method != "POST" and (body is None or isinstance(body, bytes))
        )
        try:
            return connection.ask(method, target, headers, body)
        except ConnectionError:
            if not again:
                raise
            return connection.ask(method, target, headers, body)

    def signed(
        self,
        method: str,
        host: str,
        path: str,
        query: str,
        headers: Dict[str, str],
        body: Optional[Body],
    ) -> Dict[str, str]:
        """The headers of a request, signed."""
        now = time.gmtime()
        digest = EMPTY_SHA256 if body is None else UNSIGNED
        if isinstance(body, bytes):
            digest = hashlib.sha256(body).hexdigest()
        sent = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": stamp(now)}
        if self.endpoint.token:
            sent["x-amz-security-token"] = self.endpoint.token
        sent.update({name.lower(): value for name, value in headers.items()})
        if self.endpoint.access_key:
            request = Request(method, path, query, dict(sent), digest, now)
            sent["authorization"] = authorization(self.endpoint, request)
        return sent

    def _connection(self, host: str) -> Connection:
        """This thread's connection."""
        kept: Optional[Connection] = getattr(self._local, "kept", None)
        if kept is None or kept.host != self._name(host):
            self.close()
            kept = self.new_connection(host)
            self._local.kept = kept
        return kept

    def _name(self, host: str) -> str:
        return self._host if self.endpoint.path_style else host.rsplit(":", 1)[0]

    def new_connection(self, host: str) -> Connection:
        """A connection that the caller keeps."""
        port = self._port or (443 if self.secure else 80)
        tls = self._tls() if self.secure else None
        return Connection(self._name(host), port, self._timeout_s, tls)

    def _tls(self) -> "SSLContext":
        # Half of a short command's startup time; shared by all threads, because it reads a large file.
        import ssl

        with self._making_tls:
            if self._tls_context is None:
                self._tls_context = ssl.create_default_context()
            return self._tls_context
