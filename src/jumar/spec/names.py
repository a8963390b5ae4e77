"""Names that several rooms have to agree on."""

import re

# '@' because the owner of a home may be a domain account, such as ann@lab.example.
_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
USER_NAME_RULE = "use letters, digits, '.', '_', '@' and '-'"


def is_user_name(text: str) -> bool:
    """Whether a user of the platform can have this name. It is also the name of a file."""
    return _USER.fullmatch(text) is not None
