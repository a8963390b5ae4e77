"""A site with accounts of its own: made once per test process, below one folder, and removed.

Everything has another place and other names than a real site on the same machine. Needs root."""

import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from tests.identity import being
from tests.ports import free_port
from tests.waiting import PATIENCE_S, wait_for

from jumar.root import program
from jumar.site.copying import copy_program
from jumar.site.units import CAPABILITIES

# As the unit bounds them.
_CAPABILITIES = ("setpriv", "--bounding-set=-all," + ",".join(f"+{name}" for name in CAPABILITIES))
CLEAN = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


def until(is_so: Callable[[], Any], what: str, limit_s: float = PATIENCE_S) -> Any:
    """What `is_so` gives once it gives something."""
    return wait_for(is_so, what, limit_s)


@dataclass
class Host:
    """One installed site and its people."""

    top: Path
    python: Path
    server: str
    users: tuple[str, ...]
    settings: dict[str, object] = field(default_factory=dict[str, object])
    root: "subprocess.Popen[bytes] | None" = None
    serving: "subprocess.Popen[bytes] | None" = None

    @property
    def toml(self) -> Path:
        return self.top / "etc" / "site.toml"

    @property
    def state(self) -> Path:
        return self.top / "state"

    @property
    def log(self) -> Path:
        return self.top / "root.log"

    def home(self, user: str) -> Path:
        return self.top / "homes" / user

    def uid(self, user: str) -> int:
        return program.pwd.getpwnam(user).pw_uid

    def gid(self, user: str) -> int:
        return program.pwd.getpwnam(user).pw_gid

    def configure(self, **changes: object) -> None:
        """Write site.toml."""
        self.settings |= changes
        lines = [f"{name} = {_toml(value)}" for name, value in self.settings.items()]
        aside = self.toml.with_suffix(".new")
        aside.write_text("\n".join(lines) + "\n")
        aside.chmod(0o644)
        aside.rename(self.toml)

    def start_root(self, **variables: str) -> None:
        """Root's program, as the unit starts it."""
        for kind in ("auto", "v1"):
            program.make_cgroups(kind)
        with self.log.open("ab") as log:
            self.root = subprocess.Popen(
                [*_CAPABILITIES, str(self.python), "-I", program.__file__, str(self.toml)],
                env=CLEAN | variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until(self._listens, "root's program listens")

    def _listens(self) -> bool:
        assert self.root is not None
        assert self.root.poll() is None, self.log.read_text()[-2000:]
        try:
            with self.connection():
                return True
        except OSError:
            return False

    def end_root(self) -> None:
        if self.root is not None:
            self.root.send_signal(signal.SIGKILL)
            self.root.wait(10)
            self.root = None

    @property
    def door(self) -> Path:
        return self.top / "run" / "jumar.sock"

    def start_server(self, *before: str, **settings: str) -> None:
        """The server, as the unit starts it; `before`: words that run it in another way."""
        home = str(self.state / "server")
        variables = CLEAN | {"HOME": home, "JUMAR_HOME": home, "JUMAR_SITE": str(self.toml)}
        port = ("--port", str(free_port()))
        with (self.top / "server.log").open("ab") as log:
            self.serving = subprocess.Popen(
                [*before, *self.identity(self.server), str(self.command), "up", *port],
                env=variables | settings,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        # Before that, a command would start a server of the user's own.
        until(self.door.exists, "the server listens")
        until(lambda: self.jumar(self.users[0], "jobs", check=False)[0] == 0, "the server answers")

    def end_server(self, number: int = signal.SIGKILL) -> None:
        if self.serving is not None:
            self.serving.send_signal(number)
            self.serving.wait(20)
            self.serving = None

    @property
    def command(self) -> Path:
        return self.python.with_name("jumar")

    def identity(self, user: str) -> list[str]:
        """What makes a command one of `user`."""
        found = program.pwd.getpwnam(user)
        return ["setpriv", f"--reuid={user}", f"--regid={found.pw_gid}", "--init-groups"]

    def jumar(
        self,
        user: str,
        *words: str,
        check: bool = True,
        folder: Path | None = None,
        **variables: str,
    ) -> tuple[int, str, str]:
        """A command of a user who has set nothing up."""
        home = "/root" if user == "root" else str(self.home(user))
        environment = CLEAN | {"HOME": home, "JUMAR_SITE_SOCKET": str(self.door)} | variables
        ran = subprocess.run(
            [*self.identity(user), str(self.command), *words],
            env=environment,
            cwd="/" if folder is None else folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        if check:
            log = (self.top / "server.log").read_text()[-1500:]
            assert ran.returncode == 0, (words, ran.stdout, ran.stderr, log)
        return ran.returncode, ran.stdout, ran.stderr

    @contextmanager
    def connection(self, user: str | None = None) -> Generator[socket.socket]:
        """To root's program, as the server's account or as `user`."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
            one.settimeout(20)
            with self.being(user or self.server):
                one.connect(str(self.top / "run-root" / "root.sock"))
            yield one

    def being(self, user: str) -> AbstractContextManager[None]:
        """With the rights of a user, in this thread."""
        found = program.pwd.getpwnam(user)
        return being(found.pw_uid, found.pw_gid)

    def ask(
        self, message: object, descriptors: tuple[int, ...] = (), user: str | None = None
    ) -> dict[str, Any]:
        """One request; bytes are sent as they are. Descriptors of the answer are under "fds"."""
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        with self.connection(user) as one:
            socket.send_fds(one, [data], list(descriptors))
            answer, found, _, _ = socket.recv_fds(one, 65536, 64)
        return {**json.loads(answer), "fds": found}

    def start(self, job: str, command: str, user: str, number: int = 1, **changes: Any) -> Any:
        """Have a shell command run as an attempt of a job."""
        descriptor = self.told(job, command, user)
        try:
            return self.ask(self.message(job, user, number, **changes), (descriptor,))
        finally:
            os.close(descriptor)

    def told(self, job: str, command: str, user: str) -> int:
        """What the launcher is told of a job that runs a shell command; a descriptor."""
        told: dict[str, Any] = {
            "job": {
                "format": 1,
                "job_id": job,
                "name": job,
                "user": user,
                "command": ["/bin/bash", "-c", command],
                "code": "none",
                "workdir": None,
                "device": {"kind": "cpu", "count": 1},
                "ranks": "node",
                "environment": {},
                "inputs": {},
                "outputs": {},
                "grace_s": 2,
                "env_cache": str(self.state / "users" / str(self.uid(user)) / "envs"),
            },
            "request": {
                "cards": [],
                "facts": [],
                "deadline": None,
                "notify": None,
                "archive": None,
            },
        }
        return memfd(json.dumps(told).encode())

    def message(self, job: str, user: str, number: int = 1, **changes: Any) -> dict[str, Any]:
        """A start that is right."""
        made = {"v": 1, "do": "start", "kind": "attempt", "job": job, "attempt": number}
        made |= {"user": user, "uid": self.uid(user), "cards": [], "kill_at": None}
        return made | {"memory": None, "cpus": None} | changes

    def control(self, job: str, *parts: str) -> Path:
        return self.state.joinpath("control", job, *parts)

    def result(self, job: str, number: int = 1) -> dict[str, Any]:
        """What root saw and what the job said, once it has ended."""
        path = self.control(job, str(number), "node0", "result.json")
        until(path.exists, f"{job} ends; {self.log.read_text()[-1500:]}")
        said = self.control(job, str(number), "result.json").read_bytes()
        try:
            words = json.loads(said)
        except ValueError:
            words = {"state": said}
        return {**words, "seen": json.loads(path.read_text())}

    def output(self, job: str) -> str:
        return (self.state / "jobs" / job / "work/logs/node0/rank0.log").read_text()


def _toml(value: object) -> str:
    if isinstance(value, dict):
        pairs = cast("dict[str, str]", value).items()
        return "{" + ", ".join(f"{name} = {json.dumps(one)}" for name, one in pairs) + "}"
    return json.dumps(value)


def memfd(data: bytes) -> int:
    """A descriptor that can only be read."""
    made = os.memfd_create("test", os.MFD_CLOEXEC)
    os.write(made, data)
    readable = os.open(f"/proc/self/fd/{made}", os.O_RDONLY | os.O_CLOEXEC)
    os.close(made)
    return readable


def new_id() -> str:
    return "j" + secrets.token_hex(5)[:9]


@pytest.fixture(scope="session")
def installed() -> Generator[Path]:
    """The interpreter of a copied program: it is the same for all sites of a test process."""
    if os.geteuid() != 0 or not sys.platform.startswith("linux"):
        pytest.skip("a site is installed by root")
    top = Path(f"/srv/jumar-program-{secrets.token_hex(2)}")
    top.mkdir()
    try:
        yield copy_program(top / "1")
    finally:
        shutil.rmtree(top)


@pytest.fixture(scope="module")
def host(installed: Path) -> Generator[Host]:
    """With root's program running."""
    mark = secrets.token_hex(2)
    top = Path(f"/srv/jumar-{mark}")
    names = tuple(f"jm{mark}{letter}" for letter in "abc")
    server = f"jm{mark}s"
    made: Host | None = None
    (top / "homes").mkdir(parents=True)
    top.chmod(0o755)
    for folder in ("etc", "state", "run-root"):
        (top / folder).mkdir()
    try:
        _run("useradd", "-r", "-M", "-d", "/nonexistent", "-s", "/usr/sbin/nologin", "-U", server)
        _run("groupadd", "-r", f"{server}g")
        for name in names:
            _run("useradd", "-m", "-d", str(top / "homes" / name), "-s", "/bin/bash", "-U", name)
            (top / "homes" / name).chmod(0o700)
        made = Host(top, installed, server, names)
        made.configure(
            server=server,
            state=str(made.state),
            run=str(top / "run"),
            root_run=str(top / "run-root"),
            launcher=[str(made.python), "-I", "-m", "jumar.launch"],
            admin_group=f"{server}g",
        )
        for folder in ("run", "run-job", "state/server"):
            (top / folder).mkdir()
            shutil.chown(top / folder, server, server)
        (top / "state/server").chmod(0o700)
        (top / "state").chmod(0o711)
        made.start_root()
        yield made
    finally:
        _remove(top, made, (*names, server))


@pytest.fixture(scope="module")
def site(host: Host) -> Host:
    """With the server too."""
    host.start_server()
    return host


def _remove(top: Path, made: "Host | None", accounts: tuple[str, ...]) -> None:
    """The processes of this site alone: its keepers hold their claims, all else is of its users."""
    if made is not None:
        made.end_server()
        made.end_root()
        for claim in made.state.glob("control/*/*/node0/claim.json"):
            with claim.open("rb") as file:
                if is_locked(file.fileno()):
                    os.kill(json.load(file)["pid"], signal.SIGKILL)
    uids = {found.pw_uid for found in program.pwd.getpwall() if found.pw_name in accounts}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if process.stat().st_uid in uids:
                os.kill(int(process.name), signal.SIGKILL)
    for name in accounts:
        subprocess.run(["userdel", "-f", name], check=False, capture_output=True)
    subprocess.run(["groupdel", f"{accounts[-1]}g"], check=False, capture_output=True)
    # A job may have left folders of any depth.
    program.empty(str(top))
    top.rmdir()


def is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=60)
