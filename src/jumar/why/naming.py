"""What the sign that is told is about: by the form of its line, or by that line's grammar where no form is known.

It is looked for in the chosen one only: to read all lines so closely would take too long."""

import re

from jumar.why.event import Event
from jumar.why.knowledge import API_GONE, API_NEW, ERROR_LINE, LIBRARY_ERROR, PYTHON_ERROR, Level
from jumar.why.particulars import Read, read, read_below
from jumar.why.reasons import advised_by, reason_of, speaker_of

# What a line's class tells so little of that its grammar tells more.
_READ_BY_GRAMMAR = frozenset(
    (
        *(ERROR_LINE, LIBRARY_ERROR, "not-there", "access", "file-missing", "file-forbidden"),
        *("file-exists", "already-there", "too-late", "connection", "cluster", "data-broken"),
        *("refused", "unsupported", "child-failed", "disk-full", "library-missing", "checked"),
        *("configuration", "download", "container", "arguments", "name-unknown", "store-access"),
        *("command-missing", "process-limit", "disk-broken", "network-tls"),
    )
)
# Of an exception fewer: its name and its place tell the others.
_OF_EXCEPTIONS = frozenset(
    (LIBRARY_ERROR, PYTHON_ERROR, "access", "connection", "too-late", "disk-broken", "download")
)
# What these say of any line is said better by its reason.
_LOOSE_FORMS = frozenset(
    (
        *("file-told", "file-named", "rule-exclusive", "rule-value", "rule-never", "version-said"),
        *("choice-unknown", "choice-listed", "disk-room", "compiler-error", "tool-forbidden"),
        *("rule-required", "volume-mount", "container-program"),
    )
)
# Where a container is spoken of, a program that is missing is missing in its image.
_CONTAINER = re.compile(r"(?i)\b(?:docker|oci|runc|crun|container\w*|shim|kubelet|pod)\b")
# Reasons that tell less than those forms do.
_VAGUE = ("no-match", "absent", "kernel-fs", "waited", "exists", "needs", "may-not", "no-space")
# Of a child that failed, its launcher says these by itself.
_OF_CHILDREN = ("waited", "no-match", "kernel-fs", "cancelled", "reset", "status-404", "memory")
# What a sentence states that says only that something failed.
_FAILED_STEPS = ("step-failed", "step-failed-for")
# What ranks say of each other, and programs of any connection.
_RANKS_SAY = frozenset(("network-connect", "peer-lost"))
_OF_RANKS = re.compile(
    r"(?i)\brank|nccl|hccl|gloo|c10d|store\b|rendezvous|rdzv|torch|process ?group|ucx|\bmpi|\bray\b|deepspeed|peer|worker"
    r"|\bsocket|recv|send|\bpair\b|horovod|^\W*(?:\w+\W+){0,4}$"
)


def name_what_it_is_about(event: Event) -> None:
    """What the form of a line says more than its cause; else its grammar."""
    if event.particular in _FAILED_STEPS:
        _mend_step(event)
    if event.particular is not None or event.cause.name in (API_GONE, API_NEW):
        return
    form = read(event.cause.name, event.line.text.strip())
    if event.is_line:
        form = _by_grammar(event, form)
    elif form is None and event.cause.name in _OF_EXCEPTIONS:
        form = plain_reason(event.line.text.strip())
    is_service = form is not None and event.cause.name in _RANKS_SAY
    if form is not None and (event.level is not Level.LOST_PEER or is_service):
        event.cause, event.particular = form.cause, form.name
        event.values = {**event.values, **form.values}


def name_by_what_is_below(event: Event, text: str) -> None:
    """Of a line that only announces what follows, what that says."""
    form = read_below(event.particular or event.cause.name, text)
    if form is not None:
        event.cause, event.particular = form.cause, form.name
        event.is_stated = event.is_literal = False
        event.values = {**event.values, **form.values}


def _mend_step(event: Event) -> None:
    """Of a step that failed, the reason, if it is one that is known."""
    reason = plain_reason(event.line.text.strip())
    if reason is not None:
        event.cause, event.particular = reason.cause, reason.name
        event.is_stated = event.is_literal = False
        event.values = {**event.values, **reason.values}


def plain_reason(text: str) -> Read | None:
    """Why something failed, in words that anybody uses, if they say enough by themselves."""
    return _without(_VAGUE, reason_of(text))


def whole_of(event: Event) -> str:
    """A line and what it goes on with."""
    return f"{event.line.text.strip()} {event.below}".rstrip()


def _by_grammar(event: Event, form: Read | None) -> Read | None:
    """Why, whoever says so, and what the line itself says to do; else who says so."""
    text, name = whole_of(event), event.cause.name
    if form is not None and form.name == "container-program" and _CONTAINER.search(text):
        return form
    if form is not None:
        reason = reason_of(text) if form.name in _LOOSE_FORMS else None
        return _without(_VAGUE, reason) or form
    if name in _RANKS_SAY:
        return None if _OF_RANKS.search(text) else reason_of(text)
    if name not in _READ_BY_GRAMMAR and not event.is_hint:
        return None
    advised = advised_by(text)
    event.values |= advised
    event.also = (*advised, *event.also)
    reason = reason_of(text)
    if name == "child-failed":
        return _without(_OF_CHILDREN, reason)
    return speaker_of(text, event.cause) if reason is None and event.is_hint else reason


def _without(names: tuple[str, ...], reason: Read | None) -> Read | None:
    """A reason that is none of these."""
    is_one = reason is not None and any(f" {one}" in reason.name for one in names)
    return None if is_one else reason
