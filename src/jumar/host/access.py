"""May this user open a file? By its mode, owner and group, as the kernel would decide."""

import os
import stat
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from jumar.host.patient import Patient

_DAC_OVERRIDE = 1 << 1


class Access(StrEnum):
    """The answer."""

    GRANTED = "granted"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether, and the group whose members would be let in."""

    access: Access
    group: int = -1


def access_to(
    patient: Patient, path: Path, *, write: bool = False, execute: bool = False
) -> Answer:
    """Whether the patient's user may read the file, and write it or enter the folder."""
    try:
        info = os.stat(path)
    except OSError:
        return Answer(Access.UNKNOWN)
    if patient.uid == 0 and may_override(patient):
        return Answer(Access.GRANTED)
    wanted = stat.S_IROTH | (stat.S_IWOTH if write else 0) | (stat.S_IXOTH if execute else 0)
    if patient.uid == info.st_uid:
        wanted <<= 6
    elif info.st_gid in patient.groups:
        wanted <<= 3
    is_granted = info.st_mode & wanted == wanted
    return Answer(Access.GRANTED if is_granted else Access.REFUSED, info.st_gid)


def may_override(patient: Patient) -> bool:
    """Whether root is above file modes here: containers may take that away."""
    for line in (patient.text("/proc/self/status") or "").splitlines():
        if line.startswith("CapEff:"):
            try:
                return bool(int(line.split()[1], 16) & _DAC_OVERRIDE)
            except (IndexError, ValueError):
                return True
    return True
