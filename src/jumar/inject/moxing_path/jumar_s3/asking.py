"""How requests are made: addresses, signatures, connections that are kept for the next request, and the
site's proxy, as the environment names it."""

import hashlib
import os
import threading
from base64 import b64encode
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Dict, List, Mapping, NamedTuple, Optional, Tuple
from urllib.parse import quote, unquote, urlsplit

from .answers import Answer, Response, S3Error
from .sign import EMPTY_SHA256, UNSIGNED, Endpoint, Request, authorization, query_text, stamp
from .wire import Body, Connection, Proxy, ProxyRefused

if TYPE_CHECKING:
    from ssl import SSLContext, SSLSession


_MOVED = (301, 302, 307, 308)
_MOST_MOVES = 3
_LOCAL_NAMES = ("localhost", "ip6-localhost")
# ssl.VERIFY_X509_PARTIAL_CHAIN, which older Pythons do not name.
_PARTIAL_CHAIN = 0x80000


class Server(NamedTuple):
    """Where requests go, and the region that they are signed for."""

    host: str
    port: Optional[int]
    region: str


class Asking:
    """Requests to one server, and to those that it says a bucket has moved to."""

    def __init__(self, endpoint: Endpoint, timeout_s: float = 60.0) -> None:
        parts = urlsplit(endpoint.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{endpoint.url!r} is not the address of an S3 server")
        self.endpoint = endpoint
        self.secure = parts.scheme == "https"
        """Whether connections are encrypted."""
        self._home = Server(parts.hostname, parts.port, endpoint.region)
        self._moved: Dict[str, Server] = {}
        """Where buckets are that the server does not have itself."""
        self.timeout_s = timeout_s
        self._idle: List[Connection] = []
        """Open connections that no request uses, the last used one at the end."""
        self._process = os.getpid()
        self._tls_context: Optional[SSLContext] = None
        self._sessions: Dict[str, SSLSession] = {}
        self._making_tls = threading.Lock()

    def close(self) -> None:
        """Close the connections that no request uses."""
        while self._idle:
            self._idle.pop().close()

    def place(self, bucket: str, key: str) -> Tuple[str, str]:
        """The host and the path of a key."""
        server = self._server(bucket)
        host = server.host if ":" not in server.host else f"[{server.host}]"
        path = "/" + quote(key, safe="/-_.~")
        if bucket and self._in_path(bucket):
            path = "/{}{}".format(quote(bucket, safe="-_.~"), path if key else "")
        elif bucket:
            host = f"{bucket}.{host}"
        if server.port is not None and server.port != (443 if self.secure else 80):
            host = f"{host}:{server.port}"
        return host, path

    def _server(self, bucket: str) -> Server:
        return self._moved.get(bucket, self._home)

    def _in_path(self, bucket: str) -> bool:
        """Certificates are for one label before the server's name: `a.b` cannot go there."""
        return self.endpoint.path_style or (self.secure and "." in bucket)

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
        moves = 0
        while True:
            answer = self._answer(method, bucket, key, query, headers, body, length)
            if answer.raw.status < 300:
                return answer
            with answer:
                error = answer.error()
            moves += 1
            is_moved = answer.raw.status in _MOVED and moves < _MOST_MOVES
            if not is_moved or not self._follow(bucket, answer, error):
                raise error
            if body is not None and not isinstance(body, bytes):
                # What was sent of it cannot be sent again; the caller can.
                raise ConnectionError("the server moved the bucket during an upload")

    def _answer(
        self,
        method: str,
        bucket: str,
        key: str,
        query: Optional[Dict[str, str]],
        headers: Optional[Dict[str, str]],
        body: Optional[Body],
        length: Optional[int],
    ) -> Answer:
        host, path = self.place(bucket, key)
        text = query_text(query or {})
        sent = self.signed(method, bucket, host, path, text, headers or {}, body)
        if isinstance(body, bytes):
            length = len(body)
        if length is not None or method in ("PUT", "POST"):
            sent["content-length"] = str(length or 0)
        return Answer(self._ask(bucket, method, path + ("?" + text if text else ""), sent, body))

    def _follow(self, bucket: str, answer: Answer, error: S3Error) -> bool:
        """Whether the bucket is at another server of the same site, which is asked from now on."""
        parts = urlsplit(answer.headers.get("location", ""))
        if parts.hostname is None and error.endpoint:
            parts = urlsplit(f"//{error.endpoint}")
        host = (parts.hostname or "").lower()
        if bucket and host.startswith(f"{bucket}."):
            host = host[len(bucket) + 1 :]
        region = answer.headers.get("x-amz-bucket-region") or self._server(bucket).region
        there = Server(host or self._home.host, parts.port if host else self._home.port, region)
        # Signatures and tokens are for this site only, and never leave an encrypted connection.
        is_safe = parts.scheme in ("", "https" if self.secure else "http")
        if not bucket or not is_safe or not _is_same_site(there.host, self._home.host):
            return False
        is_new = there != self._server(bucket)
        self._moved[bucket] = there
        return is_new

    def _ask(
        self, bucket: str, method: str, target: str, headers: Dict[str, str], body: Optional[Body]
    ) -> Response:
        connection = self._connection(bucket)
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
        bucket: str,
        host: str,
        path: str,
        query: str,
        headers: Dict[str, str],
        body: Optional[Body],
    ) -> Dict[str, str]:
        """The headers of a request, signed."""
        made = stamp()
        digest = EMPTY_SHA256 if body is None else UNSIGNED
        # An encrypted line protects the body already; callers add the checksum of what must be right.
        if isinstance(body, bytes) and not self.secure:
            digest = hashlib.sha256(body).hexdigest()
        sent = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": made}
        if self.endpoint.token:
            sent["x-amz-security-token"] = self.endpoint.token
        for name, value in headers.items():
            sent[name.lower()] = value
        if self.endpoint.access_key:
            request = Request(method, path, query, sent, digest, made)
            region = self._server(bucket).region
            sent["authorization"] = authorization(self.endpoint, region, request)
        return sent

    def _connection(self, bucket: str) -> Connection:
        """One that nobody uses now; it comes back when the answer has been read."""
        if self._process != os.getpid():
            # A forked process must not speak into its parent's conversations.
            self._process = os.getpid()
            self.close()
        wanted = self._address(bucket)
        for _ in range(len(self._idle)):
            try:
                found = self._idle.pop()
            except IndexError:
                break
            if (found.host, found.port) == wanted and found.is_usable():
                return found
            found.close()
        made = self.new_connection(bucket)
        made.on_free = self._idle.append
        return made

    def _address(self, bucket: str) -> Tuple[str, int]:
        server = self._server(bucket)
        host = f"{bucket}.{server.host}" if bucket and not self._in_path(bucket) else server.host
        return host, server.port or (443 if self.secure else 80)

    def new_connection(self, bucket: str) -> Connection:
        """A connection that only the caller uses."""
        host, port = self._address(bucket)
        try:
            proxy = proxy_for(host, port, secure=self.secure)
        except ValueError as error:
            raise ProxyRefused(str(error)) from error
        tls = self.tls_context() if self.secure else None
        return Connection(host, port, self.timeout_s, tls, proxy, self._sessions)

    def tls_context(self) -> "SSLContext":
        """What encrypted connections are checked with."""
        # Half of a short command's startup time; shared by all threads, because it reads a large file.
        import ssl

        with self._making_tls:
            if self._tls_context is None:
                # OpenSSL itself reads SSL_CERT_FILE and SSL_CERT_DIR.
                context = ssl.create_default_context(cadata=self.endpoint.certificate or None)
                if self.endpoint.certificate:
                    # That one and no other, whatever the server is called and whoever has signed it.
                    context.check_hostname = False
                    context.verify_flags |= _PARTIAL_CHAIN
                elif os.environ.get("AWS_CA_BUNDLE"):
                    context.load_verify_locations(os.environ["AWS_CA_BUNDLE"])
                self._tls_context = context
            return self._tls_context


def content_md5(md5: Optional[bytes]) -> Dict[str, str]:
    """The header by which the server checks a body."""
    return {} if md5 is None else {"content-md5": b64encode(md5).decode("ascii")}


def _is_same_site(host: str, home: str) -> bool:
    """Whether two servers belong together: the same one, or names with the same last two labels."""
    return host == home or (
        not home.replace(".", "").isdigit() and host.split(".")[-2:] == home.split(".")[-2:]
    )


def proxy_for(
    host: str, port: int, *, secure: bool, environ: Optional[Mapping[str, str]] = None
) -> Optional[Proxy]:
    """The proxy for a server; None to connect directly. Raises ValueError for one of another kind."""
    variables = os.environ if environ is None else environ
    names = ("https_proxy" if secure else "http_proxy", "all_proxy")
    address = next(filter(None, (_either(variables, name) for name in names)), "")
    if not address or _is_local(host) or _is_excepted(host, port, _either(variables, "no_proxy")):
        return None
    parts = urlsplit(address if "://" in address else f"http://{address}")
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(
            f"the proxy {parts.scheme}://{parts.hostname or ''} cannot be used: only http:// ones can"
        )
    authorization = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + b64encode(pair.encode("utf-8")).decode("ascii")
    return Proxy(parts.hostname, parts.port or 80, authorization)


def _either(environ: Mapping[str, str], name: str) -> str:
    """Both spellings are in use; curl and Python prefer the small one."""
    return (environ.get(name) or environ.get(name.upper()) or "").strip()


def _is_local(host: str) -> bool:
    """The built-in store is on this machine, which no proxy reaches."""
    if host in _LOCAL_NAMES:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _is_excepted(host: str, port: int, exceptions: str) -> bool:
    for entry in filter(None, (word.strip().lower() for word in exceptions.split(","))):
        if entry == "*":
            return True
        name, _, wanted = entry.rpartition(":") if entry.count(":") == 1 else (entry, "", "")
        if wanted and wanted != str(port):
            continue
        suffix = name.lstrip("*").lstrip(".")
        if host.lower() == suffix or host.lower().endswith(f".{suffix}") or _is_in(host, name):
            return True
    return False


def _is_in(host: str, network: str) -> bool:
    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False
