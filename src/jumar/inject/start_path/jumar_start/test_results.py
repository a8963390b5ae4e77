"""A pytest plug-in: notes how each test went, for a proof by a repository's own tests.

Loaded by PYTEST_ADDOPTS, in workers of pytest-xdist, too."""

import os
from typing import Any

from jumar_start.proof import Notes, wanted

_notes = Notes(wanted(os.environ))


def pytest_runtest_logreport(report: Any) -> None:
    """Called for the setup, the call and the teardown of each test."""
    if report.when == "call" or report.outcome != "passed":
        _notes.add("test", report.nodeid, "", outcome=report.outcome)
