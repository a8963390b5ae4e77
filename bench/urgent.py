"""How soon an urgent job starts when all cards hold preemptible work: `bench/urgent.py [--grace 3]`.

A platform of its own with 8 simulated cards, full of preemptible jobs of one and two cards, ten more in the queue.
Once their ranks end when they are asked to, once they ignore it and are killed after the grace period."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jumar.client import Client

JUMAR = str(Path(sys.executable).with_name("jumar"))
CARDS = "8"
SIZES = (1, 1, 2, 2, 2, *(2,) * 10)
FIT = 5
LIMIT_S = 120.0
SPARE_S = 2.0
WAYS = {
    "obedient": "import time; time.sleep(600)",
    "deaf": "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(600)",
}


def until(is_so: Callable[[], bool]) -> None:
    """Wait for it; SystemExit where it takes too long."""
    end = time.monotonic() + LIMIT_S
    while not is_so():
        if time.monotonic() > end:
            raise SystemExit("the jobs did not get there")
        time.sleep(0.05)


def submit(client: Client, code: str, cards: int, **more: object) -> str:
    """The id of a new job."""
    command = [sys.executable, "-c", code]
    spec = {"name": "urgent", "command": command, "device": f"sim:{cards}", **more}
    return client.submit(spec).id


def running(client: Client, jobs: Sequence[str]) -> list[str]:
    """Those of them that run."""
    return [job for job in jobs if client.get(job).state.value == "running"]


def measure(client: Client, code: str, grace_s: int) -> dict[str, Any]:
    """Seconds from submit to the start of the urgent job, and how many made room for it."""
    low = [submit(client, code, n, preemptible=True, grace=f"{grace_s}s") for n in SIZES]
    until(lambda: len(running(client, low)) == FIT)
    deafened = [Path(client.get(job).directory) / "logs/node0/rank0.log" for job in low[:FIT]]
    until(
        lambda: "print" not in code or all(log.exists() and log.stat().st_size for log in deafened)
    )
    asked = time.time()
    urgent = submit(client, WAYS["obedient"], 2)
    until(lambda: bool(running(client, [urgent])))
    started = client.get(urgent).attempts[-1].started_at or time.time()
    victims = [
        job
        for job in low
        if any(attempt.state.value == "preempted" for attempt in client.get(job).attempts)
    ]
    for job in (*low, urgent):
        client.stop(job)
    until(lambda: all(client.get(job).state.is_final for job in (*low, urgent)))
    return {"seconds": round(started - asked, 2), "grace_s": grace_s, "victims": len(victims)}


def main() -> int:
    """One line of JSON per way; 1 if one took longer than the grace period and 2 s, or had more than one job leave."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--grace", type=int, default=3)
    grace_s = parser.parse_args().grace
    root = Path(tempfile.mkdtemp(prefix="bench-urgent-"))
    os.environ |= {"JUMAR_HOME": str(root / "home"), "JUMAR_SIM_CARDS": CARDS}
    well = True
    try:
        subprocess.run([JUMAR, "up", "--detach"], check=True, capture_output=True, timeout=LIMIT_S)
        with Client() as client:
            for way, code in WAYS.items():
                found = measure(client, code, grace_s)
                print(json.dumps({"victims_are": way, **found}), flush=True)
                well = well and found["seconds"] <= grace_s + SPARE_S and found["victims"] == 1
    finally:
        subprocess.run([JUMAR, "down"], check=False, capture_output=True, timeout=LIMIT_S)
        shutil.rmtree(root, ignore_errors=True)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
