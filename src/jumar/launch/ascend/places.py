"""Where CANN may be installed: what can be asked before anything of it is loaded."""

import os
from typing import Mapping

BASES = ("usr/local/Ascend", "~/Ascend", "opt/Ascend")
VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")


def may_have_cann(root: str, environ: Mapping[str, str]) -> bool:
    """Whether it is worth a look: most machines, and all containers of others, have no such folder."""
    if any(environ.get(variable) for variable in VARIABLES):
        return True
    home = environ.get("HOME", "")
    places = (base.replace("~", home).lstrip("/") for base in BASES)
    return any(os.path.isdir(os.path.join(root, place)) for place in places)
