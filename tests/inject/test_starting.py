import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess, run

from jumar.inject.starting import Limits, first_on_path, noted

ROOTS = """
import torch
inner = torch.nn.Linear(2, 2)
layers = [inner]
for _ in range(12):
    layers.append(torch.nn.Sequential(layers[-1]))
optimizer = torch.optim.SGD(inner.parameters(), lr=0.1)
for layer in layers:
    layer(torch.ones(1, 2)).sum().backward()
optimizer.step()
"""


def path_after(before: str | None) -> list[str]:
    environ = {} if before is None else {"PYTHONPATH": before}
    return first_on_path(environ, Path("/ours"))["PYTHONPATH"].split(os.pathsep)


def test_the_folder_comes_first_and_once() -> None:
    assert path_after("/a:/ours:/b") == ["/ours", "/a", "/b"]


def test_no_path_stays_without_the_working_directory() -> None:
    assert path_after(None) == path_after("") == ["/ours"]


def test_an_empty_entry_still_means_the_working_directory() -> None:
    assert path_after(":/a") == ["/ours", "", "/a"]


def test_a_parameter_is_named_by_the_outermost_of_the_modules_that_were_called(
    plain: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    done = plain(
        ROOTS, **noted({}, notes=notes, source=tmp_path, root=tmp_path, limits=Limits(1, 0))
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for file in notes.iterdir() for line in file.read_text().splitlines()]
    names = [line["what"] for line in lines if line["kind"] == "parameter"]
    assert names == ["0." * 12 + "weight", "0." * 12 + "bias"]


def test_what_is_installed_in_place_is_imported_from_the_copy(tmp_path: Path) -> None:
    source, copy, notes = (tmp_path / name for name in ("source", "copy", "notes"))
    for folder in (source / "src", source / "data", copy / "src", notes):
        folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(source)
    given = [source / "src", tmp_path / "link", source / "data", tmp_path / "source-of-others"]
    environ = noted(
        {"PYTHONPATH": os.pathsep.join(map(str, given))},
        notes=notes,
        source=source,
        root=copy,
        limits=Limits(1, 0),
    )
    words = [sys.executable, "-c", "import json, sys; print(json.dumps(sys.path))"]
    done = run(words, env=environ, capture_output=True, text=True, timeout=60, check=True)
    path = json.loads(done.stdout)
    at = path.index(str(copy / "src"))
    # Only what the copy has, and only what is in the source, is taken from it.
    assert path[at : at + 4] == [str(copy / "src"), str(copy), *map(str, given[2:])]
