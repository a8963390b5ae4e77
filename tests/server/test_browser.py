"""The pages in a real browser: live, by keyboard, in two languages, with nothing slipping through."""

import os
import re
from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright
from tests.server.conftest import Running
from tests.waiting import wait_for

from jumar.hub.reading import entries
from jumar.spec.states import AttemptState, JobState

CHROMIUM = Path("/usr/bin/chromium")
LIMIT_MS = 180_000
expect.set_options(timeout=LIMIT_MS)


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    if not CHROMIUM.exists():
        if os.environ.get("CI"):
            pytest.fail("chromium is not installed; make test installs it when root")
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser, running: Running) -> Generator[BrowserContext]:
    """A browser in which ann is signed in."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB")
    context.set_default_timeout(LIMIT_MS)
    context.add_cookies(
        [{"name": "jumar_session", "value": running.token("ann"), "url": running.url}]
    )
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Generator[Page]:
    """A page that must not have any error of a script, nor anything the policy refused."""
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "console",
        lambda message: problems.append(message.text) if message.type == "error" else None,
    )
    page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
    yield page
    page.close()
    assert problems == []


def test_the_list_shows_news_without_being_loaded_again(running: Running, page: Page) -> None:
    page.goto(f"{running.url}/jobs")
    expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()
    page.evaluate("window.sameDocument = true")
    job = running.running_job(name="live-one")
    row = page.locator(f"#row-{job.id}")
    expect(row.locator(".state")).to_have_text("Running")
    running.finish(job.id, AttemptState.FAILED, reason="exited with code 9")
    expect(row.locator(".state")).to_have_text("Failed")
    expect(row).to_contain_text("exited with code 9")
    assert page.evaluate("window.sameDocument")


def test_typing_narrows_the_list_and_news_keep_it_narrow(running: Running, page: Page) -> None:
    running.submit(name="apple", device="sim:8")
    running.submit(name="pear", device="sim:8")
    page.goto(f"{running.url}/jobs")
    page.keyboard.press("/")
    page.keyboard.type("app")
    expect(page.get_by_text("pear")).to_have_count(0)
    expect(page).to_have_url(re.compile("text=app"))
    newest = running.submit(name="appliance", device="sim:8")
    expect(page.locator(f"#row-{newest.id}")).to_be_visible()
    expect(page.get_by_text("pear")).to_have_count(0)
    expect(page.get_by_role("searchbox")).to_be_focused()


def test_the_job_page_follows_state_and_log_until_the_end(running: Running, page: Page) -> None:
    running.running_job(device="sim:8", name="holder")
    job = running.submit(name="epochs", device="sim:2")
    page.goto(f"{running.url}/jobs/{job.id}")
    expect(page.get_by_text("Why this job is waiting")).to_be_visible()
    expect(page.get_by_text("The log appears here")).to_be_visible()
    holder = running.site.service.page(text="holder").jobs[0]
    running.finish(holder.id)
    running.wait(job.id, JobState.RUNNING)
    log = running.log_path(job.id)
    log.write_text("epoch 1 loss 0.5\n")
    expect(page.locator("#log-text")).to_contain_text("epoch 1 loss 0.5")
    expect(page.locator("#summary .state")).to_have_text("Running")
    with log.open("a") as file:
        file.write("progress 10%\rprogress 100%\n\x1b[32mgreen\x1b[0m 训练完成\n")
    running.finish(job.id)
    expect(page.locator("#log-text")).to_contain_text("green 训练完成")
    text = page.locator("#log-text").inner_text()
    assert text.splitlines()[1:] == ["progress 100%", "green 训练完成"]
    expect(page.locator("#summary .state")).to_have_text("Succeeded")
    expect(page.locator("[data-status]")).to_have_text("End of log")
    expect(page.locator("#attempts .state")).to_have_text("Succeeded")
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)


def is_at_its_end(lines: Locator) -> bool:
    return lines.evaluate("e => e.scrollHeight - e.scrollTop - e.clientHeight") < 5


def test_a_huge_log_opens_at_its_end_and_older_parts_come_on_the_way_up(
    running: Running, page: Page
) -> None:
    job = running.running_job()
    with running.log_path(job.id).open("w") as file:
        file.writelines(f"line {number}\n" for number in range(60_000))
    running.finish(job.id)
    page.goto(f"{running.url}/jobs/{job.id}")
    text = page.locator("#log-text")
    expect(text).to_contain_text("line 59999")
    assert "line 50000\n" not in text.inner_text()
    lines = page.locator("[data-lines]")
    wait_for(lambda: is_at_its_end(lines))
    for _ in range(2):
        shown = text.inner_text().split("\n", 1)[0]
        lines.evaluate("e => { e.scrollTop = 0 }")
        expect(text).not_to_have_text(re.compile(rf"^\s*{shown}\n"))
    numbers = [int(line.split()[1]) for line in text.inner_text().split("\n") if line.strip()]
    assert numbers == list(range(numbers[0], 60_000))
    wait_for(lambda: lines.evaluate("e => e.scrollTop") > 100)
    page.keyboard.press("e")
    wait_for(lambda: is_at_its_end(lines))


def test_the_rank_is_chosen_and_the_log_is_searched(running: Running, page: Page) -> None:
    job = running.running_job(device="sim:2", ranks="device")
    running.log_path(job.id, 0).write_text("zero\n")
    running.log_path(job.id, 1).write_text("one\nneedle\nhay\nNeedle\n")
    page.goto(f"{running.url}/jobs/{job.id}")
    expect(page.locator("#log-text")).to_contain_text("zero")
    page.get_by_label("Choose a log").select_option("0-1")
    expect(page.locator("#log-text")).to_contain_text("needle")
    page.keyboard.press("/")
    page.keyboard.type("needle")
    expect(page.locator("[data-found]")).to_have_text("2 lines")
    expect(page.locator("[data-results] li")).to_have_count(2)
    page.keyboard.press("Enter")
    expect(page.locator("[data-found]")).to_have_text("1 of 2")
    page.keyboard.press("Enter")
    expect(page.locator("[data-found]")).to_have_text("2 of 2")
    page.get_by_label("Search log").fill("nowhere")
    expect(page.locator("[data-found]")).to_contain_text("No match")


def test_a_hit_far_up_is_shown_in_its_place_and_the_end_is_one_key_away(
    running: Running, page: Page
) -> None:
    job = running.running_job()
    with running.log_path(job.id).open("w") as file:
        file.writelines(f"line {number}\n" for number in range(60_000))
    page.goto(f"{running.url}/jobs/{job.id}")
    text, lines = page.locator("#log-text"), page.locator("[data-lines]")
    expect(text).to_contain_text("line 59999")
    page.get_by_label("Search log").fill("line 12345")
    expect(page.locator("[data-results] li")).to_contain_text("12,346")
    expect(page.locator("[data-results] li small").nth(1)).to_have_text("line 12344")
    page.locator("[data-results] li button").click()
    expect(text).to_contain_text("line 12345\nline 12346")
    assert "line 59999" not in text.inner_text()
    marked = "[...CSS.highlights.get('current')].map((range) => range.toString()).join()"
    wait_for(lambda: page.evaluate(marked) == "line 12345")
    # Scrolling down brings what comes next, without a gap.
    last = text.inner_text().rstrip().rsplit("\n", 1)[-1]
    lines.evaluate("e => { e.scrollTop = e.scrollHeight }")
    expect(text).to_contain_text(f"line {int(last.split()[1]) + 1}\n")
    numbers = [int(line.split()[1]) for line in text.inner_text().split("\n") if line.strip()]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    page.locator("button[data-end]").click()
    expect(text).to_contain_text("line 59999")
    with running.log_path(job.id).open("a") as file:
        file.write("and it goes on\n")
    expect(text).to_contain_text("and it goes on")
    wait_for(lambda: is_at_its_end(lines))


def test_colours_are_shown_and_a_job_that_waits_is_not_called_live(
    running: Running, page: Page
) -> None:
    holder = running.running_job(device="sim:8")
    job = running.submit(device="sim:1")
    page.goto(f"{running.url}/jobs/{job.id}")
    expect(page.locator("[data-status]")).to_have_text("Waiting to start")
    running.finish(holder.id)
    running.wait(job.id, JobState.RUNNING)
    expect(page.locator("[data-status]")).to_have_text("Live")
    evil = "\x1b[38;5;196m<b>hot</b>\x1b[0m"
    running.log_path(job.id).write_text(f"\x1b[1;31mred\nstill red\x1b[0m plain {evil}\n")
    expect(page.locator("#log-text")).to_contain_text("still red plain <b>hot</b>")
    expect(page.locator("#log-text .ansi-1.ansi-bold")).to_have_text("red\nstill red")
    expect(page.locator("#log-text .ansi-9")).to_have_text("<b>hot</b>")
    # Colours that were there before the page was opened, too.
    page.reload()
    expect(page.locator("#log-text .ansi-1.ansi-bold")).to_have_text("red\nstill red")


def test_a_job_is_found_opened_and_stopped_by_keyboard(running: Running, page: Page) -> None:
    older = running.running_job(name="older")
    running.running_job(name="newer")
    page.goto(f"{running.url}/jobs")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("tr.selected")).to_contain_text("older")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{running.url}/jobs/{older.id}")
    # The address is there before the scripts that hear the keys.
    page.wait_for_load_state()
    page.keyboard.press("s")
    expect(page.get_by_role("heading", name="Stop older?")).to_be_visible()
    page.keyboard.press("Escape")
    assert running.site.service.get(older.id).state is JobState.RUNNING
    page.keyboard.press("s")
    page.locator("#confirm").get_by_role("button", name="Stop").click()
    expect(page.locator("#summary .state")).to_have_text("Stopped")
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    # Both in one go: the second counts within a second, which a busy machine may let pass.
    page.evaluate(
        "for (const key of 'gj')"
        " document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }))"
    )
    expect(page).to_have_url(f"{running.url}/jobs")


def test_the_language_is_switched_in_the_header(running: Running, page: Page) -> None:
    running.running_job(name="sprache")
    page.goto(f"{running.url}/jobs")
    page.get_by_role("link", name="中文").click()
    expect(page.get_by_role("heading", name="任务")).to_be_visible()
    expect(page.locator("tbody .state")).to_have_text("运行中")
    page.get_by_role("link", name="sprache").click()
    expect(page.get_by_role("button", name="重新运行")).to_be_visible()
    page.get_by_role("link", name="English").click()
    expect(page.get_by_role("button", name="Run again")).to_be_visible()


def test_what_a_job_writes_stays_text_in_the_live_log(running: Running, page: Page) -> None:
    job = running.running_job(command=["echo", "<img src=x onerror=alert(1)>"])
    page.goto(f"{running.url}/jobs/{job.id}")
    evil = "</pre><img src=x onerror=alert(1)><script>alert(2)</script>"
    running.log_path(job.id).write_text(f"{evil}\n")
    expect(page.locator("#log-text")).to_contain_text(evil)
    assert page.locator("main img").count() == 0
    assert page.locator("main script").count() == 0
    running.finish(job.id, AttemptState.FAILED, reason=evil, tail=evil)
    expect(page.locator("#summary .banner p")).to_have_text(evil)
    assert page.locator("main img").count() == 0


def test_signing_in_waiting_and_being_approved(running: Running, browser: Browser) -> None:
    visitor = browser.new_context(locale="en-GB").new_page()
    visitor.set_default_timeout(LIMIT_MS)
    visitor.goto(f"{running.url}/jobs")
    expect(visitor).to_have_url(re.compile("/login"))
    visitor.get_by_role("link", name="Register").click()
    visitor.get_by_label("User name").fill("mia")
    visitor.get_by_label("Password", exact=True).fill("long enough")
    visitor.get_by_label("Confirm password").fill("long enough")
    visitor.get_by_role("button", name="Register").click()
    expect(visitor.get_by_text("An administrator has to approve mia")).to_be_visible()
    admin = browser.new_context(locale="en-GB")
    admin.add_cookies(
        [{"name": "jumar_session", "value": running.token("root"), "url": running.url}]
    )
    users = admin.new_page()
    users.goto(f"{running.url}/admin/users")
    users.get_by_role("row", name="mia").get_by_role("button", name="Approve").click()
    expect(users.get_by_role("row", name="mia").get_by_label("Role")).to_have_value("member")
    visitor.reload()
    expect(visitor.get_by_role("heading", name="Overview")).to_be_visible()
    visitor.get_by_role("button", name="Sign out").click()
    expect(visitor).to_have_url(re.compile("/login"))
    visitor.context.close()
    admin.close()


def test_everything_can_be_read_without_scripts(running: Running, browser: Browser) -> None:
    job = running.running_job(name="plain")
    running.log_path(job.id).write_text("\nepoch 1\n")
    context = browser.new_context(java_script_enabled=False)
    context.add_cookies(
        [{"name": "jumar_session", "value": running.token("ann"), "url": running.url}]
    )
    page = context.new_page()
    page.goto(f"{running.url}/jobs")
    page.get_by_role("link", name="plain").click()
    expect(page.locator("#log-text")).to_have_text("\nepoch 1\n")
    expect(page.get_by_role("button", name="Follow")).to_be_hidden()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#summary .state")).to_have_text(re.compile("Stopp"))
    context.close()


def test_files_are_uploaded_to_a_repository(running: Running, page: Page, tmp_path: Path) -> None:
    user = running.site.accounts.tokens.user_of(running.token("ann"))
    assert user is not None
    repositories = running.site.hub.repositories
    repo = repositories.create(user, "project", "uploads")
    folder = tmp_path / "文件夹"
    (folder / "子").mkdir(parents=True)
    (folder / "子/配置.json").write_text("{}")
    (folder / "权重.ckpt").write_bytes(os.urandom(3 << 20))
    (tmp_path / "long.txt").write_text("x" * (repositories.limits.plain_bytes + 1))
    (tmp_path / "empty.txt").touch()
    for field, chosen, message in (
        ("files", [tmp_path / "long.txt", tmp_path / "empty.txt"], "第一次"),
        ("folder", folder, "目录"),
    ):
        page.goto(f"{running.url}/repos/project/ann/uploads")
        page.locator(f"#repo-upload input[name={field}]").set_input_files(chosen)
        page.locator("#repo-upload input[name=message]").fill(message)
        page.locator("#repo-upload button").click()
        expect(page.get_by_role("row", name=message)).to_be_visible()
    found = {one.path: one for one in entries(repositories.folder(repo), "main")}
    assert found["文件夹/子/配置.json"].pointer is None
    assert found["empty.txt"].size == 0
    for path, size in (
        ("long.txt", repositories.limits.plain_bytes + 1),
        ("文件夹/权重.ckpt", 3 << 20),
    ):
        pointer = found[path].pointer
        assert pointer is not None
        assert pointer.size == size
    # An older commit is no branch: nothing can be added to it.
    page.get_by_role("row", name="第一次").get_by_role("link").first.click()
    expect(page.get_by_text("long.txt").first).to_be_visible()
    expect(page.locator("#repo-upload")).to_have_count(0)
