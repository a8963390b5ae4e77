"""Files of other frameworks, whose `.cuda()` and `"gpu:0"` are not torch's."""

from collections.abc import Iterator

from jumar.port.context import PythonFile
from jumar.port.project import OWN

_OTHERS = frozenset(
    {"cupy", "flax", "jax", "jittor", "keras", "megengine", "mindspore", "mxnet", "oneflow",
     "paddle", "tensorflow"}
)  # fmt: skip
_ON_TORCH = frozenset(
    {"accelerate", "deepspeed", "diffusers", "lightning", "monai", "peft", "timm", "transformers"}
)
"""Packages whose models are torch's, whatever else is imported."""
_TRACES = ("cuda", "gpu:")
_FOR_ALL = ("JP5", "JP6", "JP9")
"""Rules for the environment, for packages, and for these frameworks themselves."""


def applies(code: str, *, is_other: bool) -> bool:
    """Whether a rule applies: in a file of another framework few do."""
    return not is_other or code.startswith(_FOR_ALL)


def is_of_another(file: PythonFile) -> bool:
    """Whether a file, with the repository's modules that it imports, knows another framework only."""
    own = {dotted.partition(".")[0] for dotted in file.names.imported()}
    if _has_torch(own) or not any(trace in file.source.text for trace in _TRACES):
        # Most files end here, before any other one is read.
        return False
    roots = set(_roots(file))
    return not _has_torch(roots) and not _OTHERS.isdisjoint(roots)


def _has_torch(roots: set[str]) -> bool:
    named = any(root.startswith(("torch", "pytorch")) for root in roots)
    return named or not _ON_TORCH.isdisjoint(roots)


def _roots(file: PythonFile) -> Iterator[str]:
    for dotted in file.names.imported():
        means = file.names.external(dotted) or dotted
        if means.startswith(OWN):
            yield from file.project.imports(means[len(OWN) :].partition(OWN)[0])
        else:
            yield means.partition(".")[0]
