"""Variables that say where things are on one machine."""

_NAMES = frozenset(
    {"PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "LD_LIBRARY_PATH", "PYTHONPATH"}
)


def is_of_machine(name: str) -> bool:
    """Whether a job on the same machine needs it to find what its user's shell finds, and one on another
    machine would be led astray."""
    return name in _NAMES or name.startswith("ASCEND_")
