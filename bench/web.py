"""The pages in a real browser on this machine: how long a first view takes and how much of it travels, what 20 charts of
100,000 points cost to draw, and how quick the list is over 100,000 jobs. Needs Debian's Chromium."""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Page, sync_playwright
from sqlalchemy import Connection, insert

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.server.conftest import Running, serving
from tests.server.test_browser import CHROMIUM

from jumar.database.tables import jobs
from jumar.jobs.ledger import new_id
from jumar.spec.job import JobSpec

FIRST_VIEW_MS = 300.0
FRAME_MS = 50.0
MOST_BYTES = 150_000
TRIES = 5
"""The quickest counts: other work on the machine is not what is measured."""
QUERIES = (
    "",
    "?sort=name",
    "?sort=longest",
    "?text=train-97",
    "?text=nothing-like-it",
    "?user=user3",
)


def main() -> int:
    """Measure and say so; 1 where a limit does not hold."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--jobs", type=int, default=100_000)
    options.add_argument("--points", type=int, default=100_000)
    options.add_argument("--charts", type=int, default=20)
    wanted = options.parse_args()
    with tempfile.TemporaryDirectory() as home, serving(Path(home)) as running:
        charted = make_curves(running, wanted.charts, wanted.points)
        running.site.service.database.write(lambda c: fill(c, wanted.jobs))
        list_times(running)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
            )
            context = browser.new_context()
            token = running.token("root")
            context.add_cookies([{"name": "jumar_session", "value": token, "url": running.url}])
            well = first_views(context, running, charted)
            well = chart_frames(context, running, charted, wanted.charts) and well
            browser.close()
    return 0 if well else 1


def make_curves(running: Running, charts: int, points: int) -> str:
    """A job whose log tells `charts` metrics at `points` steps."""
    job = running.running_job("root", name="curves")
    with running.log_path(job.id).open("w") as log:
        for step in range(points):
            values = " ".join(f"m{n}_loss={1 / (step + n + 1):.6f}" for n in range(charts))
            log.write(f"step={step} {values}\n")
    return job.id


def fill(connection: Connection, count: int) -> None:
    """Rows as years of a lab leave them."""
    variables = {f"VARIABLE_{n}": "x" * 40 for n in range(20)}
    spec = JobSpec.model_validate({"name": "x", "command": "train", "environment": variables})
    text, now = json.dumps(spec.dump()), time.time()
    states = ("succeeded", "succeeded", "succeeded", "failed", "stopped")
    same: dict[str, Any] = {"spec": text, "notes": "[]", "kind": "sim", "count": 1, "nodes": 1}
    rows = (
        {
            **same,
            "id": new_id(),
            "user": f"user{n % 40}",
            "name": f"train-{n % 977}-{n % 13}",
            "state": states[n % len(states)],
            "priority": 100,
            "created_at": now - n,
            "started_at": now - n + 1,
            "finished_at": now - n + 60 + n % 999,
            "attempt": 1,
        }
        for n in range(count)
    )
    connection.execute(insert(jobs), list(rows))


def list_times(running: Running) -> None:
    """What the server takes for a page of the list."""
    for query in QUERIES:
        took = quickest(partial(running.ask, "GET", f"/jobs{query}", user="root"), 5)
        print(f"list {query or '(all)':<24} {took * 1e3:7.1f} ms")


def quickest(action: Callable[[], object], times: int) -> float:
    """The best of several."""
    found: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        found.append(time.perf_counter() - began)
    return min(found)


def first_views(context: BrowserContext, running: Running, job: str) -> bool:
    """From the request to the picture, with an empty cache, and what travels until all is there."""
    well = True
    for path in ("/", "/jobs", "/submit", f"/jobs/{job}"):
        found: list[float] = []
        sizes: list[float] = []
        for _ in range(TRIES):
            page = context.new_page()
            session: Any = context.new_cdp_session(page)
            session.send("Network.enable")
            session.send("Network.clearBrowserCache")
            sizes.clear()
            session.on("Network.loadingFinished", partial(note_size, sizes))
            page.goto(f"{running.url}{path}", wait_until="load")
            found.append(
                page.evaluate(
                    "new Promise((done) => new PerformanceObserver((list) => "
                    "done(list.getEntries().at(-1).startTime))"
                    ".observe({ type: 'paint', buffered: true }))"
                )
            )
            page.close()
        told, size = min(found), sum(sizes)
        is_well = told < FIRST_VIEW_MS and size < MOST_BYTES
        well = well and is_well
        limits = f"(limits {FIRST_VIEW_MS:.0f} ms, {MOST_BYTES // 1000} KB)"
        verdict = "ok" if is_well else "TOO MUCH"
        print(f"first view of {path:<16} {told:7.1f} ms {size / 1e3:7.1f} KB  {limits} {verdict}")
    return well


def note_size(sizes: list[float], told: dict[str, Any]) -> None:
    """What one answer weighed on the way."""
    sizes.append(told["encodedDataLength"])


def chart_frames(context: BrowserContext, running: Running, job: str, charts: int) -> bool:
    """What one redraw of all charts costs in scripts."""
    page = context.new_page()
    page.goto(f"{running.url}/jobs/{job}")
    until = time.monotonic() + 300
    while running.api("GET", f"/jobs/{job}/metrics", user="root").json["is_complete"] is False:
        assert time.monotonic() < until, "the log was not read in time"
    while page.locator("#metrics .chart").count() < charts:
        assert time.monotonic() < until, "not all charts were drawn"
    page.wait_for_timeout(4000)
    session: Any = context.new_cdp_session(page)
    session.send("Performance.enable")
    found: list[float] = []
    for value in (0.2, 0.4, 0.6, 0.8, 0.9):
        before = script_s(session)
        redraw(page, value)
        found.append((script_s(session) - before) * 1e3)
    told = statistics.median(found)
    verdict = "ok" if told < FRAME_MS else "TOO SLOW"
    print(
        f"redraw of {charts} charts   {told:7.1f} ms of scripts  (limit {FRAME_MS:.0f}) {verdict}"
    )
    return told < FRAME_MS


def redraw(page: Page, smoothing: float) -> None:
    """Move the slider and wait for the picture."""
    page.evaluate(
        "(value) => { const slider = document.querySelector('#metrics [data-smoothing]');"
        " slider.value = value; slider.dispatchEvent(new Event('input'));"
        " return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))); }",
        smoothing,
    )


def script_s(session: Any) -> float:
    """Seconds that scripts have taken so far."""
    told = session.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in told if one["name"] == "ScriptDuration"))


if __name__ == "__main__":
    sys.exit(main())
