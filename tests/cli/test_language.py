"""Headings, labels and short texts of the command line in Chinese: all that it has, and only Chinese."""

import ast
import importlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, cast, get_args, get_origin

import pytest
from click.testing import CliRunner
from tests.cli.test_reasons import connected_to, failed
from tests.words.samples import latin_left

import jumar.cli
from jumar.cli import app, jobs, measure, output, show, staging_text
from jumar.client import Client
from jumar.client.events import LogChunk
from jumar.errors import BadInput
from jumar.host.env.verify import Outcome
from jumar.host.fit import Fit
from jumar.spec.job import JobSpec
from jumar.spec.records import JobRecord
from jumar.spec.states import JobState
from jumar.words.reasons import catalogue, value_name

CHINESE = catalogue("zh")["terminal"]
# The same in every language.
TABLES = ("print_table", "print_records")
NAMES = {"ID": "ID", "RANK": "rank", "CANN": "CANN", "id": "ID"}


def _keys(call: ast.Call) -> Sequence[object]:
    """What is looked up: a text with values stands there as it is, so that it can be found here."""
    text = call.args[0]
    choices = [text.body, text.orelse] if isinstance(text, ast.IfExp) else [text]
    found = [one.value for one in choices if isinstance(one, ast.Constant)]
    assert found or not call.keywords or ast.unparse(text) == "many", ast.unparse(call)
    return found


def _texts() -> Iterator[tuple[str, str]]:
    """What the commands print in tables and pass to `local`, with the module that does it."""
    for path in Path(next(iter(jumar.cli.__path__))).glob("*.py"):
        module = importlib.import_module(f"jumar.cli.{path.stem}")
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id == "local":
                found = _keys(node)
            elif node.func.id == "labelled" and isinstance(node.args[0], ast.Constant):
                found = [node.args[0].value]
            elif node.func.id == "count_text":
                found = [cast("ast.Constant", one).value for one in node.args[1:]]
            elif node.func.id in TABLES and isinstance(node.args[0], ast.Tuple):
                found = [one.value for one in node.args[0].elts if isinstance(one, ast.Constant)]
            elif node.func.id in TABLES and isinstance(node.args[0], ast.Name):
                found = list(getattr(module, node.args[0].id, ()))
            else:
                continue
            yield from ((path.name, str(one)) for one in found)


def test_every_heading_and_label_has_chinese_words() -> None:
    texts = list(_texts())
    assert {"NAME", "LAST USED", "no jobs", "in {span}"} <= {text for _, text in texts}
    assert not [(where, text) for where, text in texts if text not in CHINESE]
    assert not [
        one for one in vars(staging_text)["_WORDS"].values() if one not in CHINESE | {"": ""}
    ]
    assert not [field for field in JobSpec.model_fields if field not in CHINESE]


def test_every_choice_in_a_job_file_has_chinese_words() -> None:
    choices = [
        (name, choice)
        for name, field in JobSpec.model_fields.items()
        for one in (field.annotation, *get_args(field.annotation))
        if get_origin(one) is Literal
        for choice in get_args(one)
    ]
    assert ("ranks", "device") in choices
    # Ray is a name.
    unsaid = [one for one in choices if value_name(*one, "zh") == one[1] and one[1] != "ray"]
    assert unsaid == []
    assert value_name("ranks", "device", "en") == "device"


def test_verdicts_of_environments_have_chinese_words() -> None:
    assert not [one for one in (*Fit, *Outcome, "error", "warning") if one not in CHINESE]


def test_spans_have_the_units_of_the_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    assert (output.span(0.5, 5400), output.ago(10, 100)) == ("1h30m", "1m30s ago")
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert (output.span(0.5, 5400), output.ago(10, 100)) == ("1 小时 30 分", "1 分 30 秒前")
    assert output.span(0.5, 0.6) == "0 秒"


def test_what_is_copied_is_told_in_chinese(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from/a.txt").write_text("a")
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert app.run(["data", "push", str(tmp_path / "from"), str(tmp_path / "to")]) == 0
    assert capsys.readouterr().out.startswith("已复制 1 个文件（1 B），跳过 0 个未变化的文件，")
    assert app.run(["data", "du", str(tmp_path / "to")]) == 0
    assert capsys.readouterr().out == "1 个文件，共 1 B\n"
    assert app.run(["data", "doctor", str(tmp_path / "nothing")]) == 1
    said = capsys.readouterr().out
    assert said.splitlines()[0].startswith("失败  reachable：")
    assert "处理：" in said
    # Programs read the same in every language.
    assert app.run(["data", "du", "--json", str(tmp_path / "to")]) == 0
    assert json.loads(capsys.readouterr().out) == {"files": 1, "bytes": 1}


def test_the_chinese_words_have_the_same_values_and_no_english() -> None:
    for english, chinese in CHINESE.items():
        assert set(re.findall(r"{\w+}", english)) == set(re.findall(r"{\w+}", chinese)), english
        left = re.sub(r"{\w+}(/s)?|source {\w+}/bin/activate|--json", "", chinese)
        left = re.sub(
            "Ctrl-C|CPU|Slurm|MB|[NG]PU|jumar jobs upload|wheel|Python|CANN|torch(_npu|vision)?|mindspore",
            "",
            left,
        )
        assert not latin_left(left, {}) or NAMES.get(english) == chinese, chinese


def test_a_list_and_a_job_have_chinese_headings_in_a_chinese_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = failed("exit-code", {"code": 3})
    said: dict[str, list[str]] = {}
    for spoken in ("zh_CN.UTF-8", "C.UTF-8"):
        monkeypatch.setenv("LC_ALL", spoken)
        for command, arguments in ((show, ["digits"]), (jobs, [])):
            monkeypatch.setattr(command, "connected", partial(connected_to, record))
            lines = CliRunner().invoke(command.command, arguments).output.splitlines()
            said[f"{command.__name__} {spoken}"] = lines
    assert said["jumar.cli.jobs zh_CN.UTF-8"][0].split() == [
        "ID", "名称", "状态", "设备", "用户", "提交时间", "运行时长", "原因",
    ]  # fmt: skip
    assert said["jumar.cli.jobs C.UTF-8"][0].split()[:3] == ["ID", "NAME", "STATE"]
    labels = [line.split()[0] for line in said["jumar.cli.show zh_CN.UTF-8"]]
    assert not [label for label in labels if label != "ID" and latin_left(label, {})]
    columns = {output.clip(line, 12).rstrip("…") for line in said["jumar.cli.show C.UTF-8"]}
    assert len(columns) == len(labels)
    assert re.search(r"\d+ 天.*前  ", said["jumar.cli.jobs zh_CN.UTF-8"][1])


class Measured:
    """A client whose job did three of nine epochs in its time."""

    def __init__(self, ended: JobRecord | None = None) -> None:
        self._ended = ended

    def wait(self, _job: str) -> JobRecord:
        if self._ended is not None:
            return self._ended
        timed_out = {"state": JobState.TIMED_OUT, "started_at": 1.0, "finished_at": 61.0}
        return replace(failed("time-limit", {}), **timed_out, spec={"command": ["python", "a.py"]})

    def follow(self, _job: str) -> list[LogChunk]:
        text = "".join(f"epoch {number}/9\n" for number in (1, 2, 3))
        return [LogChunk(text, 0, len(text))]


def test_what_fits_into_a_segment_is_told_in_chinese(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert measure.measure(cast("Client", Measured()), "digits", as_json=False) == 0
    said = capsys.readouterr().out
    assert said.startswith("一段时限内能跑 3 轮\n全部 9 轮需要 3 段\n现在开始，预计 ")
    assert said.endswith("结束：jumar run --segments 3 …\n")


def test_what_fits_is_told_in_english_as_it_is_of_one_and_of_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    client, whole = Measured(), failed("done", {})
    assert measure.measure(cast("Client", client), "digits", as_json=False) == 0
    fits, needs, _ = capsys.readouterr().out.splitlines()
    assert fits == "epochs that fit into one segment: 3"
    assert needs == "segments needed for 9 epochs: 3"
    # One that came to its end needs nothing more.
    done = replace(whole, state=JobState.SUCCEEDED, spec={"command": "python a.py"})
    assert measure.measure(cast("Client", Measured(done)), "digits", as_json=False) == 0
    assert capsys.readouterr().out == "the training ended within one segment; epochs: 3\n"


def test_the_log_of_a_measured_job_can_be_followed(capsys: pytest.CaptureFixture[str]) -> None:
    pieces: list[str] = []
    client = cast("Client", Measured())
    assert measure.measure(client, "digits", as_json=True, write=pieces.append) == 0
    assert pieces == ["epoch 1/9\nepoch 2/9\nepoch 3/9\n"]
    assert json.loads(capsys.readouterr().out)["segments"] == 3
    with pytest.raises(BadInput, match="not an array"):
        measure.prepared({"time_limit": "1h", "array": "0-3"})


def test_a_measured_job_that_failed_is_told_of_as_any_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client = Measured(failed("exit-code", {"code": 3}))
    for spoken, state, why in (
        ("C.UTF-8", "failed after", "reason: the command exited with code 3"),
        ("zh_CN.UTF-8", "失败，用时", "原因：命令以退出码 3 退出"),
    ):
        monkeypatch.setenv("LC_ALL", spoken)
        assert measure.measure(cast("Client", client), "digits", as_json=False) == 1
        said = capsys.readouterr().err
        assert state in said
        assert why in said


def test_the_frame_of_the_help_and_wrong_options_are_chinese(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert app.run(["run", "--help"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("用法：jumar run ")
    assert "\n选项：\n" in said
    assert "显示本说明并退出。" in said
    assert app.run(["--help"]) == 0
    said = capsys.readouterr().out
    assert "补全" in said
    assert "Shell completion" not in said
    assert app.run(["run", "--devise", "cpu", "--", "ls"]) == 2
    assert capsys.readouterr().err.startswith("错误：没有选项 --devise，是否想用")


def test_a_port_is_told_in_the_language_of_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "code"
    source.mkdir()
    (source / "train.py").write_text("import torch\nx = torch.ones(2).cuda()\n", "utf-8")
    said: list[str] = []
    for place, locale in (("first", "zh_CN.UTF-8"), ("second", "C.UTF-8")):
        monkeypatch.setenv("LC_ALL", locale)
        assert app.run(["port", str(source), "-o", str(tmp_path / place)]) == 0
        said.append(capsys.readouterr().out)
    assert re.match(
        r"已迁移，尚未运行（1 个文件，\d 处修改，[\d.]+ 秒）\n要证明迁移正确：jumar port", said[0]
    )
    assert f"\n报告：{tmp_path}/first/jumar-report/report.html" in said[0]
    assert said[1].startswith("ported, not run yet (")


def test_a_missing_public_key_says_how_to_make_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = tmp_path / "id.pub"
    assert app.run(["ssh-key", "add", str(key)]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"error: cannot read {key}: No such file or directory"
    assert second.startswith("hint: make one with: ssh-keygen")


def test_our_own_cards_are_called_in_chinese_and_an_empty_list_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    named = [output.card_name(*one) for one in (("sim", "simulated"), ("cpu", "cpu slot"))]
    assert named == ["模拟", "CPU 槽位"]
    assert output.card_name("npu", "910B4") == "910B4"
    output.print_records(("ID",), (), lambda one: [str(one)], as_json=False)
    assert capsys.readouterr() == ("", "没有内容\n")
