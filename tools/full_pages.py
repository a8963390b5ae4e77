"""Many people watch many jobs: `full_pages.py [--pages 200] [--jobs 50] [--seconds 60]`.

A server of its own runs jobs that write numbered lines and a loss. Each page asks for what job.html asks
for: one stream of the log, metrics each second, the state each third, usage each fourth. In the middle every
fourth page loses its stream and goes on where it stopped, as browsers do. The server must stay small and
within one core, and every page must have got every line once."""

import argparse
import asyncio
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.ports import free_port

from jumar.client import Client
from jumar.spec.states import JobState

JUMAR = str(Path(sys.executable).parent / "jumar")
MOST_MB = 300.0
MOST_CORES = 1.0
LEAST_PACE = 0.8
LIMIT_S = 300.0
LINES_PER_S = 5
LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
NEWS = re.compile(r'id="summary" hx-get="([^"]+)"')
SCRIPT = """\
import os, time
n = 0
while not os.path.exists({stop!r}):
    print(f"line {{n}} step {{n}} loss {{1 / (n + 1):.6f}}", flush=True)
    n += 1
    time.sleep({pause})
"""


@dataclass
class Page:
    """One open page, as its scripts keep it."""

    job: str
    offset: int = 0
    text: list[str] = field(default_factory=list[str])
    news: str = ""
    """Where it asks for news of the state."""
    metrics_seen: int | None = None
    values: int = 0
    asks: int = 0
    over: bool = False

    def numbers(self) -> list[int]:
        """The lines that it was told, by number."""
        return [int(line.split()[1]) for line in "".join(self.text).splitlines()]


@dataclass
class Line:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    head: str

    def ask(self, path: str, more: str = "") -> None:
        """Send a request."""
        self.writer.write(f"GET {path} HTTP/1.1\r\n{self.head}{more}\r\n".encode())

    async def get(self, path: str, more: str = "") -> tuple[int, bytes]:
        """Status and body."""
        self.ask(path, more)
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), LIMIT_S)
        length = LENGTH.search(head)
        body = await self.reader.readexactly(int(length[1])) if length else b""
        return int(head.split()[1]), body


class Browser:
    """Opens pages over plain sockets: two hundred real ones would need more than this machine."""

    def __init__(self, url: str, token: str) -> None:
        place = urlsplit(url)
        self._host, self._port = place.hostname or "", place.port or 80
        self._head = f"Host: {self._host}:{self._port}\r\nCookie: jumar_session={token}\r\n"

    async def connect(self) -> "Line":
        """A connection that is kept, as browsers do."""
        return Line(*await asyncio.open_connection(self._host, self._port), head=self._head)

    async def stream(self, page: Page, cut: asyncio.Event) -> None:
        """Follow the log to its end; `cut` loses the connection once."""
        while not page.over:
            path = f"/api/v1/jobs/{page.job}/logs/0/0/stream?offset={page.offset}"
            line = await self.connect()
            line.ask(path)
            lost = asyncio.ensure_future(cut.wait()) if not cut.is_set() else None
            reading = asyncio.ensure_future(self._events(line.reader, page))
            await asyncio.wait(
                {reading, *([lost] if lost else [])}, return_when=asyncio.FIRST_COMPLETED
            )
            for task in (reading, lost):
                if task is not None and not task.done():
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
            line.writer.close()

    async def _events(self, reader: asyncio.StreamReader, page: Page) -> None:
        event = b""
        data = b""
        while line := await asyncio.wait_for(reader.readline(), LIMIT_S):
            name, _, value = line.rstrip(b"\r\n").partition(b": ")
            if name == b"id":
                offset = int(value)
            elif name == b"event":
                event = value
            elif name == b"data":
                data = value
            elif not name and event:
                if event == b"log":
                    page.text.append(json.loads(data)["text"])
                    page.offset = offset  # pyright: ignore[reportPossiblyUnboundVariable]
                page.over = event == b"end"
                event = b""
                if page.over:
                    return

    async def poll(self, page: Page, begins_in: float) -> None:
        """Metrics each second, the state each third, usage each fourth."""
        await asyncio.sleep(begins_in)
        line = await self.connect()
        for turn in itertools.count():
            if page.over:
                line.writer.close()
                return
            began = time.monotonic()
            if turn % 3 == 0:
                news = page.news or f"/jobs/{page.job}?seen=0"
                _, html = await line.get(news, "HX-Request: true\r\n")
                if found := NEWS.search(html.decode()):
                    page.news = found[1].replace("&amp;", "&")
            seen = "" if page.metrics_seen is None else f"&seen={page.metrics_seen}"
            status, body = await line.get(
                f"/api/v1/jobs/{page.job}/metrics?points=800&axis=step{seen}"
            )
            page.asks += 1
            if status == 200:
                news = json.loads(body)
                page.metrics_seen = news["revision"]
                page.values = max((curve["count"] for curve in news["curves"]), default=0)
            if turn % 4 == 0:
                await line.get(f"/api/v1/jobs/{page.job}/usage")
            await asyncio.sleep(max(0.0, 1.0 - (time.monotonic() - began)))


@dataclass
class Load:
    """What the server took."""

    peak_mb: float = 0.0
    cores: float = 0.0


async def weigh(server: psutil.Process, seconds: float) -> Load:
    """For as long as that."""
    load = Load()
    began, before = time.monotonic(), sum(server.cpu_times()[:2])
    while time.monotonic() - began < seconds:
        load.peak_mb = max(load.peak_mb, server.memory_info().rss / 1e6)
        await asyncio.sleep(0.5)
    load.cores = (sum(server.cpu_times()[:2]) - before) / (time.monotonic() - began)
    return load


async def watch(
    browser: Browser, pages: list[Page], server: psutil.Process, seconds: float, stop: Path
) -> Load:
    """Open all, let them be, cut some, end the jobs, and wait for all to hear of it."""
    cuts = [asyncio.Event() for _ in pages]
    tasks = [
        asyncio.ensure_future(browser.stream(page, cut))
        for page, cut in zip(pages, cuts, strict=True)
    ]
    tasks += [
        asyncio.ensure_future(browser.poll(page, number / len(pages)))
        for number, page in enumerate(pages)
    ]
    weighed = asyncio.ensure_future(weigh(server, seconds))
    await asyncio.sleep(seconds / 2)
    for cut in cuts[::4]:
        cut.set()
    load = await weighed
    stop.touch()
    await asyncio.wait_for(asyncio.gather(*tasks), LIMIT_S)
    return load


def faults(pages: list[Page], logs: dict[str, str], load: Load) -> list[str]:
    """What was promised and is not so."""
    found: list[str] = []
    for number, page in enumerate(pages):
        written = len(logs[page.job].splitlines())
        if page.numbers() != list(range(written)):
            found.append(
                f"page {number}: {len(page.numbers())} lines of {written}, or out of order"
            )
        if page.values == 0:
            found.append(f"page {number} has no metrics")
    if load.peak_mb > MOST_MB:
        found.append(f"the server took {load.peak_mb:.0f} MB, more than {MOST_MB:.0f}")
    if load.cores > MOST_CORES:
        found.append(f"the server took {load.cores:.2f} cores, more than {MOST_CORES:.0f}")
    return found


def run(home: Path, jobs: int, count: int, seconds: float) -> list[str]:
    """On a server below `home`."""
    stop = home.parent / "stop"
    config = json.loads((home / "client.json").read_text())
    client = Client(config["url"], config["token"], patience_s=60)
    script = SCRIPT.format(stop=str(stop), pause=1 / LINES_PER_S)
    command = [sys.executable, "-S", "-c", script]
    ids = [client.submit({"name": f"watched-{n}", "command": command}).id for n in range(jobs)]
    until = time.monotonic() + LIMIT_S
    while any(client.get(one).state is not JobState.RUNNING for one in ids):
        if time.monotonic() > until:
            raise SystemExit("error: not all jobs have started")
        time.sleep(0.5)
    server = psutil.Process(int((home / "server.pid").read_text()))
    pages = [Page(ids[number % jobs]) for number in range(count)]
    browser = Browser(config["url"], config["token"])
    load = asyncio.run(watch(browser, pages, server, seconds, stop))
    logs = {one: (home / "jobs" / one / "logs/node0/rank0.log").read_text() for one in ids}
    lines = sum(len(page.numbers()) for page in pages)
    pace = sum(page.asks for page in pages) / (seconds * count)
    told = {"pages": count, "jobs": jobs, "lines": lines, "peak_mb": round(load.peak_mb)}
    sys.stdout.write(
        json.dumps({**told, "cores": round(load.cores, 2), "pace": round(pace, 2)}) + "\n"
    )
    client.close()
    # On a machine that is busy with other things a server cannot be told to be quick.
    slow = [f"pages asked {pace:.2f} times a second, not once"] if pace < LEAST_PACE else []
    return [*faults(pages, logs, load), *slow]


def main() -> int:
    """0 where all holds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        own = {
            "JUMAR_HOME": str(home),
            "JUMAR_CPU_SLOTS": str(options.jobs),
            "JUMAR_PORT": str(free_port()),
        }
        environment = {**os.environ, **own}
        subprocess.run([JUMAR, "up", "--detach"], env=environment, check=True, timeout=LIMIT_S)
        try:
            found = run(home, options.jobs, options.pages, options.seconds)
        finally:
            (home.parent / "stop").touch()
            subprocess.run([JUMAR, "down"], env=environment, check=False, timeout=LIMIT_S)
    sys.stdout.writelines(f"{line}\n" for line in found[:20])
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
