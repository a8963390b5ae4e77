"""README files as people push them, made safe to show: no HTML of theirs, and their comments left out."""

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markupsafe import Markup

_BEGIN, _END = "<!--", "-->"


def render_readme(text: str) -> Markup:
    """The page's part for a README."""
    return Markup(_markdown.render(text))


def _comment_lines(state: StateBlock, start: int, last: int, silent: bool) -> bool:
    """A comment that has its lines for itself."""
    begin = state.bMarks[start] + state.tShift[start]
    end = state.src.find(_END, begin + len(_BEGIN))
    if not state.src.startswith(_BEGIN, begin) or end < 0:
        return False
    line = start + state.src.count("\n", begin, end)
    if line >= last or state.src[end + len(_END) : state.eMarks[line]].strip():
        return False
    if not silent:
        state.line = line + 1
    return True


def _comment_inside(state: StateInline, silent: bool) -> bool:
    """A comment within a line."""
    end = state.src.find(_END, state.pos + len(_BEGIN), state.posMax)
    if not state.src.startswith(_BEGIN, state.pos) or end < 0:
        return False
    state.pos = end + len(_END)
    return True


_markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
_markdown.block.ruler.before("paragraph", "comment", _comment_lines, {"alt": ["paragraph"]})
_markdown.inline.ruler.before("autolink", "comment", _comment_inside)
