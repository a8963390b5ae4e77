"""Curves in a real browser: live, over steps and time, side by side."""

import json

import pytest
from playwright.sync_api import Page, expect
from tests.server.conftest import Running
from tests.server.test_browser import browser as browser  # fixtures
from tests.server.test_browser import context as context
from tests.server.test_browser import page as page


def test_a_new_scalar_shows_on_an_open_page_with_what_is_wrong(
    running: Running, page: Page
) -> None:
    job = running.running_job()
    log = running.log_path(job.id)
    log.write_text("step 1 loss 0.5\n")
    page.goto(f"{running.url}/jobs/{job.id}")
    charts = page.locator("#metrics .chart")
    expect(charts).to_have_count(1)
    # A job can name a metric as it likes.
    runs = log.parents[2] / "runs"
    runs.mkdir()
    (runs / "wandb-a.jsonl").write_text(
        json.dumps({"metrics": {"<img src=x onerror=alert(1)>": 1}, "step": 1}) + "\n"
    )
    with log.open("a") as file:
        file.write("step 2 loss nan acc 0.9\n")
    expect(charts).to_have_count(3)
    expect(page.locator("[data-alerts] li")).to_have_text("loss is NaN or infinite from step 2 on")
    page.locator("#metrics [data-axis]").select_option("time")
    # Of what was there before anybody looked, nobody knows when it came.
    expect(charts).to_have_count(2)
    page.locator("#metrics [data-axis]").select_option("step")
    expect(charts).to_have_count(3)


def test_no_tick_lies_between_two_steps(running: Running, page: Page) -> None:
    job = running.running_job()
    running.log_path(job.id).write_text("step 0 loss 9\nstep 1 loss 5\nstep 2 loss 3\n")
    page.add_init_script(
        """window.drawn = [];
        const fill = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (words, ...place) {
          window.drawn.push(words);
          fill.call(this, words, ...place);
        };"""
    )
    page.goto(f"{running.url}/jobs/{job.id}")
    expect(page.locator("#metrics .chart")).to_have_count(1)
    page.wait_for_function("window.drawn.length > 3")
    assert not [words for words in page.evaluate("window.drawn") if "." in words]


@pytest.mark.parametrize(("language", "over"), [("en", "Over"), ("zh", "横轴")])
def test_jobs_are_compared_over_their_parameters(
    running: Running, page: Page, language: str, over: str
) -> None:
    jobs = [
        running.submit(
            name=f"sweep-{rate}", command=["python", "train.py", f"--lr={rate}", "--opt=a"]
        )
        for rate in ("0.1", "0.001", "0.01")
    ]
    for number, job in enumerate(jobs):
        lines = [f"step {step} loss {number + 1 / step}\n" for step in range(1, 30)]
        running.log_path(job.id).write_text("".join(lines))
    query = "&".join(f"job={job.id}" for job in jobs)
    page.goto(f"{running.url}/compare?{query}&lang={language}")
    expect(page.locator("#compare .chart")).to_have_count(1)
    expect(page.locator("#compare label", has_text=over)).to_be_visible()
    expect(page.locator("#parallel polyline")).to_have_count(3)
    rows = page.locator("#parallel tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.locator("td")).to_have_text(["lr", "0.1", "0.001", "0.01"])
    page.locator("#compare [data-smoothing]").fill("0.6")
    page.locator("#compare [data-log]").check()
    expect(page.locator("#compare .chart canvas")).to_have_count(1)
