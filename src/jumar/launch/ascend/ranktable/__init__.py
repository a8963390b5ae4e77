"""Rank tables (hccl.json): which process is on which device of which server.

Every format of the field is read into one record and written from it: `lab` (2020), `template2`
(group list by pod), `1.0`, `1.2` (superpods) and `2.0` (rank list)."""

from jumar.launch.ascend.ranktable.check import Finding, check
from jumar.launch.ascend.ranktable.make import format_for, make, merge
from jumar.launch.ascend.ranktable.read import parse, read_table
from jumar.launch.ascend.ranktable.records import (
    FORMATS,
    NotExpressible,
    RankDevice,
    RankServer,
    RankTable,
    RankTableError,
    SuperPod,
    TableTimeout,
    Unreadable,
)
from jumar.launch.ascend.ranktable.wait import wait_for_table
from jumar.launch.ascend.ranktable.write import document, dumps

__all__ = [
    "FORMATS",
    "Finding",
    "NotExpressible",
    "RankDevice",
    "RankServer",
    "RankTable",
    "RankTableError",
    "SuperPod",
    "TableTimeout",
    "Unreadable",
    "check",
    "document",
    "dumps",
    "format_for",
    "make",
    "merge",
    "parse",
    "read_table",
    "wait_for_table",
]
