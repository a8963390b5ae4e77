"""Small modules that ported repositories may import; copied into them, never imported here.

They are read as text: jumar itself does not need torch."""

from pathlib import Path

DEVICE = "torch_device"
ATTENTION = "torch_attention"
HELPERS = (DEVICE, ATTENTION)


def text(module: str) -> str:
    """The source of a helper module."""
    return Path(__file__).with_name(f"{module}.py").read_text("utf-8")
