"""The words of what a script shows."""

import re
import tomllib
from importlib.resources import files

_WHY = files("jumar.why")
_NAMES = re.compile(r"(?<!\{)\{(\w+)\}")


def _table(name: str) -> dict[str, dict[str, str]]:
    return tomllib.loads((_WHY / name).read_text("utf-8"))


def test_both_languages_tell_the_same() -> None:
    english, chinese = _table("script.en.toml"), _table("script.zh.toml")
    assert list(english) == list(chinese)
    for name, words in english.items():
        for part, text in words.items():
            assert set(_NAMES.findall(text)) == set(_NAMES.findall(chinese[name][part])), name


def test_no_other_table_has_such_a_name() -> None:
    own = set(_table("script.en.toml"))
    for name in ("particulars", "settled", "waits", "reasons", "programs", "statements"):
        assert not own & set(_table(f"{name}.en.toml")), name
