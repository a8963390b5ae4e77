"""The tables of faults are whole, and alike in both languages."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from jumar.spec.causes import Cause as PlatformCause
from jumar.why.details import FIRST, REMEDY, WHAT
from jumar.why.knowledge import (
    API_GONE,
    API_NEW,
    CUT_OFF,
    ERROR_LINE,
    LANGUAGES,
    OPTIONAL_MISSING,
    PYTHON_ERROR,
    STALLED,
    Level,
    by_platform,
    causes,
    kinds,
    rows,
    signatures,
    texts,
)
from jumar.why.scan import MARKS

VENDOR_LOG = re.compile(r"AISW_|Comp_|0x")


def _values(text: str) -> list[str]:
    return sorted(re.findall(r"\{\w+\}", text))


def test_every_cause_is_told_in_every_language_with_the_same_values() -> None:
    english = texts("en")
    for language in LANGUAGES:
        told = texts(language)
        assert list(told) == list(english)
        assert set(causes()) == set(told) - {"whose", "also"}
        for name, words in told.items():
            assert words.keys() == english[name].keys()
            for key, text in words.items():
                assert text.strip() == text != ""
                # Each language has its own order of words.
                assert _values(text) == _values(english[name][key])
    assert {cause.whose for cause in causes().values()} <= set(english["whose"])


def test_what_is_said_besides_is_whole() -> None:
    sentences = texts("en")["also"]
    for names, to, sentence, pattern in rows("jumar.why", "details.tsv"):
        assert set(names.split()) <= set(causes()), names
        assert to in (FIRST, WHAT, REMEDY)
        # A pattern gives every value that its sentence has.
        values = set(re.findall(r"(?<!\{)\{(\w+)\}", sentences[sentence]))
        assert values == set(re.compile(pattern).groupindex), sentence


def test_at_least_300_faults_of_the_vendors_table_are_known() -> None:
    codes = {row[1] for row in rows("jumar.why", "signatures.tsv")} - {"-"}
    assert len(codes) >= 300
    assert all(VENDOR_LOG.match(code) for code in codes)


def test_every_cause_can_be_found() -> None:
    found = {known.cause.name for known in signatures()}
    found |= {cause.name for cause in by_platform().values()}
    found |= {cause.name for cause, _ in kinds()}
    assert set(causes()) - found == {
        "nothing",
        "unread",
        "peer-silent",
        "peer-finished",
        "crash-located",
        "peer-busy",
        "link-stuck",
        STALLED,
        PYTHON_ERROR,
        OPTIONAL_MISSING,
        CUT_OFF,
        ERROR_LINE,
        API_GONE,
        API_NEW,
    }
    assert set(by_platform()) <= set(PlatformCause)


def test_signatures_are_particular_and_would_be_looked_at() -> None:
    for known in signatures():
        assert len(known.anchor) >= 6, known
    marks = [mark.decode() for mark in MARKS]
    own = [row for row in rows("jumar.why", "signatures.tsv") if row[1] == "-"]
    # Below a traceback or a line that is marked, all is read; these stand in the message itself.
    raised = (
        *("shape", "dtype", "autograd", "configuration", "library-use", "other-device"),
        *("data-columns", "parallel-plan", "checkpoint-fit", "unused-parameters"),
    )
    unseen = [
        row
        for row in own
        if row[0] not in raised and not any(mark in word for word in row[2:] for mark in marks)
    ]
    assert len(unseen) < len(own) / 3
    assert not [row for row in unseen if causes()[row[0]].level is Level.LOST_PEER]


def _counted(verdicts: Iterable[str]) -> str:
    count = Counter(verdicts)
    return " | ".join(str(count[verdict]) for verdict in ("right", "wrong", "unknown"))


def test_the_page_tells_how_the_public_threads_were_judged() -> None:
    here = Path(__file__).parent
    lines = (here / "threads.tsv").read_text("utf-8").splitlines()
    found = [line.split("\t") for line in lines if not line.startswith(("#", "set\t"))]
    assert {cause for *_, cause, _ in found} <= set(causes())
    page = (here.parents[1] / "docs/reference/why-measured.md").read_text("utf-8")
    # Later sets are of two series, each known by its letter.
    named = [row for row in found if not row[0][0].isdigit()]
    told = _counted(verdict for *_, verdict in named)
    assert f"| sets six to twenty-two ({len(named)}), after they were used | {told} |" in page
    for letter in sorted({row[0][-1] for row in found if row[0][0].isdigit()}):
        series = [row for row in found if re.fullmatch(rf"\d+{letter}", row[0])]
        ordered = sorted({row[0] for row in series})
        told = _counted(verdict for *_, verdict in series)
        which = f"sets {ordered[0]} to {ordered[-1]} ({len(series)})"
        assert f"| {which}, after they were used | {told} |" in page
        for name in ordered:
            first = [verdict for one, _, verdict, *_ in series if one == name]
            assert f"| set {name}, first seen ({len(first)}) | {_counted(first)} |" in page
    sets = (
        *("seventh", "eighth", "ninth", "eleventh", "twelfth", "thirteenth", "fourteenth"),
        *("fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth"),
        *("twentieth", "twenty-first", "twenty-second"),
    )
    for name in sets:
        first = [verdict for one, _, verdict, *_ in named if one == name]
        assert f"| {name} set, first seen ({len(first)}) | {_counted(first)} |" in page
    assert Counter(verdict for *_, verdict in found)["wrong"] <= 0.05 * len(found)
