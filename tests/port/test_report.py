"""Reports: the verdict, the page, JSON, SARIF, the vendor's set, and the proof."""

import csv
import io
import json
import re
import tempfile
from collections.abc import Generator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from jumar.port import Mode, Options, port_tree
from jumar.port.proof import Certificate, Verdict
from jumar.port.records import Change, FileResult
from jumar.port.report import as_html, vendor
from jumar.port.report.for_programs import as_json, as_sarif
from jumar.port.report.summary import Report, make
from jumar.port.rules import titles

SOURCE = """import torch
import flash_attn
from torch import nn
m = nn.DataParallel(m).cuda()
x = x.to(torch.float64)
s = torch.std_mean(x) + torch.zeros(2) + torch.lobpcg(x)
torch.compile(m)  # <b>&"quoted"</b>
"""


@pytest.fixture
def report(tmp_path: Path) -> Report:
    (tmp_path / "train.py").write_text(SOURCE)
    return make(port_tree(tmp_path, Options()), 0.5)


def test_the_verdict_counts_the_places_that_need_work(report: Report) -> None:
    assert report.verdict.en == "needs work: 2 places"
    only = tuple(r._replace(findings=()) for r in report.results)
    assert replace(report, results=only).verdict.code == "ported"


class _Balance(HTMLParser):
    void = frozenset({"meta", "input", "br", "col"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [name for name, _ in attrs if name in ("src", "href")]
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_self_contained_and_in_two_languages(report: Report) -> None:
    page = as_html.render(report)
    checker = _Balance()
    checker.feed(page)
    assert checker.open == []
    assert checker.loaded == []
    assert "http" not in re.sub(r"<pre>.*?</pre>", "", page)
    assert page.count('class="en"') == page.count('class="zh"') > 20
    assert "needs work: 2 places" in page
    assert "需要人工处理：2 处" in page
    assert "&lt;b&gt;&amp;&#34;quoted" in page
    assert "m.to(ACCELERATOR)" in page.replace("nn.DataParallel(", "").replace("m).to", "m.to")


def test_json_holds_every_change_and_finding(report: Report) -> None:
    document = json.loads(as_json(report))
    (file,) = document["files"]
    assert {f["code"] for f in file["findings"]} == {"JP404", "JP601", "JP702", "JP703", "JP801"}
    assert document["summary"]["changes"] == len(file["changes"]) == 2
    states = {a["name"]: a["state"] for a in document["apis"]}
    assert states["torch.std_mean"] == "unsupported"
    assert states["torch.lobpcg"] == "not verified"
    assert "CC-BY-4.0" in document["states_from"]


def test_sarif_names_rules_levels_and_places(report: Report) -> None:
    run = json.loads(as_sarif(report))["runs"][0]
    known = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    for result in run["results"]:
        assert result["ruleId"] in known
        assert result["level"] in ("error", "warning", "note")
        region = result["locations"][0]["physicalLocation"]["region"]
        assert 1 <= region["startLine"] <= region["endLine"] <= 7
        assert region["startColumn"] >= 1
    assert "error" in {r["level"] for r in run["results"]}


def test_the_vendors_files_have_its_columns(report: Report) -> None:
    tables = {name: list(csv.reader(io.StringIO(text))) for name, text in vendor.files(report)}
    place = ["File", "Start Line", "End Line"]
    assert tables["change_list.csv"][0] == [*place, "Operation Type", "Message"]
    for name in (
        "unsupported_api",
        "unknown_api",
        "api_precision_advice",
        "api_performance_advice",
    ):
        assert tables[f"{name}.csv"][0] == [*place, "OP", "Tips"]
        assert len(tables[f"{name}.csv"]) > 1, name
    assert tables["cuda_op_list.csv"][0] == ["File", "Api"]
    assert {row[3] for row in tables["change_list.csv"][1:]} == {"INSERT", "MODIFY"}
    assert all(
        all(cell for cell in row) for table in tables.values() for row in table[:3] if len(row) > 1
    )


def test_the_log_is_cut_at_one_megabyte_and_ten_files(report: Report) -> None:
    change = Change("JP101", 1, 1, "a", "b", "MODIFY")
    many = FileResult("p" * 200, changes=(change,) * 60_000)
    logs = {
        n: t
        for n, t in vendor.files(replace(report, results=(many,)))
        if n.startswith(vendor.LOG_NAME)
    }
    assert len(logs) == vendor.LOG_FILES
    assert all(len(text) <= vendor.LOG_BYTES for text in logs.values())
    assert "INFO" in logs[vendor.LOG_NAME].splitlines()[-1]


def test_every_code_that_can_be_reported_has_a_title(report: Report) -> None:
    known = titles()
    assert all(f.code in known for _, f in report.findings)
    assert all(words.en and words.zh for words in known.values())


def test_lines_that_are_left_out_are_marked_and_no_line_is_shown_twice(tmp_path: Path) -> None:
    lines = [f"a{n} = {n}" for n in range(20)]
    for changed in (1, 3, 4, 12):
        lines[changed] = f"x{changed}.cuda()"
    (tmp_path / "train.py").write_text("\n".join(["import torch", *lines]))
    page = as_html.render(make(port_tree(tmp_path, Options(mode=Mode.NPU_ONLY)), 0.1))
    table = page[page.index("class='diff'") :].partition("</table>")[0]
    shown = [int(n) for n in re.findall(r"<tr><td class='n'>(\d+)", table)]
    assert shown == sorted(set(shown))
    # Only between line 6 and the two lines of context above line 14.
    assert table.count("⋯") == 1
    assert {3, 4, 5, 6, 12, 13, 14} <= set(shown)


def test_a_failed_proof_is_followed_by_the_command_that_repeats_it(report: Report) -> None:
    command = ("python", "train.py")
    failed = Certificate(
        Verdict.ORIGINAL_FAILED, "CPU", "simulated NPU", command, 1e-5, 0, 0, 0, (), 0.0, False
    )
    again = replace(report, results=(), again=("jumar", "port", "src", "-o", "out"), proof=failed)
    assert again.how_to_prove == "jumar port src -o out --prove -- python train.py"
    proven = replace(again, proof=replace(failed, verdict=Verdict.PROVEN))
    assert proven.how_to_prove == ""


@pytest.fixture
def other_templates() -> Generator[None]:
    as_html._templates.cache_clear()  # pyright: ignore[reportPrivateUsage]
    yield
    as_html._templates.cache_clear()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.usefixtures("other_templates")
def test_compiled_templates_that_are_cut_are_made_again(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    page = as_html.render(report)
    kept = list(tmp_path.glob("_jinja2-cache-*/*"))
    assert kept
    for one in kept:
        one.write_bytes(one.read_bytes()[:20])
    as_html._templates.cache_clear()  # pyright: ignore[reportPrivateUsage]
    assert as_html.render(report) == page


@pytest.mark.usefixtures("other_templates")
def test_nothing_is_kept_in_the_folder_that_one_works_in(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What tempfile falls back to where no folder for temporary files can be written.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    as_html.render(report)
    assert list(tmp_path.glob("_jinja2*")) == []
