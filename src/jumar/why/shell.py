"""What a shell could not run, where what ended the program follows from that.

A script goes on after a command that is not there, so that the fault that is told last, and in most words, may be its
consequence: a module is missing where the environment was not activated."""

import re
from collections.abc import Iterator, Sequence

from jumar.why.knowledge import Level
from jumar.why.signs import Sign

EFFECT = "shell-effect"
"""The sentence that says what follows from a sign that was put before another."""
_NOT_FOUND = r": (?:command )?not found(?: in PATH)?\s*$"
# The options of the command above it, which ran without them.
_OPTION = re.compile(rf": (?:line )?\d+: -{{1,2}}[A-Za-z][\w.-]*(?:=\S*)?{_NOT_FOUND}")
# What makes an environment, and what is missing without it.
_ENVIRONMENT = re.compile(
    rf"(?:^|[\s:])(?:source|conda|mamba|micromamba|module|activate|pyenv|spack|ml){_NOT_FOUND}"
    r"|/(?:activate|conda\.sh|set_env\.sh|setvars\.sh): No such file or directory\s*$"
    r"|CommandNotFoundError: Your shell has not been properly configured|Run 'conda init' before 'conda activate'"
    r"|Lmod has detected the following error|Unable to locate a modulefile for"
    r"|EnvironmentNameNotFound: |Could not find conda environment:"
)
_OF_ENVIRONMENT = frozenset(
    (
        *("module-missing", "command-missing", "library-missing", "cann-environment"),
        "compiler-missing",
    )
)
# An environment that was activated may lack any other.
_EVERY_ENVIRONMENT = re.compile(
    r"(?:torch|torch_npu|numpy|tensorflow|mindspore|jax|paddle|transformers|accelerate|deepspeed|lightning|pytorch_lightning)\b"
)
_MODULE = "No module named "
# What fetches or unpacks, and what is missing without that.
_FETCHES = re.compile(
    r"(?:^|[\s:])(?:wget|curl|aria2c|axel|unzip|tar|7z|7za|unrar|zstd|gunzip|rsync|rclone|s5cmd|gsutil|gcloud"
    rf"|ossutil|ossutil64|obsutil|kaggle|gdown|huggingface-cli|hf|modelscope){_NOT_FOUND}"
)
_OF_FILES = frozenset(("file-missing", "not-there", "data-empty", "data-broken"))


def ran_without(chosen: Sign, signs: Sequence[Sign]) -> Sign:
    """The command that a shell could not run, where the chosen sign follows from that; else that sign."""
    event = chosen.event
    if event.level > Level.SYMPTOM or event.cause.whose not in ("script", "host", "unknown"):
        return chosen
    first = next(_causes_of(chosen, signs), None)
    if first is None:
        return chosen
    first.event.values["effect"] = event.values.get("error", event.line.text.strip())
    first.event.also = (*first.event.also, EFFECT)
    return first


def _causes_of(chosen: Sign, signs: Sequence[Sign]) -> Iterator[Sign]:
    name = chosen.event.cause.name
    for sign in signs:
        text = sign.event.line.text
        if sign is chosen or sign.source is not chosen.source or not sign.event.is_line:
            continue
        is_before = sign.event.line.offset < chosen.event.line.offset and not sign.is_survived
        if (
            (chosen.event.cause.whose == "script" and _OPTION.search(text))
            or (is_before and _is_of_environment(chosen) and _ENVIRONMENT.search(text))
            or (is_before and name in _OF_FILES and _FETCHES.search(text))
        ):
            yield sign


def _is_of_environment(chosen: Sign) -> bool:
    """Whether what is missing would be there in the environment that the script was made for."""
    _, said, module = chosen.event.line.text.partition(_MODULE)
    is_any = not said or _EVERY_ENVIRONMENT.match(module.lstrip("'\"")) is not None
    return chosen.event.cause.name in _OF_ENVIRONMENT and is_any
