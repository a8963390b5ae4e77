"""Logs and use of a job as ModelArts shows them: the end of a log, lines by number, a value per minute."""

import os
import re
from collections import deque
from io import BufferedReader
from itertools import islice
from typing import Any

from jumar.errors import BadInput, LogNotFound
from jumar.modelarts.measured import machine_of, metrics_of
from jumar.server.edge.site import Site
from jumar.spec.records import JobSummary

PREVIEW_BYTES = 1 << 20
MOST_LINES = 500
_MOST_LINE_BYTES = 64 << 10
_NUMBERED_BYTES = 128 << 20
"""Of a log of more than twice this, only so much to twice so much of its end is read to number lines."""
_TASK = re.compile(r"(?:worker|ps|server)-(\d{1,5})", re.ASCII)


def node_of(task: str, job: JobSummary) -> int:
    """The node that a task is; LogNotFound for a task that the job does not have."""
    found = _TASK.fullmatch(task)
    if found is None or int(found[1]) >= job.nodes:
        raise LogNotFound(f"job {job.id} has no task {task[:64]!r}")
    return int(found[1])


def metrics_in(site: Site, job: JobSummary, task: str) -> list[dict[str, Any]]:
    """What a task of a job uses."""
    sampler = site.service.sampler
    node = node_of(task, job)
    return metrics_of(sampler.of(job.id), job, node, machine_of(sampler.cards))


def preview(site: Site, job_id: str, node: int) -> dict[str, Any]:
    """The last part of a log, from the beginning of a line on."""
    log = _open(site, job_id, node)
    if log is None:
        return {"content": "", "current_size": 0, "full_size": 0}
    with log:
        size = log.seek(0, os.SEEK_END)
        start = max(0, size - PREVIEW_BYTES)
        log.seek(start)
        if start:
            log.readline(_MOST_LINE_BYTES)
        content = log.read(PREVIEW_BYTES)
    return {
        "content": content.decode("utf-8", "replace"),
        "current_size": len(content),
        "full_size": size,
    }


def lines_of(
    site: Site, job_id: str, node: int, *, base: str, count: int, newest_first: bool
) -> dict[str, Any]:
    """Some lines of a log: those after, or with `newest_first` before, the line with the number `base`;
    without one, the first or the last."""
    if base and not re.fullmatch(r"\d{1,15}", base, re.ASCII):
        raise BadInput("base_line: must be the number of a line")
    log = _open(site, job_id, node)
    if log is None:
        return {"content": "", "lines": 0, "start_line": base or "0", "end_line": base or "0"}
    at = int(base or 0)
    with log:
        before = _begin(log)
        numbered = enumerate(iter(lambda: log.readline(_MOST_LINE_BYTES), b""), start=before + 1)
        if newest_first:
            earlier = islice(numbered, max(0, at - 1 - before)) if base else numbered
            found = list(deque(earlier, maxlen=count))
        else:
            skipped = max(0, at - before)
            found = list(islice(numbered, skipped, skipped + count))
    return {
        "content": b"".join(line for _, line in found).decode("utf-8", "replace"),
        "lines": len(found),
        "start_line": str(found[0][0] if found else at),
        "end_line": str(found[-1][0] if found else at),
    }


def _begin(log: BufferedReader) -> int:
    """Go to where lines are numbered from, and say the number before the first.

    It is the offset: no line is shorter than a byte, so numbers never fall when a log has grown and they are
    counted from further on. Who goes on from one that was told before then reads some lines again, and misses none."""
    size = log.seek(0, os.SEEK_END)
    start = max(0, (size // _NUMBERED_BYTES - 1) * _NUMBERED_BYTES)
    log.seek(max(0, start - 1))
    if start:
        # The line that it is in the middle of.
        log.readline(_MOST_LINE_BYTES)
    return start


def first_rank(site: Site, job_id: str, node: int) -> int:
    """The first rank of a node; LogNotFound while it has no log."""
    ranks = [file.rank for file in site.service.log_files(job_id) if file.node == node]
    if not ranks:
        raise LogNotFound(f"job {job_id} has no log of node {node} yet")
    return min(ranks)


def _open(site: Site, job_id: str, node: int) -> BufferedReader | None:
    """The log of a node's first rank; None while there is none."""
    try:
        rank = first_rank(site, job_id, node)
        return BufferedReader(site.service.open_log(job_id, node, rank))
    except LogNotFound:
        return None
