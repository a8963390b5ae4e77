"""`jumar data` as people call it: what it lists, and how it names what terminals cannot show."""

import json
import os
import subprocess
import zipfile
from pathlib import Path

import pytest
from tests.cli.conftest import Jumar, environment_for

STRICT = {"PYTHONIOENCODING": "utf-8:strict"}


def test_names_that_a_terminal_would_obey_or_cannot_show_are_listed_as_escapes(
    fresh_jumar: Jumar, tmp_path: Path
) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    for name in (b"red\x1b[31m", b"two\nlines", "中文 名.txt".encode(), b"gbk-\xce\xc4"):
        Path(os.fsdecode(bytes(folder) + b"/" + name)).write_text("x")
    listed = fresh_jumar("data", "ls", str(folder), **STRICT).stdout
    for shown in (r"red\x1b[31m", r"two\nlines", "中文 名.txt", r"gbk-\udcce\udcc4"):
        assert f"  {shown}\n" in listed
    rows = json.loads(fresh_jumar("data", "ls", "--json", str(folder), **STRICT).stdout)
    assert os.fsdecode(b"gbk-\xce\xc4") in [row["key"] for row in rows]


def test_an_empty_folder_is_listed_and_one_that_is_not_there_is_told(
    fresh_jumar: Jumar, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    fresh_jumar("store", "layout", "obs://lab")
    for there in (str(tmp_path / "empty"), "obs://lab/dataset/", "obs://lab/dataset"):
        for flags in ((), ("-r",)):
            assert fresh_jumar("data", "ls", there, *flags).stdout == ""
    for gone in (f"{tmp_path}/gone", "obs://lab/gone/", "obs://lab/gone", "obs://gone/"):
        for flags in ((), ("-r",)):
            assert "error: " in fresh_jumar("data", "ls", gone, *flags, rc=2).stderr


def test_sources_that_do_not_exist_are_named(fresh_jumar: Jumar, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    for words, said in (
        (("push", "nosuch", "obs://lab/x"), f"error: {tmp_path}/nosuch does not exist\n"),
        (("pull", "obs://gone/x", "out"), "error: the bucket obs://gone does not exist\n"),
        (("mini", "nosuch", "out"), f"error: {tmp_path}/nosuch does not exist\n"),
        (("mini", "nosuch/", "out"), f"error: {tmp_path}/nosuch/ does not exist\n"),
        (
            ("mini", "notes.txt", "out"),
            "notes.txt cannot be reduced: not a data format that is known here\n",
        ),
    ):
        assert said in fresh_jumar("data", *words, rc=2).stderr


def test_a_mini_set_is_not_mixed_with_a_larger_one(fresh_jumar: Jumar, tmp_path: Path) -> None:
    for number in range(6):
        path = tmp_path / "all" / f"class{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(number))
    for _ in range(2):
        fresh_jumar("data", "mini", "all", "few", "--per-class", "2")
    said = fresh_jumar("data", "mini", "all", "few", "--per-class", "1", rc=2).stderr
    assert "has files that are not part of this selection, such as class" in said
    assert "jumar data rm -r" in said
    assert len(list((tmp_path / "few").rglob("*.jpg"))) == 4


def test_a_folder_that_nobody_serves_is_not_published(fresh_jumar: Jumar) -> None:
    gone = fresh_jumar("store", "publish", "obs://gone/", rc=2).stderr
    assert "obs://gone does not exist" in gone
    fresh_jumar("store", "layout", "obs://lab")
    said = fresh_jumar("store", "publish", "obs://lab/dataset/", rc=2).stderr
    assert "obs://lab/dataset/ is in a folder and is not served over HTTP" in said
    assert "hint: serve the built-in store: jumar store migrate --to s3" in said


@pytest.mark.parametrize(
    "half", ["obs:/lab/x", "obs:lab", "S3:/lab/x", "file:/tmp/x", "hub:model/a/b"]
)
def test_half_an_address_is_no_folder_here(fresh_jumar: Jumar, tmp_path: Path, half: str) -> None:
    (tmp_path / "a").write_text("x")
    said = fresh_jumar("data", "cp", "a", half, rc=2).stderr
    assert f"'{half}' is half an address" in said
    assert f"hint: write {half.partition(':')[0].lower()}://" in said
    fresh_jumar("data", "cp", "a", f"./{half}")
    assert (tmp_path / half).is_file()


def test_an_archive_goes_to_a_bucket_not_to_a_folder_named_like_a_scheme(
    fresh_jumar: Jumar, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x", "content")
    said = fresh_jumar("data", "unzip", "a.zip", "obs://", rc=2).stderr
    assert "not a bucket name" in said
    fresh_jumar("data", "unzip", "a.zip", "obs://lab")
    assert fresh_jumar("data", "cat", "obs://lab/x").stdout == "content"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "fresh"]


def test_an_output_that_is_full_is_told(
    jumar_program: str, fresh_home: Path, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(bytes(100_000))
    for words in (("ls", "a"), ("ls", "--json", "a"), ("du", "a"), ("cat", "a/b")):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [jumar_program, "data", *words],
                env=environment_for(fresh_home),
                cwd=tmp_path,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=180,
                check=False,
            )
        said = (
            "error: the output: No space left on device\nhint: free some space, then run it again\n"
        )
        assert (done.returncode, done.stderr) == (2, said), words


@pytest.mark.parametrize(("answer", "rc"), [(b"n\n", 130), (b"y\n", 0)])
def test_before_a_whole_bucket_goes_it_asks_at_a_terminal(
    fresh_jumar: Jumar,
    jumar_program: str,
    fresh_home: Path,
    tmp_path: Path,
    answer: bytes,
    rc: int,
) -> None:
    (tmp_path / "a").write_text("x")
    fresh_jumar("data", "push", "a", "obs://lab/a")
    keyboard, terminal = os.openpty()
    process = subprocess.Popen(
        [jumar_program, "data", "rm", "-r", "obs://lab"],
        env=environment_for(fresh_home),
        stdin=terminal,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(terminal)
    os.write(keyboard, answer)
    _, stderr = process.communicate(timeout=180)
    os.close(keyboard)
    assert "Delete everything in obs://lab/?" in stderr
    assert process.returncode == rc
    assert fresh_jumar("data", "ls", "obs://lab/", rc=None).stdout.count("  a\n") == (rc != 0)


def test_without_a_terminal_nobody_is_asked(fresh_jumar: Jumar, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    fresh_jumar("data", "push", "a", "obs://lab/a")
    assert "deleted 1 file" in fresh_jumar("data", "rm", "-r", "obs://lab").stderr
