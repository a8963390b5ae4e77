"""What the grammar of a line tells: why, whoever says it, what it is about, and who says so."""

import re
from pathlib import Path

import pytest
from tests.why.logs import verdict_of as _of

from jumar.why.knowledge import LANGUAGES, causes, rows
from jumar.why.reasons import reason_of, words

_NAME = re.compile(r"\{\w+\}")


def _rows() -> list[list[str]]:
    lines = Path(__file__).with_name("reasons.tsv").read_text("utf-8").splitlines()
    return [line.split("\t", 2) for line in lines if not line.startswith(("#", "name\t"))]


@pytest.mark.parametrize(("name", "thing", "line"), _rows())
def test_each_reason_is_told_with_what_it_is_about(name: str, thing: str, line: str) -> None:
    verdict = _of(line.replace("\\n", "\n") + "\n")
    known = words("en")
    bare = known.get(f"reason {name}-bare", known.get(f"reason {name}"))
    told = bare if thing == "-" else known[f"reason {name}"]
    assert told is not None
    wanted = re.escape(told["what"]).replace(re.escape("{thing}"), re.escape(thing))
    assert re.match(re.sub(r"\\\{\w+\\\}", ".+", wanted), verdict.what["en"]), verdict.what
    assert not _NAME.search(verdict.remedy["en"] + verdict.remedy["zh"])


def test_the_tables_and_their_words_are_whole() -> None:
    named = {
        row[0] for table in ("reasons", "speakers") for row in rows("jumar.why", f"{table}.tsv")
    }
    for language in LANGUAGES:
        told = words(language)
        assert {name.removeprefix("reason ").removesuffix("-bare") for name in told} == named
        assert told.keys() == words("en").keys()
        for name, sentences in told.items():
            for key, sentence in sentences.items():
                assert sentence.strip() == sentence != ""
                assert sorted(_NAME.findall(sentence)) == sorted(
                    _NAME.findall(words("en")[name][key])
                )
    for name, cause, things, pattern in rows("jumar.why", "reasons.tsv"):
        assert cause in causes()
        # Where the line may leave out what it is about, there are words without it.
        may_be_bare = things != "-" or not re.compile(pattern).groupindex
        assert f"reason {name}-bare" in words("en") or not may_be_bare, name


def test_what_says_more_is_told_before_the_grammar() -> None:
    # The form of pip's own line, of an exception, and of what the ranks say to each other.
    pip = _of(
        "ERROR: Could not find a version that satisfies the requirement x (from versions: none)\n"
    )
    assert pip.cause == "module-missing"
    ranks = _of("[rank1]: torch.distributed.DistNetworkError: Connection reset by peer\n")
    assert ranks.cause != "connection"
    assert reason_of("epoch 3: loss 0.4031, 403.2 samples/s, 404 steps left") is None


def test_a_line_that_says_what_to_do_is_repeated() -> None:
    verdict = _of("ERROR: the tool stopped. Please run `fix --all` before the next start.\n")
    assert "fix --all" in verdict.remedy["en"]
    assert "fix --all" in verdict.remedy["zh"]


def test_a_sentence_that_goes_on_below_is_read_whole() -> None:
    verdict = _of(
        "ERROR: Failed to process example.eb:\nYou may have typos in it: confopt -> confopts\n"
    )
    assert "confopt -> confopts" in verdict.what["en"]
