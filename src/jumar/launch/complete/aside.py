"""Torn checkpoints, put where no script looks for one."""

import os
from typing import List, NamedTuple, Optional

from . import copies, search
from .verdict import COMPLETE, TORN, is_number

TORN_FOLDER = ".torn"
_POINTERS = ("latest", "latest_checkpointed_iteration.txt")


class SetAside(NamedTuple):
    """What was torn, where it lies now (nowhere: it could not be moved) and why."""

    path: str
    now: Optional[str]
    why: str


def set_aside_torn(
    folder: str, since: float = 0.0, until: Optional[float] = None
) -> List[SetAside]:
    """Move torn checkpoints into `.torn`; files that name the newest checkpoint then name the newest complete one. Only while no rank writes.

    Those of the time before are removed once there is a complete one. What has not changed `since` then is left alone,
    and so is what another job in the same folder is writing; `until`: as with `search.survey`."""
    found = search.survey(folder, until)
    if any(one.verdict.state == COMPLETE for one in found):
        copies.remove_tree(os.path.join(folder, TORN_FOLDER))
    moved: List[SetAside] = []
    for one in found:
        if one.verdict.state != TORN or one.changed_ns / 1e9 < since:
            continue
        if search.is_being_written(one.path, folder):
            continue
        now = _moved(folder, one.path)
        moved.append(SetAside(one.path, now, one.verdict.why))
        if now is not None:
            _name_another(one.path, found)
    return moved


def _moved(folder: str, path: str) -> Optional[str]:
    place = os.path.join(folder, TORN_FOLDER)
    try:
        if os.path.islink(place):
            # The job's: what is moved there would land elsewhere.
            os.unlink(place)
        os.makedirs(place, exist_ok=True)
        for number in range(1, 10_000):
            to = os.path.join(place, f"{number}-{os.path.basename(path)}")
            if not os.path.lexists(to):
                os.rename(path, to)
                return to
    except OSError:
        return None
    return None


def _name_another(path: str, found: List[search.Found]) -> None:
    """DeepSpeed's `latest` and Megatron's tracker name one of the folders beside them."""
    folder, name = os.path.split(path)
    others = [
        os.path.basename(one.path)
        for one in found
        if one.verdict.state == COMPLETE and os.path.dirname(one.path) == folder
    ]
    for pointer in _POINTERS:
        file = os.path.join(folder, pointer)
        said = _said(file)
        if said is None or said != _as_said(pointer, name):
            continue
        if not others:
            os.unlink(file)
            continue
        aside = f"{file}.{os.urandom(4).hex()}.new"
        with open(aside, "w", encoding="utf-8") as output:
            output.write(_as_said(pointer, others[0]))
        os.replace(aside, file)


def _as_said(pointer: str, name: str) -> str:
    if pointer == "latest":
        return name
    digits = name.rsplit("_", 1)[-1]
    return str(int(digits)) if is_number(digits) else name


def _said(path: str) -> Optional[str]:
    try:
        if os.path.islink(path) or not os.path.isfile(path):
            return None
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(4096).strip()
    except OSError:
        return None
