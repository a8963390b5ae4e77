"""README files as people push them, made safe to show: no HTML of theirs, and their comments left out."""

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markupsafe import Markup

_BEGIN, _END = "<!--", "-->"
_KNOWN = "jumar_comment_end"


def render_readme(text: str) -> Markup:
    """The page's part for a README."""
    return Markup(_markdown.render(text))


def _comment_lines(state: StateBlock, start: int, last: int, silent: bool) -> bool:
    """A comment that has its lines for itself."""
    begin = state.bMarks[start] + state.tShift[start]
    if not state.src.startswith(_BEGIN, begin):
        return False
    end = _end(state, begin + len(_BEGIN))
    if not 0 <= end <= state.eMarks[last - 1]:
        return False
    # From here on each letter is looked at once more at most: what comes back true is passed over.
    line_end = state.src.find("\n", end)
    if state.src[end + len(_END) : line_end if line_end >= 0 else None].strip():
        return False
    if not silent:
        state.line = start + state.src.count("\n", begin, end) + 1
    return True


def _comment_inside(state: StateInline, silent: bool) -> bool:
    """A comment within a line."""
    if not state.src.startswith(_BEGIN, state.pos):
        return False
    end = _end(state, state.pos + len(_BEGIN))
    if not 0 <= end <= state.posMax - len(_END):
        return False
    state.pos = end + len(_END)
    return True


def _end(state: StateBlock | StateInline, start: int) -> int:
    """Where the comment ends; -1 where it does not. Remembered: a README of nothing but beginnings would be
    searched to its end for each of them."""
    src, known = state.env.get(_KNOWN, ("", 0))
    if src is not state.src or 0 <= known < start:
        known = state.src.find(_END, start)
        state.env[_KNOWN] = (state.src, known)
    return known


_markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
_markdown.block.ruler.before("paragraph", "comment", _comment_lines, {"alt": ["paragraph"]})
_markdown.inline.ruler.before("autolink", "comment", _comment_inside)
