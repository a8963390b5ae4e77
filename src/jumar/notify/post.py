"""One POST to an address that a user has given: within a time, and not into the site's own network."""

import http.client
import ipaddress
import socket
import ssl
import threading
from urllib.parse import urlsplit

LIMIT_S = 15.0
_MOST_BYTES = 1 << 16


class NotSent(Exception):
    """Why a message was not sent, in words without the address."""


def post(url: str, body: bytes, *, anywhere: bool, limit_s: float = LIMIT_S) -> tuple[int, bytes]:
    """Status and answer. Redirections are not followed. NotSent."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    try:
        connection = socket.create_connection(_address(host, port, anywhere), timeout=limit_s)
    except UnicodeError as error:
        raise NotSent(f"{host} is no name of a host") from error
    except OSError as error:
        raise NotSent(f"{host} cannot be reached: {error.strerror or error}") from error
    # Each read has a limit; an answer that comes byte by byte has this one. It holds the connection by another
    # descriptor, since TLS takes over the first.
    held = connection.dup()
    timer = threading.Timer(limit_s, _cut, (held,))
    timer.daemon = True
    timer.start()
    try:
        if parts.scheme == "https":
            context = ssl.create_default_context()
            connection = context.wrap_socket(connection, server_hostname=host)
        return _exchange(connection, host, port, url, body)
    except (OSError, http.client.HTTPException) as error:
        raise NotSent(f"{host} did not answer: {type(error).__name__}") from error
    finally:
        timer.cancel()
        # Not while it is being cut: the number of its descriptor may be another's by then.
        timer.join()
        held.close()
        connection.close()


def _exchange(
    connection: socket.socket, host: str, port: int, url: str, body: bytes
) -> tuple[int, bytes]:
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    caller = http.client.HTTPConnection(host, port)
    caller.sock = connection
    caller.request("POST", path, body, {"Content-Type": "application/json; charset=utf-8"})
    answer = caller.getresponse()
    return answer.status, answer.read(_MOST_BYTES)


def _address(host: str, port: int, anywhere: bool) -> tuple[str, int]:
    """Looked up once, so that it is the address that was checked which is spoken to."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    if not anywhere:
        addresses = [one for one in addresses if ipaddress.ip_address(one).is_global]
    if not addresses:
        raise NotSent(f"{host} is inside the site's own network: only administrators may use it")
    return addresses[0], port


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        # It has ended just now.
        return
