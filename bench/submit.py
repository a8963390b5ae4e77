"""From submitting to the first line of output: jumar, task-spooler and Slurm's sbatch, in one run.

Then jumar alone: durable submits a second, the list of 100,000 jobs, the command line's start.
`python bench/submit.py [--jobs 40] [--rows 100000]`; rivals that are not installed are left out, and said so."""

import argparse
import http.client
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event, Semaphore
from pathlib import Path

from parts.slurm import missing_parts, slurm
from sqlalchemy import Connection

from jumar.client import Client
from jumar.database.access import open_database
from jumar.jobs import ledger
from jumar.spec.job import JobSpec

JUMAR = str(Path(sys.executable).parent / "jumar")
CLOCK = ["date", "+%s.%N"]
CLIENT_PROCESSES, CLIENT_THREADS = 4, 5


def first_line_s(read: Callable[[], str], submitted_at: float, limit_s: float = 60) -> float:
    """The job's own clock in its first line, less the time of submitting."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        text = read()
        if text.endswith("\n"):
            return float(text.split()[0]) - submitted_at
        time.sleep(0.0005)
    raise RuntimeError(f"no first line within {limit_s} s")


def reader(path: Path) -> Callable[[], str]:
    """What is in the file so far."""
    return lambda: path.read_text() if path.exists() else ""


def _new_output(folder: Path) -> str:
    return next((path.read_text() for path in folder.glob("ts-out.*")), "")


def time_task_spooler(jobs: int, folder: Path) -> list[float]:
    """Seconds to the first line, job after job."""
    environment = {**os.environ, "TS_SOCKET": str(folder / "tsp"), "TMPDIR": str(folder)}
    seconds: list[float] = []
    try:
        for _ in range(jobs):
            began = time.time()
            subprocess.run(["tsp", *CLOCK], env=environment, check=True, stdout=subprocess.DEVNULL)
            seconds.append(first_line_s(lambda: _new_output(folder), began))
            for output in folder.glob("ts-out.*"):
                output.unlink()
    finally:
        subprocess.run(["tsp", "-K"], env=environment, check=False)
    return seconds


def time_slurm(jobs: int, folder: Path) -> list[float]:
    """Seconds to the first line, job after job."""
    seconds: list[float] = []
    with slurm(folder) as environment:
        for number in range(jobs):
            output = folder / f"out-{number}"
            began = time.time()
            subprocess.run(
                ["sbatch", "-o", str(output), "--wrap", " ".join(CLOCK)],
                env=environment,
                check=True,
                stdout=subprocess.DEVNULL,
            )
            seconds.append(first_line_s(reader(output), began))
    return seconds


def time_jumar(jobs: int, client: Client) -> list[float]:
    """Seconds to the first line, job after job, by API."""
    seconds: list[float] = []
    for number in range(jobs):
        began = time.time()
        job = client.submit({"name": f"clock-{number}", "command": CLOCK})
        log = Path(job.directory) / "logs" / "node0" / "rank0.log"
        seconds.append(first_line_s(reader(log), began))
        client.wait(job.id, timeout_s=60)
    return seconds


def _submit_some(url: str, token: str, jobs: int, ready: Semaphore, go: Event) -> None:
    def submit() -> None:
        client = Client(url, token)
        client.me()
        barrier.wait()
        for number in range(jobs):
            client.submit({"name": f"queued-{number}", "command": ["true"], "device": "sim:8"})

    barrier = threading.Barrier(CLIENT_THREADS + 1)
    threads = [threading.Thread(target=submit) for _ in range(CLIENT_THREADS)]
    for thread in threads:
        thread.start()
    ready.release()
    go.wait()
    barrier.wait()
    for thread in threads:
        thread.join()


def submits_a_second(client: Client, url: str, token: str, each: int) -> float:
    """From 20 clients at once, while all cards are held, so that only submitting is measured."""
    holder = client.submit({"name": "holder", "command": ["sleep", "600"], "device": "sim:8"})
    context = multiprocessing.get_context("spawn")
    ready, go = context.Semaphore(0), context.Event()
    arguments = (url, token, each, ready, go)
    processes = [
        context.Process(target=_submit_some, args=arguments) for _ in range(CLIENT_PROCESSES)
    ]
    for process in processes:
        process.start()
    for _ in processes:
        ready.acquire()
    time.sleep(0.5)
    began = time.monotonic()
    go.set()
    for process in processes:
        process.join()
    took_s = time.monotonic() - began
    client.stop(holder.id)
    return CLIENT_PROCESSES * CLIENT_THREADS * each / took_s


def fill(database_url: str, rows: int) -> None:
    """Many finished jobs, put straight into the tables while no server runs."""
    database = open_database(database_url)
    spec = JobSpec(name="old", command=["true"], device="sim:1")  # pyright: ignore[reportArgumentType]

    def some(connection: Connection) -> None:
        for _ in range(min(5000, rows)):
            row, _ = ledger.insert_job(
                connection,
                user="bench",
                spec=spec,
                notes=(),
                key=None,
                now=time.time(),
            )
            ledger.ask_to_stop(connection, row.id, time.time())

    for _ in range(max(1, rows // 5000)):
        database.write(some)
    database.close()


def time_request(url: str, path: str, token: str, times: int = 15) -> float:
    """Median seconds of a GET."""
    host = url.removeprefix("http://")
    seconds: list[float] = []
    for _ in range(times):
        connection = http.client.HTTPConnection(host, timeout=30)
        began = time.perf_counter()
        headers = {"Authorization": f"Bearer {token}", "Cookie": f"jumar_session={token}"}
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        answer.read()
        seconds.append(time.perf_counter() - began)
        if answer.status != 200:
            raise RuntimeError(f"{path} answered {answer.status}")
        connection.close()
    return statistics.median(seconds)


def up(home: Path) -> tuple[str, str]:
    """Start the server of `home`: its address and a token."""
    environment = {**os.environ, "JUMAR_HOME": str(home)}
    subprocess.run(
        [JUMAR, "up", "--detach", "--json"],
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=60,
    )
    config = json.loads((home / "client.json").read_text())
    return config["url"], config["token"]


def down(home: Path) -> None:
    """Stop it."""
    subprocess.run([JUMAR, "down"], env={**os.environ, "JUMAR_HOME": str(home)}, check=True)


def cli_start_s(times: int = 9) -> float:
    """Median seconds of `jumar --version`."""
    seconds: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        subprocess.run([JUMAR, "--version"], check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def compare(jobs: int, folder: Path, client: Client) -> None:
    """The three side by side."""
    medians = {"jumar": statistics.median(time_jumar(jobs, client))}
    if shutil.which("tsp"):
        (folder / "tsp-out").mkdir()
        medians["task-spooler"] = statistics.median(time_task_spooler(jobs, folder / "tsp-out"))
    else:
        print("task-spooler is not installed: left out")
    if missing := missing_parts():
        print(f"Slurm is left out, missing: {', '.join(missing)}")
    else:
        (folder / "slurm").mkdir()
        medians["sbatch"] = statistics.median(time_slurm(min(jobs, 10), folder / "slurm"))
    print(f"submit to first line, median of {jobs}:")
    for name, seconds in medians.items():
        times = seconds / medians["jumar"]
        print(f"  {name:14} {seconds * 1000:8.1f} ms   {times:7.2f} x jumar's")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--rows", type=int, default=100_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="jumar-bench-") as name:
        folder = Path(name)
        home = folder / "home"
        url, token = up(home)
        try:
            client = Client(url, token)
            compare(arguments.jobs, folder, client)
            rate = submits_a_second(client, url, token, each=100)
            print(f"durable submits from 20 clients: {rate:.0f} a second")
            down(home)
            fill(f"sqlite:///{home / 'jumar.db'}", arguments.rows)
            url, token = up(home)
            for path in ("/api/v1/jobs?limit=50", "/"):
                seconds = time_request(url, path, token)
                print(f"GET {path} with {arguments.rows} jobs: {seconds * 1000:.1f} ms")
        finally:
            down(home)
    print(f"jumar --version: {cli_start_s() * 1000:.0f} ms")


if __name__ == "__main__":
    main()
