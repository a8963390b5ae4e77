"""Every file and socket of a site, tried by everybody: the table in docs/reference/permissions.md
and its twin in Chinese."""

import json
import shlex
import subprocess
from pathlib import Path

from tests.site.conftest import CLEAN, Host, new_id, until

_PAGES = sorted((Path(__file__).parents[2] / "docs/reference").glob("permissions*.md"))
# Whoever runs this says what it can do; nothing is changed.
_PROBE = """
import json, os, socket, stat, sys
def rights(path):
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return "-"
    if stat.S_ISSOCK(mode):
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
            try:
                socket.socket(socket.AF_UNIX, kind).connect(path)
                return "c"
            except OSError:
                pass
        return "-"
    found = "".join(name for name, bit in (("r", os.R_OK), ("w", os.W_OK)) if os.access(path, bit))
    return found or ("x" if stat.S_ISDIR(mode) and os.access(path, os.X_OK) else "-")
print(json.dumps([rights(path) for path in json.loads(sys.argv[1])]))
"""
_SHOWN = {
    "etc": "/etc/jumar",
    "state": "/var/lib/jumar",
    "run-root": "/run/jumar-root",
    "run-job": "/run/jumar-job",
    "run": "/run/jumar",
}


def test_everybody_may_what_the_page_says(site: Host) -> None:
    owner, other, admin = site.users
    group = str(site.settings["admin_group"])
    subprocess.run(["gpasswd", "-a", admin, group], check=True, capture_output=True)
    job = new_id()
    assert site.start(job, "sleep 120", owner)["ok"]
    until(site.control(job, "1", "node0", "ranks.json").exists, "it runs")
    paths = _paths(site, job)
    words = ["/usr/bin/python3", "-I", "-c", _PROBE, json.dumps([str(path) for path in paths])]
    try:
        found = [_as(site, user, words) for user in (owner, other, admin, "daemon", site.server)]
        found.append(_as_job(site, other, words))
    finally:
        subprocess.run(["gpasswd", "-d", admin, group], check=True, capture_output=True)
        site.ask({"v": 1, "do": "signal", "job": job, "attempt": 1, "why": "lost"})
    names = [_shown(site, path, job, owner) for path in paths]
    rows = [
        f"| {' | '.join((f'`{name}`', *one))} |" for name, *one in zip(names, *found, strict=True)
    ]
    for path in _PAGES:
        page = path.read_text("utf-8")
        table = page[page.index("|---") :].partition("\n")[2].strip().splitlines()
        assert table == rows, f"{path.name} should have:\n" + "\n".join(rows)


def _paths(site: Host, job: str) -> list[Path]:
    """Each folder, and of each kind of file one."""
    found = [site.toml.parent, site.toml]
    found += [site.state, site.state / "server", site.state / "server/jumar.db"]
    found += [site.state / "server/notify.sock", site.state / "control", site.control(job)]
    found += [site.control(job, "owner"), site.control(job, "1"), site.control(job, "1", "node0")]
    found += [site.control(job, "1", "node0", name) for name in ("claim.json", "ranks.json")]
    found += [site.state / "jobs", site.state / "jobs" / job, site.state / "jobs" / job / "tmp"]
    work = site.state / "jobs" / job / "work"
    found += [work, work / "job.json", work / "launcher.log", work / "logs/node0/rank0.log"]
    found += [site.state / "users", site.state / "users" / str(site.uid(site.users[0]))]
    found += [site.top / "run", site.door, site.top / "run-job", site.top / "run-job/jumar.sock"]
    return [*found, site.top / "run-root", site.top / "run-root/root.sock"]


def _shown(site: Host, path: Path, job: str, owner: str) -> str:
    top, *rest = path.relative_to(site.top).parts
    return "/".join((_SHOWN[top], *rest)).replace(job, "ID").replace(str(site.uid(owner)), "UID")


def _as(site: Host, user: str, words: list[str]) -> list[str]:
    ran = subprocess.run(
        [*site.identity(user), *words],
        env=CLEAN,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return json.loads(ran.stdout)


def _as_job(site: Host, user: str, words: list[str]) -> list[str]:
    job = new_id()
    assert site.start(job, shlex.join(words), user)["ok"]
    assert site.result(job)["state"] == "succeeded"
    return json.loads(site.output(job))
