import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jumar.client.ignore import IgnoreRules
from jumar.client.pack import list_folder

NAMES = ["a", "b", "ab", "a.py", "b.log", "data", "x1"]


def kept_by_git(folder: Path) -> set[str]:
    """Git's own opinion about the files of a folder."""
    subprocess.run(["git", "init", "-q", folder], check=True, timeout=180)
    (folder / ".gitignore").write_text((folder / ".jumarignore").read_text())
    listed = subprocess.run(
        ["git", "-C", folder, "ls-files", "-z", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
        timeout=180,
    )
    return set(listed.stdout.split("\0")) - {"", ".gitignore"}


def kept_by_us(folder: Path) -> set[str]:
    entries = list_folder(folder).entries
    return {entry.path for entry in entries if not entry.is_folder} - {".gitignore"}


@pytest.mark.parametrize(
    "lines",
    [
        "*.log",
        "data/",
        "/data",
        "data/*.py",
        "**/b.log",
        "data/**",
        "a/**/b",
        "*.log\n!b.log",
        "data/\n!data/a.py",
        "# *.py\n\n  \n*.log   ",
        "[ab].*",
        "[!a]*",
        "[x-a]*",
        "x?",
        "a*/b*",
        "[",
        "/",
        "**",
        "*/x1",
    ],
)
def test_rules_agree_with_git(tmp_path: Path, lines: str) -> None:
    folders = ("a", "data", "a/data", "data/a", "a/ab/b")
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    for folder in ("", *folders):
        for name in NAMES:
            path = tmp_path / folder / name
            if not path.exists():
                path.write_text("x")
    (tmp_path / ".jumarignore").write_text(lines)
    assert kept_by_us(tmp_path) == kept_by_git(tmp_path)


# Sets with a slash in them are not part of our subset.
pattern_text = st.text(alphabet="ab*?/!x1.[]-^", min_size=1, max_size=6).filter(
    lambda text: "[" not in text or "/" not in text.partition("[")[2]
)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(lines=st.lists(pattern_text, max_size=3))
def test_any_rules_agree_with_git(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("code")
    for path in ("a", "b/a", "b/x1", "ab/a.b", "x1/b/a", "a.b"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x")
    (folder / ".jumarignore").write_text("\n".join(lines))
    assert kept_by_us(folder) == kept_by_git(folder)


@pytest.mark.parametrize("name", [".git", "__pycache__", ".venv"])
def test_some_folders_always_stay_behind(name: str) -> None:
    rules = IgnoreRules([f"!{name}"])
    assert rules.leaves_out(f"deep/{name}", is_folder=True)
