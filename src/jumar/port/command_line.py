"""A command line for the port: `--device cuda:0` becomes `--device npu:0`.

Ported code obeys its arguments, so the command has to be ported, too. Only the value of an option
or a setting changes (`--device cuda`, `device=cuda`, `--backend nccl`); file names stay."""

import re

from jumar.port.patterns import lazy_pattern

_OPTION = r"--?[\w.-]+"
_VALUE = r"(?P<value>cuda|nccl)(?P<index>:\d+)?"
_SETTING = lazy_pattern(rf"(?P<option>(?:^|\s)(?:{_OPTION}(?:=|\s+)|[\w.+]+=)){_VALUE}(?=\s|$)")
_ON_NPU = {"cuda": "npu", "nccl": "hccl"}


def ported(words: tuple[str, ...]) -> tuple[str, ...]:
    """The same command for the port; a command passed to a shell as text is changed inside it."""
    return tuple(_ported(word, before) for before, word in zip(("", *words), words, strict=False))


def _ported(word: str, before: str) -> str:
    whole = re.fullmatch(_VALUE, word)
    if whole is not None:
        return _on_npu(whole) if re.fullmatch(_OPTION, before) else word
    return _SETTING.sub(lambda found: found["option"] + _on_npu(found), word)


def _on_npu(found: re.Match[str]) -> str:
    return _ON_NPU[found["value"]] + (found["index"] or "")
