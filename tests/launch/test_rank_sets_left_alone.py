"""Files that ranks had a right to have: none of them goes back to an older version without need."""

import json
import os
import pickle
from pathlib import Path

import pytest
from tests.launch.test_rank_sets import Scene

from jumar.launch.complete import Place, Versions
from jumar.launch.complete.patience import Patience


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


def kept_once(scene: Scene, pause_s: float = 60.0) -> None:
    """Two saves of all ranks, with a usual pause between them."""
    scene.save(1)
    scene.look(pause_s)
    scene.save(2)
    assert scene.look(pause_s) == [2, 2]


@pytest.mark.parametrize("hours", [0.5, 1.0, 1.5, 2.3, 3.1])
def test_ranks_that_train_models_of_their_own_at_speeds_of_their_own(
    scene: Scene, hours: float
) -> None:
    kept_once(scene)
    began, due, numbers = scene.now, [0.0, 0.0], [2, 2]
    while scene.now < began + 3600 * hours:
        rank = 0 if due[0] <= due[1] else 1
        scene.look(max(began + due[rank] - scene.now, 0.0))
        numbers[rank] += 1
        scene.save(numbers[rank], rank)
        due[rank] += 61 if rank == 0 else 77
    scene.made().restore()
    # By chance they may have saved at once a moment before.
    lost = [was - now for was, now in zip(numbers, scene.there(), strict=True)]
    assert max(lost) <= 1, lost


def test_a_rank_that_saves_more_often_than_the_others(scene: Scene) -> None:
    kept_once(scene)
    for number in range(3, 9):
        scene.save(number, 0)
        scene.look(60)
    assert scene.back() == []
    assert scene.there() == [8, 2]


def test_a_later_attempt_with_fewer_ranks_keeps_what_it_has_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch)

    def made(world: int) -> Versions:
        return Versions(Place(str(scene.saved), str(scene.kept), worlds=frozenset({world})))

    scene.versions = made(4)
    scene.save(1, 0, 1, 2, 3)
    scene.look(60)
    scene.save(2, 0, 1, 2, 3)
    assert scene.look(60) == [2, 2, 2, 2]
    scene.versions = made(2)
    assert scene.versions.restore() == []
    for rank in (2, 3):
        scene.path(rank).unlink()
    scene.save(3)
    scene.now += 0.1
    assert made(2).restore() == []
    assert scene.there() == [3, 3]


def test_a_later_attempt_with_fewer_ranks_beside_files_of_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch)
    scene.versions = Versions(Place(str(scene.saved), str(scene.kept), worlds=frozenset({4})))
    for number in (1, 2):
        scene.save(number, 0, 1, 2, 3)
        scene.look(60)
    scene.versions = scene.made()
    assert scene.versions.restore() == []
    for number in (3, 4, 5):
        scene.save(number)
        scene.look(60)
    assert scene.made().restore() == []
    assert scene.there() == [5, 5]


def test_ranks_that_wait_for_each_other_to_write_after_a_long_first_pause(scene: Scene) -> None:
    scene.save(1, apart_s=8)
    scene.look(120)
    for number in range(2, 6):
        scene.save(number, apart_s=8)
        scene.look(20)
    assert scene.back() == []
    assert scene.there() == [5, 5]


def test_a_last_save_soon_after_the_one_before(scene: Scene) -> None:
    kept_once(scene)
    scene.save(3)
    scene.look(1.5)
    scene.save(4)
    scene.look(60)
    scene.save(5, apart_s=2)
    scene.now += 1
    assert scene.back() == []
    assert scene.there() == [5, 5]


def test_a_clock_that_is_ahead_on_one_node(scene: Scene) -> None:
    def save(number: int) -> None:
        scene.save(number)
        at = scene.now + 5
        os.utime(scene.path(1), (at, at))

    save(1)
    scene.look(60)
    save(2)
    scene.look(60)
    for number in (3, 4, 5, 6):
        save(number)
        scene.look(4)
    assert scene.back() == []
    assert scene.there() == [6, 6]


def test_files_that_somebody_has_put_there_by_hand(scene: Scene) -> None:
    kept_once(scene)
    scene.now += 300
    scene.save(7, apart_s=70)
    scene.now += 1
    assert scene.back() == []
    assert scene.there() == [7, 7]


def test_links_in_the_places_of_files(scene: Scene) -> None:
    kept_once(scene)
    for rank in (0, 1):
        elsewhere = scene.saved / "steps" / f"100-{rank}"
        elsewhere.parent.mkdir(exist_ok=True)
        elsewhere.write_bytes(pickle.dumps((3, b"")))
        scene.path(rank).unlink()
        scene.path(rank).symlink_to(elsewhere)
    assert scene.made().restore() == []
    assert scene.path(0).is_symlink()


def test_the_pause_is_known_of_more_than_ten_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch)
    ranks = range(12)
    scene.save(1, *ranks)
    scene.look(120)
    scene.save(2, *ranks, apart_s=0.8)
    scene.now += 0.1
    assert scene.made().restore() == []


def test_one_save_that_is_late_by_less_than_a_pause_on_one_rank(scene: Scene) -> None:
    kept_once(scene)
    scene.save(3, 0)
    scene.now += 40
    scene.save(3, 1)
    scene.look(5)
    assert scene.back() == []
    assert scene.there() == [3, 3]


def test_dying_again_and_again_goes_back_no_further(scene: Scene) -> None:
    kept_once(scene)
    scene.save(3)
    assert scene.look(60) == [3, 3]
    for _ in range(4):
        scene.tear(1)
        assert scene.back() == [3, 3]
        scene.look(30)
        assert scene.back() == []
        scene.save(9, 0)
        scene.look(30)
        assert scene.back() == [3, 3]


def test_a_save_that_takes_one_rank_most_of_the_pause_gets_in_no_version(scene: Scene) -> None:
    """By renaming: nobody sees that it is being written."""
    kept_once(scene)
    kept: list[str] = []
    real_look = scene.versions.keep
    scene.versions.keep = lambda still_s=2.0: kept.extend(real_look(still_s)) or []  # type: ignore[method-assign]
    for number in range(3, 9):
        scene.save(number, 0)
        scene.look(49)
        scene.save(number, 1)
        scene.look(11)
    newest = max(scene.kept.iterdir(), key=lambda path: int(path.name))
    found = {pickle.loads(path.read_bytes())[0] for path in newest.glob("*.pkl")}
    assert len(found) == 1, found


def test_what_is_replaced_is_kept_aside(scene: Scene) -> None:
    kept_once(scene)
    scene.save(3, 0)
    new = scene.path(0).read_bytes()
    assert scene.back() == [2, 2]
    (back,) = scene.versions.sets_back
    assert back.aside == str(scene.kept / "replaced")
    assert [path.read_bytes() for path in (scene.kept / "replaced").iterdir()] == [new]
    # It is no version, and stays until something else is replaced.
    assert scene.back() == []
    scene.tear(1)
    assert scene.back() == [2, 2]
    assert {path.name for path in (scene.kept / "replaced").iterdir()} == {"rank0.pkl", "rank1.pkl"}


def test_where_nothing_can_be_kept_aside_the_last_save_still_comes_back(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_once(scene)
    scene.save(3, 0)
    # In its place lies a file.
    (scene.kept / "replaced").touch()
    assert scene.back() == [2, 2]
    (back,) = scene.versions.sets_back
    assert back.aside is None


def test_of_files_that_are_saved_each_for_itself_only_the_torn_one_goes_back(scene: Scene) -> None:
    kept_once(scene)
    for number in range(3, 9):
        scene.save(number, 0)
        scene.look(60)
    scene.tear(1)
    assert scene.made().restore() == [str(scene.path(1))]
    assert scene.there() == [8, 2]


def test_a_save_of_which_no_version_was_made_tells_which_is_of_another(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of large files: copying them takes a twentieth of the time at most."""
    kept_once(scene)

    def never(*_: object) -> bool:
        return False

    monkeypatch.setattr(Patience, "is_due", never)
    for number in range(3, 30):
        scene.save(number)
        scene.look(60)
    assert scene.back() == []
    assert scene.there() == [29, 29]
    scene.save(30, 0)
    assert scene.back() == [2, 2]


def test_what_a_version_knows_of_times_may_be_anything(scene: Scene) -> None:
    kept_once(scene)
    about = next(scene.kept.glob("*/.set.json"))
    for text in ('{"seen": 3}', '{"seen": [[1]]}', '{"pause_s": NaN}', "[]", '{"seen": [1, 2]}'):
        known = {"key": "rank*.pkl", "files": 2, "pause_s": 1.0}
        words = json.loads(text)
        about.write_text(json.dumps({**known, **words} if isinstance(words, dict) else words))
        scene.save(3)
        assert scene.made().restore() == []


def test_half_of_the_ranks_of_a_group_are_not_taken_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two commands start four ranks each; every four of them save one checkpoint."""
    scene = Scene(tmp_path, monkeypatch)
    place = Place(str(scene.saved), str(scene.kept), worlds=frozenset({2, 8}))
    scene.versions = Versions(place)
    for number in (1, 2):
        scene.save(number, 0, 1, 2, 3)
        scene.look(60)
    scene.save(3, 0, 1)
    scene.look(5)
    assert len(Versions(place).restore()) == 4
    assert scene.there() == [2, 2]


def test_half_of_a_save_that_an_attempt_has_left_gets_in_no_version(scene: Scene) -> None:
    """However long the next attempt takes to start."""
    scene.save(7, 1)
    scene.save(8, 0, apart_s=2.4)
    scene.versions = scene.made()
    assert scene.look(60) == []
    scene.save(9)
    assert scene.look() == [9, 9]


def test_clocks_that_differ_by_a_pause_make_no_version_of_two_saves(scene: Scene) -> None:
    kept_once(scene, 10)
    for number in range(3, 9):
        for rank in (0, 1):
            scene.save(number, rank)
            at = scene.now + 10.4 * rank
            os.utime(scene.path(rank), (at, at))
            if rank == 0:
                assert scene.look(0.5) == []
        assert scene.look(9.5) == []
