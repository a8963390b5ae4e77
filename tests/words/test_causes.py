"""That every cause there is can be said in every language, with its values and nothing else."""

import ast
import string
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import pytest
from tests.words.samples import cases, latin_left

import jumar
from jumar.cli.output import language
from jumar.spec.causes import ENDED, FORMS, WAIT_FORMS, Cause, Form, Wait, best_form, known
from jumar.spec.records import JobSummary, Waiting, WaitPart
from jumar.spec.states import AttemptState, JobState
from jumar.words.reasons import (
    LANGUAGES,
    catalogue,
    cause_sentence,
    ended_name,
    reason,
    retry_sentence,
    state_name,
    templates,
    waiting_sentence,
)

SOURCE = Path(jumar.__file__).parent
# What a phrase of the language stands for.
DERIVED = {"who": set[str](), "cards": {"kind"}, "ordinal": {"place"}, "names": {"ahead"}}
# Said by the choice of the sentence, or by another part.
SILENT = {"ahead"}


def fields(template: str) -> set[str]:
    named = {name for _, name, _, _ in string.Formatter().parse(template) if name}
    return set[str]().union(*(DERIVED.get(name, {name}) for name in named))


@pytest.mark.parametrize("spoken", LANGUAGES)
@pytest.mark.parametrize(
    ("section", "table"), [("cause", FORMS), ("wait", WAIT_FORMS)], ids=["cause", "wait"]
)
def test_every_cause_has_a_sentence_with_just_its_values(
    spoken: str, section: str, table: Mapping[StrEnum, tuple[Form, ...]]
) -> None:
    assert set(catalogue(spoken)[section]) == {str(name) for name in table}
    for name, forms in table.items():
        for form in forms:
            found = templates(spoken, section, name, form)
            assert set(found) <= {"none", "one", "other"}, name
            assert fields(found["other"]) - SILENT == set(form) - SILENT, name


def test_the_tables_hold_every_cause() -> None:
    assert set(FORMS) == set(Cause)
    assert set(WAIT_FORMS) == set(Wait)
    for spoken in LANGUAGES:
        assert set(catalogue(spoken)["state"]) == {*JobState, *AttemptState}


@pytest.mark.parametrize("section", ["who", "note", "cards", "state", "remedy"])
def test_the_languages_have_the_same_phrases(section: str) -> None:
    english, chinese = (catalogue(spoken)[section] for spoken in ("en", "zh"))
    assert set(english) == set(chinese)
    for name in english:
        assert fields(english[name]) == fields(chinese[name]), name


def test_no_chinese_sentence_has_english_words() -> None:
    for cause, _, values in cases():
        said = cause_sentence(cause, values, "zh")
        assert said, cause
        assert not latin_left(said, values), said


def test_the_launcher_knows_no_cause_that_the_table_does_not_have() -> None:
    found: set[str] = set()
    places = {
        "Ending": 1,
        "Verdict": 1,
        "lost": 1,
        "SetupFailed": 0,
        "CannotStart": 1,
        "Failure": 3,
    }
    for path in [*SOURCE.glob("launch/**/*.py"), *SOURCE.glob("engine/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            place = places.get(node.func.id)
            if place is None or len(node.args) <= place:
                continue
            argument = node.args[place]
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                found.add(argument.value)
    from jumar.launch.judge import STOPS

    found |= {cause for _, cause, _ in STOPS.values()}
    assert {"done", "code-gone", "missing-command", "launcher-killed", "time-limit"} <= found
    assert found <= set(Cause)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"code": 3}, "the command exited with code 3"),
        ({"code": 3, "rank": 1}, "rank 1 exited with code 3"),
        ({"code": 3, "rank": 1, "node": 0}, "rank 1 on node 0 exited with code 3"),
        ({"code": 3, "rank": -1}, "the scheduler exited with code 3"),
        ({"code": 3, "node": 1}, "the command on node 1 exited with code 3"),
    ],
)
def test_the_sentence_names_who_it_is_about(values: dict[str, str | int], said: str) -> None:
    assert cause_sentence(Cause.EXIT_CODE, values, "en") == said


def test_a_chinese_sentence_has_a_space_between_a_rank_and_the_words() -> None:
    values = {"code": 3, "rank": 1}
    assert cause_sentence(Cause.EXIT_CODE, values, "zh") == "rank 1 以退出码 3 退出"


def summary(**fields: object) -> JobSummary:
    values = {"id": "a", "name": "x", "user": "ann", "state": JobState.FAILED, "device": "cpu:1"}
    more = {"nodes": 1, "priority": 100, "created_at": 0.0}
    return JobSummary(**{**values, **more, **fields})  # pyright: ignore[reportArgumentType]


def test_a_job_that_is_tried_again_says_how_its_attempt_ended() -> None:
    values = {"code": 3, ENDED: AttemptState.LOST}
    job = summary(state=JobState.QUEUED, attempt=2, cause=Cause.EXIT_CODE, values=values)
    assert reason(job, "en") == (
        "attempt 2 lost: the command exited with code 3; it will be tried again"
    )
    assert reason(job, "zh") == "第 2 次运行失联：命令以退出码 3 退出；将重试"


@pytest.mark.parametrize(
    "fields", [{}, {"cause": "of-a-newer-server"}, {"cause": Cause.EXIT_CODE, "values": {}}]
)
def test_what_cannot_be_said_is_told_as_it_was_written(fields: dict[str, object]) -> None:
    assert reason(summary(reason="it broke", **fields), "zh") == "it broke"


def test_what_a_stranger_tells_is_cut_to_what_means_something() -> None:
    told = {"code": 3, "language": "x", "error": "a\0b", ENDED: "lost"}
    assert known("exit-code", told) == (Cause.EXIT_CODE, {"code": 3, "error": "a\\x00b"})
    assert known("no-such-cause", told) == (None, {})


def test_waiting_is_said_in_chinese_part_by_part() -> None:
    waiting = Waiting(
        text="english",
        parts=(
            WaitPart(Wait.CARDS, {"free": 1, "total": 8, "kind": "npu", "count": 4}),
            WaitPart(Wait.PLACE, {"place": 3}),
            WaitPart(Wait.USED_LESS, {"ahead": 2}),
        ),
        place_in_line=3,
        needs=4,
        free=1,
        total=8,
        users_ahead=("bob",),
        groups_ahead=("vision",),
    )
    assert waiting_sentence(waiting, "zh", expected="14:20") == (
        "共 8 张 npu 卡，空闲 1，需要 4；排在第 3 位；用量较少、排在前面的有：bob、用户组 vision；"
        "预计开始时间 14:20"
    )
    assert waiting_sentence(waiting, "en").endswith(
        "third in line; bob and group vision have used less and are ahead"
    )


@pytest.mark.parametrize(
    ("variables", "spoken"),
    [
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_TW.UTF-8"}, "zh"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({}, "en"),
    ],
)
def test_the_language_is_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], spoken: str
) -> None:
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert language() == spoken
    assert state_name(JobState.TIMED_OUT, spoken) == ("超时" if spoken == "zh" else "timed out")


def test_the_largest_set_of_values_is_said() -> None:
    forms = FORMS[Cause.STOPPED]
    assert best_form(forms, {"by": "root", "why": "x"}) == ("by", "why")
    assert best_form(forms, {"other": 1}) == ()
    assert best_form(FORMS[Cause.EXIT_CODE], {}) is None


def test_the_reference_names_every_cause_with_its_values() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/spec.md").read_text("utf-8")
    for cause, forms in FORMS.items():
        names = dict.fromkeys(name for form in forms for name in form)
        assert f"| `{cause}` | {', '.join(f'`{name}`' for name in names)} |" in page


def test_the_reference_in_chinese_has_the_sentences_of_the_catalogue() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/spec.zh-CN.md").read_text("utf-8")
    for cause, forms in FORMS.items():
        names = dict.fromkeys(name for form in forms for name in form)
        row = f"| `{cause}` | {', '.join(f'`{name}`' for name in names)} | "
        [shown] = [line for line in page.splitlines() if line.startswith(row)]
        said = {
            sentence.replace("{who}", "…")
            for form in forms
            for sentence in templates("zh", "cause", cause, form).values()
        }
        assert shown.removeprefix(row).removesuffix(" |") in said


def test_who_asks_for_a_segment_that_is_not_there_reached_no_limit() -> None:
    again = Cause.RUN_AGAIN
    assert ended_name(AttemptState.TIMED_OUT, again, "en") == "ended early"
    assert ended_name(AttemptState.TIMED_OUT, Cause.TIME_LIMIT, "en") == "timed out"
    assert "one segment only" in str(cause_sentence(Cause.SEGMENTS_USED, {"segments": 1}, "en"))
    assert "number 2" in str(cause_sentence(Cause.SEGMENTS_USED, {"segments": 2}, "en"))
    said = retry_sentence(1, AttemptState.TIMED_OUT, "saved", "zh", cause=again)
    assert said == "第 1 次运行提前结束：saved；下一段将接着运行"
