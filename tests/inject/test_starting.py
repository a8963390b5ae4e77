import os
from pathlib import Path

from jumar.inject.starting import first_on_path


def path_after(before: str | None) -> list[str]:
    environ = {} if before is None else {"PYTHONPATH": before}
    return first_on_path(environ, Path("/ours"))["PYTHONPATH"].split(os.pathsep)


def test_the_folder_comes_first_and_once() -> None:
    assert path_after("/a:/ours:/b") == ["/ours", "/a", "/b"]


def test_no_path_stays_without_the_working_directory() -> None:
    assert path_after(None) == path_after("") == ["/ours"]


def test_an_empty_entry_still_means_the_working_directory() -> None:
    assert path_after(":/a") == ["/ours", "", "/a"]
