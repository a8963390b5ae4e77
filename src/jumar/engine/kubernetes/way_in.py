"""A program that leads into a pod: its input and output are those of a command there.

    python -m jumar.engine.kubernetes.way_in CLUSTER POD COMMAND…

CLUSTER is a table `[kubernetes]` as JSON; it names files, never keys."""

import json
import os
import sys
import threading
from typing import Any

from jumar.engine.kubernetes.asking import Api
from jumar.engine.kubernetes.options import ClusterOptions, cluster_options
from jumar.errors import EngineFailed

_BLOCK = 1 << 15
_INPUT, _OUTPUT, _ERRORS, _END = b"\0", 1, 2, 3
"""Channels of v4.channel.k8s.io: the first byte of each message."""


def way_into(options: ClusterOptions, pod: str, command: list[str]) -> list[str]:
    """The command line of this program."""
    wanted = options.model_dump(include={"namespace", "kubeconfig", "context"}, exclude_none=True)
    # -P: a file in the current folder must not be imported in place of ours.
    own = [sys.executable, "-P", "-m", "jumar.engine.kubernetes.way_in"]
    return [*own, json.dumps(wanted), pod, *command]


def main(words: list[str]) -> int:
    """Until either side ends."""
    try:
        stream = Api(cluster_options(json.loads(words[0]))).enter(words[1], words[2:])
    except EngineFailed as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    threading.Thread(target=_send_input, args=(stream,), daemon=True).start()
    return _read(stream)


def _send_input(stream: Any) -> None:
    """The end of the input ends the way: the protocol has no other word for it."""
    try:
        while data := os.read(0, _BLOCK):
            stream.send_binary(_INPUT + data)
    finally:
        stream.close()


def _read(stream: Any) -> int:
    # Comes with the client.
    from websocket import WebSocketException

    try:
        while True:
            _, message = stream.recv_data()
            if not message:
                continue
            channel, data = message[0], message[1:]
            if channel in (_OUTPUT, _ERRORS):
                _write_all(channel, data)
            elif channel == _END:
                return 0 if json.loads(data).get("status") == "Success" else 1
    except (WebSocketException, OSError, ValueError):
        # Whoever reads our output sees it end.
        return 1


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
