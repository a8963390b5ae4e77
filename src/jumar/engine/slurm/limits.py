"""The number behind a reason of Slurm's: QOSMaxGRESPerUser says that there is a limit, not which."""

import csv
import re
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from jumar.engine.slurm.asking import Row, Slurm, pairs
from jumar.errors import EngineFailed

_TABLE = Path(__file__).with_name("limits.tsv")
_KEPT_S = 600.0
"""Limits are changed by hand: Slurm need not be asked more often."""
_COUNT = re.compile(r"gres/[^=,]+=(\d+)")


class _Limit(NamedTuple):
    place: str
    field: str
    of: str


@cache
def _table() -> Mapping[str, _Limit]:
    with _TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return {row["reason"]: _Limit(row["kept in"], row["field"], row["of"]) for row in rows}


class Limits:
    """What a cluster allows; asked for only once a job waits for it."""

    def __init__(self, slurm: Slurm) -> None:
        self._slurm = slurm
        self._kept: dict[str, tuple[float, dict[str, dict[str, str]]]] = {}

    def values(self, row: Row) -> dict[str, str]:
        """`limit` and the partition that it is about; empty where nobody says."""
        code = row.reason.partition(",")[0]
        wanted = _table().get(code)
        if wanted is None:
            return {}
        name = {"qos": row.qos, "partition": row.partition}.get(wanted.place, row.account)
        text = self._told(wanted.place).get(name, {}).get(wanted.field, "")
        limit = _part(text, wanted.of) if wanted.of else text
        if not limit or limit in ("UNLIMITED", "-1"):
            return {}
        return {"limit": limit, "partition": row.partition}

    def _told(self, place: str) -> dict[str, dict[str, str]]:
        """By the name of the partition, the QOS, or the account."""
        at, found = self._kept.get(place, (-_KEPT_S, {}))
        if time.monotonic() - at < _KEPT_S:
            return found
        try:
            found = self._slurm.partitions() if place == "partition" else self._slurm.limits(place)
        except EngineFailed:
            # No accounting, or nobody answers now: the reason is told without its number.
            found = {}
        self._kept[place] = (time.monotonic(), found)
        return found


def _part(text: str, of: str) -> str:
    """One resource of several: cpu=64,gres/npu=8,gres/npu:ascend910=8."""
    if of == "gres":
        counts = [int(count) for count in _COUNT.findall(text)]
        return str(max(counts)) if counts else ""
    return pairs(text.split(",")).get(of, "")
