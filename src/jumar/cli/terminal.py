"""Other people's text on a terminal: shown, never obeyed.

A terminal treats some characters as commands: move, clear, set the title, write to the clipboard,
reply as if the user had typed. Names, reasons and last lines of logs show them as escapes. Logs keep
what training programs draw with (colours, and lines that rewrite themselves) and nothing else."""

import re

# C0 but tab and newline, DEL, C1; marks that turn the direction of text around, so that it reads as
# something else; line ends that only some programs know; halves of characters, which cannot be sent.
_ODD = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_UNSEEN = re.compile(f"[{_ODD}]")
_UNSEEN_IN_LINE = re.compile(f"[\t\n{_ODD}]")
_SEQUENCE = (
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, movements, questions
    r"|[\]PX^_][^\x07\x1b\n]*(?:\x07|(?=[\x1b\n]))"  # OSC, DCS and such: text up to its end
    r"|[ -/]*[0-OQ-WYZ\\`-~]"  # two characters: reset and the like, also the end of a text
    r")"
)
_IN_LOG = re.compile(f"{_SEQUENCE}|[{_ODD}]")
_WHOLE = re.compile(_SEQUENCE)
# Colours; erasing in a line; up, down, forward and back; to a column.
_DRAWING = re.compile(r"\x1b\[[0-9;:]*[mKABCDG]|[\r\b]")
_LONGEST_SEQUENCE = 4096


def readable(text: str) -> str:
    """`text` of one or several lines, with what a terminal would obey as escapes."""
    return _UNSEEN.sub(_escaped, text.replace("\r\n", "\n"))


def readable_line(text: str) -> str:
    """`text` as one line."""
    return _UNSEEN_IN_LINE.sub(_escaped, text)


def json_escaped(text: str) -> str:
    """JSON that means the same, with nothing in it that a terminal would obey."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class LogFilter:
    """A log for a terminal, piece by piece; a sequence may be cut anywhere."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """What of it can be shown now."""
        text = self._held + text
        last = text.rfind("\x1b")
        is_cut = last >= 0 and not _WHOLE.match(text, last)
        if not is_cut or len(text) - last > _LONGEST_SEQUENCE or "\n" in text[last:]:
            self._held = ""
            return _IN_LOG.sub(_drawn, text)
        self._held = text[last:]
        # With its first character, which may be what ends the sequence before it.
        return _IN_LOG.sub(_drawn, text[: last + 1]).removesuffix(r"\x1b")


def _drawn(found: "re.Match[str]") -> str:
    if _DRAWING.fullmatch(found[0]):
        return found[0]
    # A whole command is left out; a lone character may be content, so it is shown.
    return "" if len(found[0]) > 1 else _escaped(found)


def _escaped(found: "re.Match[str]") -> str:
    return found[0].encode("unicode_escape").decode("ascii")
