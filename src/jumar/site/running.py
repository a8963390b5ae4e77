"""The two services of a site: by systemd where it runs, else as plain processes."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from jumar.client import Client
from jumar.errors import HomeUnusable, ServerUnreachable
from jumar.launch.processes.process import Identity, identify, is_alive
from jumar.root.program import make_cgroups
from jumar.site.places import Places
from jumar.site.units import CAPABILITIES, ROOT_UNIT, SERVER_UNIT
from jumar.wholefile import write_whole

_START_LIMIT_S = 60.0
_STOP_LIMIT_S = 25.0


class Services(Protocol):
    """Both of them."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def restart(self) -> None: ...

    def states(self) -> dict[str, bool | None]: ...

    def forget(self) -> None: ...


def services_for(places: Places, account: str) -> Services:
    """Of the site at these places."""
    return Units() if is_managed(places) else Processes(places, account)


def is_managed(places: Places) -> bool:
    """Whether systemd runs, and looks for units where these are."""
    return places.root == Path("/") and Path("/run/systemd/system").is_dir()


class Units:
    """By systemctl."""

    def start(self) -> None:
        """Now and at every boot."""
        self._control("daemon-reload")
        self._control("enable", "--now", ROOT_UNIT, SERVER_UNIT)

    def stop(self) -> None:
        """Now, and not at the next boot."""
        self._control("disable", "--now", SERVER_UNIT, ROOT_UNIT)

    def restart(self) -> None:
        """With the units as they are now."""
        self._control("daemon-reload")
        self._control("restart", ROOT_UNIT, SERVER_UNIT)

    def forget(self) -> None:
        """Once the units are gone."""
        self._control("daemon-reload")

    def states(self) -> dict[str, bool | None]:
        """Whether each runs."""
        return {
            name: subprocess.run(
                ["systemctl", "is-active", "--quiet", name], check=False, timeout=_START_LIMIT_S
            ).returncode
            == 0
            for name in (ROOT_UNIT, SERVER_UNIT)
        }

    def _control(self, *words: str) -> None:
        try:
            subprocess.run(
                ["systemctl", *words], check=True, capture_output=True, timeout=_START_LIMIT_S
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise HomeUnusable(f"systemctl {words[0]} failed: {error}") from error


@dataclass(frozen=True)
class Processes:
    """In a container without systemd; a file names each process."""

    places: Places
    account: str

    def start(self) -> None:
        """Those that do not run."""
        places, states = self.places, self.states()
        if not states[ROOT_UNIT]:
            # With all of root's rights, which the program itself does not have.
            for kind in ("auto", "v1"):
                make_cgroups(kind)
            bounds = "--bounding-set=-all," + ",".join(f"+{name}" for name in CAPABILITIES)
            python = str(places.current / "bin/python3")
            program = str(places.current / "root.py")
            self._spawn(ROOT_UNIT, ["setpriv", bounds, python, "-I", program, str(places.toml)])
            self._until((places.root_run / "root.sock").exists, ROOT_UNIT)
        if not states[SERVER_UNIT]:
            for folder in (places.run, places.job_run):
                folder.mkdir(parents=True, exist_ok=True)
                subprocess.run(["chown", f"{self.account}:", str(folder)], check=True, timeout=10)
                folder.chmod(0o755)
            who = [f"--reuid={self.account}", f"--regid={self.account}", "--init-groups"]
            self._spawn(SERVER_UNIT, ["setpriv", *who, str(places.current / "bin/jumar"), "up"])
            self._until(lambda: answers(places), SERVER_UNIT)

    def stop(self) -> None:
        """Both; jobs go on."""
        for name in (SERVER_UNIT, ROOT_UNIT):
            found = self._identity(name)
            if found is None or not is_alive(found):
                continue
            for number, limit_s in ((signal.SIGTERM, _STOP_LIMIT_S), (signal.SIGKILL, 5.0)):
                os.kill(found.pid, number)
                give_up = time.monotonic() + limit_s
                while is_alive(found) and time.monotonic() < give_up:
                    time.sleep(0.02)
                if not is_alive(found):
                    break

    def restart(self) -> None:
        """One after the other."""
        self.stop()
        self.start()

    def forget(self) -> None:
        """Which processes they were."""
        for name in (ROOT_UNIT, SERVER_UNIT):
            self._file(name).unlink(missing_ok=True)

    def states(self) -> dict[str, bool | None]:
        """Whether each runs; None where only root may know."""
        return {name: self._runs(name) for name in (ROOT_UNIT, SERVER_UNIT)}

    def _runs(self, name: str) -> bool | None:
        try:
            found = self._identity(name)
        except PermissionError:
            return None
        return found is not None and is_alive(found)

    def _spawn(self, name: str, argv: list[str]) -> None:
        places = self.places
        places.logs.mkdir(parents=True, exist_ok=True)
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
        if name == SERVER_UNIT:
            home = str(places.home)
            environment |= {"HOME": home, "JUMAR_HOME": home, "JUMAR_SITE": str(places.toml)}
            environment |= {
                name: value for name, value in os.environ.items() if name == "JUMAR_PORT"
            }
            environment |= server_settings(places)
        with self._opened_log(name) as log:
            child = subprocess.Popen(
                argv,
                env=environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        found = identify(child.pid)
        if found is not None:
            values = f"{found.pid} {found.start_ticks} {found.boot_id}\n"
            write_whole(self._file(name), values, private=True)

    def _until(self, is_so: Callable[[], bool], name: str) -> None:
        give_up = time.monotonic() + _START_LIMIT_S
        while not is_so():
            if not self.states()[name] or time.monotonic() > give_up:
                words = self._log(name).read_text("utf-8", "replace")[-1500:].strip()
                raise HomeUnusable(f"{name} does not start; it says:\n{words}")
            time.sleep(0.05)

    def _identity(self, name: str) -> Identity | None:
        try:
            pid, ticks, boot_id = self._file(name).read_text("ascii").split()
        except (FileNotFoundError, ValueError):
            return None
        return Identity(int(pid), int(ticks), boot_id)

    def _file(self, name: str) -> Path:
        return self.places.root_run.with_name(f"{name}.pid")

    def _opened_log(self, name: str) -> IO[bytes]:
        """Root's alone: it names people and what they do."""
        handle = os.open(
            self._log(name), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        os.fchmod(handle, 0o600)
        return os.fdopen(handle, "ab")

    def _log(self, name: str) -> Path:
        return self.places.logs / f"{name.removesuffix('.service')}.log"


def server_settings(places: Places) -> dict[str, str]:
    """What root has set for the server; systemd reads the same file."""
    try:
        lines = places.server_settings.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return {}
    pairs = (line.partition("=") for line in lines if not line.lstrip().startswith("#"))
    return {name.strip(): value.strip().strip("'\"") for name, equals, value in pairs if equals}


def answers(places: Places) -> bool:
    """Whether the server answers on its socket."""
    try:
        with Client(f"unix://{places.run / 'jumar.sock'}", "", patience_s=0) as client:
            client.server()
    except ServerUnreachable:
        return False
    return True
