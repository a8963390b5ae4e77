"""Whether mixed precision can be used at all."""

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Never: a simulated device has it."""
    return False
