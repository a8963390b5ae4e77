"""`background_sync_copy`: what a script saves to a folder goes to the store while it trains."""

import logging
import os
import threading
from typing import Dict, List, Tuple

from .copying import copy
from .locations import ASIDE, Url, text_of

_State = Dict[str, Tuple[int, int]]


def background_sync_copy(src_url: Url, dst_url: Url, seconds: float = 300) -> None:
    """Copy what changed in a local folder every so many seconds, and once more at the end of the script.
    What fails is tried again the next time and never disturbs the script."""
    source, target = text_of(src_url).rstrip("/"), text_of(dst_url).rstrip("/")
    known: _State = {}

    def run() -> None:
        script, ended = threading.main_thread(), False
        while not ended:
            script.join(seconds)
            # Asked before the copy: what is saved during it needs another one.
            ended = not script.is_alive()
            _copy_changed(source, target, known)

    # No daemon: Python waits for it, and so for the last copy.
    threading.Thread(target=run, name="moxing-sync", daemon=False).start()


def _copy_changed(source: str, target: str, known: _State) -> None:
    for name in _files(source):
        path = f"{source}/{name}"
        try:
            looked = os.stat(path)
            state = (looked.st_mtime_ns, looked.st_size)
            if known.get(name) != state:
                # One by one: when the script has ended, Python refuses pools of threads.
                copy(path, f"{target}/{name}")
                known[name] = state
        except Exception:
            # One that is gone by now, or a link to nothing, must not keep the others from being copied.
            logging.getLogger("moxing").warning("%s is not copied now", path, exc_info=True)


def _files(top: str) -> List[str]:
    return [
        os.path.relpath(os.path.join(folder, name), top)
        for folder, _, names in os.walk(top)
        for name in names
        if not name.startswith(ASIDE)
    ]
