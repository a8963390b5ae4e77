import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.cli.curve import draw
from jumar.cli.output import ago, clip, print_table, span


def test_a_falling_curve_falls() -> None:
    assert draw([4, 3, 2, 1], width=4, height=4, plain=True) == [
        "4 |*",
        "  | *",
        "  |  *",
        "1 |   *",
    ]


def test_a_steep_curve_has_no_gaps() -> None:
    assert draw([9, 0, 9], width=3, height=4, plain=True) == [
        "9 |* *",
        "  | **",
        "  | **",
        "0 | *",
    ]


def test_braille_has_eight_dots_a_cell() -> None:
    assert draw([3, 0], width=1, height=2) == ["3 │⢱", "0 │⢸"]


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300),
    st.integers(1, 80),
    st.integers(2, 12),
    st.booleans(),
)
def test_any_curve_fits_its_box(values: list[float], width: int, height: int, plain: bool) -> None:
    lines = draw(values, width=width, height=height, plain=plain)
    assert len(lines) == height
    columns = [line.partition("|" if plain else "│")[2] for line in lines]
    assert max(map(len, columns)) == width
    assert all(any(len(line) > x and line[x] != " " for line in columns) for x in range(width))


def test_nothing_to_draw() -> None:
    assert draw([]) == []


def test_tables_are_straight_with_chinese_names(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("NAME", "STATE"), [("手写数字", "a"), ("digits", "b")])
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["NAME      STATE", "手写数字  a", "digits    b"]
    assert not sys.stdout.isatty()


def test_a_table_is_cut_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("ID", "REASON"), [("abc", "a reason that is long")], width=12)
    assert capsys.readouterr().out.splitlines() == ["ID   REASON", "abc  a reas…"]


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("short", 10, "short"),
        ("a long text", 6, "a lon…"),
        ("数据数据", 5, "数据…"),
        ("a\nb", 9, "a b"),
    ],
)
def test_clip(text: str, width: int, shown: str) -> None:
    assert clip(text, width) == shown


def test_times_for_people() -> None:
    assert ago(100.0, 100.0 + 5) == "5s ago"
    assert ago(0.0, 2 * 3600 + 61.0) == "2h1m ago"
    assert span(0.0, 86400 * 3 + 3700.0) == "3d1h"
    assert span(None, None) == "-"
