"""A real sshd of our own, for this user, on a free port of this machine."""

import os
import pwd
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.ports import free_port

SSHD = Path("/usr/sbin/sshd")
LIMIT_S = 60.0
CONFIG = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile {folder}/sshd.pid
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitRootLogin yes
"""


@dataclass(frozen=True)
class Sshd:
    """It runs."""

    port: int
    user: str
    path: str
    """PATH on which `ssh` knows the key and the host."""


@contextmanager
def running_sshd(folder: Path, variables: Mapping[str, str] | None = None) -> Generator[Sshd]:
    """Ends with the block. `variables`: set for whoever logs in."""
    if not SSHD.exists():
        if os.environ.get("CI"):
            pytest.fail("sshd is not installed; make test installs it when root")
        pytest.skip("sshd is not installed")
    folder.mkdir()
    for name in ("host_key", "user_key"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(words, check=True, timeout=LIMIT_S)
    port = free_port()
    given = " ".join(f'"{name}={value}"' for name, value in (variables or {}).items())
    lines = CONFIG.format(port=port, folder=folder) + (f"SetEnv {given}\n" if given else "")
    (folder / "config").write_text(lines)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    # A person has this in ~/.ssh.
    options = f"-i {folder}/user_key -o IdentitiesOnly=yes -o UserKnownHostsFile={folder}/known"
    (folder / "bin").mkdir()
    client = folder / "bin/ssh"
    client.write_text(
        f'#!/bin/sh\nexec /usr/bin/ssh -F none {options} -o StrictHostKeyChecking=accept-new "$@"\n'
    )
    client.chmod(0o755)
    server = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "config"], stderr=subprocess.PIPE)
    try:
        give_up_at = time.monotonic() + LIMIT_S
        while not (folder / "sshd.pid").exists():
            assert server.poll() is None
            assert time.monotonic() < give_up_at
            time.sleep(0.05)
        user = pwd.getpwuid(os.geteuid()).pw_name
        yield Sshd(port, user, f"{folder / 'bin'}:{os.environ['PATH']}")
    finally:
        server.terminate()
        server.communicate(timeout=LIMIT_S)
