"""What no rank of an ordinary job waits for: modules that are imported where they are needed.

A launcher lives for days, and jumar may be upgraded meanwhile: a module that it loads then would be of another
version than the rest. So once the ranks run all of them are loaded, and by `warm` before there is a job."""

import gc
import importlib
import sys

MODULES = (
    "ipaddress",
    "shutil",
    "subprocess",
    "tarfile",
    "threading",
    "urllib.parse",
    "jumar.launch.ascend.cann",
    "jumar.launch.complete.one_file",
    "jumar.launch.complete.sharded",
    "jumar.launch.prepare.activate",
    "jumar.launch.prepare.image",
    "jumar.launch.prepare.requirements",
    "jumar.launch.processes.probe",
    "jumar.launch.ray",
)
is_loaded = False


def begin_quickly() -> None:
    """Before the imports of a launcher that starts alone, in the environment of a job: `loading_is_over` comes after them."""
    # PYTHONDONTWRITEBYTECODE would be meant for the job. Compiling the launcher anew for each takes longer than
    # all else that it does before the ranks start.
    sys.dont_write_bytecode = False
    # A tenth of the time, for nothing: what is loaded stays.
    gc.disable()


def loading_is_over() -> None:
    """What there is stays, and is shared with the processes that are forked; the rest is collected as ever."""
    gc.freeze()
    gc.enable()


def load() -> None:
    """All of them; one that is there already costs nothing."""
    global is_loaded
    for name in MODULES:
        importlib.import_module(name)
    is_loaded = True
