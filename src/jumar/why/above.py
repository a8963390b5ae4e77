"""What was said above an exception: what its message refers to (`check the output above`), or what it follows from.

What could not be read, found or loaded is often only printed, and the program goes on to where the lack of it shows: None where a
picture should be, a list without entries, a name that no import has bound."""

import re
from collections.abc import Sequence
from dataclasses import replace

from jumar.why.details import FIRST, WHAT, Detail
from jumar.why.event import Event
from jumar.why.knowledge import ERROR_LINE, Level, signatures_in
from jumar.why.line import last_resort, of_line, read_closer
from jumar.why.naming import name_what_it_is_about
from jumar.why.reading import Line
from jumar.why.shell import EFFECT
from jumar.why.signs import Sign, before
from jumar.why.symbols import cut

_REFERS = re.compile(
    r"(?i)\b(?:check|see|look at|read|inspect) (?:the |your )?(?:text |console |printed |full )?(?:output|log|logs|messages?|warnings?|errors?|prints?)\b"
    r"(?! (?:file|at|in|of|for)\b)|\b(?:see|check|printed|listed|shown|reported|described|messages?|warnings?|errors?|output|logs?) above\b"
)
_NOT_BELOW = re.compile(r"(?i)stack ?trace|traceback|\bbelow\b")
_TRACEBACK = "Traceback (most recent call last)"
_SAYS = re.compile(
    r"(?i)\b(?:(?:does|do|did|is|are|was|were|could|can) ?(?:not|n't)|mismatch\w*|missing|invalid|wrong|differs?|fail\w*|error|cannot|no such|not found|corrupt\w*|exceeds?|empty)\b"
)
_FEWEST_WORDS, _LONGEST = 5, 400
# Something is not there of which the message does not say why.
_LACKS = re.compile(
    r"NoneType|UnboundLocalError|before assignment|not associated with a value|NameError: |division by zero|StopIteration"
    r"|(?:list|tuple) index out of range|for (?:axis \d+ with )?size 0\b|\bempty\b|num_samples=0|at least one (?:array|sample|element)|zero-size"
    r"|not enough values to unpack \(expected \d+, got 0\)|does not require grad|KeyError: (?:0|-1)$|exited unexpectedly"
)
# No card, asked for as a condition of something else.
_NO_CARD = re.compile(
    r"(?i)is_available\(|\bno (?:cuda |npu )?(?:gpu|npu|card|device)s?\b|\b(?:gpu|cuda|npu|bf16|fp16)\b.{0,40}\b(?:required|needed|not available|unavailable)|n't support bf16"
)
_CARD_SAID = re.compile(
    r"CUDA initialization: |NVIDIA-SMI has failed|\bCUDA_VISIBLE_DEVICES=(?:-1|['\"]{2}|$)"
    r"|\b(?:driver|libcuda|aclInit|torch_npu)\b.{0,80}(?i:\bnot\b|n't\b|fail|error|too old|mismatch|unable)"
)
# An id beyond an embedding's rows, and what tokenizers say before.
_BEYOND_TABLE = re.compile(
    r"index out of range in self|srcIndex < srcSelectDimSize|device-side assert"
)
_TOO_LONG = re.compile(
    r"sequence length is longer than|tokens have been added in the vocabulary|resize_token_embeddings"
)
# What a name was to be bound to, and what keeps it from being loaded.
_UNBOUND = re.compile(r"name '(?P<name>\w{2,60}?)(?:_func|_fn|_cuda|_lib)?' is not defined")
_NO_NAME = re.compile(rf"NameError: {_UNBOUND.pattern}")
_UNLOADED = frozenset(("module-missing", "library-mismatch", "library-missing", "import-name"))
_OF_CARDS = frozenset(
    ("driver-old", "no-cuda", "device-fault", "device-busy", "device-lost", "device-number")
)
_SAYS_LACK = re.compile(
    r"(?i)(?:can't|cannot|could ?n[o']t|could not|unable to|failed to|failed|error) (?:\w+ )?(?:open|read|load|find|import|locate|parse|decode|download|process|create|connect)"
    r"|\bimread\w*\(|\bnot (?:found|exist|available|installed|readable)\b|n't exist|\bno such\b|\bno (?:valid |matching |usable )?\w+ (?:was |were )?(?:found|left|match\w*|loaded|available|given)\b"
    r"|\bno module\b|\b(?:missing|corrupt\w*|truncated|undefined symbol)\b|\b(?:found|kept|loaded|read|left|has|with) 0\b|\b0 (?:trainable|images?|samples?|files?|rows?|labels?|items?|examples?|entries)\b"
    r"|\ball params: .*trainable%: 0(?:\.0*)?(?![.\d])|\binputs have requires_grad=True\b|\bhave been ignored\b|\b(?:batches|samples|images|files|examples|iterations|steps|entries)\b\W{1,3}0$|error while |[Mm]ean of empty slice|temporarily unavailable"
)
# What these do without is missed by nobody.
_UNMISSED = re.compile(
    r"(?i)tensorrt|nvinfer|cufft|cublas factory|cuda_dnn|libpng|libjpeg|tensorboard|wandb|deprecat|FutureWarning|pkg_resources|OMP_NUM_THREADS"
    r"|image Python extension|libtorch_\w+\.so|/s\]|owner does not match|tokenizers parallelism|\binfo\b|\bdebug\b"
)
_ABOVE_LINES = 12


def said_above(chosen: Sign) -> list[Detail]:
    """The line above an exception's stack that says what is wrong, where its message sends there or it follows from that."""
    text = chosen.event.line.text
    if chosen.event.is_line:
        return []
    if not _REFERS.search(text) or _NOT_BELOW.search(text):
        return _lacked(chosen)
    for line in reversed(_above_stack(before(chosen))):
        words = line.text.split()
        if _SAYS.search(line.text) and len(words) >= _FEWEST_WORDS:
            return [Detail(WHAT, "said-above", {"said": cut(" ".join(words), _LONGEST)})]
    return []


def _lacked(chosen: Sign) -> list[Detail]:
    """That line, quoted."""
    line = _lack_above(chosen)
    if line is None:
        return []
    told = {"said": cut(" ".join(line.text.split()), _LONGEST)}
    return [Detail(WHAT, "said-above", told), Detail(FIRST, "above-first", told)]


def _lack_above(chosen: Sign) -> Line | None:
    """What is said right above a stack to be missing, where the exception is that something is not there."""
    values = chosen.event.values
    said = f"{values.get('error', '')}\n{values.get('own', '')}"
    pairs = (_NO_CARD, _CARD_SAID), (_BEYOND_TABLE, _TOO_LONG), (_LACKS, _SAYS_LACK)
    says = next((above for lacks, above in pairs if lacks.search(said)), None)
    if says is None:
        return None
    name = _NO_NAME.search(said)
    for line in reversed(_right_above_stack(chosen)):
        # A name that is not there may be a slip of the pen: only what speaks of it has to do with it.
        is_of_it = name is None or name[1] in line.text
        if is_of_it and says.search(line.text) and not _UNMISSED.search(line.text):
            return line
    return None


def begun_by(chosen: Sign) -> Sign:
    """The sign that the line above an exception is, if that is known to be a fault and certain to be meant; else the exception's."""
    event = chosen.event
    line = None if event.is_line else _lack_above(chosen)
    first = None if line is None else _event_of(line)
    if first is None or first.is_unsure or first.cause.level is not Level.FAULT:
        return chosen
    said = event.values.get("error", "")
    names = {name for name in _UNBOUND.findall(said) if name.lower() in first.line.text.lower()}
    is_card = first.cause.name in _OF_CARDS
    if not (is_card or (names and first.cause.name in _UNLOADED)):
        return chosen
    first.values["effect"] = said
    first.also = (*first.also, EFFECT)
    return replace(chosen, event=first)


def _event_of(line: Line) -> Event | None:
    """The sign that a line is if nothing else is told."""
    event = of_line([line], 0, set(), signatures_in(line.text))
    if event is not None:
        read_closer(event)
    if event is None or event.cause.name == ERROR_LINE:
        return last_resort([line])
    event.is_hint = False
    name_what_it_is_about(event)
    return event


def _right_above_stack(chosen: Sign) -> Sequence[Line]:
    """The lines between the stack of an exception and what was raised before it, by the same writer."""
    writer = chosen.event.line.writer
    lines = [line for line in before(chosen) if line.writer in (writer, "")]
    starts = [at for at, line in enumerate(lines) if _TRACEBACK in line.text]
    end = starts[-1] if starts else 0
    start = max(end - _ABOVE_LINES, 0)
    frames = [at for at in range(start, end) if lines[at].text.lstrip().startswith('File "')]
    return lines[frames[-1] + 1 if frames else start : end]


def _above_stack(lines: Sequence[Line]) -> Sequence[Line]:
    start = next((at for at, line in enumerate(lines) if _TRACEBACK in line.text), len(lines))
    return lines[:start]
