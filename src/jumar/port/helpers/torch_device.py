"""The accelerator of this machine, for a torch that has no torch.accelerator.

ACCELERATOR is the device to compute on: an Ascend NPU, an NVIDIA GPU or the CPU.
DEVICE_MODULE is torch.npu on machines with NPUs, otherwise torch.cuda."""

# jumar: ignore-file

import torch

try:
    import torch_npu  # noqa: F401  (makes the device "npu" known to torch)
except ImportError:
    pass

_npu = getattr(torch, "npu", None)
DEVICE_MODULE = _npu if _npu is not None and _npu.is_available() else torch.cuda

if DEVICE_MODULE is _npu:
    ACCELERATOR = torch.device("npu")
elif torch.version.cuda or getattr(torch.version, "hip", None):
    ACCELERATOR = torch.device("cuda")
else:
    ACCELERATOR = torch.device("cpu")

DIST_BACKEND = {"npu": "hccl", "cuda": "nccl", "cpu": "gloo"}[ACCELERATOR.type]
