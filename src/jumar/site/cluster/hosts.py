"""What a host has that Slurm must know: read over SSH, or made up for a cluster on one machine."""

import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jumar.errors import BadInput

_ASK_S = 30.0
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_ACCOUNT = re.compile(r"[a-z_][a-z0-9_.-]{0,31}")
_KEPT_MB = 1024
"""Of each host's memory, for the system."""
SURVEY = r"""
echo "name=$(hostname -s)"
echo "cores=$(nproc --all)"
echo "memory_kb=$(awk '/^MemTotal/ {print $2}' /proc/meminfo)"
for file in /dev/davinci[0-9]* /dev/nvidia[0-9]*; do [ -e "$file" ] && echo "file=$file"; done
. /etc/os-release 2>/dev/null && echo "system=$ID"
true
"""
"""Asked of each host; standard tools only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One node of the cluster."""

    name: str
    """As it calls itself, which Slurm goes by."""
    address: str
    cores: int
    memory_mb: int
    npus: tuple[str, ...] = ()
    """Their device files, in the order of their numbers."""
    gpus: tuple[str, ...] = ()
    system: str = ""
    port: int = 6818
    hostname: str = ""
    """Of the machine, where one has several nodes."""


Ask = Callable[[str], str]


def named(text: str) -> list[str]:
    """`a,user@b` as a list of destinations for ssh; BadInput for what is none."""
    found = [one.strip() for one in text.split(",") if one.strip()]
    for one in found:
        account, _, host = one.rpartition("@")
        if not _NAME.fullmatch(host) or (account and not _ACCOUNT.fullmatch(account)):
            raise BadInput(f"--hosts: {one!r} is not a host", hint="such as: --hosts a,b,root@c")
    if len(set(found)) != len(found):
        raise BadInput("--hosts: a host is named twice")
    if not found:
        raise BadInput("--hosts: no host is named", hint="such as: --hosts a,b,c")
    return found


def ask_over_ssh(destination: str) -> str:
    """What a host answers to the survey; BadInput when it cannot be reached."""
    words = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", destination, "sh", "-s"]
    try:
        done = subprocess.run(
            words, input=SURVEY, capture_output=True, text=True, timeout=_ASK_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BadInput(f"{destination} does not answer within {_ASK_S:g} s") from error
    except FileNotFoundError as error:
        raise BadInput("ssh is not installed", hint="install openssh-client") from error
    if done.returncode:
        said = " ".join(done.stderr.split()) or f"ssh ended with code {done.returncode}"
        raise BadInput(
            f"{destination} cannot be asked: {said}", hint=f"this must work: ssh {destination} true"
        )
    return done.stdout


def survey(destinations: Sequence[str], ask: Ask = ask_over_ssh) -> list[Host]:
    """All hosts, in the order given."""
    hosts = [read_survey(destination, ask(destination)) for destination in destinations]
    names = [host.name for host in hosts]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(
                f"two of the hosts call themselves {name}",
                hint="give each a name of its own: hostnamectl set-hostname",
            )
    return hosts


def read_survey(destination: str, text: str) -> Host:
    """One host from its answers; BadInput when they are none."""
    parted = [line.partition("=") for line in text.splitlines()]
    pairs = [(key, value) for key, sign, value in parted if sign]
    values = dict(pairs)
    files = sorted((value for key, value in pairs if key == "file"), key=_number)
    try:
        cores, memory_mb = int(values["cores"]), int(values["memory_kb"]) // 1024
        name = values["name"]
    except (KeyError, ValueError) as error:
        raise BadInput(
            f"{destination} does not say what it has", hint=f"try: ssh {destination} nproc"
        ) from error
    if not _NAME.fullmatch(name):
        raise BadInput(f"{destination} calls itself {name!r}, which is not a host name")
    return Host(
        name=name,
        address=destination.rpartition("@")[2],
        cores=cores,
        memory_mb=max(memory_mb - _KEPT_MB, memory_mb // 2),
        npus=tuple(file for file in files if re.fullmatch(r"/dev/davinci\d+", file)),
        gpus=tuple(file for file in files if re.fullmatch(r"/dev/nvidia\d+", file)),
        system=values.get("system", ""),
    )


def _number(path: str) -> int:
    digits = re.search(r"\d+$", path)
    return int(digits[0]) if digits else 0
