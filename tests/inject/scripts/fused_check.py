"""Compares an operator of the plug-in with plain arithmetic on the CPU, values and gradients."""

import torch
import torch_npu

torch.manual_seed(0)
tried, wrong = set(), []
r = torch.randn


def leaves(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return []


def moved(value):
    if isinstance(value, torch.Tensor):
        twin = value.detach().clone().npu()
        return twin.requires_grad_(value.requires_grad)
    return type(value)(map(moved, value)) if isinstance(value, (list, tuple)) else value


def gradients(results, inputs):
    inputs = [leaf for leaf in leaves(inputs) if leaf.requires_grad]
    loss = sum(t.float().square().sum() for t in leaves(results) if t.requires_grad)
    return torch.autograd.grad(loss, inputs, allow_unused=True)


def same(name, what, device, host):
    if (device is None) != (host is None):
        wrong.append(f"{name}: {what} is missing on one side")
    elif device is not None and not (
        device.device.type == "npu"
        and device.dtype == host.dtype
        and device.shape == host.shape
        and torch.allclose(device.detach().cpu(), host.detach(), atol=1e-5, equal_nan=True)
    ):
        wrong.append(f"{name}: {what} is {device}, not {host}")


def check(name, reference, *args, learns=True, only=None, **kwargs):
    """Compare the results (those in `only`) and, where it `learns`, the gradients of all inputs."""
    tried.add(name)
    for leaf in leaves([args, list(kwargs.values())]):
        leaf.requires_grad_(learns and leaf.is_floating_point())
    device_args, device_kwargs = moved(args), {k: moved(v) for k, v in kwargs.items()}
    device = getattr(torch_npu, name)(*device_args, **device_kwargs)
    host = reference(*args, **kwargs)
    device = device if only is None else [device[at] for at in only]
    for at, (one, other) in enumerate(zip(leaves(device), leaves(host), strict=True)):
        same(name, f"result {at}", one, other)
    if learns:
        every = (device_args, list(device_kwargs.values())), (args, list(kwargs.values()))
        pairs = zip(gradients(device, every[0]), gradients(host, every[1]), strict=True)
        for at, (one, other) in enumerate(pairs):
            same(name, f"gradient {at}", one, other)
