"""What the pages show is run: console sessions, job files and Python, each page in its own home.

A session's output is compared by shape: ids, times, ports and the home may differ, `…` stands for
anything, a line of `…` for any lines. A block after `<!-- not run: why -->` is left alone; a block
whose fence names a `title=FILE` is written to that file."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from jumar.client import Client
from jumar.spec.document import parse_spec
from jumar.spec.records import JobRecord
from jumar.spec.states import JobState

ROOT = Path(__file__).parents[2]
CHINESE = [ROOT / "README.zh-CN.md", *sorted((ROOT / "docs").rglob("*.zh-CN.md"))]
PAGES = [ROOT / "README.md", *sorted({*(ROOT / "docs").rglob("*.md")} - {*CHINESE})]
FENCE = re.compile(
    r"^(?P<skip><!-- not run: .+ -->\n\n?)?^```(?P<kind>\w+)(?: title=(?P<title>\S+))?\n"
    r"(?P<text>.*?)^```$",
    re.M | re.S,
)
ANY_FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
HOME = "/home/ann/.jumar"
ADDRESS = "http://127.0.0.1:7420"
DATABASE = "postgresql://jumar:secret@db.example.org/jumar"
SHAPES = [
    (r"http://127\\\.0\\\.0\\\.1:7420", r"http://127\.0\.0\.1:\\d+"),
    (r"\b(?=[a-z0-9]*\d)[a-z][a-z0-9]{9}\b", r"[a-z][a-z0-9]{9}"),
    (r"\b\d+[smh](\d+[smh])?\b", r"[\\dsmhd]+"),
    (r"…", r".*"),
]


@dataclass(frozen=True)
class Block:
    kind: str
    text: str
    title: str | None
    line: int


@dataclass
class Step:
    command: str
    output: list[str] = field(default_factory=list[str])


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [
        Block(match["kind"], match["text"], match["title"], text.count("\n", 0, match.start()) + 1)
        for match in FENCE.finditer(text)
        if not match["skip"]
    ]


def anchors_of(text: str) -> set[str]:
    """What links can name in a page: its headings, as GitHub writes them in addresses."""
    headings = re.findall(r"^#+ (.+?)\s*$", ANY_FENCE.sub("", text), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def steps_of(block: Block) -> list[Step]:
    steps: list[Step] = []
    continued = False
    for line in block.text.splitlines():
        if continued:
            steps[-1].command += "\n" + line
        elif line.startswith("$ "):
            steps.append(Step(line[2:]))
        else:
            assert steps, f"output without a command: {line}"
            steps[-1].output.append(line)
        continued = line.endswith("\\") and not steps[-1].output
    return steps


def shape_of(line: str) -> str:
    """A regular expression for lines that differ from `line` only where they may."""
    pattern = r"\s+".join(re.escape(word) for word in line.split())
    for found, replacement in SHAPES:
        pattern = re.sub(found, replacement, pattern)
    return rf"\s*{pattern}\s*"


def matches(shown: list[str], real: list[str]) -> bool:
    if not shown:
        return not real
    if shown[0].strip() == "…":
        return any(matches(shown[1:], real[count:]) for count in range(len(real) + 1))
    return (
        bool(real)
        and bool(re.fullmatch(shape_of(shown[0]), real[0]))
        and matches(shown[1:], real[1:])
    )


@dataclass(frozen=True)
class Shell:
    """Runs what a page says as its reader would: one folder, one home."""

    folder: Path
    environment: dict[str, str]
    database: str | None

    def run(self, command: str) -> str:
        home = self.environment["JUMAR_HOME"]
        command = command.replace("~/.jumar", home).replace(DATABASE, self.database or DATABASE)
        if (running := Path(home, "server.json")).exists():
            command = command.replace(ADDRESS, json.loads(running.read_text())["url"])
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        assert "Traceback" not in done.stdout, done.stdout
        self._take_a_moment()
        return done.stdout.replace(home, HOME)

    def _take_a_moment(self) -> None:
        """As a reader does between two commands: jobs that can start have started by then."""
        home = Path(self.environment["JUMAR_HOME"])
        if not (home / "server.json").exists():
            return
        known = json.loads((home / "client.json").read_text())
        give_up_at = time.monotonic() + 180
        with Client(known["url"], known["token"]) as client:
            while any(is_starting(client.get(job.id)) for job in client.jobs()):
                assert time.monotonic() < give_up_at
                time.sleep(0.05)


def is_starting(job: JobRecord) -> bool:
    if job.state is JobState.QUEUED:
        return job.waiting is None or job.waiting.cause == "starts"
    return job.state is JobState.STARTING


@pytest.fixture
def shell(request: pytest.FixtureRequest, tmp_path: Path, jumar_program: str) -> Generator[Shell]:
    text = cast("Path", request.getfixturevalue("page")).read_text("utf-8")
    if "curl " in text and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    database = None
    if DATABASE in text:
        database = shlex.quote(request.getfixturevalue("postgres_url")).strip("'")
    folder = tmp_path / "work"
    folder.mkdir()
    environment = {
        **{name: text for name, text in os.environ.items() if not name.startswith("JUMAR_")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "JUMAR_HOME": str(tmp_path / "home"),
        "JUMAR_CPU_SLOTS": "4",
        "LOGNAME": "ann",
        "COLUMNS": "100",
    }
    shell = Shell(folder, environment, database)
    yield shell
    shell.run("jumar down")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_shows_happens(page: Path, shell: Shell) -> None:
    for block in blocks_of(page):
        place = f"{page.relative_to(ROOT)}:{block.line}"
        if block.title is not None:
            (shell.folder / block.title).write_text(block.text, "utf-8")
        if block.kind == "yaml":
            parse_spec(block.text, source=place, folder=shell.folder)
        elif block.kind == "python" and block.title is None:
            (shell.folder / "snippet.py").write_text(block.text, "utf-8")
            said = shell.run("python snippet.py || echo FAILED")
            assert "FAILED" not in said, f"{place}:\n{said}"
        elif block.kind == "console":
            for step in steps_of(block):
                real = shell.run(step.command)
                assert matches(step.output, real.splitlines()), (
                    f"{place}: {step.command}\nshown:\n"
                    + "\n".join(step.output)
                    + f"\nreal:\n{real}"
                )


@pytest.mark.parametrize("page", CHINESE, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_in_chinese_has_the_same_headings_and_commands(page: Path) -> None:
    def shown(page: Path) -> tuple[list[str], list[str]]:
        text = page.read_text("utf-8")
        # What the commands say of themselves is in the page's language.
        written = text.partition("<!-- Below: written by ")[0]
        return ANY_FENCE.findall(written), re.findall(r"^#+ ", ANY_FENCE.sub("", text), re.M)

    assert shown(page) == shown(page.with_name(page.name.replace(".zh-CN", "")))


@pytest.mark.parametrize("page", [*PAGES, *CHINESE], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text("utf-8")):
        if target.startswith(("http://", "https://")):
            continue
        there = page.parent / target if target else page
        assert there.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors_of(there.read_text("utf-8")), (
            f"{page.name}: {target}#{anchor}"
        )


def test_anchors_are_those_of_the_headings() -> None:
    text = "# The `jumar` CLI: a tour\n```console\n# a comment\n```\n## JP304_a-b\n"
    assert anchors_of(text) == {"the-jumar-cli-a-tour", "jp304_a-b"}


def test_the_checker_can_fail() -> None:
    assert matches(["hi ann", "…", "done after 3s"], ["hi ann", "x", "y", "done after 12s"])
    assert matches(["job k7x2m9q4tb"], ["job zq81abcdef"])
    assert not matches(["job k7x2m9q4tb is queued"], ["job zq81abcdef is running"])
    assert not matches(["a"], ["a", "b"])
    assert not matches(["a", "b"], ["a"])
    assert not matches(["done after 3s"], ["done after a while"])
