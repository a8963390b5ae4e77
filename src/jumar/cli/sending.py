"""Sending a folder of code, with a word about what stays behind and how far it is."""

import sys
from pathlib import Path

from jumar.cli.output import note
from jumar.client import Client

_QUIET_BELOW = 8 << 20


def send_code(client: Client, folder: Path) -> str:
    """The digest of the folder's archive, which the server has now."""
    progress = _progress if sys.stderr.isatty() else None
    uploaded = client.upload(folder, on_progress=progress)
    for entry in uploaded.listing.left_out:
        note(f"left out: {entry}")
    return uploaded.digest


def _progress(done: int, total: int) -> None:
    if total < _QUIET_BELOW:
        return
    end = "\n" if done == total else ""
    print(f"\rsending code: {done * 100 // total} %", end=end, file=sys.stderr, flush=True)
