"""`jumar slurm setup --hosts`: two bare hosts become a cluster over a real sshd each.

A host is a network, mount and host-name namespace of this machine, with folders of its own where Slurm and
munge keep theirs. Packages are installed already: apt-get says so, and systemctl starts the daemons."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.launch.conftest import in_namespace, two_namespaces

LIMIT_S = 180.0
FOLDERS = ("/etc/slurm", "/etc/munge", "/var/lib/slurm", "/var/log/slurm", "/var/spool", "/run")
SYSTEMCTL = """\
#!/bin/sh
[ "$1" = restart ] || exit 0
case $2 in
munge) [ -e /run/munge ] || install -d -o munge /run/munge
    exec setpriv --reuid=munge --regid=munge --clear-groups munged --force ;;
slurmctld | slurmd) exec "$2" ;;
esac
"""
WITHOUT_CGROUPS = re.compile(
    r"^(ProctrackType|TaskPlugin|JobAcctGatherType)=.*cgroup.*$", re.MULTILINE
)
INSTEAD = {
    "ProctrackType": "ProctrackType=proctrack/linuxproc",
    "TaskPlugin": "TaskPlugin=task/none",
    "JobAcctGatherType": "JobAcctGatherType=jobacct_gather/none",
}
"""A namespace has no cgroups of its own to give away; nothing else of the files is changed."""
SSHD = """\
Port 22
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile /run/sshd.pid
UsePAM no
StrictModes no
PermitRootLogin yes
SetEnv PATH={folder}/bin:/usr/sbin:/usr/bin:/sbin:/bin
"""


@contextmanager
def bare_host(folder: Path, namespace: str, name: str) -> Generator[None]:
    """Ends with all that was started on it."""
    binds: list[str] = []
    for place in FOLDERS:
        own = folder / name / place.strip("/").replace("/", "-")
        own.mkdir(parents=True)
        binds.append(f"mount --bind {own} {place}")
    script = "; ".join(
        [
            f"hostname {name}",
            *binds,
            "mkdir -p /run/sshd",
            f"exec /usr/sbin/sshd -D -e -f {folder}/sshd.conf",
        ]
    )
    # Not `ip netns exec`, which mounts /sys anew, without its cgroups.
    words = [
        *("nsenter", f"--net=/run/netns/{namespace}"),
        "unshare",
        "--uts",
        "--mount",
        "--pid",
        "--fork",
        "--mount-proc",
    ]
    host = subprocess.Popen(
        [*words, "--kill-child=KILL", "sh", "-c", script], stderr=subprocess.DEVNULL, start_new_session=True
    )  # fmt: skip
    try:
        give_up_at = time.monotonic() + LIMIT_S
        while not (folder / name / "run/sshd.pid").exists():
            assert host.poll() is None
            assert time.monotonic() < give_up_at
            time.sleep(0.05)
        yield
    finally:
        os.killpg(host.pid, signal.SIGKILL)
        host.wait(LIMIT_S)


@pytest.fixture
def hosts(tmp_path: Path) -> Generator[tuple[list[str], dict[str, str]]]:
    if shutil.which("slurmd") is None or not Path("/usr/sbin/sshd").exists():
        pytest.skip("needs slurmd and sshd")
    with ExitStack() as stack:
        names = stack.enter_context(two_namespaces())
        for key in ("host_key", "user_key"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / key)]
            subprocess.run(words, check=True, timeout=LIMIT_S)
        programs = tmp_path / "bin"
        programs.mkdir()
        options = f"-i {tmp_path}/user_key -o UserKnownHostsFile={tmp_path}/known"
        ssh = f"exec /usr/bin/ssh -F none {options} -o StrictHostKeyChecking=accept-new"
        texts = {
            "apt-get": "#!/bin/sh\n",
            "systemctl": SYSTEMCTL,
            "ssh": f'#!/bin/sh\n{ssh} "$@"\n',
        }
        for name, text in texts.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        (tmp_path / "sshd.conf").write_text(SSHD.format(folder=tmp_path))
        for name, host in zip(names, ("alpha", "beta"), strict=True):
            stack.enter_context(bare_host(tmp_path, name, host))
        yield in_namespace(names[0]), {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}


@pytest.mark.full
def test_two_bare_hosts_become_one_cluster(
    hosts: tuple[list[str], dict[str, str]], tmp_path: Path
) -> None:
    on_first, environ = hosts

    def call(*words: str) -> str:
        done = subprocess.run(
            [*on_first, *words], env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )  # fmt: skip
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    jumar = str(Path(sys.executable).with_name("jumar"))
    output = tmp_path / "cluster"
    where = "root@10.77.0.1,root@10.77.0.2"
    told = json.loads(
        call(jumar, "slurm", "setup", "--hosts", where, "--output", str(output), "--json")
    )
    assert [host["name"] for host in told["hosts"]] == ["alpha", "beta"]
    assert {host["cores"] for host in told["hosts"]} == {os.cpu_count()}
    conf = output / "slurm.conf"
    conf.write_text(WITHOUT_CGROUPS.sub(lambda line: INSTEAD[line[1]], conf.read_text()))
    said = call(str(output / "install.sh"))
    assert said.endswith("alpha\nbeta\nall 2 hosts run tasks\n")
    key = tmp_path / "beta/etc-munge/munge.key"
    assert key.read_bytes() == (output / "munge.key").read_bytes()
    assert key.stat().st_mode & 0o777 == 0o400
    # Again is harmless.
    assert call(str(output / "install.sh")).endswith("all 2 hosts run tasks\n")
