"""Names that a package has only in some of its versions, and which of them a message is about."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from jumar.why.knowledge import rows

_PYTHON = "python"
# How Python tells which name is not there.
_MODULE = re.compile(r"module '(?P<a>[\w.]+)' has no attribute '(?P<b>\w+)'")
_OBJECT = re.compile(r"'(?P<a>\w+)' (?:object )?has no attribute '(?P<b>\w+)'")
_IMPORT = re.compile(
    r"cannot import name '?(?P<b>\w+)'?(?: from (?:partially initialized module )?'(?P<a>[\w.]+)')?"
)
_NO_MODULE = re.compile(r"No module named '?(?P<a>[\w.]+)'?")
_KEYWORD = re.compile(
    r"(?P<a>[\w.]+)\(\) got an unexpected keyword argument '(?P<b>\w+)'", re.ASCII
)
_MUST = re.compile(r"(?P<a>\w+)\(\) missing 1 required positional argument: '(?P<b>\w+)'")
# As the tokenizers of transformers say it, and its parser of options.
_TOKENIZER = re.compile(r"(?P<a>\w+Tokenizer\w*) has no attribute '?(?P<b>\w+)")
_OPTION = re.compile(r"not used by the HfArgumentParser: \['--(?P<b>\w+)'")
# What all classes of a kind have from the one that they are made of.
_FAMILIES = (
    (re.compile(r"\w*Tokenizer(?:Fast)?"), "PreTrainedTokenizerBase"),
    (
        re.compile(r"\w*TrainingArguments|(?:SFT|DPO|GRPO|RLOO|KTO|ORPO|CPO|GKD|Reward)Config"),
        "TrainingArguments",
    ),
    # Others never had a rope.
    (
        re.compile(
            r"(?:Llama|Qwen[23](?:Moe)?|Mi[sx]tral|Gemma\d?|Phi3?|Glm4?|Olmo\d?|Starcoder2|Granite)(?:Text)?Config"
        ),
        "PretrainedConfig",
    ),
    (re.compile(r"\w+For[A-Z]\w+|\w*PreTrainedModel"), "PreTrainedModel"),
)
_PYTHON_PATH = re.compile(r"python3\.(\d{1,2})/")
# Which Python, 3.x, a version of a package needs.
_NEEDS = {("transformers", "5"): 10, ("numpy", "2"): 9}
_INITIALIZER = "__init__"
# Old messages do not say what is imported from; the line of the source does.
_FROM = re.compile(r"from (?P<a>[\w.]+) import .*?\b(?P<b>\w+)\b")
_SHORT = {"np": "numpy", "tf": "tensorflow", "pl": "pytorch_lightning", "nx": "networkx"}


@dataclass(frozen=True, slots=True)
class Api:
    """A name of a package, and the versions that have it."""

    package: str
    name: str
    is_gone: bool
    """Whether it is there before that version, or from it on."""
    version: str
    instead: str | None

    @property
    def install(self) -> str:
        """What to install so that it is there."""
        wanted = f"{'<' if self.is_gone else '>='}{self.version}"
        return (
            f"Python{wanted}"
            if self.package == _PYTHON
            else f'pip install "{self.package}{wanted}"'
        )


def api_of(message: str, source: str, frames: str = "") -> Api | None:
    """The name that this message misses, if it is known which versions have it; `source`: the line that raised it."""
    known = next((known for name in _names(message, source) if (known := _of_name(name))), None)
    return known if known is None or _may_run(known, frames) else None


def _may_run(api: Api, frames: str) -> bool:
    """Whether the version that dropped a name can be the installed one: it may need a newer Python than the paths tell of."""
    python = _PYTHON_PATH.search(frames)
    needed = _NEEDS.get((api.package, api.version.partition(".")[0])) if api.is_gone else None
    return python is None or needed is None or int(python[1]) >= needed


def _names(message: str, source: str) -> Iterator[str]:
    """What to look up, the most particular first."""
    found = _MODULE.search(message) or _OBJECT.search(message) or _TOKENIZER.search(message)
    if found is not None:
        yield f"{found['a']}.{found['b']}"
        return
    found = _IMPORT.search(message)
    if found is not None:
        imported = _FROM.search(source)
        module = found["a"] or (None if imported is None else imported["a"])
        yield f"{module}.{found['b']}" if module else found["b"]
        return
    found = _NO_MODULE.search(message)
    if found is not None:
        # The module that it is in may be what is not there.
        parts = found["a"].split(".")
        yield from (".".join(parts[:end]) for end in range(len(parts), 0, -1))
        return
    found = _OPTION.search(message)
    if found is not None:
        yield f"TrainingArguments.__init__({found['b']})"
        return
    found = _KEYWORD.search(message)
    if found is not None:
        called = found["a"] if found["a"] != _INITIALIZER else f"{_class_of(source)}.{_INITIALIZER}"
        yield f"{called}({found['b']})"
    found = _MUST.search(message)
    if found is not None:
        yield f"{found['a']}(){found['b']}"


def _class_of(source: str) -> str:
    called = re.findall(r"([A-Za-z_]\w*)\(", source)
    return called[-1] if called else ""


@cache
def _table() -> Mapping[str, Api]:
    return {
        name: Api(
            package, name, versions[0] == "<", versions.lstrip("<>="), instead.strip("-") or None
        )
        for package, name, versions, instead in rows("jumar.why", "apis.tsv")
    }


def _of_name(name: str) -> Api | None:
    """What is known of a name, or of the same name of the class that its class is made of."""
    known = _known(name)
    owner, dot, rest = name.partition(".")
    if known is not None or not dot:
        return known
    base = next((base for pattern, base in _FAMILIES if pattern.fullmatch(owner)), None)
    known = None if base is None else _table().get(f"{base}.{rest}")
    return None if known is None else replace(known, name=name)


def _known(name: str) -> Api | None:
    first, dot, rest = name.partition(".")
    return _table().get(f"{_SHORT.get(first, first)}{dot}{rest}")
