"""Install a site: account, folders, program, root's file, services. Each step may be repeated."""

import contextlib
import grp
import os
import pwd
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from jumar import __version__
from jumar.errors import Conflict, HomeUnusable, NotAllowed
from jumar.root import program
from jumar.root.program import Refused, check_roots_own, is_alive, read_site
from jumar.site.copying import copy_program
from jumar.site.places import Places
from jumar.site.running import is_managed, services_for
from jumar.site.sitefile import change_site, write_site
from jumar.site.units import units
from jumar.wholefile import write_whole

# Exit code of userdel and groupdel.
_NO_SUCH_NAME = 6
_LIMIT_S = 60


@dataclass(frozen=True, slots=True)
class Choice:
    """What a site is called and where it is."""

    places: Places
    account: str = "jumar"
    admin_group: str = "jumar-admins"


def install(choice: Choice) -> list[str]:
    """Make it and start it; gives what was done, in words."""
    check_root("install --yes")
    places, done = choice.places, list[str]()
    if places.toml.exists():
        raise Conflict(
            f"a site is installed already: {places.toml}", hint="jumar site upgrade --yes"
        )
    for folder in (places.programs, places.etc, places.state, places.root_run.parent):
        folder.mkdir(parents=True, exist_ok=True)
        _check_own(folder)
    _make_group(places, choice.admin_group)
    _make_account(places, choice.account)
    done.append(f"account {choice.account}, group {choice.admin_group} for administrators")
    _install_program(places, done)
    ids = pwd.getpwnam(choice.account)
    _owned(places.state, 0, 0, 0o711)
    _owned(places.home, ids.pw_uid, ids.pw_gid, 0o700)
    done.append(_encrypt(places))
    fences = _can_fence()
    done.append("fences: on" if fences else "fences: off, this system lets root mount nothing")
    write_site(
        places.toml,
        {
            "server": choice.account,
            "state": str(places.state),
            "run": str(places.run),
            "root_run": str(places.root_run),
            "launcher": _launcher(places),
            "users": ["*"],
            "uid_min": _uid_min(),
            "fences": fences,
            "admin_group": choice.admin_group,
            "variables": {},
            "map": {},
        },
    )
    _write_units(choice)
    services_for(places, choice.account).start()
    done.append("started" + (" by systemd" if is_managed(places) else " without systemd"))
    return done


def upgrade(choice: Choice) -> list[str]:
    """Put this jumar in place of the installed one; jobs go on."""
    check_root("upgrade --yes")
    places, done = choice.places, list[str]()
    account = installed_account(places)
    _install_program(places, done)
    _close_settings(places)
    change_site(places.toml, launcher=_launcher(places))
    _write_units(Choice(places, account))
    services_for(places, account).restart()
    done.append("restarted; running jobs go on")
    for folder in _unused(places):
        shutil.rmtree(folder)
        done.append(f"removed {folder}")
    return done


def remove(choice: Choice, *, with_data: bool) -> list[str]:
    """Stop it and take it away; what jobs left stays unless `with_data`."""
    check_root("remove --yes")
    places = choice.places
    account = installed_account(places)
    running = live_attempts(places)
    if running:
        raise Conflict(
            f"{len(running)} jobs run: {', '.join(running[:5])}", hint="stop them first: jumar stop"
        )
    made = places.made.read_text("utf-8").splitlines() if places.made.exists() else []
    services = services_for(places, account)
    services.stop()
    for name in units(places, account):
        (places.units / name).unlink(missing_ok=True)
    services.forget()
    if places.command.is_symlink() and places.command.readlink().is_relative_to(places.programs):
        places.command.unlink()
    # The site's file last: as long as it exists, a removal that broke off can be repeated.
    gone = [places.run, places.job_run, places.root_run, places.programs]
    for folder in (*gone, *([places.state] if with_data else []), places.etc):
        with contextlib.suppress(FileNotFoundError):
            # A job may have left folders of any depth.
            program.empty(str(folder))
            folder.rmdir()
    if not with_data:
        return [f"removed; {places.state} and the account {account} are kept"]
    return ["removed, with all data", *_remove_made(made)]


def installed_account(places: Places) -> str:
    """The server's account of an installed site."""
    try:
        return read_site(str(places.toml)).server
    except FileNotFoundError:
        raise Conflict("no site is installed", hint="sudo jumar site install --yes") from None
    except Refused as error:
        raise HomeUnusable(str(error)) from error


def live_attempts(places: Places) -> list[str]:
    """Jobs whose keepers live."""
    site = read_site(str(places.toml))
    found: list[str] = []
    with contextlib.suppress(FileNotFoundError):
        for job in sorted(os.listdir(places.state / "control")):
            if any(is_alive(site, job, number) for number in program.attempts_of(site, job)):
                found.append(job)
    return found


def check_root(words: str) -> None:
    """Refuse anybody else; `words` is the command."""
    if os.geteuid() != 0:
        verb = words.split()[0]
        raise NotAllowed(f"only root can {verb} a site", hint=f"sudo jumar site {words}")


def _check_own(path: Path) -> None:
    try:
        check_roots_own(str(path))
    except Refused as error:
        raise HomeUnusable(
            f"root cannot run a site from there: {error}",
            hint=f"chown root {path}; chmod go-w {path}",
        ) from error


def _run(*words: str) -> None:
    try:
        subprocess.run(words, check=True, capture_output=True, text=True, timeout=_LIMIT_S)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or error
        raise HomeUnusable(f"{words[0]} failed: {str(said).strip()}") from error


def _note_made(places: Places, kind: str, name: str) -> None:
    with places.made.open("a", encoding="utf-8") as file:
        file.write(f"{kind} {name}\n")


def _remove_made(lines: list[str]) -> list[str]:
    """Remove accounts and groups; what is told are those that somebody needs by now."""
    kept: list[str] = []
    for kind, _, name in (line.partition(" ") for line in lines):
        words = ["userdel" if kind == "account" else "groupdel", name]
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=_LIMIT_S)
        if done.returncode not in (0, _NO_SUCH_NAME):
            kept.append(f"the {kind} {name} is kept: {done.stderr.strip()}")
    return kept


def _make_group(places: Places, name: str) -> None:
    try:
        grp.getgrnam(name)
    except KeyError:
        _note_made(places, "group", name)
        _run("groupadd", "--system", name)


def _make_account(places: Places, name: str) -> None:
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        _note_made(places, "account", name)
        shell = next(filter(os.path.exists, ("/usr/sbin/nologin", "/sbin/nologin")), "/bin/false")
        _run("useradd", "--system", "--user-group", "-M", "-d", "/nonexistent", "-s", shell, name)
        return
    if found.pw_uid == 0 or found.pw_uid >= _uid_min():
        raise Conflict(f"{name} is a person's account", hint="choose another: --account NAME")


def _uid_min() -> int:
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/etc/login.defs").read_text("utf-8").splitlines():
            words = line.split()
            if words[:1] == ["UID_MIN"]:
                return max(500, int(words[1]))
    return 1000


def _install_program(places: Places, done: list[str]) -> None:
    target = places.programs / f"{__version__}-{time.strftime('%Y%m%d%H%M%S', time.gmtime())}"
    copy_program(target)
    # The one file of root, where a reviewer looks for it.
    shutil.copyfile(Path(program.__file__), target / "root.py")
    aside = places.programs / ".current"
    aside.unlink(missing_ok=True)
    aside.symlink_to(target.name)
    aside.rename(places.current)
    places.command.parent.mkdir(parents=True, exist_ok=True)
    if not places.command.exists() and not places.command.is_symlink():
        places.command.symlink_to(places.current / "bin/jumar")
    done.append(f"program in {target}")


def _launcher(places: Places) -> list[str]:
    """The version itself, not the link: a job's own must not change under it."""
    return [str(places.current.resolve() / "bin/python3"), "-I", "-m", "jumar.launch"]


def _owned(path: Path, uid: int, gid: int, mode: int) -> None:
    path.mkdir(parents=True, exist_ok=True)
    os.chown(path, uid, gid)
    path.chmod(mode)


def _write_units(choice: Choice) -> None:
    choice.places.units.mkdir(parents=True, exist_ok=True)
    for name, text in units(choice.places, choice.account).items():
        (choice.places.units / name).write_text(text)


def _encrypt(places: Places) -> str:
    """Have the server make a certificate at its first start: passwords cross the network."""
    if places.server_settings.exists():
        _close_settings(places)
        return f"settings of the server as in {places.server_settings}"
    can = shutil.which("openssl") is not None
    # Made in any case: a file that somebody else makes later would be open to all.
    write_whole(places.server_settings, "JUMAR_TLS_CERT=self-signed\n" if can else "", private=True)
    if not can:
        return "TLS: off, openssl is not installed"
    return f"TLS: on, with a certificate of its own; another one: {places.server_settings}"


def _close_settings(places: Places) -> None:
    """Root's alone: passwords of a database and of a login provider are in it."""
    with contextlib.suppress(FileNotFoundError):
        places.server_settings.chmod(0o600)


def _can_fence() -> bool:
    words = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs jumar /mnt"]
    return subprocess.run(words, check=False, capture_output=True, timeout=_LIMIT_S).returncode == 0


def _unused(places: Places) -> list[Path]:
    """Versions that no process runs from any more."""
    used = {places.current.resolve().name}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            place = (process / "exe").readlink()
            if place.is_relative_to(places.programs):
                used.add(place.relative_to(places.programs).parts[0])
    folders = (
        path for path in places.programs.iterdir() if path.is_dir() and not path.is_symlink()
    )
    return [path for path in folders if path.name not in used]
