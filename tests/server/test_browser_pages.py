"""Every page in a real browser: in both languages, light and dark, on a phone, usable by everybody, and small."""

import json
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

import pytest
from axe_playwright_python.base import AXE_SCRIPT  # pyright: ignore
from playwright.sync_api import BrowserContext, Page, Request, expect
from tests.server.conftest import Running
from tests.server.test_browser import browser as browser
from tests.server.test_browser import context as context
from tests.server.test_browser import page as page

from jumar.server.api.alerts import keep_alerts
from jumar.server.web.i18n import LANGUAGES, catalogue
from jumar.spec.devices import CardRef
from jumar.spec.metrics import Alert
from jumar.spec.states import AttemptState, JobState

MOST_BYTES = 150_000
EVIL = '"><img src=x onerror=alert(1)><script>alert(2)</script>'
EVIL_NAME = "<img src=x onerror=alert(3)>.txt"
SERIOUS = ("serious", "critical")


def make_hostile(running: Running, job: str, folder: Path) -> list[str]:
    """All that people and their jobs can write, written by somebody who means ill; the files to be opened."""
    notebook: dict[str, Any] = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {},
        "cells": [
            {"cell_type": "markdown", "metadata": {}, "source": [EVIL]},
            {
                "cell_type": "code",
                "metadata": {},
                "source": [EVIL],
                "execution_count": 1,
                "outputs": [
                    {"output_type": "display_data", "metadata": {}, "data": {"text/html": [EVIL]}}
                ],
            },
        ],
    }
    files = {
        "note.ipynb": json.dumps(notebook),
        "table.csv": f"step,{EVIL}\n1,{EVIL}\n",
        "values.json": json.dumps({EVIL: EVIL}),
        "picture.svg": f'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script>{EVIL}</svg>',
        EVIL_NAME: EVIL,
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "runs").mkdir(exist_ok=True)
    told = {"metrics": {EVIL: 1}, "step": 1, "params": {EVIL: EVIL}}
    (folder / "runs" / "wandb-a.jsonl").write_text(json.dumps(told) + "\n")
    service = running.site.service
    values: dict[str, float | str] = {"axis": EVIL, "at": 1.0}
    keep_alerts(
        service.sampler.alerts_path(job),
        [Alert(kind="not-finite", name=EVIL, since=1.0, values=values)],
    )
    service.holds.put("sim", CardRef("local", 7), by="root", why=EVIL)
    return list(files)


def pages_of(running: Running) -> list[str]:
    """All that there are, with something on each."""
    job = running.running_job(
        "root",
        name="wide-" + "x" * 100,
        device="sim:2",
        command=["train", EVIL],
        environment={"WORDS": EVIL},
    )
    log = running.log_path(job.id)
    log.write_text(f"step 1 loss 0.5\n\x1b[31mstep 2\x1b[0m loss 0.4\n{EVIL}\n")
    running.site.service.tag(job.id, ["baseline", "night"])
    files = make_hostile(running, job.id, log.parents[2])
    failed = running.running_job("root", name="breaks")
    log = running.log_path(failed.id)
    log.write_text('Traceback (most recent call last):\n  File "t.py", line 1\nValueError: no\n')
    running.finish(failed.id, AttemptState.FAILED, exit_code=1, reason=EVIL, tail=EVIL)
    waits = running.submit("root", name="waits", device="sim:8")
    running.site.accounts.links.new("root", (job.id,), None)
    admin = running.site.accounts.tokens.user_of(running.token("root"))
    assert admin is not None
    running.site.hub.repositories.create(
        admin, "model", "a-model-with-quite-a-long-name-of-its-own"
    )
    repo = "/repos/model/root/a-model-with-quite-a-long-name-of-its-own"
    previews = [f"/jobs/{job.id}/files?{urlencode({'path': name})}" for name in files]
    return [
        *("/", "/jobs", "/jobs?state=lost", "/submit", "/compare", f"/compare?job={job.id}"),
        f"/compare?job={job.id}&job={failed.id}",
        *(f"/jobs/{job.id}", f"/jobs/{failed.id}", f"/jobs/{waits.id}", f"/submit?from={job.id}"),
        *(f"/jobs/{job.id}/files", *previews),
        *("/alerts", "/account", "/links", "/repos", repo, f"/evaluation?job={job.id}"),
        *(
            "/admin/users",
            "/admin/users/bob",
            "/admin/cards",
            "/admin/audit",
            "/login",
            "/register",
        ),
    ]


def test_every_page_fits_is_usable_by_everybody_and_runs_nothing_that_others_wrote(
    running: Running, context: BrowserContext, page: Page
) -> None:
    context.clear_cookies()
    context.add_cookies(
        [{"name": "jumar_session", "value": running.token("root"), "url": running.url}]
    )
    paths = pages_of(running)
    found: dict[str, object] = {}
    for language, scheme in (("en", "light"), ("zh", "dark")):
        page.emulate_media(color_scheme=scheme)  # pyright: ignore[reportArgumentType]
        for path in paths:
            page.set_viewport_size({"width": 390, "height": 800})
            page.goto(f"{running.url}{path}{'&' if '?' in path else '?'}lang={language}")
            expect(page.locator("h1").first).to_be_visible()
            wide = page.evaluate("document.documentElement.scrollWidth")
            page.set_viewport_size({"width": 1280, "height": 800})
            page.evaluate(str(AXE_SCRIPT))
            violations = page.evaluate("axe.run().then((results) => results.violations)")
            bad = [
                (one["id"], [node["html"][:160] for node in one["nodes"]][:4])
                for one in violations
                if one["impact"] in SERIOUS
            ]
            made = page.locator("[onerror], main script, main svg script, iframe").count()
            if bad or wide > 390 or made:
                found[f"{path} {language} {scheme}"] = (wide, made, bad)
    assert found == {}


BAR = """() => {
  const bar = document.querySelector("#log > .bar");
  const shown = [...bar.children].filter((one) => one.offsetHeight);
  const places = shown.map((one) => one.getBoundingClientRect());
  const rows = new Set(places.map((place) => Math.round((place.top + place.bottom) / 20))).size;
  return [rows, bar.scrollWidth <= bar.clientWidth];
}"""
LONGEST = """() => {
  document.querySelector("#log [data-status]").textContent = words.log.broken;
  document.querySelector("#log .ranks option").textContent += " ".repeat(3) + "10, 10";
}"""


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_bar_of_a_log_is_one_row(running: Running, page: Page, language: str) -> None:
    """With the longest that it can say: of which node, that it connects again, how many places it has found."""
    job = running.running_job()
    running.log_path(job.id).write_text("loss 0.5\n" * 1200)
    page.goto(f"{running.url}/jobs/{job.id}?lang={language}")
    expect(page.locator("[data-status]")).to_have_class("status live")
    page.locator("[data-find]").fill("loss")
    expect(page.locator("[data-found]")).to_contain_text("100")
    said: dict[str, tuple[int, bool]] = {}
    for words in ("usual", "longest"):
        for width in (1000, 1100, 1101, 1200, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            said[f"{words} {width}"] = tuple(page.evaluate(BAR))
        page.evaluate(LONGEST)
    assert set(said.values()) == {(1, True)}, said


def test_what_differs_between_jobs_is_readable_in_the_language_of_the_page(
    running: Running, page: Page
) -> None:
    seed = {"SEED_OF_THE_WHOLE_RUN": "1"}
    one = running.running_job(name="one", environment=seed)
    other = running.running_job(name="other", device="sim:2", ranks="device", type="distributed")
    running.log_path(one.id).write_text("step 1 loss 0.5\nstep 2 loss 0.4\n")
    page.goto(f"{running.url}/compare?job={one.id}&job={other.id}&lang=zh")
    table = page.locator("table.facing", has=page.get_by_role("cell", name="进程数"))
    expect(table.get_by_role("cell", name="每设备一个")).to_be_visible()
    expect(table.get_by_role("cell", name="分布式")).to_be_visible()
    expect(page.locator("#parallel svg")).to_be_hidden()
    label = table.get_by_role("cell", name="环境变量.SEED_OF_THE_WHOLE_RUN").bounding_box()
    assert label is not None
    assert label["height"] < 60, "not one character under the other"
    page.goto(f"{running.url}/evaluation?job={one.id}&lang=zh")
    expect(page.get_by_role("cell", name="第 2 步", exact=True)).to_be_visible()


def test_the_first_view_is_small(running: Running, context: BrowserContext) -> None:
    job = running.running_job(name="small")
    running.log_path(job.id).write_text("step 1 loss 0.5\n" * 100)
    for path in ("/", "/jobs", f"/jobs/{job.id}", "/submit", "/login"):
        view, ended = context.new_page(), list[Request]()
        # Not those that never end, such as a log that is followed.
        view.on("requestfinished", lambda request, kept=ended: kept.append(request))
        view.goto(f"{running.url}{path}", wait_until="load")
        sizes = [request.sizes()["responseBodySize"] for request in ended]
        assert sizes, path
        assert sum(sizes) < MOST_BYTES, path
        view.close()


def test_files_are_opened_and_a_job_is_shared_from_its_page(
    running: Running, context: BrowserContext, page: Page
) -> None:
    job = running.running_job(name="gives")
    folder = running.log_path(job.id).parents[2]
    (folder / "out").mkdir()
    (folder / "out" / "note.txt").write_text("<img src=x onerror=alert(1)>")
    page.goto(f"{running.url}/jobs/{job.id}")
    page.get_by_role("link", name="Files").click()
    page.get_by_role("link", name="out/").click()
    page.get_by_role("link", name="note.txt").click()
    expect(page.locator(".preview pre")).to_have_text("<img src=x onerror=alert(1)>")
    page.get_by_role("link", name="gives").click()
    page.get_by_label("Tags").fill("night baseline")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("link", name="baseline").click()
    expect(page.locator(f"#row-{job.id}")).to_be_visible()
    page.goto(f"{running.url}/jobs/{job.id}")
    page.get_by_role("button", name="Share").click()
    address = page.locator(".secret code").inner_text()
    context.clear_cookies()
    page.goto(address)
    expect(page.locator("#summary .state")).to_have_text("Running")
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    running.log_path(job.id).write_text("told to the guest\n")
    expect(page.locator("#log-text")).to_contain_text("told to the guest")


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_people_do_works_in_their_language(
    running: Running, context: BrowserContext, page: Page, language: str
) -> None:
    """Submit, follow, search, tag, share, revoke, stop, clone; hold a card, set a quota, drain."""
    t = catalogue(language)

    def click(words: str, kind: Literal["button", "link"] = "button") -> None:
        page.get_by_role(kind, name=words, exact=True).first.click()

    def agree() -> None:
        page.locator("#confirm button[value=yes]").click()

    page.goto(f"{running.url}/submit?lang={language}")
    page.get_by_label(t("field.name"), exact=True).fill("flow")
    page.get_by_label(t("field.command"), exact=True).fill("python train.py")
    page.get_by_label(t("field.device_kind"), exact=True).select_option("sim")
    click(t("submit.button"))
    expect(page.get_by_role("heading", name="flow")).to_be_visible()
    job = page.url.rpartition("/")[2]
    running.hint(job)
    running.log_path(job).write_text("step 1 loss 0.5\nneedle\n")
    running.wait(job, JobState.RUNNING)
    expect(page.locator("#metrics .chart")).to_have_count(1)
    page.get_by_label(t("log.search")).fill("needle")
    expect(page.locator("[data-results] li")).to_have_count(1)
    page.get_by_label(t("job.tags")).fill("night")
    click(t("job.tags_save"))
    click(t("links.share"))
    click(t("links.revoke"))
    agree()
    expect(page.get_by_text(t("links.none"))).to_be_visible()
    page.goto(f"{running.url}/jobs/{job}")
    click(t("job.stop"))
    agree()
    expect(page.locator("#summary .state.stopped")).to_be_visible()
    click(t("job.clone"), "link")
    expect(page.get_by_label(t("field.name"), exact=True)).to_have_value("flow")
    context.add_cookies(
        [{"name": "jumar_session", "value": running.token("root"), "url": running.url}]
    )
    page.goto(f"{running.url}/admin/cards")
    click(t("cards.hold"))
    click(t("cards.release"))
    expect(page.get_by_role("button", name=t("cards.hold"), exact=True)).to_have_count(8)
    click(t("drain.begin"))
    agree()
    click(t("drain.end"))
    expect(page.get_by_role("button", name=t("drain.begin"))).to_be_visible()
    page.goto(f"{running.url}/admin/users/ann")
    page.get_by_label(t("users.quota_devices")).fill("3")
    click(t("users.change"))
    expect(page.get_by_label(t("users.quota_devices"))).to_have_value("3")


def test_on_a_phone_the_page_is_in_sight_and_times_say_what_they_are(
    running: Running, context: BrowserContext, page: Page
) -> None:
    context.clear_cookies()
    context.add_cookies(
        [{"name": "jumar_session", "value": running.token("root"), "url": running.url}]
    )
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{running.url}/admin/users?lang=en")
    box = page.locator(".top nav [aria-current]").bounding_box()
    assert box is not None
    assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
    page.goto(f"{running.url}/account?lang=en")
    told = page.locator("td[data-label]").first
    assert told.evaluate("cell => getComputedStyle(cell, '::before').content") == '"Created "'
    page.get_by_role("link", name="Shared links").click()
    expect(page.get_by_role("heading", name="Shared links")).to_be_visible()
