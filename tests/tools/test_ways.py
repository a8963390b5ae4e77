"""The counter of files and hops, on the shorter of its ways."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def tool() -> Any:
    spec = importlib.util.spec_from_file_location("ways", ROOT / "tools" / "ways.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_a_launched_rank_is_followed_through_its_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ways = tool()
    place = ways.Place(tmp_path, ROOT / "src")
    ways.a_launched_rank(place)
    ways.tell("a rank", place.calls(), ROOT / "src" / "jumar", files=True)
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("a rank: ")
    # The keeper and its child, the supervisor, in the order in which they begin.
    listed = [line.split()[0] for line in rest[1:]]
    front, run = "launch/node/command_line.py", "launch/node/run.py"
    assert listed[0] == "cli/__init__.py"
    assert listed.index(front) < listed.index(run)
    pids = {line.split()[3] for line in rest[1:] if line.split()[0] in (front, run)}
    assert len(pids) == 2


def test_a_ported_file_is_followed_from_the_command_to_the_written_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ways = tool()
    place = ways.Place(tmp_path, ROOT / "src")
    ways.a_ported_file(place)
    ways.tell("a port", place.calls(), ROOT / "src" / "jumar", files=True)
    first, _, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("a port: ")
    listed = [line.split()[0] for line in rest]
    order = ("cli/port.py", "port/run.py", "port/one.py", "port/rules/jp101_device_literal.py")
    assert sorted(order, key=listed.index) == list(order)
    assert "port/write.py" in listed
