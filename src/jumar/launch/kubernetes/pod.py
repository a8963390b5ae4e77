"""The launcher of one pod: it finds the others, learns which cards it was given, then it is an attempt
like any other.

Pods find each other by the job directory, which all of them share: rank tables want addresses, not
names, and names take their time to spread."""

import os
import signal
import socket
import sys
import time
from typing import Any, Dict, Optional

from jumar.launch.jobdir import news
from jumar.launch.jobdir.files import JobDir, make_folders
from jumar.launch.jobdir.job import (
    Job,
    NodeShare,
    Request,
    ask_to_stop,
    read_job,
    read_request,
    read_stop,
)
from jumar.launch.jobdir.safefile import Unusable, read_object, write_json
from jumar.launch.node.keeper import ALREADY_CLAIMED, run_attempt
from jumar.launch.nodes.team import free_port, host_address
from jumar.launch.slurm.node import card_numbers
from jumar.launch.verdict import Verdict, apart

_LOOK_S = 0.2
_ADDRESS = "address.json"
_CARRIERS = (3, 11)
"""The Python that the programs need which carry data."""


def main(root: str, number: int, node: int) -> int:
    """Run this node's part of an attempt. The exit code of node 0 says whether the attempt went well, so
    that the cluster's own tools show it."""
    directory = JobDir(os.path.abspath(root), number, node)
    try:
        code = _run(directory)
    except (OSError, Unusable) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    if code == ALREADY_CLAIMED:
        sys.stderr.write(f"error: attempt {number} was already started on node {node}\n")
    if code or node:
        return code
    ending = news.read_ending(directory)
    return 0 if ending is not None and ending.state == "succeeded" else 1


def _run(directory: JobDir) -> int:
    job, request = read_job(directory), read_request(directory)
    make_folders(directory)
    if os.path.lexists(directory.claim) or os.path.lexists(directory._replace(node=0).said):
        return ALREADY_CLAIMED
    if os.getpgrp() != os.getpid():
        os.setsid()
    os.makedirs(os.environ.get("HOME") or "/", exist_ok=True)
    if request.staging is not None and sys.version_info < _CARRIERS:
        news.write_ending(directory._replace(node=0), _too_old().ending())
        return 0
    others = _Others(directory, job, request.join_limit_s)
    if not others.meet():
        late = f"{others.missing()} did not start within {request.join_limit_s:g} s"
        # For all: node 0 may be the one that is missing.
        news.write_ending(directory._replace(node=0), apart(late).ending())
        return 0
    return run_attempt(directory, others.completed)


def _too_old() -> Verdict:
    found, wanted = (".".join(map(str, one[:2])) for one in (sys.version_info, _CARRIERS))
    error = f"that takes Python {wanted} in the image, which has {found}"
    reason = f"the inputs could not be fetched: {error}"
    return Verdict("failed", "inputs", reason, 1, values={"error": error})


class _Others:
    """The pods of one attempt, as they have written themselves down."""

    def __init__(self, directory: JobDir, job: Job, limit_s: float) -> None:
        self._directory, self._job, self._limit_s = directory, job, limit_s
        self._known: Dict[int, Dict[str, Any]] = {}
        self._own = {
            "address": os.environ.get("JUMAR_POD_IP") or host_address(),
            "port": free_port("") if job.nodes > 1 and directory.node == 0 else 0,
            "name": os.environ.get("JUMAR_HOST_NAME") or socket.gethostname(),
            "at": time.time(),
        }

    def meet(self) -> bool:
        """Wait until all are known, or somebody wants an end; False: some did not come."""
        until = time.monotonic() + self._limit_s
        signal.signal(signal.SIGTERM, self._signalled)
        try:
            while True:
                # Written anew each time: a network file system looks at a folder again that was changed.
                write_json(self._file(self._directory.node), self._own)
                if self._look() or read_stop(self._directory) is not None:
                    return True
                if time.monotonic() >= until:
                    return False
                time.sleep(_LOOK_S)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def missing(self) -> str:
        """Who did not come."""
        missing = [str(node) for node in range(self._job.nodes) if node not in self._known]
        return f"node{'s' * (len(missing) > 1)} {', '.join(missing)}"

    def completed(self, request: Request, kind: str) -> Request:
        """With what is known only in the pod."""
        first = self._known.get(0, self._own)
        limit_s = read_object(self._directory.request).get("time_limit_s")
        deadline = None if limit_s is None else float(first["at"]) + float(limit_s)
        cards = list(card_numbers(kind)) if kind == "npu" else []
        if len(cards) != len(request.cards):
            cards = list(request.cards)
        return request._replace(
            cards=tuple(cards),
            is_contained=True,
            deadline=deadline,
            nodes=tuple(map(self._share, range(self._job.nodes))) if self._job.nodes > 1 else (),
            port=int(first["port"]),
        )

    def _share(self, node: int) -> NodeShare:
        found = self._known.get(node, {})
        return NodeShare(str(found.get("name", node)), str(found.get("address", "127.0.0.1")))

    def _look(self) -> bool:
        for node in range(self._job.nodes):
            if node not in self._known:
                found = _read(self._file(node))
                if found is not None:
                    self._known[node] = found
        return len(self._known) == self._job.nodes

    def _file(self, node: int) -> str:
        folder = self._directory._replace(node=node).node_folder
        return os.path.join(folder, _ADDRESS)

    def _signalled(self, number: int, frame: object) -> None:
        ask_to_stop(self._directory, "signal")


def _read(path: str) -> Optional[Dict[str, Any]]:
    try:
        found = read_object(path)
        return found if isinstance(found.get("address"), str) else None
    except (OSError, Unusable):
        return None


def begun_file(directory: JobDir) -> str:
    """Exists once the first node of an attempt has begun."""
    return os.path.join(directory._replace(node=0).node_folder, _ADDRESS)
