"""Words of the platform inside other sentences: each in the reader's language, each said once."""

from pathlib import Path

import pytest

from jumar.notify.messages import refusal
from jumar.notify.notices import Notices
from jumar.notify.sending import Sender
from jumar.notify.webhooks import Webhook, Webhooks
from jumar.spec.causes import Wait
from jumar.spec.records import JobSummary, Waiting, WaitPart
from jumar.spec.states import JobState
from jumar.words.reasons import waiting_sentence
from jumar.words.sentences import spoken


@pytest.mark.parametrize(
    ("part", "english", "chinese"),
    [
        (
            WaitPart(Wait.DRAIN, {"why": "nightly sweep"}),
            "no jobs are started now (nightly sweep)",
            "平台暂停启动任务（夜间清理）",
        ),
        (
            WaitPart(Wait.DRAIN, {"why": "new driver"}),
            "no jobs are started now (new driver)",
            "平台暂停启动任务（new driver）",
        ),
        (
            WaitPart(Wait.FOREIGN, {"used": 2, "by": "?, ann"}),
            "(user unknown, ann)",
            "（用户未知、ann）",
        ),
    ],
)
def test_what_the_platform_says_of_a_wait(part: WaitPart, english: str, chinese: str) -> None:
    waiting = Waiting(text="", parts=(part,), place_in_line=1, needs=2, free=0, total=4)
    assert waiting_sentence(waiting, "en").endswith(english)
    assert waiting_sentence(waiting, "zh").endswith(chinese)


@pytest.mark.parametrize(
    ("error", "chinese"),
    [
        (
            "127.0.0.1 cannot be reached: Connection refused",
            "无法连接 127.0.0.1：Connection refused",
        ),
        ("a.org did not answer: TimeoutError", "a.org 没有响应：TimeoutError"),
        ("a..b is no name of a host", "a..b 不是有效的主机名"),
        (refusal("feishu", 500, b""), "HTTP 状态码 500"),
        (refusal("feishu", 200, b"<html>"), "应答不是 JSON"),
        (refusal("feishu", 200, b'{"code": 9}'), '被拒绝：{"code": 9}'),
        (
            "::1 is inside the site's own network: only administrators may use it",
            "::1 在站点的内部网络中：只有管理员可以使用",
        ),
    ],
)
def test_why_a_message_did_not_arrive(error: str | None, chinese: str) -> None:
    assert error is not None
    assert spoken(error, "zh") == chinese
    assert spoken(f"the message was not delivered: {error}", "zh") == f"消息未送达：{chinese}"


class Heard(Sender):
    """Keeps what it is to say."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def add(self, hook: Webhook, line: str) -> None:
        self.lines.append(line)


@pytest.mark.parametrize(
    ("state", "cause", "values", "english", "chinese"),
    [
        (JobState.SUCCEEDED, "done", {}, "a (j1) is done ", "a（j1）已完成 "),
        (
            JobState.QUEUED,
            "preempted",
            {"ended": "preempted"},
            "a (j1) was preempted and will resume when cards are free: attempt 1",
            "a（j1）已让出资源，等待继续运行：第 1 次运行",
        ),
        (
            JobState.FAILED,
            "exit-code",
            {"code": 3},
            "a (j1) failed: the command exited with code 3 ",
            "a（j1）失败：命令以退出码 3 退出 ",
        ),
    ],
)
def test_a_chat_is_told_each_thing_once(
    tmp_path: Path,
    state: JobState,
    cause: str,
    values: dict[str, str | int],
    english: str,
    chinese: str,
) -> None:
    webhooks, heard = Webhooks(tmp_path), Heard()
    for language in ("en", "zh"):
        webhooks.add("ann", kind="slack", url="https://example.org", language=language)
    job = JobSummary(
        id="j1",
        name="a",
        user="ann",
        state=state,
        device="cpu",
        nodes=1,
        priority=100,
        created_at=1.0,
        attempt=1,
        cause=cause,
        values=values,
    )
    Notices(webhooks, heard, set, "http://here").job_news(job)
    assert heard.lines[0].startswith(english)
    assert heard.lines[1].startswith(chinese)
    assert all(line.endswith(" http://here/jobs/j1") for line in heard.lines)
