"""Names of the plug-in that are not simulated: an error that says so instead of a bare one.

It stays an AttributeError, so that a script that checks `hasattr(torch_npu, "npu_…")` first takes its
other branch."""

from typing import NoReturn


def refuse(name: str) -> NoReturn:
    """Raise for a name that `torch_npu` does not have."""
    if not name.lstrip("_").startswith("npu_"):
        raise AttributeError(f"module 'torch_npu' has no attribute '{name}'")
    raise AttributeError(
        f"torch_npu.{name} is not simulated: on simulated NPUs this line cannot run, and a real NPU "
        "was not asked whether it has it. Take the script's way without fused operators, or write it "
        f'with torch\'s own operators where hasattr(torch_npu, "{name}") is false. What is simulated '
        "is listed in torch_npu.ops.__all__"
    )
