"""Whole messages of HTTP, read from a socket."""

import socket


def message_of(connection: socket.socket) -> bytes:
    """One whole request or answer: its head, and as much body as it announces."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return data
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    missing = (int(lengths[0].split(b":")[1]) if lengths else 0) - len(body)
    while missing > 0:
        piece = connection.recv(65536)
        if not piece:
            return data
        data, missing = data + piece, missing - len(piece)
    return data
