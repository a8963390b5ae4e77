"""Python text to a tree; texts that only need small repairs are repaired first."""

import ast
import warnings
from typing import NamedTuple

from jumar.port.patterns import lazy_pattern

TYPOGRAPHIC = "“”‘’"
_QUOTES = str.maketrans(TYPOGRAPHIC, "\"\"''")
ASYNC = lazy_pattern(r"\basync(?=\s*=[^=])")
"""An argument's name in code for torch 0.3; a keyword since Python 3.7."""
OLD_ASYNC = "Async"
"""How the tree spells an argument called `async`, which no longer parses."""


class Parsed(NamedTuple):
    """A tree, and whether the text was parsed without repairs."""

    module: ast.Module
    text: str
    """The text that was parsed, with the same length as the original."""
    clean: bool


def parse(text: str) -> Parsed:
    """Parse a text; typographic quotes from word processors are read as plain ones, and
    arguments called `async` as `Async`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return Parsed(ast.parse(text), text, clean=True)
        except SyntaxError:
            mended = ASYNC.sub(OLD_ASYNC, text.translate(_QUOTES))
            if mended == text:
                raise
            return Parsed(ast.parse(mended), mended, clean=False)


def sound(text: str) -> bool:
    """Whether a text parses."""
    try:
        parse(text)
    except (SyntaxError, ValueError):
        return False
    return True
