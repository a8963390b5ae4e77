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


def followed(way: str, folder: Path, printed: pytest.CaptureFixture[str]) -> list[str]:
    """The lines about the files of a way."""
    ways = tool()
    place = ways.Place(folder, ROOT / "src")
    getattr(ways, way.replace(" ", "_"))(place)
    ways.tell(way, place.calls(), ROOT / "src" / "jumar", files=True)
    first, _, *rest = printed.readouterr().out.splitlines()
    assert first.startswith(f"{way}: ")
    return rest


def test_a_launched_rank_is_followed_through_its_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = followed("a launched rank", tmp_path, capsys)
    # The keeper and its child, the supervisor, in the order in which they begin.
    listed = [line.split()[0] for line in rows]
    front, run = "launch/node/command_line.py", "launch/node/run.py"
    assert listed[0] == "cli/__init__.py"
    assert listed.index(front) < listed.index(run)
    pids = {line.split()[3] for line in rows if line.split()[0] in (front, run)}
    assert len(pids) == 2


def test_lines_of_functions_are_those_from_the_decorator_to_the_end(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text(
        "def first():\n    def inner():\n        pass\n    return inner\n\n"
        "@staticmethod\ndef second():\n    pass\n"
    )
    assert tool().lines_of(path, {1}) == 4
    assert tool().lines_of(path, {1, 2, 6}) == 7


def test_a_simulated_operator_is_counted_once_it_has_run(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    place = tool().Place(tmp_path, ROOT / "src")
    tool().a_simulated_operator(place)
    files = {call[3].rpartition("/")[2] for call in place.calls()}
    assert "tensor.py" in files
    # Only installing and importing go there.
    assert not files & {"start.py", "settings.py"}


def test_a_pushed_file_goes_a_short_way(tmp_path: Path) -> None:
    """Shorter than in the commit that a review followed by hand: 21 files of store and client."""
    ways = tool()
    place = ways.Place(tmp_path, ROOT / "src")
    ways.a_pushed_file(place)
    files = {call[3] for call in place.calls()}
    assert {"store/transfer/upload.py", "inject/moxing_path/jumar_s3/wire.py"} < files
    assert len([path for path in files if path.startswith(("store/", "inject/"))]) < 19


def test_a_ported_file_is_followed_from_the_command_to_the_written_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = [line.split()[0] for line in followed("a ported file", tmp_path, capsys)]
    order = ("cli/port.py", "port/run.py", "port/one.py", "port/rules/jp101_device_literal.py")
    assert sorted(order, key=listed.index) == list(order)
    assert "port/write.py" in listed


def test_a_template_counts_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("<p>{{ one }} · two</p>\n</html>\n")
    assert tool().lines_of(path, {1}) == 2
