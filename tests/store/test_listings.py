"""Listings in both versions: all objects, or an error; never a part of them in silence."""

import json
from functools import partial
from pathlib import Path

import pytest
from tests.store.dialects import Dialect, Lists, speaking
from tests.store.parts import copy, tree
from tests.store.served import run_jumar

from jumar.inject.moxing_path.jumar_s3 import S3, pages
from jumar.inject.moxing_path.jumar_s3.parts import MIB
from jumar.inject.moxing_path.jumar_s3.retry import Patience
from jumar.store.credentials import StoreConfig, save_credential
from jumar.store.errors import BadAnswer, StoreAway
from jumar.store.places import buckets, open_place
from jumar.store.remove import remove_all
from jumar.store.transfer.records import Options, Progress

MANY = 2500


def config_of(dialect: Dialect, home: Path) -> StoreConfig:
    save_credential(home / "store.json", "obs", dialect.credential)
    return StoreConfig(home / "store", home / "transfers", obs=dialect.credential)


def filled(dialect: Dialect, count: int = MANY) -> Dialect:
    for number in range(count):
        dialect.put(f"set/{number % 7}/{number:04} 名+&.txt", b"%d" % number)
    return dialect


def jumar_json(home: Path, *arguments: str) -> dict[str, int]:
    return json.loads(run_jumar(home, *arguments, "--json").stdout)


@pytest.mark.parametrize(
    "dialect",
    [
        Dialect("1"),
        Dialect("1", most_keys=300, gives_next_marker=True),
        Dialect("2", most_keys=300),
        Dialect("refuses-2", most_keys=300),
    ],
    ids=lambda dialect: f"{dialect.lists}-{dialect.most_keys}",
)
def test_all_objects_are_counted_pulled_synced_and_removed(
    dialect: Dialect, home: Path, tmp_path: Path
) -> None:
    count = 2500 if dialect.most_keys == 1000 else 750
    filled(dialect, count)
    dialect.put("other", b"stays")
    with speaking(dialect):
        config_of(dialect, home)
        pulled = jumar_json(home, "data", "pull", "obs://lab/set", str(tmp_path / "to"))
        assert pulled["copied"] == count
        assert tree(tmp_path / "to") == {
            key.removeprefix("set/"): found.data
            for key, found in dialect.objects.items()
            if key != "other"
        }
        size = sum(len(found.data) for key, found in dialect.objects.items() if key != "other")
        assert jumar_json(home, "data", "du", "obs://lab/set") == {"files": count, "bytes": size}
        for path in [path for path in (tmp_path / "to").rglob("*.txt") if "/3/" in str(path)]:
            path.unlink()
        left = len(tree(tmp_path / "to"))
        synced = jumar_json(home, "data", "sync", "--delete", str(tmp_path / "to"), "obs://lab/set")
        assert (synced["copied"], synced["deleted"]) == (0, count - left)
        assert not any(key.startswith("set/3/") for key in dialect.objects)
        said = run_jumar(home, "data", "rm", "-r", "obs://lab/set").stderr
        assert f"deleted {left}" in said.replace(",", "")
        assert list(dialect.objects) == ["other"]


def test_a_server_of_the_first_version_is_found_out_once(home: Path) -> None:
    dialect = filled(Dialect("1"))
    with speaking(dialect):
        s3 = S3(dialect.credential.wire())
        for _ in range(2):
            found = pages(partial(s3.page, "lab", "set/", ""), "lab", "set/")
            assert sum(len(page.objects) for page in found) == MANY
        assert sum("list-type=2" in line for line in dialect.asked) == 1


@pytest.mark.parametrize("encodes", [True, False])
def test_folders_come_page_by_page_in_the_first_version(encodes: bool, home: Path) -> None:
    dialect = Dialect("1", most_keys=3, encodes=encodes)
    for number in range(10):
        dialect.put(f"set/sub {number}+/a&b", b"1")
        dialect.put(f"set/sub {number}+/c", b"2")
        dialect.put(f"set/top {number}", b"3")
    with speaking(dialect):
        found = open_place("obs://lab/set/", config_of(dialect, home)).store.level("set/")
    assert [entry.key for entry in found.entries] == [f"set/top {number}" for number in range(10)]
    assert found.folders == tuple(f"set/sub {number}+/" for number in range(10))


@pytest.mark.parametrize("lists", ["without-token", "same-token", "same-page", "same-marker"])
def test_a_listing_without_a_way_on_is_an_error_that_names_it(
    lists: Lists, home: Path, tmp_path: Path
) -> None:
    dialect = filled(Dialect(lists), 1200)
    with speaking(dialect):
        config = config_of(dialect, home)
        place = open_place("obs://lab/set/", config)
        with pytest.raises(BadAnswer, match="listing of lab/set/ "):
            list(place.store.walk("set/"))
        with pytest.raises(BadAnswer):
            copy("obs://lab/set", tmp_path / "to", config)
        with pytest.raises(BadAnswer):
            remove_all(place)
        assert len(dialect.objects) == 1200
        done = run_jumar(home, "data", "pull", "obs://lab/set", str(tmp_path / "to"), rc=2)
        assert "the listing of lab/set/" in done.stderr
        # What was listed until then may have come, each of it whole.
        for path in filter(Path.is_file, (tmp_path / "to").rglob("*")):
            key = f"set/{path.relative_to(tmp_path / 'to')}"
            assert path.read_bytes() == dialect.objects[key].data
        # Once the server lists as it should, the next pull brings what is missing.
        dialect.lists = "2"
        again = copy("obs://lab/set", tmp_path / "to", config_of(dialect, home))
        assert again.copied + again.skipped == 1200
        assert len(tree(tmp_path / "to")) == 1200


def test_a_connection_is_opened_for_several_objects(home: Path, tmp_path: Path) -> None:
    """To open an encrypted one costs as much as several objects."""
    count = 80
    with speaking(filled(Dialect("2"), count)) as dialect:
        config = config_of(dialect, home)
        assert copy("obs://lab/set", tmp_path / "to", config).copied == count
        assert dialect.connections < count / 3
        dialect.connections = 0
        assert copy(tmp_path / "to", "obs://lab/again", config).copied == count
        assert dialect.connections < count / 3


def test_a_page_that_is_whole_needs_no_way_on(home: Path, tmp_path: Path) -> None:
    dialect = filled(Dialect("without-token"), 1000)
    with speaking(dialect):
        assert copy("obs://lab/set", tmp_path / "to", config_of(dialect, home)).copied == 1000


def test_parts_that_have_arrived_come_page_by_page() -> None:
    dialect = Dialect(most_parts=3)
    with speaking(dialect):
        s3 = S3(dialect.credential.wire())
        begun = s3.create_upload("lab", "big")
        for number in range(1, 9):
            s3.put_part("lab", "big", begun.id, number, b"x", 1)
        assert [part.number for part in s3.parts("lab", "big", begun.id)] == list(range(1, 9))


def test_a_program_that_took_the_port_is_no_empty_bucket(home: Path, tmp_path: Path) -> None:
    soon = Options(patience=Patience(limit_s=0.3, first_s=0.1))
    (tmp_path / "f").write_text("mine")
    with speaking(Dialect(taken_over=True)) as dialect:
        config = config_of(dialect, home)
        place = open_place("obs://lab/set/", config)
        for act in (
            lambda: copy("obs://lab/set", tmp_path / "to", config, options=soon),
            lambda: copy(tmp_path / "f", "obs://lab/f", config, options=soon),
            lambda: remove_all(place),
            lambda: place.store.delete(["a", "b"]),
            lambda: place.store.copy("a", "b"),
            lambda: buckets("obs", config),
        ):
            with pytest.raises(StoreAway, match=r"broke the connection|without a tag"):
                act()


@pytest.mark.parametrize("size", [5, 2 * MIB])
@pytest.mark.parametrize("way", ["up", "down"])
def test_a_program_that_takes_the_port_later_neither_takes_nor_gives_bytes(
    size: int, way: str, home: Path, tmp_path: Path
) -> None:
    soon = Options(patience=Patience(limit_s=0.3, first_s=0.1), again=True)
    (tmp_path / "f").write_bytes(bytes(size))
    with speaking(Dialect()) as dialect:
        dialect.put("g", bytes(size))
        config, progress = config_of(dialect, home), Progress()
        make_plan = progress.plan

        def plan_then_lose(files: int, size: int) -> None:
            make_plan(files, size)
            dialect.taken_over = True

        progress.plan = plan_then_lose
        places = (
            (tmp_path / "f", "obs://lab/f") if way == "up" else ("obs://lab/g", tmp_path / "to")
        )
        with pytest.raises(StoreAway, match="without a tag"):
            copy(*places, config, options=soon, progress=progress)
    assert not (tmp_path / "to").exists()
