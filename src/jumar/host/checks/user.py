"""Whom jobs run as, and what a container was given."""

import pwd
from collections.abc import Iterator
from pathlib import Path

from jumar.host.access import Access, access_to
from jumar.host.container import MOUNTS, give_mounts, in_container
from jumar.host.findings import Check, Finding, fail, ok, warn
from jumar.host.patient import Patient
from jumar.host.survey import has_card, software

_INSTALL_INFO = "/etc/ascend_install.info"


def container(patient: Patient) -> Iterator[Finding]:
    """The files of the host's driver are mounted."""
    if not has_card(patient) or not in_container(patient):
        return
    missing = [path for path, sign in MOUNTS.items() if not patient.has(sign)]
    if missing:
        yield fail(f"not mounted: {', '.join(missing)}", give_mounts(patient, missing))
    else:
        yield ok("the driver's files are mounted")


def install_info(patient: Patient) -> Iterator[Finding]:
    """What the driver's installer wrote down is still true: CANN and npu-smi go by it."""
    told = _told(patient.text(_INSTALL_INFO) or "")
    if not told or not has_card(patient):
        return
    place = told.get("driver_install_path_param", "")
    user = told.get("username", "")
    if place and not patient.has(f"{place.rstrip('/')}/driver"):
        yield fail(
            f"{_INSTALL_INFO} says that the driver is at {place}, where it is not",
            f"sudo sed -i 's|^Driver_Install_Path_Param=.*|Driver_Install_Path_Param=/usr/local/Ascend|'"
            f" {_INSTALL_INFO}   # or the folder that has driver/",
        )
    elif (
        user
        and not in_container(patient)
        and not (_in_passwd(patient, 0, user) or _is_known(patient, name=user))
    ):
        yield warn(
            f"{_INSTALL_INFO} names the user {user}, who does not exist",
            f"sudo groupadd -f {user} && sudo useradd -g {user} -m -s /bin/bash {user}",
        )
    else:
        yield ok(f"{_INSTALL_INFO} agrees with this machine")


def user(patient: Patient) -> Iterator[Finding]:
    """The user has a name, and may read CANN."""
    problems = [*_nameless(patient), *_unreadable(patient)]
    yield from problems
    if not problems:
        yield ok(f"uid {patient.uid}")


def _nameless(patient: Patient) -> Iterator[Finding]:
    if _in_passwd(patient, 2, str(patient.uid)) or _is_known(patient, uid=patient.uid):
        return
    line = f"job:x:{patient.uid}:{min(patient.groups, default=patient.uid)}::/tmp:/bin/sh"
    if in_container(patient) or has_card(patient):
        yield warn(
            f"uid {patient.uid} has no name in /etc/passwd: getpass.getuser() fails, and with it"
            " torch's compiler and multi-card runs",
            f"in the image: echo '{line}' >> /etc/passwd   # or export USER=job HOME=/tmp",
        )


def _unreadable(patient: Patient) -> Iterator[Finding]:
    cann = software(patient).cann
    if cann is None:
        return
    if access_to(patient, cann.home, execute=True).access is Access.REFUSED:
        shown = patient.shown(cann.home)
        yield fail(
            f"this user cannot read {shown}: CANN was installed for its owner only",
            f"sudo chmod -R a+rX {shown}   # or install again with --install-for-all",
        )


def _told(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip().lower(): value.strip() for name, equals, value in pairs if equals}


def _in_passwd(patient: Patient, field: int, value: str) -> bool:
    text = patient.text("/etc/passwd")
    if text is None:
        return True
    return any(line.split(":")[field : field + 1] == [value] for line in text.splitlines())


def _is_known(patient: Patient, *, uid: int | None = None, name: str = "") -> bool:
    """Whether a directory service, such as LDAP, knows the user."""
    if patient.root != Path("/"):
        return False
    try:
        pwd.getpwnam(name) if uid is None else pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


CHECKS = (
    Check("container", "cards", container, needs_card=True),
    Check("install-info", "driver", install_info, needs_card=True),
    Check("user", "host", user),
)
