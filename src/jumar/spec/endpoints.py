"""What can be opened of a running job, by name: `jupyter`, `tensorboard`, `http:6006`, `ssh`."""

import re

_PORT = r"[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"
ENDPOINT_PATTERN = rf"^(ssh|jupyter|tensorboard|http:({_PORT}))$"
PROGRAMS = ("jupyter", "tensorboard")
"""What is started for it beside the job."""


def flaw_of_endpoint(name: str) -> str | None:
    """Why nothing is called so; None for a good name."""
    try:
        checked_endpoint(name)
    except ValueError as error:
        return str(error)
    return None


def checked_endpoint(name: str) -> str:
    """The name; ValueError in words where nothing is called so."""
    if re.fullmatch(ENDPOINT_PATTERN, name):
        return name
    raise ValueError(f"{name!r} is no endpoint; there are jupyter, tensorboard, ssh and http:PORT")


def port_of(name: str) -> int | None:
    """The job's own port behind an endpoint; None where it is a program beside the job."""
    kind, _, port = name.partition(":")
    return int(port) if kind == "http" else None
