"""Small modules that ported repositories may import; copied into them, never imported here.

They are read as text: jumar itself does not need torch."""

from importlib import resources

DEVICE = "torch_device"
ATTENTION = "torch_attention"
HELPERS = (DEVICE, ATTENTION)


def text(module: str) -> str:
    """The source of a helper module."""
    return (resources.files(__name__) / f"{module}.py").read_text("utf-8")
