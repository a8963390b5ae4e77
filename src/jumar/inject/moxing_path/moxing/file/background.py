"""`background_sync_copy`: what a script saves to a folder goes to the store while it trains."""

import logging
import os
import threading
from typing import Dict, Tuple

from .copying import copy
from .locations import ASIDE, Url, text_of

_State = Dict[str, Tuple[int, int]]


def background_sync_copy(src_url: Url, dst_url: Url, seconds: float = 300) -> None:
    """Copy what changed in a local folder every so many seconds, and once more at the end of the script.
    What fails is tried again the next time and never disturbs the script."""
    source, target = text_of(src_url).rstrip("/"), text_of(dst_url).rstrip("/")
    known: _State = {}

    def run() -> None:
        script = threading.main_thread()
        while script.is_alive():
            script.join(seconds)
            _copy_changed(source, target, known)

    # No daemon: Python waits for it, and so for the last copy.
    threading.Thread(target=run, name="moxing-sync", daemon=False).start()


def _copy_changed(source: str, target: str, known: _State) -> None:
    try:
        for name, state in _state(source).items():
            if known.get(name) != state:
                # One by one: when the script has ended, Python refuses pools of threads.
                copy(f"{source}/{name}", f"{target}/{name}")
                known[name] = state
    except Exception:
        logging.getLogger("moxing").warning("%s is not copied now", source, exc_info=True)


def _state(top: str) -> _State:
    found: _State = {}
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if not name.startswith(ASIDE):
                looked = os.stat(path)
                found[os.path.relpath(path, top)] = (looked.st_mtime_ns, looked.st_size)
    return found
