"""Expressions that are compiled when they are first used."""

import re

import pytest

from jumar.port.patterns import lazy_pattern


def test_an_expression_is_as_compiled_by_re() -> None:
    lazy, plain = lazy_pattern(r"c(u)da", re.IGNORECASE), re.compile(r"c(u)da", re.IGNORECASE)
    text = "Cuda or cuda"
    assert lazy.findall(text) == plain.findall(text)
    assert lazy.sub("npu", text) == "npu or npu"
    assert [match.span() for match in lazy.finditer(text)] == [(0, 4), (8, 12)]
    assert (lazy.search(text, 1) or [""])[0] == "cuda"
    assert (lazy.match(text) or [""])[0] == "Cuda"
    assert lazy.fullmatch(text) is None
    assert (lazy.pattern, lazy.groups) == (plain.pattern, plain.groups)
    assert lazy_pattern(rb"\d+").findall(b"a1 b22") == [b"1", b"22"]


def test_an_expression_is_compiled_once_and_not_before_its_first_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[str] = []
    compile_it = re.compile

    def counted(pattern: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(pattern)
        return compile_it(pattern, flags)

    monkeypatch.setattr(re, "compile", counted)
    lazy = lazy_pattern("a+")
    assert compiled == []
    assert lazy.search("baa")
    assert lazy.search("a")
    assert lazy.fullmatch("aa")
    assert compiled == ["a+"]
