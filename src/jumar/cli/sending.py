"""Sending a folder of code, saying what stays behind and how far it is."""

import sys
from collections.abc import Mapping
from typing import Any

from jumar.cli.output import note
from jumar.client import Client

_QUIET_BELOW = 8 << 20


def with_code_sent(client: Client, values: Mapping[str, Any]) -> dict[str, Any]:
    """The job's values; a folder of code in them is sent and replaced by its archive."""
    sent = client.with_code_sent(values, on_progress=_progress if sys.stderr.isatty() else None)
    for entry in sent.left_out:
        note(f"left out: {entry}")
    return sent.values


def _progress(done: int, total: int) -> None:
    if total < _QUIET_BELOW:
        return
    end = "\n" if done == total else ""
    print(f"\rsending code: {done * 100 // total} %", end=end, file=sys.stderr, flush=True)
