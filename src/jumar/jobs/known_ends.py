"""What the platform knows of a job's end, where that says more than the job's logs do."""

from dataclasses import replace

from jumar.spec.causes import Cause
from jumar.spec.records import JobRecord
from jumar.spec.verdicts import FAULT, NOTHING, UNKNOWN, Verdict
from jumar.why.knowledge import LANGUAGES, causes, texts
from jumar.words.reasons import cause_sentence, phrase, waiting_sentence

_OWN = {Cause.NO_PROGRESS: "script", Cause.SEGMENTS_USED: "script"}
"""What only the platform can know, and whose it is: no line of a log says that others are missing."""
_NEVER_ITS_TURN = frozenset((Cause.AFTER_FAILED, Cause.AFTER_GONE))
_SIGNALS = {
    **dict.fromkeys(("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE"), "crash"),
    **dict.fromkeys(("SIGTERM", "SIGINT", "SIGHUP"), "asked-to-end"),
    "SIGABRT": "aborted",
    "SIGKILL": "killed",
}
_STOPS = {"en": ".", "zh": "。"}
_SPACES = {"en": " ", "zh": ""}


def platform_cause(job: JobRecord) -> str | None:
    """Why a job ended; of one that goes on, its last attempt."""
    if job.state.is_final and job.cause is not None:
        return job.cause
    return job.attempts[-1].cause if job.attempts else job.cause


def believes_logs(job: JobRecord) -> bool:
    """Whether what the platform saw of its end may be what logs tell better."""
    return platform_cause(job) not in _OWN


def with_known_end(job: JobRecord, found: Verdict) -> Verdict:
    """What the logs told, or what the platform knows where that is more."""
    cause = platform_cause(job)
    is_jobs = job.state.is_final and job.cause is not None
    values = job.values if is_jobs or not job.attempts else job.attempts[-1].values
    if cause is None:
        return found if found.cause or job.state.is_final else _under_way(job, found)
    said = {one: cause_sentence(cause, values, one) for one in LANGUAGES}
    if not all(said.values()):
        return found
    told = {one: _sentence(str(words), one) for one, words in said.items()}
    if cause in _OWN:
        return replace(
            found,
            cause=cause,
            whose=_OWN[Cause(cause)],
            kind=FAULT,
            what=told,
            remedy={one: phrase(one, "remedy", cause) for one in LANGUAGES},
            evidence=(),
            followed=(*found.evidence, *found.followed),
            rank=None,
            place=None,
        )
    if found.cause is not None:
        return found
    if cause in (Cause.SIGNAL, Cause.EXIT_CODE):
        return _silent(values.get("signal"), values.get("rank"), told, found)
    if cause in _NEVER_ITS_TURN:
        return _faultless(found, told, "after", other=values["job"])
    remedy = {one: phrase(one, "remedy", "platform", id=job.id) for one in LANGUAGES}
    return replace(found, cause=cause, what=told, remedy=remedy)


def _under_way(job: JobRecord, found: Verdict) -> Verdict:
    """A job that has not ended once, and whose logs show no fault."""
    if job.waiting is None:
        told = {one: phrase(one, "told", "no-fault-yet") for one in LANGUAGES}
        return _faultless(found, told, "follow", id=job.id)
    told = {
        one: phrase(one, "told", "waits-still", why=waiting_sentence(job.waiting, one))
        for one in LANGUAGES
    }
    return _faultless(found, told, "watch", id=job.id)


def _faultless(found: Verdict, told: dict[str, str], remedy: str, **values: object) -> Verdict:
    remedies = {one: phrase(one, "remedy", remedy, **values) for one in LANGUAGES}
    return replace(found, whose="none", kind=NOTHING, what=told, remedy=remedies)


def _silent(
    signal: str | int | None, rank: str | int | None, told: dict[str, str], found: Verdict
) -> Verdict:
    """An end of which no log says anything."""
    known = causes().get(_SIGNALS.get(str(signal), ""))
    rank = rank if isinstance(rank, int) and rank >= 0 else None
    if known is None:
        what = {one: f"{told[one]}{_SPACES[one]}{found.what[one]}" for one in LANGUAGES}
        return replace(found, what=what, rank=rank)
    return replace(
        found,
        cause=known.name,
        whose=known.whose or UNKNOWN,
        kind=FAULT,
        what=told,
        remedy={one: texts(one)[known.name]["remedy"] for one in LANGUAGES},
        rank=rank,
    )


def _sentence(words: str, language: str) -> str:
    first = words[:1]
    # A file's name is written as it is.
    if words.partition(" ")[0].isalpha():
        first = first.upper()
    return f"{first}{words[1:]}{_STOPS[language]}"
