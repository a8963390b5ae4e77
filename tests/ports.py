"""Ports for the servers that tests start."""

import os
import random
import socket
from contextlib import suppress
from itertools import cycle

# Below those that outgoing connections are given, and below those inside the S3 doors.
_PORTS = range(10_000, 15_000)
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_own = _PORTS[_worker::_workers]
# Not seeded: other runs of the tests on this machine try them in another order.
_candidates = cycle(random.SystemRandom().sample(_own, len(_own)))


def free_port() -> int:
    """A port that nobody has now, and that neither another worker nor a connection takes later."""
    for port in _candidates:
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("the candidates never end")
