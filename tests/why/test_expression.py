"""Expressions of the tables: what they need, and that they fit what they fitted without it."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.why.expression import Expression, needed
from jumar.why.particulars import particulars


@pytest.mark.parametrize(
    ("pattern", "needs"),
    [
        ("abc", ("abc",)),
        (r"a\.b\d+cdef", ("cdef",)),
        ("ab?cde", ("cde",)),
        ("abc*", ("ab",)),
        ("ab+c", ("ab",)),
        ("ab{2}", ("ab",)),
        ("ab{0,2}", ("a",)),
        ("ab{,2}", ("a",)),
        ("a{b}c", ("{b}c",)),
        ("(?:abc|de)f", ("abc", "de")),
        ("(?:abc|)f", ("f",)),
        ("(?P<name>abc)+d", ("abc",)),
        ("(?:abc)?d", ("d",)),
        ("(?:abc){0,3}d", ("d",)),
        ("abc|def", ("abc", "def")),
        ("abc|[de]", ()),
        ("(?!abcd)e", ("e",)),
        ("(?=abcd)e", ("e",)),
        ("(?<!abcd)ef", ("ef",)),
        ("(?i:abcd)e", ("e",)),
        ("[]abc]de", ("de",)),
        (r"[^\]]de", ("de",)),
        (r"(?P<one>a)(?P=one)bc", ("bc",)),
        (r"\bWord\b", ("Word",)),
        (r"\(\[x\]\)", ("([x])",)),
        ("a*+bc", ("bc",)),
    ],
)
def test_what_a_pattern_needs(pattern: str, needs: tuple[str, ...]) -> None:
    assert needed(pattern) == needs


def test_flags_are_known() -> None:
    assert Expression("(?i)aBc").search("xABCx") is not None
    assert Expression("(?is)aBc.d").search("xABC\nD") is not None
    assert Expression("(?x) a b").search("ab") is not None
    assert Expression("(?i)aBc").search("xAB") is None


_LETTERS = st.sampled_from(["a", "b", r"\.", r"\d", "[ab]", "[^a]", ".", " ", "{"])
_ENDS = st.sampled_from(["", "", "", "?", "*", "+", "{2}", "{0,1}", "{,1}", "*?", "+?"])


def _groups(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    kinds = st.sampled_from(["(", "(?:", "(?=", "(?!", "(?i:"])
    joined = st.lists(inner, min_size=1, max_size=3).map("".join)
    chosen = st.lists(joined, min_size=1, max_size=3).map("|".join)
    return st.tuples(kinds, chosen, _ENDS).map(lambda one: f"{one[0]}{one[1]}){one[2]}")


_PIECES = st.recursive(
    st.tuples(_LETTERS, _ENDS).map("".join).filter(lambda one: not one.startswith("{{")),
    _groups,
    max_leaves=8,
)
_PATTERNS = st.lists(_PIECES, min_size=1, max_size=4).map("".join)


@settings(max_examples=400)
@given(_PATTERNS, st.text("ab.1 {A", max_size=12), st.sampled_from(["", "(?i)"]))
def test_nothing_is_passed_over_that_fits(pattern: str, text: str, flags: str) -> None:
    whole = re.compile(flags + pattern)
    found, wanted = Expression(flags + pattern).search(text), whole.search(text)
    assert (found and found.span()) == (wanted and wanted.span())


def test_the_tables_fit_what_they_fitted() -> None:
    lines = Path(__file__).with_name("messages.tsv").read_text("utf-8").splitlines()
    for one in particulars():
        for line in lines[::5]:
            if one.message.compiled.search(line) is not None:
                assert one.message.search(line) is not None, one.name


def test_nearly_all_of_the_tables_need_words() -> None:
    without = [one for one in particulars() if not one.message.needs]
    assert len(without) < len(particulars()) / 50
