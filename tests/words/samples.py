"""Every cause with every set of values it comes with, as tests of several rooms walk through them."""

import re
from collections.abc import Iterator

from jumar.spec.causes import FORMS, Cause, Form

VALUES: dict[str, str | int] = {
    "code": 3,
    "signal": "SIGKILL",
    "step": "pip install",
    "command": "train.sh",
    "file": "data/need.txt",
    "folder": "/data/ann",
    "error": "Permission denied",
    "limit_s": "60",
    "by": "root",
    "why": "maintenance",
    "nodes": "1",
    "engine": "slurm",
    "name": "torch2",
    "job": "k7x2m9q4tb",
    "places": "rank 2 in train.py:7; ranks 0, 1 in all_reduce",
    "segments": 2,
    "installed": "1.7.0",
    "wanted": "2.6.0",
    "user": "ann",
}
# Names that are the same in every language.
_NAMES = re.compile(
    r"jumar port|jumar rerun|--auto-port|jumar|tar|git|Python|CUDA|NPU|conda|MindSpore|CANN|Ascend|Slurm|\$JUMAR_CKPT_DIR"
)


def cases() -> Iterator[tuple[Cause, Form, dict[str, str | int]]]:
    for cause, forms in FORMS.items():
        for form in forms:
            yield cause, form, {name: VALUES[name] for name in form}


def latin_left(sentence: str, values: dict[str, str | int]) -> str:
    """The Latin letters of a sentence that belong to no value and no name."""
    for value in sorted(map(str, values.values()), key=len, reverse=True):
        sentence = sentence.replace(value, "")
    return "".join(re.findall(r"[A-Za-z]", _NAMES.sub("", sentence)))
