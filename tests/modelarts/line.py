"""A network between two servers: which requests never arrive, which answers are lost, what comes late."""

import random
import socket
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

from tests.messages import message_of

LIMIT_S = 30.0
LATE_S = 0.6
FATES = ("whole", "whole", "whole", "500", "503", "429", "cut", "lost", "slow", "late")
"""What becomes of a request: `cut`, it does not arrive; `lost`, its answer does not; `slow`, neither does
within the client's limit, but it arrives; `late`, it arrives when the client has given up."""
Fate = str | Callable[[bytes], str]


def stormy(seed: int) -> Callable[[bytes], str]:
    """A fate for each request, the same ones for the same seed and order."""
    choose = random.Random(seed).choice
    return lambda _: choose(FATES)


class Line:
    """One request per connection; a thread each."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._target = (place.hostname or "", place.port or 0)
        self.fate: Fate = "whole"
        self.lost_creates = 0
        self.met: Counter[str] = Counter()
        """How often each fate was met."""
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._over.set()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._meet, args=(near,), daemon=True).start()

    def _meet(self, near: socket.socket) -> None:
        # Either side may hang up at any time.
        with near, suppress(OSError):
            near.settimeout(LIMIT_S)
            asked = message_of(near)
            if asked:
                fate = self.fate if isinstance(self.fate, str) else self.fate(asked)
                if fate == "whole" and is_create(asked) and self.lost_creates:
                    self.lost_creates -= 1
                    fate = "lost"
                self.met[fate] += 1
                self._carry(near, asked, fate)

    def _carry(self, near: socket.socket, asked: bytes, fate: str) -> None:
        if fate == "cut":
            return
        if fate.isdecimal():
            body = b'{"error_code": "ModelArts.9", "error_msg": "busy"}'
            head = f"HTTP/1.1 {fate} Busy\r\nContent-Length: {len(body)}\r\n\r\n"
            near.sendall(head.encode() + body)
            return
        if fate == "late":
            near.close()
            self._over.wait(LATE_S)
        answer = self._answer(asked)
        if fate == "slow":
            # Until the client has had enough.
            near.recv(1)
        elif fate == "whole":
            near.sendall(answer)

    def _answer(self, asked: bytes) -> bytes:
        # The signature is for the address that the client knows.
        with socket.create_connection(self._target, timeout=LIMIT_S) as there:
            there.sendall(asked)
            return message_of(there)


def is_create(asked: bytes) -> bool:
    """Whether a request asks for a job."""
    return asked.startswith(b"POST ") and b"/training-jobs HTTP" in asked
