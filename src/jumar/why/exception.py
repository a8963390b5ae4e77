"""What a Python exception in a log tells: its cause, and what it is about."""

import re

from jumar.why.advice import REMOTE, Told, told_by
from jumar.why.event import (
    GENERAL,
    TOLD_BY_LINES,
    Event,
    Known,
    began,
    best_of,
    is_asked_back,
    kind_by,
)
from jumar.why.knowledge import (
    API_GONE,
    API_NEW,
    ERROR_LINE,
    LIBRARY_ERROR,
    OPTIONAL_MISSING,
    PYTHON_ERROR,
    Cause,
    Level,
    causes,
    has,
    places,
)
from jumar.why.particulars import Read, Where, read, read_refusal
from jumar.why.raised import Raised
from jumar.why.reading import Line
from jumar.why.statements import stated
from jumar.why.symbols import LONGEST_ERROR, cut

# What another version of a package shows as.
OF_VERSIONS = frozenset(
    (
        *("attribute-missing", "import-name", "library-use", "module-missing", "wrong-type"),
        *("library-mismatch", "optional-missing", "name-missing", "configuration", "arguments"),
    )
)
# A library that lacks what it is asked for speaks of versions. What is told of values, shapes or memory does not.
_LACKING = frozenset(
    (
        "attribute-missing",
        "import-name",
        "library-use",
        "module-missing",
        "key-missing",
        "unpacking",
    )
)
_LACKS = re.compile(
    r"has no attribute|unexpected keyword|positional argument|multiple values for|cannot import name|values to unpack"
    r"|expected \d+ (?:positional )?arguments?|KeyError|No module named '?\w+\."
)
# Where the names in the message tell more than the class.
_SAYS_LITTLE = GENERAL | {
    *("configuration", "arguments", "wrong-type", "shape", "dtype", "other-device", "index-range"),
    *("data-broken", "data-pipeline", "not-there", "already-there", "library-use", "numerical"),
    *("model-load", "checkpoint-fit", "key-missing", "none-value", "autograd", "number-text"),
}
# Where it is a package that asks another one for a name that this does not have.
_INSIDE = {API_GONE: "gone-inside", API_NEW: "new-inside"}
# Packages of which nothing newer will come.
_NEVER_UPDATED = frozenset(
    (
        *("basicsr", "gfpgan", "facexlib", "realesrgan", "fairseq", "allennlp", "torchtext", "gym"),
        *("pytorch_transformers", "pytorch_pretrained_bert", "imgaug", "nlp", "torchsummary"),
        *(
            "tensorflow_addons",
            "pytorch_lightning_bolts",
            "neptune_client",
            "lvis",
            "skvideo",
            "chumpy",
        ),
    )
)
# Names that packages define only if another package is there.
_UNDEFINED = "NameError"
_LIBRARY_MISMATCH = "library-mismatch"
_MODULE_PACKAGE = "module-package"
"""The form of a module's name of which nothing else is known."""
# Forms that say no more than the class: inside a library, whose line it is tells the user nothing.
_RESTATE = frozenset(("none-plain", "key-plain"))
# Forms of messages whose own advice leads elsewhere, or says less: an empty weight is not one of another size.
_ADVISED_WRONGLY = frozenset(
    (
        *("sharded-size", "device-map-ranks", "quantized-callback", "wandb-entity", "hparams-type"),
        *("lora-pattern", "lora-file", "text-column", "processor-plain", "tensor-numpy"),
        *("fsdp-views", "paddle-place", "lightning-tasks"),
        *("apex-cuda", "protobuf", "cudnn-two", "hub-gated", "hub-refused", "hub-waiting"),
        *("hub-token-gated", "hub-token-gated-bare", "hub-name", "bnb-no-cuda", "hub-token-bad"),
        *("dataset-gated", "triton-libcuda", "safetensors-metadata", "deepspeed-batch"),
        *("deepspeed-one", "deepspeed-accumulation"),
    )
)
# Who is left alone by another process says so, and may be heard first: at the meeting point of ranks, and where a parent or a
# child hands something over.
_LEFT_ALONE = re.compile(
    r"Timed out after \d+ seconds waiting for clients|client socket has timed out|RendezvousTimeoutError|RendezvousConnectionError"
    # Nobody listens there: who should have may have ended. A host that cannot be reached is another matter.
    r"|client socket has failed to connect[^\n]{0,300}Connection refused"
    r"|Ran out of input$|pickle data was truncated$"
    r"|(?:resource_sharer|_pin_memory_loop|rebuild_storage_fd|/managers)\b[\s\S]*\n(?:EOF|Connection\w*|BrokenPipe|FileNotFound)Error\b"
)
_HANDS_OVER = re.compile(r"multiprocess\w*/|/popen_\w+\.py|distributed/|rendezvous")
# What Python says of these is one line; below it others speak.
_ONE_LINE = frozenset(
    (
        *("KeyError", "IndexError", "NameError", "UnboundLocalError", "ZeroDivisionError"),
        "ModuleNotFoundError",
    )
)
_KIND_LINES, _READ_LINES = 2, 8
# Statements that refuse to go on, and as what their messages are read.
_REFUSALS = {"raise ": PYTHON_ERROR, "assert ": "checked"}
_SENTENCE_WORDS = 4


def of_exception(one: Raised, known: Known) -> Event:
    """The sign that an exception is."""
    text = "\n".join(line.text for line in _message(one) if not is_asked_back(line.text))
    whole = f"{one.frames}\n{text}"
    best = best_of([one for one in known if one.is_in(text, whole)])
    # What a launcher says below the script's own exception is not its message.
    is_below = best is not None and not one.is_mute and not has(best.anchor, one.said)
    is_wrapper = best is not None and best.cause.level >= Level.WRAPPER
    if is_wrapper and (one.asserted is not None or is_below):
        best = None
    if best is not None and best.cause.level in (Level.VAGUE, Level.WRAPPER):
        # That something failed is said by many messages; some say what, too.
        kind = _kind_of(one)
        best = None if kind.name in TOLD_BY_LINES else best
    cause = _kind_of(one) if best is None else best.cause
    told = told_by(one)
    if told.api is not None and cause.name in OF_VERSIONS:
        cause = causes()[API_GONE if told.api.is_gone else API_NEW]
    is_told = one.is_aside or cause.name in (API_GONE, API_NEW)
    form = None if is_told else _form_of(one, cause, is_known=best is not None)
    kind, cause = cause, cause if form is None else form.cause
    # What nobody waits for is not why a program ended; and one without a word says nothing.
    is_hint = (
        best is None
        and form is None
        and (one.is_aside or (one.is_mute and cause.name == PYTHON_ERROR))
    )
    if is_hint:
        cause = causes()[ERROR_LINE]
    is_read = form is not None and not form.is_stated
    is_named = best is not None or is_read or cause.name in (API_GONE, API_NEW)
    event = Event(
        cause,
        one.lines[0],
        began(one.lines),
        {
            "error": cut(one.said, LONGEST_ERROR),
            **told.values,
            **({} if form is None else form.values),
        }
        | ({} if one.place is None else {"place": one.place})
        | ({} if not one.own_source else {"own": one.own_source})
        | ({} if not one.handled else {"handled": cut(one.handled, LONGEST_ERROR)})
        | ({"part": one.part} if one.part and one.source == one.own_source else {}),
        0 if best is None else best.weight,
        one.lines[-1].offset + len(one.lines[-1].text),
        is_general=(not is_named and not one.is_own) or _is_left_alone(one),
        is_hint=is_hint,
        also=_also(told, kind, form, is_of_versions=_is_of_versions(one, kind, form)),
        particular=None if form is None else form.name,
        is_stated=form is not None and form.is_stated,
        is_literal=form is not None
        and (form.is_literal or (form.name in _RESTATE and (one.is_library or not one.frames))),
        stack=one.stack,
    )
    if event.is_unsure:
        _take_at_its_word(event, one)
    if event.cause.name == API_GONE and "given" in told.values:
        event.particular, event.also = "gone-default", tuple(set(event.also) & {"instead-api-gone"})
    elif event.cause.name in _INSIDE and "caller" in told.values:
        _tell_asker(event, told.values["caller"])
    return event


def _tell_asker(event: Event, caller: str) -> None:
    """Of a name that another package, or the code of a model, asks for: what to do with that."""
    is_gone = event.cause.name == API_GONE
    event.particular = _INSIDE[event.cause.name]
    if is_gone and caller == REMOTE:
        event.particular = "gone-remote"
    elif is_gone and caller in _NEVER_UPDATED:
        event.particular = "gone-last"
        # What replaces the name is to be written there.
        event.also = tuple(one for one in event.also if one.startswith("instead"))
        return
    event.also = ()


def _is_left_alone(one: Raised) -> bool:
    """Whether it says only that another process did not come or is gone."""
    is_between = not one.frames or _HANDS_OVER.search(one.frames) is not None
    return is_between and _LEFT_ALONE.search(f"{one.frames}\n{one.said}") is not None


def _take_at_its_word(event: Event, one: Raised) -> None:
    """Of what the script's own code refuses, in a sentence, that sentence: its authors wrote it for this very case."""
    kind = next((kind for words, kind in _REFUSALS.items() if one.source.startswith(words)), None)
    if kind is None or one.is_library or len(_words_of(one).split()) < _SENTENCE_WORDS:
        return
    form = read_refusal(kind, one.said, _where(one))
    if form is not None:
        event.cause, event.particular, event.is_literal = form.cause, form.name, False
        event.values |= form.values


def _form_of(one: Raised, cause: Cause, *, is_known: bool) -> Read | None:
    """What the form of its message says more than its cause, with the line of source and the files that it came through."""
    below = "\n".join(line.text for line in _message(one)[1:_READ_LINES])
    first = one.lines[0].text.strip()
    if one.asserted is None and first != one.said:
        # Who quotes another's words may be known by its own.
        below = f"{below}\n{first} {one.said}"
    where = _where(one)
    # Of what a signature knows no sentence says more.
    states = "" if is_known else _words_of(one)
    form = read(cause.name, f"{one.said}\n{below}", where, states)
    if form is not None and form.cause.level > cause.level:
        # Below it a launcher may say that a child of its own failed.
        return read(cause.name, one.said, where, states)
    return form


def _message(one: Raised) -> list[Line]:
    """The lines of its message."""
    return one.lines[:1] if one.name in _ONE_LINE and not one.is_mute else one.lines


def _where(one: Raised) -> Where:
    sides = "" if one.sides is None else ">~ " + "\t".join(one.sides) + "\n"
    none = f">! {one.none}\n" if one.none else ""
    return Where(
        f"{sides}{none}{one.frames}\n>> {one.own_source}", one.source, one.part, one.quoted
    )


def _is_of_versions(one: Raised, kind: Cause, form: Read | None) -> bool:
    """Whether nothing better is known than that a library lacks something: a form that calls it something else knows."""
    if form is not None and form.cause is not kind:
        return False
    if kind.name == _LIBRARY_MISMATCH:
        return form is None
    return kind.name in _LACKING and _LACKS.search(one.said) is not None


def _also(told: Told, kind: Cause, form: Read | None, *, is_of_versions: bool) -> tuple[str, ...]:
    """Which of its sentences fit."""
    cause = kind if form is None else form.cause
    fits = {
        "advice": form is None or form.name not in _ADVISED_WRONGLY,
        "inside": is_of_versions,
        "between": is_of_versions,
        "install": cause.name == "module-missing",
        "perhaps": form is not None and form.name == _MODULE_PACKAGE,
        "names": (form is None or form.is_stated) and cause.name in _SAYS_LITTLE,
        "instead": cause.name in (API_GONE, API_NEW),
        "dropped": cause.name == API_GONE,
    }
    return tuple(
        f"{sentence}-{cause.name}" if sentence == "instead" else sentence
        for sentence in told.sentences
        if fits[sentence]
    )


def _words_of(one: Raised) -> str:
    """Its message without its name; none if only a condition is known."""
    said = "" if one.asserted is not None else one.said
    return said.removeprefix(one.name).removeprefix(":").strip()


def _states(one: Raised, kind: Cause) -> bool:
    return stated(kind.name, _words_of(one)) is not None


def _kind_of(one: Raised) -> Cause:
    if one.name == _UNDEFINED and one.is_library:
        return causes()[OPTIONAL_MISSING]
    rest = "" if one.asserted else "\n".join(line.text for line in _message(one)[1:_KIND_LINES])
    kind = kind_by(f"{one.said}\n{rest}", is_own=one.is_own)
    if kind.name == "checked" and one.source.startswith("assert ") and not _states(one, kind):
        # Where the words that are given with it state nothing, the condition says more.
        kind = kind_by(f"{one.name}: {one.source}", is_own=True)
    # Where it was raised tells only of what says nothing itself.
    is_mute = kind.name in (LIBRARY_ERROR, PYTHON_ERROR) and one.asserted is None
    if is_mute and one.is_library:
        where = one.frames.rpartition("\n")[2]
        return next((cause for cause, part in places() if f"/{part}" in where), kind)
    return kind
