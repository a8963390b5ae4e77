"""The sentences of each language, how values are put into them, and what they say: how a job stands, why it or an
attempt of it ended, or does not run yet."""

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, cast

from jumar.spec.causes import ENDED, FORMS, WAIT_FORMS, Cause, Form, Values, Wait, best_form
from jumar.spec.records import AttemptRecord, JobSummary, Waiting, WaitPart
from jumar.spec.recovery import is_unseen, recovery

LANGUAGES = ("en", "zh")
_SCHEDULER = -1
_WHO = "\0"
"""Stands for who it was until it is known whether the sentence names them."""
_FOLLOWED_BY = {"timed-out": "next-segment", "preempted": "requeued"}
_MOST_NAMES = 3
_UNKNOWN_USER, _BETWEEN_USERS = "?", ", "
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


@cache
def catalogue(language: str) -> Mapping[str, Any]:
    """All sentences of one language."""
    return tomllib.loads(files("jumar.words").joinpath(f"{language}.toml").read_text("utf-8"))


def phrase(language: str, section: str, name: str, /, **values: object) -> str:
    """A phrase that has one form only."""
    return cast("str", catalogue(language)[section][name]).format(**values)


def templates(language: str, section: str, name: str, form: Form) -> Mapping[str, str]:
    """The sentences for this set of values: `other`, and perhaps one for `none` and for `one`."""
    found = cast("str | dict[str, Any]", catalogue(language)[section][name])
    if isinstance(found, dict):
        found = cast("str | dict[str, Any]", found.get("+".join(form) or "plain", found))
    return {"other": found} if isinstance(found, str) else found


def sentence(
    language: str, section: str, name: str, forms: Iterable[Form], values: Values, **derived: str
) -> str | None:
    """The sentence that these values allow, None where they allow none.

    `derived` are phrases of this language that were made of values."""
    form = best_form(forms, values)
    if form is None:
        return None
    found = templates(language, section, name, form)
    # The first value is the one that is counted, where the words depend on a number.
    number = {0: "none", 1: "one"}.get(cast("int", values[form[0]]), "other") if form else "other"
    return found.get(number, found["other"]).format(**{**derived, **values})


def state_name(state: str, language: str) -> str:
    """The state of a job or an attempt, as people call it."""
    return phrase(language, "state", state)


def value_name(field: str, value: str, language: str) -> str:
    """A value of a job file that is one of a few, such as `ranks: device`; English has it as it is written."""
    return str(catalogue(language).get("terminal", {}).get(f"{field}: {value}", value))


def told(language: str, name: str, /, **values: object) -> str:
    """What the terminal says of a job, with phrases of the same language in it."""
    return phrase(language, "told", name, **values)


def cause_sentence(cause: str | None, values: Values, language: str) -> str | None:
    """The cause in words; None for one that is not known here, or came without its values."""
    if cause is None or cause not in set(Cause):
        return None
    values = _site_in_words(cause, values, language)
    said = sentence(language, "cause", cause, FORMS[Cause(cause)], values, who=_WHO)
    if said is None:
        return None
    who, names_node = _who(values, language)
    names_node = names_node and _WHO in said
    said = said.replace(_WHO, who)
    if "node" in values and not names_node:
        said = phrase(language, "note", "node", reason=said, node=values["node"])
    if "output" in values:
        return phrase(language, "note", "output", reason=said, output=values["output"])
    return said


def _site_in_words(cause: str, values: Values, language: str) -> Values:
    """The reason of a site's own queue as a sentence, where it is known; QOSMaxGRESPerUser says little."""
    if cause != Cause.PENDING or "error" not in values:
        return values
    known = catalogue(language)["pending"]
    # Slurm may add nodes or more: ReqNodeNotAvail, UnavailableNodes:node[1-2].
    code, _, rest = str(values["error"]).partition(",")
    if "limit" in values and f"{code}+limit" in known:
        said = known[f"{code}+limit"].format(**values)
        return {**values, "error": said}
    if code not in known:
        return values
    return {**values, "error": ",".join(filter(None, (known[code], rest)))}


def ended_name(state: str, cause: str | None, language: str) -> str:
    """The state of an attempt, as people call it: one that saved and asked for the next segment was cut by no limit."""
    if cause == Cause.RUN_AGAIN:
        return phrase(language, "note", "left-early")
    return state_name(state, language)


def retry_sentence(
    number: int, ended: str, reason: str, language: str, *, cause: str | None = None
) -> str:
    """That an attempt ended so, and another one will follow."""
    name = ended_name(ended, cause, language)
    note = _FOLLOWED_BY.get(ended, "again")
    return phrase(language, "note", note, number=number, state=name, reason=reason)


def reason(record: JobSummary | AttemptRecord, language: str) -> str | None:
    """Why a job or an attempt stands as it does; rows of an older jumar have it in English only."""
    said = cause_sentence(record.cause, record.values, language)
    if said is None:
        return record.reason
    if isinstance(record, JobSummary) and ENDED in record.values:
        ended = str(record.values[ENDED])
        return retry_sentence(record.attempt, ended, said, language, cause=record.cause)
    return said


def recovery_sentence(before: AttemptRecord, after: AttemptRecord, language: str) -> str:
    """What it took to go on after an attempt; empty where nobody knows."""
    cost = after.recovery or recovery(before, after)
    parts = [("stop", cost.stop_s), ("detect", cost.detect_s), ("wait", cost.wait_s)]
    parts += [("start", cost.start_s), ("load", cost.load_s)]
    known = [told(language, name, seconds=f"{s:.1f}") for name, s in parts if s is not None]
    if not known:
        return ""
    if is_unseen(before):
        known.insert(0, told(language, "detect-unknown"))
    # Also when nobody knows them: what was lost is what people look for.
    is_under_way = after.started_at is not None and after.finished_at is None
    if cost.load_s is None and not is_under_way:
        known.append(told(language, "load-unknown"))
    steps = cost.repeated_steps
    if steps is not None:
        known.append(told(language, "repeated", steps=steps))
    elif cost.load_s is not None or not is_under_way:
        known.append(told(language, "repeated-unknown"))
    return told(language, "recovered", parts=phrase(language, "told", "comma").join(known))


def waiting_sentence(waiting: Waiting, language: str, *, expected: str | None = None) -> str:
    """Why a job waits; `expected` is when it is expected to start, as the reader writes times.

    An older server tells it in English only."""
    said = [_part(part, waiting, language) for part in waiting.parts]
    if not said or None in said:
        return waiting.text
    if expected is not None:
        said.append(phrase(language, "note", "expected", when=expected))
    return catalogue(language)["parts"].join(filter(None, said))


def _part(part: WaitPart, waiting: Waiting, language: str) -> str | None:
    if part.name not in set(Wait):
        return None
    return sentence(
        language,
        "wait",
        part.name,
        WAIT_FORMS[Wait(part.name)],
        _told_values(part, language),
        cards=_cards(str(part.values.get("kind", "")), language),
        ordinal=_ordinal(int(part.values.get("place", 0))),
        names=_names_ahead(waiting, language),
    )


def _told_values(part: WaitPart, language: str) -> Values:
    """The values, with those that are words of the platform in this language."""
    if part.name == Wait.DRAIN and "why" in part.values:
        return {**part.values, "why": drain_why(str(part.values["why"]), language)}
    if part.name == Wait.FOREIGN:
        # The scheduler, which knows no language, has a mark for users whom nobody knows.
        unknown = phrase(language, "who", "unknown")
        users = str(part.values.get("by", "")).split(_BETWEEN_USERS)
        named = [unknown if user == _UNKNOWN_USER else user for user in users]
        return {**part.values, "by": str(catalogue(language)["list"]).join(named)}
    return part.values


def drain_why(why: str, language: str) -> str:
    """Why no jobs are started: in words of the reader's language where the platform itself says it."""
    return str(catalogue(language)["drain"].get(why, why))


def _who(values: Values, language: str) -> tuple[str, bool]:
    """The program of the job that a sentence is about, and whether that names its node."""
    if "process" in values:
        return phrase(language, "who", "left", process=values["process"]), False
    if values.get("rank") == _SCHEDULER:
        return phrase(language, "who", "scheduler"), False
    name = "rank" if "rank" in values else "command"
    has_node = "node" in values
    return phrase(language, "who", f"{name}_node" if has_node else name, **values), has_node


def _cards(kind: str, language: str) -> str:
    return phrase(language, "cards", "cpu" if kind == "cpu" else "other", kind=kind)


def _names_ahead(waiting: Waiting, language: str) -> str:
    """`ann`, `ann and bob`, `ann, bob and 3 others`."""
    words = catalogue(language)
    groups = [phrase(language, "who", "group", group=group) for group in waiting.groups_ahead]
    names = [*waiting.users_ahead, *groups]
    if len(names) > _MOST_NAMES:
        others = words["others"].format(count=len(names) - _MOST_NAMES + 1)
        names = [*names[: _MOST_NAMES - 1], others]
    return words["last"].join(filter(None, (words["list"].join(names[:-1]), *names[-1:])))


def _ordinal(place: int) -> str:
    if 1 <= place <= len(_ORDINALS):
        return _ORDINALS[place - 1]
    ending = (
        "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    )
    return f"{place}{ending}"
