"""Text of a terminal as plain lines. `static/log.js` does the same to what comes later."""

import re

_CONTROL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def plain(text: str) -> str:
    """Colours are dropped; of a line that rewrites itself, what is left on the screen stays."""
    return "\n".join(
        line.rstrip("\r").rsplit("\r", 1)[-1] for line in _CONTROL.sub("", text).split("\n")
    )
