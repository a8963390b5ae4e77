"""Installs the simulation, in the order that its parts need."""

import importlib
import os
import sys

import jumar_sim_import
import torch

from torch_npu._sim import (
    absent,
    accelerator,
    autograd,
    card_choices,
    card_recurrent,
    cpu_side,
    data_parallel,
    distributed,
    factories,
    fast_paths,
    flex_attention,
    generators,
    lazy,
    libraries,
    lightning,
    methods,
    moves,
    nested,
    opaque,
    optimizers,
    serialization,
    sync_batch_norm,
    tensor_types,
    wider,
)
from torch_npu._sim import tensor as device_tensor
from torch_npu._sim.place import WRAPPED
from torch_npu._sim.settings import DATA

VERSION = torch.__version__.split("+")[0]
_TOO_OLD = (
    f"simulated NPUs need torch 2.10 or later, and this is {torch.__version__}: "
    "older releases do not support backends written in Python"
)


def install() -> None:
    """Make `npu` a device of torch."""
    try:
        from torch.utils.backend_registration import (
            _setup_privateuseone_for_python_backend as register,
        )
    except ImportError:
        raise ImportError(_TOO_OLD) from None
    module = sys.modules["torch_npu"]
    absent.install()
    # DeepSpeed and others read it unasked; on a real machine the toolkit sets it.
    os.environ.setdefault("ASCEND_HOME_PATH", str(DATA / "toolkit"))
    torch.utils.rename_privateuse1_backend("npu")
    device_tensor.make_classes()
    methods.install()
    moves.install()
    autograd.install()
    serialization.install()
    generators.install()
    cpu_side.install()
    from torch_npu import npu

    register("npu", backend_module=npu)
    accelerator.install(npu)
    _alias_modules()
    factories.install()
    optimizers.install()
    if WRAPPED:
        card_choices.install()
        card_recurrent.install()
    else:
        libraries.install()
    distributed.install()
    data_parallel.install()
    sync_batch_norm.install()
    tensor_types.install()
    opaque.install()
    fast_paths.install()
    lazy.install()
    wider.install()
    jumar_sim_import.after_import(
        {**flex_attention.ON_IMPORT, **lightning.ON_IMPORT, **nested.ON_IMPORT}
    )
    module.npu = npu


def _alias_modules() -> None:
    """`import torch.npu.amp` works as `import torch_npu.npu.amp` does."""
    for name in list(sys.modules):
        if name.startswith("torch_npu.npu"):
            sys.modules[name.replace("torch_npu.npu", "torch.npu", 1)] = sys.modules[name]


def finish() -> None:
    """What is done once the whole package is imported."""
    from torch_npu._sim import limits, report

    report.install()
    limits.install()
    if os.environ.get("TORCH_TRANSFER_TO_NPU") == "1":
        importlib.import_module("torch_npu.contrib.transfer_to_npu")
