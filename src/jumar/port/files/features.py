"""Features that a configuration or a command turns on and that need CUDA kernels.

The same as in Python (JP632): 8-bit and 4-bit loading and optimizers, flash_attn through
transformers."""

import re
from collections.abc import Iterable

from jumar.port.files.lines import LineEdits
from jumar.port.patterns import lazy_pattern
from jumar.port.records import Severity
from jumar.port.rules.jp632_gpu_feature import (
    BITSANDBYTES,
    FLASH,
    FLASH_NAME,
    OPTIMISER,
    OPTIMISERS,
    QUANTISED,
)

TRACES = rb"_8bit|_32bit|load_in_[48]bit|flash_attention_2"
"""Text that a file with one of them contains."""


def _entry(key: str, value: str) -> re.Pattern[str]:
    """`key: value`, `"key": "value"`, `key=value` and `--key value`."""
    return lazy_pattern(rf"(?<![\w-])(?:--)?[\"']?{key}[\"']?(?:\s*[:=]\s*|\s+)[\"']?(?:{value})\b")


_LOAD_IN = (f"{BITSANDBYTES}: load_in", QUANTISED, Severity.LIMIT)
_FEATURES = {
    _entry("optim", OPTIMISERS): (f"{BITSANDBYTES}: optim", OPTIMISER, Severity.WORK),
    _entry("load_in_[48]bit", "[Tt]rue"): _LOAD_IN,
    lazy_pattern(r"(?<!\S)--load_in_[48]bit(?!\s*[=\w])"): _LOAD_IN,
    _entry("attn_implementation", FLASH_NAME): (FLASH_NAME, FLASH, Severity.LIMIT),
    _entry("use_flash_attention_2", "[Tt]rue"): (FLASH_NAME, FLASH, Severity.LIMIT),
}
_ANY = lazy_pattern(r"bit|flash_attention_2|paged_lion")
"""What each of them contains; most lines of long files contain none."""


def report(
    lines: Iterable[tuple[int, str]], code: str, edits: LineEdits, severity: Severity | None = None
) -> None:
    """Report the features in lines (number from 0, text) that are not comments."""
    for number, line in lines:
        if _ANY.search(line) is None:
            continue
        for pattern, (subject, words, its_own) in _FEATURES.items():
            if pattern.search(line):
                edits.find(code, number + 1, line, subject, *words, severity=severity or its_own)
