"""Submitting, watching and comparing in a real browser."""

import io
import tarfile
import zipfile
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect
from tests.server.conftest import Running
from tests.server.test_browser import browser, context, page

from jumar.spec.states import JobState

__all__ = ["browser", "context", "page"]
LONG = f"{'n' * 120}.txt"


def test_a_folder_is_sent_data_is_picked_and_a_fault_is_said_as_one_types(
    running: Running, page: Page, tmp_path: Path
) -> None:
    (running.home / "store" / "lab" / "dataset" / "flowers").mkdir(parents=True)
    project = tmp_path / "project"
    for name in ("训练.py", f"sub/{LONG}", ".git/config", "__pycache__/x.pyc"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(f"# {name}")
    page.goto(f"{running.url}/submit")
    page.get_by_label("Job Name").fill("from-the-page")
    page.get_by_label("Command", exact=True).fill("python 训练.py")
    page.get_by_label("Device Type").select_option("sim")
    page.get_by_label("Number of Devices").fill("0")
    expect(page.locator('[data-field="device_kind"]')).to_be_visible()
    expect(page.locator("#preview")).to_contain_text("Device Type")
    page.get_by_label("Number of Devices").fill("2")
    page.get_by_label("Code comes from").select_option("upload")
    page.locator('[data-upload="folder"]').set_input_files(project)
    expect(page.locator("[data-uploaded]")).to_contain_text("Uploaded 2 files")
    digest = page.locator("[data-uploaded]").inner_text().rpartition(" ")[2]
    zipped = tmp_path / "project.zip"
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in ("训练.py", f"sub/{LONG}", ".git/config", "__pycache__/x.pyc"):
            packed.write(project / name, f"train-main/{name}")
    with page.expect_response("**/api/v1/code"):
        page.locator('[data-upload="zip"]').set_input_files(zipped)
    # The same files are the same code, whichever way they come.
    expect(page.locator("[data-uploaded]")).to_have_text(f"Uploaded 2 files: {digest}")
    torn = tmp_path / "torn.zip"
    torn.write_bytes(zipped.read_bytes()[:-40])
    # Sent, and never answered.
    page.route("**/api/v1/code", lambda _: None)
    with page.expect_request("**/api/v1/code"):
        page.locator('[data-upload="zip"]').set_input_files(zipped)
    # Whatever would become of an earlier choice, the last one counts.
    with page.expect_event("requestfailed"):
        page.locator('[data-upload="zip"]').set_input_files(torn)
    expect(page.locator("[data-uploaded]")).to_contain_text("not a zip file")
    page.unroute_all()
    page.locator('[data-pick="inputs"]').click()
    page.get_by_role("button", name="obs://lab/", exact=True).click()
    page.get_by_role("button", name="dataset/", exact=True).click()
    page.get_by_role("button", name="Choose this folder").click()
    expect(page.get_by_label("Inputs")).to_have_value("data_url=obs://lab/dataset/")
    expect(page.locator("#preview")).to_contain_text("Starts immediately")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("heading", name="from-the-page")).to_be_visible()
    spec = running.site.service.spec_of(page.url.rpartition("/")[2])
    assert spec.inputs == {"data_url": "obs://lab/dataset/"}
    (archive,) = (running.home / "code").glob("*.tar")
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as tar:
        assert sorted(tar.getnames()) == [f"sub/{LONG}", "训练.py"]
        member = tar.extractfile("训练.py")
        assert member is not None
        assert member.read().decode() == "# 训练.py"


def test_a_value_that_comes_while_one_looks_is_drawn(running: Running, page: Page) -> None:
    job = running.running_job(name="curves")
    log = running.log_path(job.id)
    log.write_text("step 1 loss 0.5\n")
    page.goto(f"{running.url}/jobs/{job.id}")
    expect(page.locator("#metrics .chart")).to_have_count(1)
    with log.open("a") as file:
        file.write("step 2 loss nan acc 0.25\n<b>step</b> 3 loss: 1 <img src=x onerror=alert(1)>\n")
    expect(page.locator("#metrics .chart")).to_have_count(2)
    expect(page.locator("#metrics [data-alerts]")).to_contain_text("NaN or infinite")
    page.get_by_role("link", name="Compare…").click()
    expect(page.locator("#compare .chart")).to_have_count(2)
    expect(page.locator("#compare .chart-head").first).to_contain_text("loss")


def test_several_jobs_are_stopped_at_once_and_ticks_outlive_news(
    running: Running, page: Page
) -> None:
    running.running_job("bob", name="holder", device="sim:8")
    jobs = [running.submit(name=f"queued-{n}", device="sim:8") for n in range(3)]
    page.goto(f"{running.url}/jobs")
    for job in jobs[:2]:
        page.get_by_label(f"Select {job.name}").check()
    newest = running.submit(name="news", device="sim:8")
    expect(page.locator(f"#row-{newest.id}")).to_be_visible()
    expect(page.get_by_label("Select queued-0")).to_be_checked()
    page.get_by_role("button", name="Stop selected 2").click()
    expect(page.get_by_role("heading", name="Stop the selected jobs (2)?")).to_be_visible()
    page.locator("#confirm button[value=yes]").click()
    for job in jobs[:2]:
        expect(page.locator(f"#row-{job.id} .state")).to_have_text("Stopped")
    assert running.site.service.get(jobs[2].id).state is JobState.QUEUED


def test_a_form_that_was_sent_with_a_fault_says_it_beside_the_field(
    running: Running, context: BrowserContext
) -> None:
    # Not the page that takes any refusal for a fault of its own.
    page = context.new_page()
    page.goto(f"{running.url}/submit")
    page.get_by_label("Job Name").fill("bad/name")
    page.get_by_label("Command", exact=True).fill("true")
    with page.expect_navigation(), page.expect_response("**/submit/check"):
        page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.locator("#preview")).to_contain_text("is not a name")
    name = page.get_by_label("Job Name")
    expect(name).to_have_attribute("aria-invalid", "true")
    expect(name).to_be_focused()
    expect(page.locator('[data-field="name"] [data-fault]')).to_contain_text("is not a name")
    name.fill("good")
    expect(name).to_have_attribute("aria-invalid", "false")
