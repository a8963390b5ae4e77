"""What is said of names that ModelArts' module has and this one does not."""

from typing import Any


def refuse(module: str, name: str) -> Any:
    """Raise for an attribute that does not exist here."""
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(
        f"{module}.{name} does not exist: this moxing has only mox.file, not the training parts of "
        "ModelArts' module, which need its TensorFlow 1 or MXNet; train with your framework itself"
    )
