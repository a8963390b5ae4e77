"""Make the catalogue of `jumar port` from a table of APIs and from an installed torch.

`port_catalogue.py states TABLE.csv` prints the compact form of a table with the columns api,
status, npu_name, a2, a3, a5 and limits, as read from the vendor's native-API documentation
(CC-BY-4.0). `port_catalogue.py names` prints the public names of the torch that is installed."""

import csv
import importlib
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

STATES = {"supported": "s", "partial": "l", "unsupported": "u"}
CHIPS = {"a2": "2", "a3": "3", "a5": "5"}
DTYPES = [
    "bf16",
    "fp16",
    "fp32",
    "fp64",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "bool",
    "complex64",
    "complex128",
]
MODULES = [
    "torch",
    "torch.accelerator",
    "torch.amp",
    "torch.autograd",
    "torch.autograd.functional",
    "torch.cuda",
    "torch.cuda.amp",
    "torch.distributed",
    "torch.distributed.fsdp",
    "torch.distributions",
    "torch.fft",
    "torch.func",
    "torch.hub",
    "torch.jit",
    "torch.linalg",
    "torch.multiprocessing",
    "torch.nn",
    "torch.nn.functional",
    "torch.nn.init",
    "torch.nn.parallel",
    "torch.nn.utils",
    "torch.nn.utils.rnn",
    "torch.onnx",
    "torch.optim",
    "torch.optim.lr_scheduler",
    "torch.profiler",
    "torch.random",
    "torch.sparse",
    "torch.special",
    "torch.utils",
    "torch.utils.checkpoint",
    "torch.utils.cpp_extension",
    "torch.utils.data",
    "torch.utils.data.distributed",
    "torch.version",
]


def compact(row: dict[str, str]) -> str | None:
    """One line: name, state, chips, notes, dtypes of the first argument, NPU name."""
    state = STATES.get(row["status"])
    if state is None:
        return None
    chips = "".join(code for chip, code in CHIPS.items() if row[chip] == "yes")
    limits = row["limits"]
    notes = "".join(
        code
        for code, mark in (("c", "回退"), ("i", "仅支持推理"), ("p", "仅CPU"))
        if mark in limits
    )
    listed = re.search(r"`(?:self|input|tensor|params)`仅支持([\w，,]+)", limits)
    dtypes = [d for d in DTYPES if listed and d in re.split("[，,]", listed[1])]
    return "\t".join([row["api"], state, chips, notes, ",".join(dtypes), row["npu_name"]]).rstrip()


def states(table: Path) -> None:
    """Print the compact form of a table."""
    with table.open(encoding="utf-8") as lines:
        rows = [line for row in csv.DictReader(lines) if (line := compact(row)) is not None]
    sys.stdout.write("\n".join(sorted(rows)) + "\n")


DEPRECATED = {"torch": {"has_cuda", "has_cudnn", "has_mkldnn", "has_mps", "set_vital"}}
"""Names that `dir` does not list: the module's `__getattr__` still has them."""


def names() -> None:
    """Print, a module a line, its public functions and classes, then what else it holds."""
    for dotted in MODULES:
        module = importlib.import_module(dotted)
        public = sorted(
            {n for n in dir(module) if not n.startswith("_")} | DEPRECATED.get(dotted, set())
        )
        listed = set(dir(module))
        called = [n for n in public if n in listed and _is_api(getattr(module, n, None))]
        other = [n for n in public if n not in set(called)]
        sys.stdout.write(f"{dotted}\t{' '.join(called)}\t{' '.join(other)}\n")


def _is_api(value: object) -> bool:
    if isinstance(value, ModuleType):
        return False
    return inspect.isclass(value) or callable(value)


if __name__ == "__main__":
    if sys.argv[1:2] == ["states"]:
        states(Path(sys.argv[2]))
    else:
        names()
