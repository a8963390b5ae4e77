"""What says more than the sign that counts most: a compiler's own word, what the script's code raised below a framework's, the disk
that was full before, the scheduler that ended the job."""

import re
from collections.abc import Sequence

from jumar.why.knowledge import ERROR_LINE, EXTENSION_BUILD
from jumar.why.shell import EFFECT, ran_without
from jumar.why.signs import Sign

_DISK_FULL = "disk-full"
# What was not written, or only in part, may be missed by whoever reads it.
_OF_DISKS = frozenset(("file-missing", "checkpoint-broken", "data-broken"))
# What a compiler or linker says of a fault, in its own form: `x.cu(12): error: …`.
_COMPILER_SAYS = re.compile(
    r"[:)] (?:fatal )?error(?: [A-Z]+\d+)?: |\bnvcc fatal\b|#error |\bundefined reference to\b|\bld(?:\.\w+)?: cannot find"
    r"|\b(?:nvcc|gcc|g\+\+|cc1plus|c\+\+): (?:command )?not found"
    # What a setup that downloads says at its end.
    r"|^\s+error: (?:Remote end closed connection|<urlopen error )"
)
# pip says so of a package's setup, and shows below it, further right, what that raised.
_SETUP_FAILED = re.compile(
    r"subprocess-exited-with-error|metadata-generation-failed|did not run successfully"
)
# A framework in C++ that called the script's own code, and shows below its own words what that raised.
_CALLED_PYTHON = re.compile(
    r"Exception thrown from (?:user defined Python function|dataset pipeline|PyFunc)"
)
_BELOW = 4096
"""How far below a build's first complaint its compiler may still speak."""


def said_better(chosen: Sign, signs: Sequence[Sign]) -> Sign:
    """The sign to be told in its place; itself where none says more."""
    chosen = _inner_word(_compilers_word(chosen, signs), signs)
    return _without_room(ran_without(_killer(chosen, signs), signs), signs)


def _compilers_word(chosen: Sign, signs: Sequence[Sign]) -> Sign:
    """Of a build that failed, what the compiler said first: who called it says only that it failed."""
    if chosen.event.cause.name != EXTENSION_BUILD:
        return chosen
    said = (
        sign
        for sign in signs
        if sign.source is chosen.source
        and sign.event.line.offset < chosen.event.end + _BELOW
        and (_COMPILER_SAYS.search(sign.event.line.text) or _is_of_setup(sign, chosen))
    )
    first = next(said, chosen)
    if first.event.cause.name == ERROR_LINE:
        first.event.cause, first.event.is_hint = chosen.event.cause, False
    return first


def _killer(chosen: Sign, signs: Sequence[Sign]) -> Sign:
    """Of what was killed, the scheduler that says that it ended the job."""
    if chosen.event.cause.name != "killed":
        return chosen
    ended = (one for one in signs if one.event.cause.name == "stopped" and not one.is_survived)
    return next(ended, chosen)


def _inner_word(chosen: Sign, signs: Sequence[Sign]) -> Sign:
    """What the script's own code raised, where the chosen one says only that it did."""
    if not _CALLED_PYTHON.search(chosen.event.line.text):
        return chosen
    begins = chosen.event.line.offset
    raised = (
        sign
        for sign in signs
        if sign.source is chosen.source
        and begins < sign.event.line.offset < begins + _BELOW
        and not sign.event.is_line
        and not sign.event.is_hint
    )
    return next(raised, chosen)


def _without_room(chosen: Sign, signs: Sequence[Sign]) -> Sign:
    """The disk that was full before something was missing or cut off, or in another log."""
    if chosen.event.cause.name not in _OF_DISKS:
        return chosen
    event = chosen.event
    full = (
        sign
        for sign in signs
        if sign.event.cause.name == _DISK_FULL
        and not (sign.is_survived or sign.event.is_hint)
        and (sign.source is not chosen.source or sign.event.line.offset < event.line.offset)
    )
    first = next(full, None)
    if first is None:
        return chosen
    first.event.values["effect"] = event.values.get("error", event.line.text.strip())
    first.event.also = (*first.event.also, EFFECT)
    return first


def _is_of_setup(sign: Sign, pip: Sign) -> bool:
    """Whether a sign is the exception of a package's setup that pip shows below its own words."""
    event = sign.event
    return (
        _SETUP_FAILED.search(pip.event.line.text) is not None
        and event.line.offset > pip.event.line.offset
        and event.line.text[:1].isspace()
        and not event.is_line
        and not event.is_hint
    )
