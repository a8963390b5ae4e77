"""Names that several rooms have to agree on."""

import re

_OF_MACHINE = frozenset(
    {"PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "LD_LIBRARY_PATH", "PYTHONPATH"}
)

# '@' because the owner of a home may be a domain account, such as ann@lab.example.
_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
USER_NAME_RULE = "use letters, digits, '.', '_', '@' and '-'"


def is_user_name(text: str) -> bool:
    """Whether a user of the platform can have this name. It is also the name of a file."""
    return _USER.fullmatch(text) is not None


def is_of_machine(name: str) -> bool:
    """Whether a variable says where things are on one machine: a job there needs it to find what its user's
    shell finds, and one on another machine would be led astray."""
    return name in _OF_MACHINE or name.startswith("ASCEND_")
