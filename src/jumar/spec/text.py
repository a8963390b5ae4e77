"""Text from outside, made fit to be kept and sent: every database and every JSON reader takes it."""

import re

_UNFIT = re.compile(r"[\x00\ud800-\udfff]")


def storable(text: str) -> str:
    """The text with NUL and lone surrogates written as escapes; PostgreSQL refuses the one, UTF-8
    the others."""
    return _UNFIT.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
