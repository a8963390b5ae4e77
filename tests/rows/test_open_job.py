"""Tutorial 002, ENDPOINTS: JupyterLab, TensorBoard and SSH of a running job, in a real browser."""

import json
import time
import urllib.request
from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect
from tests.cli.conftest import Jumar
from tests.rows.conftest import LIMIT_S, Machine, fetch, wait_for_state, write
from tests.server.test_browser import browser as browser
from tests.store.served import Served

SCRIPT = """
import os, time
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.summary.writer.event_file_writer import EventFileWriter

folder = os.path.expanduser("~/tensorboard/" + os.environ["JUMAR_JOB_ID"] + "/logs")
writer = EventFileWriter(folder)
for step in range(3):
    value = Summary.Value(tag="loss", simple_value=0.5 - step / 10)
    writer.add_event(Event(step=step, wall_time=time.time(), summary=Summary(value=[value])))
writer.close()
time.sleep(600)
"""
PASTE = """text => {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", text);
    const event = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
    document.querySelector(".xterm-helper-textarea").dispatchEvent(event);
}"""
CELL = "import os; print('step', os.environ['STEP'], os.getcwd())"


@pytest.fixture
def context(browser: Browser, jumar: Jumar) -> Generator[BrowserContext]:
    """A browser in which the job's owner is signed in."""
    context = browser.new_context(locale="en-GB")
    context.set_default_timeout(LIMIT_S * 1000)
    page = context.new_page()
    page.goto(json.loads(jumar("open", "--json").stdout)["login_url"])
    yield context
    context.close()


def start(jumar: Jumar, *command: str) -> str:
    ticked = ("--endpoint", "ssh", "--endpoint", "jupyter", "--endpoint", "tensorboard")
    job = jumar("run", *ticked, "--env", "STEP=12", "--", *command).stdout.strip()
    assert wait_for_state(jumar, job, "running", "failed") == "running"
    return job


def test_row_45_ssh_jupyter_and_tensorboard_are_ticked(
    jumar: Jumar, platform: Served, context: BrowserContext, tmp_path: Path
) -> None:
    job = start(jumar, "sleep", "600")
    assert "endpoints are not" not in jumar("show", job).stdout
    page = context.new_page()
    page.goto(f"{platform.url}/jobs/{job}")
    for name in ("JupyterLab", "TensorBoard"):
        expect(page.locator("#endpoints").get_by_role("link", name=name)).to_be_visible()
    with context.expect_page() as opening:
        page.get_by_role("link", name="Terminal").click()
    terminal = opening.value
    expect(terminal.locator(".xterm-screen")).to_be_visible()
    terminal.locator(".xterm-helper-textarea").focus()
    terminal.keyboard.type("stty -echo; echo rea$((1))dy; head -c 400000 > pasted.txt; ")
    terminal.keyboard.type("echo at-$STEP > typed.txt; exit\n")
    expect(terminal.locator(".xterm-rows")).to_contain_text("rea1dy")
    # More than may be on its way to a command.
    terminal.evaluate(PASTE, "".join(f"{line:079d}\n" for line in range(5000)))
    expect(terminal.locator("[data-status]")).to_have_text("The terminal has ended.")
    assert (tmp_path / "typed.txt").read_text() == "at-12\n"
    assert (tmp_path / "pasted.txt").read_text().endswith(f"{4999:079d}\n")
    jumar("stop", job)
    wait_for_state(jumar, job, "stopped")
    assert "open/jupyter" not in fetch(platform, f"/jobs/{job}")


def test_row_46_jupyter_is_opened_from_the_page_and_runs_a_cell(
    jumar: Jumar, platform: Served, context: BrowserContext, tmp_path: Path
) -> None:
    job = start(jumar, "sleep", "600")
    page = context.new_page()
    page.goto(f"{platform.url}/jobs/{job}")
    with context.expect_page() as opening:
        page.get_by_role("link", name="JupyterLab").click()
    lab = opening.value
    lab.get_by_text("Python 3", exact=False).first.click()
    # A cell that is run before its kernel is there is passed over without a word.
    expect(lab.get_by_role("contentinfo").get_by_text("| Idle")).to_be_visible()
    lab.locator(".jp-Notebook .jp-CodeCell .cm-content").first.click()
    lab.keyboard.insert_text(CELL)
    lab.keyboard.press("Shift+Enter")
    expect(lab.locator(".jp-OutputArea-output").first).to_have_text(f"step 12 {tmp_path}")
    jumar("stop", job)


def test_row_48_tensorboard_shows_what_lies_in_its_folder(
    jumar: Jumar, machine: Machine, tmp_path: Path
) -> None:
    write(tmp_path, {"train.py": SCRIPT})
    job = start(jumar, "python", "train.py")
    link = Path(machine.variables["HOME"]) / "tensorboard" / job / "logs"
    visitor = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    url = json.loads(jumar("open", job, "tensorboard", "--json").stdout)["url"]
    with visitor.open(url, timeout=LIMIT_S) as answer:
        assert b"TensorBoard" in answer.read()
    place = url.partition("/_jumar")[0] + "/data/plugin/scalars"
    found = "{}"
    give_up_at = time.monotonic() + LIMIT_S
    # It reads the files in its own time.
    while "loss" not in found:
        assert time.monotonic() < give_up_at
        time.sleep(0.2)
        with visitor.open(f"{place}/tags", timeout=LIMIT_S) as answer:
            found = answer.read().decode()
    (run,) = json.loads(found)
    with visitor.open(f"{place}/scalars?run={run}&tag=loss", timeout=LIMIT_S) as answer:
        assert [round(value, 3) for _, _, value in json.load(answer)] == [0.5, 0.4, 0.3]
    assert link.is_symlink()
    jumar("stop", job)
    wait_for_state(jumar, job, "stopped")
    jumar("jobs", "rm", job)
    while link.parent.exists():
        assert time.monotonic() < give_up_at
        time.sleep(0.1)
