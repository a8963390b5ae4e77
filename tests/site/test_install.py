"""A site installed below a folder of its own: from install to remove, with a job that lives through it."""

import grp
import json
import os
import pwd
import secrets
import shutil
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.ports import free_port
from tests.site.conftest import until

from jumar.root.program import read_site
from jumar.site.places import Places
from jumar.site.units import units

_JUMAR = str(Path(sys.executable).with_name("jumar"))


@dataclass(frozen=True)
class Trial:
    top: Path
    account: str
    person: str

    def run(self, *words: str, person: bool = False) -> subprocess.CompletedProcess[str]:
        """A command of root, or of the person."""
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/bin",
            "JUMAR_PORT": str(free_port()),
            "HOME": "/",
        }
        who: list[str] = []
        program = _JUMAR
        if person:
            program = str(self.top / "usr/local/bin/jumar")
            who = ["setpriv", f"--reuid={self.person}", f"--regid={self.person}", "--init-groups"]
            environment["HOME"] = str(self.top / "home")
        return subprocess.run(
            [*who, program, *words],
            env=environment,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def site(self, *words: str) -> str:
        ran = self.run("site", *words, "--prefix", str(self.top))
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


@pytest.fixture
def trial() -> Generator[Trial]:
    if os.geteuid() != 0 or not sys.platform.startswith("linux"):
        pytest.skip("a site is installed by root")
    mark = secrets.token_hex(2)
    made = Trial(Path(f"/srv/jumar-i{mark}"), f"ji{mark}s", f"ji{mark}a")
    made.top.mkdir()
    home = made.top / "home"
    try:
        subprocess.run(
            ["useradd", "-m", "-d", home, "-s", "/bin/bash", "-U", made.person], check=True
        )
        yield made
    finally:
        made.run("site", "stop", "--prefix", str(made.top))
        for name in (made.account, made.person):
            subprocess.run(["userdel", "-f", name], check=False, capture_output=True)
        subprocess.run(["groupdel", f"{made.account}g"], check=False, capture_output=True)
        shutil.rmtree(made.top, ignore_errors=True)


def _check_own_program(trial: Trial) -> None:
    logs = list((trial.top / "var/log").iterdir())
    assert [oct(path.stat().st_mode & 0o777) for path in logs] == ["0o600"] * 2
    # The installed program knows which site it is of.
    own = str(trial.top / "usr/local/bin/jumar")
    mapped = subprocess.run(
        [own, "users", "map", "web", trial.person], env={"HOME": "/"}, check=False
    )
    assert mapped.returncode == 0
    assert read_site(str(trial.top / "etc/jumar/site.toml")).map == {"web": trial.person}
    seen = trial.run("site", "status", "--json", person=True)
    assert seen.returncode == 0, seen.stderr
    known = json.loads(seen.stdout)
    assert (known["answers"], known["running"]) == (True, None)
    assert known["services"] == {"jumar-root.service": None, "jumar.service": True}


def test_a_job_lives_through_an_upgrade(trial: Trial) -> None:
    refused = trial.run("site", "install", "--prefix", str(trial.top))
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    names = ("--account", trial.account, "--admins", f"{trial.account}g")
    trial.site("install", "--yes", *names)
    assert trial.run("site", "install", "--yes", "--prefix", str(trial.top)).returncode == 2
    state = json.loads(trial.site("status", "--json"))
    assert state["answers"]
    assert set(state["services"].values()) == {True}
    _check_own_program(trial)
    # As an earlier jumar made it; a password of the database may be in it.
    settings = trial.top / "etc/jumar/server.env"
    assert settings.stat().st_mode & 0o777 == 0o600
    settings.chmod(0o644)
    for verb in ("remove --yes", "upgrade --yes", "stop"):
        no = trial.run("site", *verb.split(), "--prefix", str(trial.top), person=True)
        assert (no.returncode, f"sudo jumar site {verb}" in no.stderr) == (2, True), no.stderr
    gate = trial.top / "home/gate"
    words = f"until test -e {gate}; do sleep 0.1; done; echo lived"
    ran = trial.run(
        "run", "--name", "long", "--workdir", "/", "--", "bash", "-c", words, person=True
    )
    assert ran.returncode == 0, ran.stderr
    until(lambda: json.loads(trial.site("status", "--json"))["running"], "its keeper lives")
    before = state["program"]
    trial.site("upgrade", "--yes")
    state = json.loads(trial.site("status", "--json"))
    assert state["answers"]
    assert settings.stat().st_mode & 0o777 == 0o600
    assert state["program"] != before
    assert Path(before).exists(), "kept while a job runs from it"
    busy = trial.run("site", "remove", "--yes", "--prefix", str(trial.top))
    assert (busy.returncode, "1 jobs run" in busy.stderr) == (2, True), busy.stderr
    gate.touch()
    until(lambda: "lived" in trial.run("logs", "long", person=True).stdout, "it ends well")
    until(lambda: not json.loads(trial.site("status", "--json"))["running"], "its keeper is gone")
    trial.site("remove", "--yes")
    places = Places(trial.top)
    assert places.state.exists(), "data is kept"
    assert not places.programs.exists()
    assert not list(places.units.iterdir())
    left = (path for path in trial.top.glob("run/**/*") if not path.is_dir())
    assert not list(left), "nothing of it is left to be taken for a site"
    assert not places.run.exists()
    # What was made for it goes with the data, also after it was installed again.
    trial.site("install", "--yes", *names)
    port = free_port()
    (places.etc / "server.env").write_text(f"# here\nJUMAR_PORT = '{port}'\n")
    trial.site("stop")
    trial.site("start")
    known = json.loads((places.home / "server.json").read_text())
    assert known["url"].endswith(f":{port}"), "settings are read without systemd too"
    told = trial.site("remove", "--yes", "--data")
    assert not places.state.exists()
    for find, name in ((pwd.getpwnam, trial.account), (grp.getgrnam, names[-1])):
        with pytest.raises(KeyError):
            raise AssertionError(find(name), told)


def test_a_folder_that_others_can_write_is_refused(trial: Trial) -> None:
    (trial.top / "opt").mkdir()
    (trial.top / "opt").chmod(0o777)
    refused = trial.run(
        "site", "install", "--yes", "--prefix", str(trial.top), "--account", trial.account
    )
    assert refused.returncode == 2
    assert "can be changed by others than root" in refused.stderr
    assert "hint: chown root" in refused.stderr


def test_the_units_pass_systemds_own_check(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    # The programs they name need to be there; the account too.
    places = Places(tmp_path)
    for name in ("bin/python3", "bin/jumar"):
        (places.current / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy("/bin/true", places.current / name)
    for name, text in units(places, "root").items():
        (tmp_path / name).write_text(text)
    paths = [str(tmp_path / name) for name in units(places, "root")]
    checked = subprocess.run(
        ["systemd-analyze", "verify", *paths],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = [line for line in checked.stderr.splitlines() if "jumar" in line]
    assert (checked.returncode, said) == (0, []), checked.stderr


def test_site_toml_reads_as_written(tmp_path: Path) -> None:
    from jumar.site.sitefile import write_site

    if os.geteuid() != 0:
        pytest.skip("root's file is root's")
    folder = Path(f"/srv/jumar-toml-{secrets.token_hex(2)}")
    folder.mkdir()
    try:
        values = {
            "server": "a",
            "state": "/s",
            "run": "/r",
            "root_run": "/q",
            "launcher": ["/p", "-I"],
        }
        tables = {"variables": {"A": 'b"\\'}, "map": {"web name": "ann"}}
        write_site(folder / "site.toml", {**values, "fences": False, **tables})
        read = read_site(str(folder / "site.toml"))
        assert (read.variables, read.map, read.fences) == (
            tables["variables"],
            tables["map"],
            False,
        )
    finally:
        shutil.rmtree(folder)
