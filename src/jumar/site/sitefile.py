"""Root's file of a site, `site.toml`: written whole, read by `root/program.py`."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from jumar.errors import BadInput, HomeUnusable, NotAllowed
from jumar.root.program import Refused, Site, read_site
from jumar.wholefile import write_whole

_HEAD = """\
# Who may run jobs on this machine, and how. Root's: jumar reads it anew for every job.
# users: names of accounts, or "*" for all from uid_min on. map: Unix accounts of web accounts.
# fences = false: jobs see each other's cards and /tmp. variables: in the environment of every job.
"""


def write_site(path: Path, values: dict[str, Any]) -> None:
    """Put it in place, for everybody to read."""
    lines = [
        f"{name} = {_text(value)}" for name, value in values.items() if type(value) is not dict
    ]
    for name, table in values.items():
        if type(table) is dict:
            rows = cast("dict[str, str]", table).items()
            lines += ["", f"[{name}]", *(f"{_text(key)} = {_text(value)}" for key, value in rows)]
    try:
        write_whole(path, _HEAD + "\n".join(lines) + "\n", durable=True)
        path.chmod(0o644)
    except OSError as error:
        raise HomeUnusable(f"cannot write {path}: {error.strerror}") from error


def _text(value: object) -> str:
    # What JSON says of texts, numbers and lists of them, TOML says in the same way.
    return json.dumps(value)


def change_site(path: Path, **changes: Any) -> None:
    """Change some values; root only."""
    if os.geteuid() != 0:
        raise NotAllowed("only root may change the site", hint="use sudo")
    write_site(path, asdict(_read(path)) | changes)


def map_user(path: Path, web_name: str, account: str | None) -> None:
    """Have jobs of a web account run as a Unix account, or no more."""
    known = dict(_read(path).map)
    if account is None:
        known.pop(web_name, None)
    else:
        known[web_name] = account
    change_site(path, map=known)


def _read(path: Path) -> Site:
    try:
        return read_site(str(path))
    except (Refused, OSError) as error:
        raise BadInput(str(error), hint="see: jumar site status") from error
