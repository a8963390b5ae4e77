"""The pages as they are sent: both languages, no scripts needed, nothing taken for markup."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.conftest import Running
from tests.waiting import wait_for

from jumar.server.api.plain import plain
from jumar.server.web import i18n, times
from jumar.spec import staging
from jumar.spec.causes import Cause
from jumar.spec.states import AttemptState

WEB = Path(i18n.__file__).parent
# Sections whose keys are put together from a name and a value.
COMPOSED = (
    "axis",
    "role",
    "time",
    "token",
    "field",
    "hint",
    "option",
    "ranks",
    "section",
    "sort",
    "usage",
)
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


def keys_in(language: str) -> dict[str, str]:
    return dict(i18n.catalogue(language).words)


def used_keys() -> Iterator[str]:
    for path in (*WEB.glob("templates/*.html"), *WEB.glob("*.py"), Path(staging.__file__)):
        yield from re.findall(r"""["']((?:[a-z]+)\.[a-z_]+)["']""", path.read_text())
    for path in WEB.glob("static/*.js"):
        for section, key in re.findall(r"words\.(\w+)\.(\w+)", path.read_text()):
            yield f"{section}.{key}"
        # A page's own script has the words of its own section.
        yield from (f"{path.stem}.{key}" for key in re.findall(r"\bsaid\.(\w+)", path.read_text()))


def test_every_word_is_there_in_every_language_with_the_same_places() -> None:
    english, chinese = keys_in("en"), keys_in("zh")
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", chinese[key])), key
        assert text.strip() or key == "time.join"


def test_every_word_that_pages_ask_for_is_there_and_none_is_left_over() -> None:
    known, used = set(keys_in("en")), set(used_keys())
    sections = {key.split(".")[0] for key in known}
    asked = {
        key for key in used if key.split(".")[0] in sections and not key.endswith((".js", ".html"))
    }
    assert asked <= known
    # These are put together from a section and a value.
    composed = {key for key in known if key.split(".")[0] in COMPOSED}
    composed |= {f"admin.{tab}" for tab in ("users", "cards", "audit")}
    composed |= {f"repos.{kind}" for kind in ("project", "model", "dataset")}
    composed |= {f"job.{name}" for name in ("stop", "rerun", "upload", "port")}
    composed |= {f"log.{name}" for name in ("live", "waiting", "ended", "broken", "refused")}
    from_spec = (
        "workdir",
        "framework",
        "image",
        "time_limit",
        "requirements",
        "ckpt",
        "cpus",
        "memory",
    )
    composed |= {f"job.{name}" for name in (*from_spec, "inputs", "outputs", "environment")}
    assert known - asked - composed == set()


def test_a_moment_inside_a_sentence_is_not_shown_as_markup(running: Running) -> None:
    running.running_job(device="sim:8", time_limit=60)
    waiting = running.submit(device="sim:8")
    page = running.ask("GET", f"/jobs/{waiting.id}?lang=zh").text
    assert "预计 <time " in page


def test_the_catalogues_are_plain_tables() -> None:
    for path in WEB.glob("locale/*.toml"):
        for section in tomllib.loads(path.read_text("utf-8")).values():
            assert all(isinstance(value, str) for value in section.values())


@pytest.mark.parametrize(
    ("query", "headers", "language"),
    [
        ("", {}, "en"),
        ("", {"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.8"}, "zh-CN"),
        ("", {"Accept-Language": "fr, en;q=0.5, zh;q=0.6"}, "zh-CN"),
        ("", {"Accept-Language": "de;q=x,,;q="}, "en"),
        ("?lang=zh", {}, "zh-CN"),
        ("?lang=xx", {"Cookie": "jumar_lang=zh"}, "zh-CN"),
        ("?lang=en", {"Cookie": "jumar_lang=zh"}, "en"),
    ],
)
def test_the_language_is_the_one_the_visitor_asks_for(
    shared: Running, query: str, headers: dict[str, str], language: str
) -> None:
    page = shared.ask("GET", f"/login{query}", user=None, headers=headers)
    assert f'<html lang="{language}"' in page.text


def test_a_chosen_language_stays(shared: Running) -> None:
    chosen = shared.ask("GET", "/login?lang=zh", user=None).headers["Set-Cookie"]
    assert chosen.startswith("jumar_lang=zh")


def test_an_empty_list_says_how_to_submit_the_first_job(running: Running) -> None:
    page = running.ask("GET", "/jobs").text
    assert "No jobs yet" in page
    assert "jumar run" in page


def test_the_list_shows_states_counts_and_only_links_what_one_may_open(running: Running) -> None:
    mine = running.running_job("ann", name="my-job", device="sim:8")
    running.submit("bob", name="their-job", device="sim:8")
    page = running.ask("GET", "/jobs").text
    assert f'href="/jobs/{mine.id}"' in page
    assert "their-job" in page
    assert page.count('href="/jobs/') == 1
    assert "Running <b>1</b>" in page
    assert "their-job" not in running.ask("GET", "/jobs?text=my-").text
    assert "No matching jobs" in running.ask("GET", "/jobs?text=nothing-like-it").text
    assert "my-job" not in running.ask("GET", "/jobs?user=bob").text
    assert "my-job" not in running.ask("GET", "/jobs?state=failed").text


def test_older_jobs_are_on_the_next_page(running: Running) -> None:
    for number in range(60):
        running.submit(name=f"job-{number:02}", device="sim:8")
    first = running.ask("GET", "/jobs").text
    assert "job-59" in first
    assert "job-09" not in first
    older = re.search(r'rel="next" href="([^"]+)"', first)
    assert older is not None
    second = running.ask("GET", older[1].replace("&amp;", "&")).text
    assert "job-09" in second
    assert "job-00" in second
    assert 'rel="next"' not in second


def test_news_are_sent_only_when_there_are_some(running: Running) -> None:
    job = running.running_job()
    fragment = {"HX-Request": "true"}
    for path in ("/jobs", f"/jobs/{job.id}"):
        seen = re.search(r"seen=(\d+)", running.ask("GET", path).text)
        assert seen is not None
        again = f"{path}?seen={seen[1]}"
        assert running.ask("GET", again, headers=fragment).status == 204
    running.finish(job.id)
    news = running.ask("GET", f"/jobs/{job.id}?seen={seen[1]}", headers=fragment)
    assert news.status == 200
    assert "<html" not in news.text
    assert 'hx-swap-oob="true"' in news.text
    assert "Succeeded" in news.text


def test_a_failed_job_says_why_with_its_last_lines(running: Running) -> None:
    job = running.running_job()
    running.finish(
        job.id, AttemptState.FAILED, exit_code=3, reason="rank 0 exited with code 3", tail="Boom\n"
    )
    page = running.ask("GET", f"/jobs/{job.id}").text
    assert "rank 0 exited with code 3" in page
    assert ">Boom" in page
    assert f'action="/jobs/{job.id}/rerun"' in page
    assert f'action="/jobs/{job.id}/stop"' not in page


def test_an_attempt_that_saved_and_left_is_not_told_to_be_timed_out(running: Running) -> None:
    job = running.running_job(time_limit=3600, segments=2)
    running.engine.finish(
        job.id, AttemptState.TIMED_OUT, exit_code=75, cause=Cause.RUN_AGAIN, advanced=True
    )
    running.hint(job.id)
    wait_for(lambda: len(running.site.service.get(job.id).attempts) == 2)
    english, chinese = (
        running.ask("GET", f"/jobs/{job.id}?lang={one}").text for one in ("en", "zh")
    )
    assert '<i aria-hidden="true"></i>Ended early</span>' in english
    assert " · segment 1" in english
    assert '<i aria-hidden="true"></i>提前结束</span>' in chinese


def test_a_queued_job_says_why_it_waits_in_both_languages(running: Running) -> None:
    running.running_job(device="sim:6")
    job = running.submit(device="sim:8")
    english = running.ask("GET", f"/jobs/{job.id}").text
    assert "Why this job is waiting" in english
    waiting = running.site.service.get(job.id).waiting
    assert waiting is not None
    assert waiting.text in english
    chinese = running.ask("GET", f"/jobs/{job.id}?lang=zh").text
    assert "共 8 张 sim 卡，空闲 2，需要 8；排在第 1 位" in chinese
    behind = running.submit(device="sim:2")
    chinese = running.ask("GET", f"/jobs/{behind.id}?lang=zh").text
    assert f"空闲的 sim 设备留给排在最前面的任务 {job.id}；排在第 2 位" in chinese


def test_a_refusal_is_told_in_the_readers_language(running: Running) -> None:
    job = running.submit("bob")
    for path, words in ((f"/jobs/{job.id}", "belongs to bob"), ("/admin/users", "administrator")):
        english, chinese = (running.ask("GET", f"{path}?lang={one}") for one in ("en", "zh"))
        assert (english.status, chinese.status) == (403, 403)
        assert words in english.text
        assert words not in chinese.text
        assert "没有执行此操作的权限" in chinese.text
    waiting = running.ask("GET", "/jobs?lang=zh", user="eve")
    assert "administrator" not in waiting.text


def test_what_does_not_exist_is_said_in_the_language_of_the_page(running: Running) -> None:
    page = running.ask("GET", "/jobs/nosuch?lang=zh")
    assert page.status == 404
    assert "该内容不存在，或您无权查看。" in page.text
    assert "no job" not in page.text


def test_a_running_job_without_output_says_so(running: Running) -> None:
    job = running.running_job(device="sim:8")
    assert "The job has written no output yet." in running.ask("GET", f"/jobs/{job.id}").text


def test_stop_and_run_again_are_plain_forms(running: Running) -> None:
    job = running.submit(device="sim:8", name="again")
    headers = {"Cookie": f"jumar_session={running.token('ann')}"}
    stopped = running.ask("POST", f"/jobs/{job.id}/stop", user=None, headers=headers)
    assert (stopped.status, stopped.headers["Location"]) == (303, f"/jobs/{job.id}")
    again = running.ask("POST", f"/jobs/{job.id}/rerun", user=None, headers=headers)
    assert again.status == 303
    new = running.api("GET", again.headers["Location"]).json
    assert new["name"] == "again"
    assert new["id"] != job.id


def test_nothing_that_people_or_jobs_write_is_taken_for_markup(running: Running) -> None:
    job = running.running_job(
        command=["echo", EVIL], environment={"X": EVIL}, framework=EVIL, workdir=f"/{EVIL}"
    )
    running.log_path(job.id).write_text(f"{EVIL}\n</pre>{EVIL}")
    running.finish(job.id, AttemptState.FAILED, reason=EVIL, tail=EVIL)
    for path in (
        f"/jobs/{job.id}",
        "/",
        "/jobs",
        "/jobs?text=%3Cscript%3Ealert(1)%3C/script%3E&user=%22%3E%3Cscript%3E",
        "/login?next=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
        "/jobs/%3Cscript%3Ealert(1)%3C%2fscript%3E",
        "/no/%3Cscript%3Ealert(1)%3C/script%3E",
    ):
        page = running.ask("GET", path).text
        assert "<script>alert" not in page, path
        assert "<img" not in page, path
        assert "<script" not in page.replace('<script src="/static/', "").replace(
            '<script type="application/json"', ""
        ), path
    log = running.api("GET", f"/jobs/{job.id}/logs/0/0")
    assert log.headers["Content-Type"].startswith("text/plain")


def test_administrators_approve_users_on_the_page(running: Running) -> None:
    page = running.ask("GET", "/admin/users", user="root").text
    assert "eve" in page
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    changed = running.ask(
        "POST", "/admin/users/eve/role", user="root", body=b"role=member", headers=form
    )
    assert changed.status == 303
    assert running.api("GET", "/me", user="eve").json["role"] == "member"
    last = running.ask(
        "POST", "/admin/users/root/role", user="root", body=b"role=member", headers=form
    )
    assert last.status == 409
    assert "only administrator" in last.text


def test_registering_in_the_browser_leads_to_the_waiting_page(running: Running) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}

    def register(body: bytes) -> tuple[int, str]:
        answer = running.ask("POST", "/register", user=None, body=body, headers=form)
        return answer.status, answer.headers["Location"] or answer.text

    assert "do not match" in register(b"name=mia&password=long+enough&repeat=other")[1]
    assert register(b"name=mia&password=short&repeat=short")[0] == 422
    assert register(b"name=mia&password=long+enough&repeat=long+enough") == (303, "/waiting")
    assert "is taken" in register(b"name=mia&password=long+enough&repeat=long+enough")[1]


@pytest.mark.parametrize(
    ("seconds", "english", "chinese"),
    [
        (0, "0s", "0 秒"),
        (59, "59s", "59 秒"),
        (190, "3m 10s", "3 分钟 10 秒"),
        (3600, "1h", "1 小时"),
        (93_784, "1d 2h", "1 天 2 小时"),
    ],
)
def test_lengths_of_time(seconds: int, english: str, chinese: str) -> None:
    assert times.span(seconds, i18n.catalogue("en")) == english
    assert times.span(seconds, i18n.catalogue("zh")) == chinese


def test_terminal_text_becomes_what_a_terminal_would_show() -> None:
    assert plain("\x1b[31mred\x1b[0m\r\n10%\r50%\r100%\nnext\r\n") == "red\n100%\nnext\n"
