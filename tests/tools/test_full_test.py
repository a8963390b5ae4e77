"""The runner behind `make test-full`, on small parts in a repository of its own."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools"
LIMIT_S = 180
PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, {tools!r})
from full_test import Part, main

def part(name, *scripts, limit_s=180):
    return Part(name, f"size of {{name}}", tuple(("sh", "-c", one) for one in scripts), limit_s)

PARTS = (
{parts}
)
sys.exit(main(sys.argv[1:], PARTS, Path({root!r})))
"""


class Checkout:
    """A repository with a program that runs the full test on parts of a test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.page = folder / "docs/reference/full-test.md"
        self.chinese = folder / "docs/reference/full-test.zh-CN.md"
        self.git("init", "-q")
        (folder / ".gitignore").write_text(".make/\nran\ngo\nruns\n")

    def git(self, *words: str) -> None:
        who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        subprocess.run(["git", *who, *words], cwd=self.folder, check=True, timeout=LIMIT_S)

    def commit(self) -> None:
        self.git("add", ".")
        self.git("commit", "-q", "-m", "change")

    def write(self, *parts: str) -> None:
        lines = "\n".join(f"    {part}," for part in parts)
        text = PROGRAM.format(tools=str(TOOLS), parts=lines, root=str(self.folder))
        (self.folder / "program.py").write_text(text)
        self.commit()

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "program.py", *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, rc: int = 0) -> str:
        process = self.start(*arguments)
        said, _ = process.communicate(timeout=LIMIT_S)
        assert process.returncode == rc, said
        return said

    def ran(self) -> list[str]:
        """What the parts wrote down."""
        path = self.folder / "ran"
        return path.read_text().split() if path.exists() else []

    def row(self, part: str) -> list[str]:
        found = re.search(rf"^\| {part} \|(.*)\|$", self.page.read_text("utf-8"), re.M)
        assert found is not None
        return [cell.strip() for cell in found[1].split("|")]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def wait_for_file(path: Path) -> str:
    give_up_at = time.monotonic() + LIMIT_S
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < give_up_at, path
        time.sleep(0.02)
    return path.read_text()


def has_ended(pid: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True


def test_what_passed_is_not_run_again_until_the_code_changes(checkout: Checkout) -> None:
    checkout.write('part("a", "echo a >> ran")', 'part("b", "echo b1 >> ran", "echo b2 >> ran")')
    checkout.run()
    assert checkout.ran() == ["a", "b1", "b2"]
    assert checkout.row("b")[:2] == ["size of b", "passed"]
    checkout.commit()  # of the page alone
    assert "a: passed before" in checkout.run()
    assert checkout.ran() == ["a", "b1", "b2"]
    checkout.run("--only", "a", "--fresh")
    assert checkout.ran() == ["a", "b1", "b2", "a"]
    (checkout.folder / "code.py").write_text("")
    checkout.commit()
    checkout.run("--only", "b")
    assert checkout.ran()[4:] == ["b1", "b2"]
    assert checkout.row("a")[1] == "passed"
    assert checkout.row("a")[3] != checkout.row("b")[3]
    assert re.search(r"^a +not run +size of a$", checkout.run("--list"), re.M)
    assert "| b | size of b | 通过 |" in checkout.chinese.read_text("utf-8")


def test_a_new_clone_knows_the_results_of_the_one_before(checkout: Checkout) -> None:
    checkout.write('part("a", "echo a >> ran")', 'part("b", "exit 3")', 'part("c", "true")')
    checkout.run("--only", "a", "--only", "b", rc=1)
    page = checkout.page.read_text("utf-8")
    shutil.rmtree(checkout.folder / ".make")
    assert "a: passed before" in checkout.run("--only", "a")
    checkout.run("--only", "c")
    kept = [line for line in page.splitlines() if line.startswith(("| a ", "| b "))]
    assert set(kept) <= set(checkout.page.read_text("utf-8").splitlines())
    assert checkout.row("c")[1] == "passed"


def test_a_killed_run_goes_on_where_it_stopped(checkout: Checkout) -> None:
    checkout.write(
        'part("first", "echo first >> ran")',
        'part("second", "echo $$ > runs; test -e go || sleep 600; echo second >> ran")',
        'part("third", "echo third >> ran")',
    )
    running = checkout.start()
    left = int(wait_for_file(checkout.folder / "runs"))
    running.kill()
    running.communicate(timeout=LIMIT_S)
    assert checkout.ran() == ["first"]
    assert checkout.row("second")[1] == "not run"
    assert not has_ended(left)
    (checkout.folder / "go").touch()
    assert "first: passed before" in checkout.run()
    # What the killed run left has been ended: it has written nothing.
    assert checkout.ran() == ["first", "second", "third"]
    assert has_ended(left)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_told_to_end_takes_its_part_with_it(
    checkout: Checkout, number: signal.Signals
) -> None:
    checkout.write('part("long", "echo $$ > runs; sleep 600")')
    running = checkout.start()
    left = int(wait_for_file(checkout.folder / "runs"))
    running.send_signal(number)
    running.communicate(timeout=LIMIT_S)
    assert running.returncode != 0
    assert has_ended(left)
    # Nothing is known of the part, so the page does not change.
    assert not checkout.page.exists()


def test_a_failure_is_told_the_rest_is_run_and_it_is_tried_again(checkout: Checkout) -> None:
    checkout.write(
        'part("bad", "echo bad >> ran; echo oh no; test -e go || exit 3", "echo more >> ran")',
        'part("endless", "test -e go || sleep 600", limit_s=0.2)',
        'part("good", "echo good >> ran")',
    )
    assert "bad: failed with 3" in checkout.run(rc=1)
    assert checkout.ran() == ["bad", "good"]
    assert checkout.row("bad")[1] == "failed with 3"
    assert checkout.row("endless")[1] == "timed out"
    assert (checkout.folder / ".make/full-test/bad.log").read_text() == "oh no\n"
    (checkout.folder / "go").touch()
    checkout.run("--only", "bad")
    assert checkout.ran() == ["bad", "good", "bad", "more"]
    assert checkout.row("bad")[1] == "passed"


def test_a_second_run_at_the_same_time_is_refused(checkout: Checkout) -> None:
    checkout.write('part("long", "echo $$ > runs; sleep 600")')
    running = checkout.start()
    left = int(wait_for_file(checkout.folder / "runs"))
    assert "another full test runs" in checkout.run(rc=1)
    assert not has_ended(left)
    running.terminate()
    running.communicate(timeout=LIMIT_S)


def test_listing_and_changes_that_are_not_committed_run_nothing(checkout: Checkout) -> None:
    checkout.write('part("a", "echo a >> ran")')
    assert re.search(r"^a +not run +size of a$", checkout.run("--list"), re.M)
    with (checkout.folder / "program.py").open("a") as file:
        file.write("\n")
    assert "commit your changes first" in checkout.run(rc=1)
    assert checkout.ran() == []
    assert not checkout.page.exists()


def test_the_pages_are_made_of_the_parts_of_this_project() -> None:
    """Their results may be of any day; all else is as `full_test_page.py` has it."""
    program = "import json, full_test; print(json.dumps(full_test.pages(full_test.PARTS, {})))"
    made = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(TOOLS)},
        check=True,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    rows = re.compile(r"^(\| [^|]+ \| [^|]+ \|).*", re.M)
    for path, page in json.loads(made.stdout).items():
        shown = (ROOT / path).read_text("utf-8")
        assert rows.sub(r"\1", shown) == rows.sub(r"\1", page), path
        for name, size in re.findall(r"^\| ([a-z0-9-]+) \| ([^|]+) \|", page, re.M)[1:]:
            assert ".zh-CN" not in path or re.search("[一-鿿]", size), f"{name} is not in Chinese"


@pytest.mark.full
def test_objects_go_to_a_store_and_back() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.store.objects", "--count", "2500"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("2500 objects went there and back, and away\n")
