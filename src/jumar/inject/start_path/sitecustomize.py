"""Python runs this at startup while the folder is on PYTHONPATH, before a script's first line.

JUMAR_PRIVATE_PYTHON keeps what a job installs in the job. JUMAR_CKPT_DIR is where a training is resumed
from, unless JUMAR_RESUME is off. JUMAR_JOB_DIR is where what a script tracks is noted, unless JUMAR_TRACK is off. JUMAR_DETERMINISTIC makes runs repeatable.
JUMAR_RUN_CHECK has MindSpore check itself first. JUMAR_AUTO_PORT makes cuda mean npu, JUMAR_PROOF records losses and
parameters; these wait for the import of a library, and a process that never imports it is not changed. A sitecustomize further down the path still runs."""

import os
import sys


def _next_sitecustomize() -> None:
    forms = ("sitecustomize.py", "sitecustomize")
    having = [e for e in sys.path if any(os.path.exists(os.path.join(e, f)) for f in forms)]
    if len(having) < 2:
        # Mostly this is the only one, and what finds another takes longer to import than Python to start.
        return
    here = os.path.dirname(os.path.realpath(__file__))
    entries = [os.path.realpath(entry or ".") for entry in sys.path]
    behind = sys.path[entries.index(here) + 1 :] if here in entries else []
    import importlib.machinery
    import importlib.util

    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", behind)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _start() -> None:
    if "JUMAR_PRIVATE_PYTHON" in os.environ:
        from jumar_start import private_packages

        private_packages.install(os.environ["JUMAR_PRIVATE_PYTHON"])
    if os.environ.get("JUMAR_CKPT_DIR") and os.environ.get("JUMAR_RESUME") != "off":
        from jumar_start import resuming

        resuming.install()
    if "JUMAR_JOB_DIR" in os.environ and os.environ.get("JUMAR_TRACK") != "off":
        from jumar_start import ran_in, tracking

        tracking.install()
        ran_in.note()
    if os.environ.get("JUMAR_DETERMINISTIC") == "1":
        from jumar_start import repeatable

        repeatable.install()
    if os.environ.get("JUMAR_RUN_CHECK") == "1":
        from jumar_start import resuming

        resuming.wait_for({"mindspore": "run_check"})
    if "JUMAR_PROOF" in os.environ:
        from jumar_start import proof

        proof.install(os.environ)
    if os.environ.get("JUMAR_AUTO_PORT") == "1":
        from jumar_start import transfer

        transfer.install()


_start()
_next_sitecustomize()
