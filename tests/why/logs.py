"""Logs that are judged from memory."""

import os

from jumar.spec.verdicts import Verdict
from jumar.why.judging import judge
from jumar.why.signs import Source


def verdict_of(text: str) -> Verdict:
    """What is said of a log with this text."""
    fd = os.memfd_create("log")
    try:
        os.write(fd, text.encode())
        return judge([Source("log", lambda: os.dup(fd))])
    finally:
        os.close(fd)
