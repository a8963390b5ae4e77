"""`jumar relay`: the far end of `jumar login ssh://`."""

import json
import os
import select
import socket
import ssl
import sys

import click

from jumar.cli.connect import connect
from jumar.errors import BadInput

_BLOCK = 1 << 16


@click.command()
def command() -> None:
    """Carry a connection over stdin and stdout.

    Started by ssh on the machine of a server that somebody uses with: jumar login ssh://USER@HOST. It
    connects to the server that you would use on this machine, as you.

    \b
    Example:
      ssh ann@trainer jumar relay
    """
    if sys.stdin.isatty() or sys.stdout.isatty():
        raise BadInput(
            "relay is not for a terminal: it carries a connection",
            hint="on the other machine: jumar login ssh://USER@HOST",
        )
    with connect().client as client:
        stream, token = client.open_stream()
    with stream:
        # Whoever runs this can read the token where it lies; it goes to nobody else.
        _write_all(1, json.dumps({"jumar": {"token": token}}).encode() + b"\n")
        _carry(stream)


def _carry(stream: socket.socket) -> None:
    """Until either side closes; the user at the other end has gone, or the server."""
    while True:
        ready, _, _ = select.select([0, stream], [], [])
        if 0 in ready:
            data = os.read(0, _BLOCK)
            if not data:
                return
            stream.sendall(data)
        if stream in ready:
            data = stream.recv(_BLOCK)
            # What TLS has decrypted already, select does not know of.
            while isinstance(stream, ssl.SSLSocket) and stream.pending():
                data += stream.recv(_BLOCK)
            if not data:
                return
            _write_all(1, data)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
