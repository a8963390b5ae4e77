"""Who is killed on a site after its time was over goes on as if it had obeyed."""

import os
import signal
from pathlib import Path

import pytest
from tests.site.api import api
from tests.site.conftest import Host, until

# Stays when it is asked to leave, and ends the launcher, or has root end it.
_STAYS = """
import os, pathlib, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.environ["JUMAR_SEGMENT"] == "2":
    raise SystemExit
while not os.path.exists(os.environ["JUMAR_STOP_FILE"]):
    time.sleep(0.02)
if os.environ["KILLED"] == "supervisor":
    os.kill(os.getppid(), signal.SIGKILL)
pathlib.Path("asked.new").write_text(str(os.getppid()))
os.rename("asked.new", "asked")
time.sleep(600)
"""


@pytest.mark.parametrize("killed", ["supervisor", "keeper"])
def test_a_launcher_that_is_killed_after_the_time_limit_has_asked_costs_no_retry(
    site: Host, killed: str
) -> None:
    ann = site.users[0]
    folder = site.home(ann)
    (folder / "asked").unlink(missing_ok=True)
    script = folder / "stays.py"
    script.write_text(_STAYS)
    options = ("--time-limit", "9s", "--segments", "2", "--fault-retries", "0")
    options = (*options, "--env", f"KILLED={killed}")
    site.jumar(ann, "run", *options, "--", "/usr/bin/python3", "stays.py", folder=folder)
    job = api(site, ann, "GET", "/jobs")["jobs"][0]["id"]
    if killed == "keeper":
        until((folder / "asked").exists, "it is asked to end")
        supervisor = (folder / "asked").read_text()
        stat = Path(f"/proc/{supervisor}/stat").read_text()
        os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
    ends = ("succeeded", "failed", "lost", "timed-out")
    ended = until(
        lambda: (found := api(site, ann, "GET", f"/jobs/{job}"))["state"] in ends and found,
        "it ends",
    )
    assert ended["state"] == "succeeded", ended
    first, second = ended["attempts"]
    assert (first["state"], first["cause"], first["whose"]) == ("timed-out", "time-limit", None)
    assert second["segment"] == 2
