"""The steps of staging: inputs by content, results while a job runs and after, nothing lost."""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.waiting import wait_for

from jumar.errors import BadInput, NotFound
from jumar.spec.records import StagingRecord
from jumar.store.base import Entry
from jumar.store.cache import ContentCache
from jumar.store.credentials import Credential, StoreConfig, save_credential
from jumar.store.door import Door
from jumar.store.folder import FolderStore
from jumar.store.places import buckets, open_place
from jumar.store.staging.__main__ import STAGE_FAILED
from jumar.store.staging.bring import bring
from jumar.store.staging.plan import Staged, StagePlan, plan_json, read_plan
from jumar.store.staging.send import send_finally
from jumar.store.staging.status import read_status
from jumar.store.transfer.upload import SourceFile


def plan_of(home: Path, tmp_path: Path, **wishes: object) -> StagePlan:
    fields = {
        "home": str(home),
        "user": "ann",
        "owner": "ann",
        "status": str(tmp_path / "status.json"),
        "patience_s": 1.0,
    }
    return StagePlan(**{**fields, **wishes})  # pyright: ignore[reportArgumentType]


def status_of(plan: StagePlan) -> StagingRecord:
    status = read_status(Path(plan.status))
    assert status is not None
    return status


def step(name: str, plan: StagePlan, tmp_path: Path) -> "subprocess.Popen[bytes]":
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan_json(plan)))
    assert read_plan(path) == plan
    return subprocess.Popen([sys.executable, "-m", "jumar.store.staging", name, str(path)])


def test_local_inputs_are_linked_and_linked_anew(
    home: Path, tmp_path: Path, folder_config: StoreConfig
) -> None:
    open_place("obs://lab/", folder_config).store.write("data/x", b"x")
    target = tmp_path / "inputs" / "data_url"
    target.parent.mkdir()
    target.symlink_to(tmp_path / "gone")
    bring(plan_of(home, tmp_path, inputs=(Staged(url="obs://lab/data", path=str(target)),)))
    assert target.is_symlink()
    assert (target / "x").read_bytes() == b"x"


def test_inputs_come_once_and_then_from_the_cache(
    home: Path, tmp_path: Path, door_config: StoreConfig, door_bucket: str
) -> None:
    store = open_place(f"obs://{door_bucket}/", door_config).store
    for number in range(20):
        store.write(f"data/{number % 3}/{number}", os.urandom(1000))
    for turn in range(2):
        target = tmp_path / f"job{turn}" / "data_url"
        inputs = (Staged(url=f"obs://{door_bucket}/data", path=str(target)),)
        plan = plan_of(home, tmp_path, inputs=inputs)
        bring(plan)
        assert sum(1 for path in target.rglob("*") if path.is_file()) == 20
        told = status_of(plan).inputs
        assert told is not None
        assert (told.files, told.total_files, told.bytes) == (20, 20, 20_000)
        assert told.cached_bytes == (0 if turn == 0 else 20_000)
    brought = tmp_path / "job1" / "data_url" / "0" / "0"
    assert brought.read_bytes() == store.read("data/0/0")


def test_the_cache_is_bounded_and_the_longest_unused_goes(
    home: Path, tmp_path: Path, door_config: StoreConfig, door_bucket: str
) -> None:
    store = open_place(f"obs://{door_bucket}/", door_config).store
    cache = home / "cache" / "inputs"
    for name in ("old", "new"):
        for number in range(5):
            store.write(f"{name}/{number}", os.urandom(1000))
    for name in ("old", "new"):
        target = tmp_path / name
        bring(
            plan_of(
                home,
                tmp_path,
                inputs=(Staged(url=f"obs://{door_bucket}/{name}", path=str(target)),),
            )
        )
        subprocess.run(["rm", "-rf", str(target)], check=True, timeout=180)
        time.sleep(0.02)
    removed = ContentCache(cache, 5000).trim()
    assert removed == 5000
    left = {path.read_bytes() for path in cache.glob("??/*")}
    assert left == {store.read(f"new/{number}") for number in range(5)}


def test_what_a_job_wrote_into_its_input_reaches_no_other_job(
    home: Path, tmp_path: Path, door_config: StoreConfig, door_bucket: str
) -> None:
    open_place(f"obs://{door_bucket}/", door_config).store.write("data/x", b"right")
    targets = [tmp_path / name for name in ("first", "second")]
    for target in targets:
        inputs = (Staged(url=f"obs://{door_bucket}/data", path=str(target)),)
        bring(plan_of(home, tmp_path, inputs=inputs))
        assert (target / "x").read_bytes() == b"right"
        # As root, or after chmod, a job can do this: the same file, the same size.
        (target / "x").chmod(0o644)
        (target / "x").write_bytes(b"wrong")
        (target / "x").chmod(0o444)


def test_a_missing_input_is_told(home: Path, tmp_path: Path) -> None:
    plan = plan_of(home, tmp_path, inputs=(Staged(url="obs://lab/none", path=str(tmp_path / "i")),))
    with pytest.raises(NotFound):
        bring(plan)
    assert step("bring", plan, tmp_path).wait(180) == STAGE_FAILED
    told = status_of(plan)
    assert (told.phase, told.error) == ("failed", "the input obs://lab/none does not exist")


def test_a_bucket_that_results_cannot_go_to_is_told_before_the_training(
    home: Path, tmp_path: Path, door: Door
) -> None:
    out = Staged(url="obs://no-such-bucket/o", path=str(tmp_path))
    save_credential(home / "store.json", "obs", replace(door.credential, makes_buckets=False))
    with pytest.raises(NotFound, match="no-such-bucket"):
        bring(plan_of(home, tmp_path, outputs=(out,)))


def test_a_bucket_of_the_platforms_own_server_is_made(
    home: Path, tmp_path: Path, door: Door, door_config: StoreConfig
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x").touch()
    bucket = f"made{time.time_ns():x}"
    out = Staged(url=f"obs://{bucket}/o", path=str(tmp_path / "out"))
    plan = plan_of(home, tmp_path, outputs=(out,))
    bring(plan)
    assert send_finally(plan)
    assert bucket in buckets("obs", door_config)


def test_results_go_while_the_job_runs_but_for_what_is_being_written(
    home: Path, tmp_path: Path, folder_config: StoreConfig
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").write_text("a")
    os.utime(out / "old", (1, 1))
    # Written to in the future: nobody can say that it has come to rest.
    (out / "half").write_text("b")
    os.utime(out / "half", (2**32, 2**32))
    plan = plan_of(
        home, tmp_path, outputs=(Staged(url="obs://lab/out", path=str(out)),), every_s=0.2
    )
    process = step("keep", plan, tmp_path)
    wait_for((home / "store/lab/out/old").exists)
    wait_for(lambda: status_of(plan).sent_at is not None)
    process.terminate()
    assert process.wait(180) != 0
    assert not (home / "store/lab/out/half").exists()
    assert status_of(plan).has_unsent
    assert send_finally(plan)
    assert (home / "store/lab/out/half").exists()
    assert not status_of(plan).has_unsent


def test_checkpoints_are_copied_here_and_what_is_here_stays(
    home: Path, tmp_path: Path, folder_config: StoreConfig
) -> None:
    store = open_place("obs://lab/", folder_config).store
    store.write("ckpt/last", b"1")
    local = tmp_path / "ckpt"
    plan = plan_of(home, tmp_path, ckpt=Staged(url="obs://lab/ckpt", path=str(local)))
    bring(plan)
    assert (local / "last").read_bytes() == b"1"
    (local / "last").write_bytes(b"22")
    assert store.read("ckpt/last") == b"1"
    # A second attempt of the same job, after one that could not send.
    bring(plan)
    assert (local / "last").read_bytes() == b"22"
    assert send_finally(plan)
    assert store.read("ckpt/last") == b"22"


def test_the_first_of_the_jobs_finds_no_checkpoints(home: Path, tmp_path: Path) -> None:
    local = tmp_path / "ckpt"
    bring(plan_of(home, tmp_path, ckpt=Staged(url="obs://lab/ckpt", path=str(local))))
    assert list(local.iterdir()) == []


def test_results_stay_and_are_marked_while_the_store_is_away(
    home: Path, tmp_path: Path, door_config: StoreConfig, door_bucket: str
) -> None:
    assert door_config.obs is not None
    out = tmp_path / "out"
    out.mkdir()
    (out / "model").write_bytes(b"weights")
    plan = plan_of(home, tmp_path, outputs=(Staged(url=f"obs://{door_bucket}/o", path=str(out)),))
    save_credential(home / "store.json", "obs", Credential("http://127.0.0.1:1"))
    assert step("send", plan, tmp_path).wait(180) == 1
    assert status_of(plan).phase == "not-uploaded"
    assert (out / "model").exists()
    save_credential(home / "store.json", "obs", door_config.obs)
    assert send_finally(plan)
    assert status_of(plan).phase == "done"
    assert (
        open_place(f"obs://{door_bucket}/o/model", door_config).store.read("o/model") == b"weights"
    )


@pytest.mark.parametrize(("name", "phase"), [("bring", "bringing"), ("send", "sending")])
def test_a_store_that_is_waited_for_is_told_while_it_is_tried_again(
    home: Path, tmp_path: Path, name: str, phase: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model").write_bytes(b"weights")
    save_credential(home / "store.json", "obs", Credential("http://127.0.0.1:1"))
    out = Staged(url="obs://lab/o", path=str(tmp_path / "out"))
    plan = plan_of(home, tmp_path, outputs=(out,), patience_s=600.0)
    process = step(name, plan, tmp_path)
    try:
        wait_for(Path(plan.status).exists)
        wait_for(lambda: status_of(plan).error is not None)
        told = status_of(plan)
        assert told.phase == phase
        assert "127.0.0.1:1 did not answer" in str(told.error)
    finally:
        process.terminate()
        process.wait(180)


def test_keys_are_used_for_their_own_users_jobs_only(home: Path, tmp_path: Path) -> None:
    save_credential(home / "store.json", "obs", Credential("http://owner:1", access_key="AKOWNER"))
    save_credential(home / "store-users" / "bob.json", "s3", Credential("http://bob:1"))
    owners = plan_of(home, tmp_path, user="ann", owner="ann").config()
    bobs = plan_of(home, tmp_path, user="bob", owner="ann").config()
    eves = plan_of(home, tmp_path, user="eve", owner="ann").config()
    assert owners.obs is not None
    assert (bobs.obs, bobs.s3 and bobs.s3.endpoint) == (None, "http://bob:1")
    assert (eves.obs, eves.s3, eves.builtin) == (None, None, home / "store")


def test_the_door_is_everybodys_built_in_store_each_with_their_own_keys(
    home: Path, tmp_path: Path
) -> None:
    door = Door(home, 7480)
    save_credential(home / "store.json", "door", door.credential)
    for user in ("ann", "eve"):
        found = plan_of(home, tmp_path, user=user, owner="ann").config().obs
        assert found == door.credential_of(user) != door.credential
    save_credential(home / "store-users" / "eve.json", "obs", Credential("http://eves-own:1"))
    assert plan_of(home, tmp_path, user="eve", owner="ann").config().obs == Credential(
        "http://eves-own:1"
    )


def test_results_of_a_job_with_fewer_rights_come_from_its_own_folders(
    home: Path, tmp_path: Path, folder_config: StoreConfig
) -> None:
    """As a server sends what a pod has left: links to what only the server may read."""
    out, private = tmp_path / "job/out", tmp_path / "private"
    (out / "sub").mkdir(parents=True)
    private.mkdir()
    (private / "key").write_text("sesame")
    (out / "sub/model").write_text("weights")
    (out / "again").symlink_to("sub")
    (out / "key").symlink_to(private / "key")
    (out / "all").symlink_to(private)
    (tmp_path / "status.json.lock").symlink_to(private / "key")
    outputs = (Staged(url="obs://lab/out", path=str(out)),)
    plan = plan_of(home, tmp_path, outputs=outputs, within=(str(tmp_path / "job"),))
    with pytest.raises(BadInput, match=r"status\.json\.lock"):
        send_finally(plan)
    (tmp_path / "status.json.lock").unlink()
    # What is not sent is told, with all else sent: else nobody would know before it is missed. It will never be
    # sent, so that is the end.
    assert send_finally(plan)
    sent = {entry.key for entry in open_place("obs://lab/", folder_config).store.walk("out/")}
    assert sent == {"out/sub/model", "out/again/model"}
    status = read_status(Path(plan.status))
    assert status is not None
    assert (status.phase, status.has_unsent) == ("done", False)
    assert "is a link that leads out of the job's folders" in (status.error or "")
    assert (private / "key").read_text() == "sesame"
    for link in ("key", "all"):
        (out / link).unlink()
    (out / "nothing").symlink_to(private / "nothing")
    assert send_finally(plan)
    (out / "nothing").unlink()
    out.rename(tmp_path / "was")
    out.symlink_to(private)
    assert send_finally(plan)
    status = read_status(Path(plan.status))
    assert status is not None
    assert str(out) in (status.error or "")


def test_results_are_found_where_the_sender_sees_them(
    home: Path, tmp_path: Path, folder_config: StoreConfig
) -> None:
    """The server may know /data as a link, and a compute node as a folder, or the other way round."""
    (tmp_path / "disk/job/out").mkdir(parents=True)
    (tmp_path / "disk/job/out/model").write_text("weights")
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    job = tmp_path / "data/job"
    outputs = (Staged(url="obs://lab/out", path=str(job / "out")),)
    assert send_finally(plan_of(home, tmp_path, outputs=outputs, within=(str(job),)))
    sent = [entry.key for entry in open_place("obs://lab/", folder_config).store.walk("out/")]
    assert sent == ["out/model"]


@pytest.mark.parametrize("count", [1, 40])
def test_a_link_that_comes_while_results_are_sent_leads_nowhere(
    home: Path, tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, private = tmp_path / "job/out", tmp_path / "private"
    for folder in (out / "sub", private):
        folder.mkdir(parents=True)
        for number in range(count):
            (folder / str(number)).write_text("sesame" if folder is private else "weight")
    plan = plan_of(
        *(home, tmp_path),
        outputs=(Staged(url="obs://lab/out", path=str(out)),),
        within=(str(tmp_path / "job"),),
    )
    really, looks = FolderStore.walk, itertools.count()

    def walk_and_swap(store: FolderStore, *words: str) -> Iterator[Entry]:
        found = list(really(store, *words))
        # The first look is only whether there is anything.
        if store.root == str(out) and next(looks) == 1:
            (out / "sub").rename(tmp_path / "was")
            (out / "sub").symlink_to(private)
        return iter(found)

    monkeypatch.setattr(FolderStore, "walk", walk_and_swap)
    assert not send_finally(plan)
    sent = list((home / "store").rglob("*"))
    assert not [path for path in sent if path.is_file() and path.read_text() == "sesame"]
    with pytest.raises(BadInput, match="leads out"):
        SourceFile(str(out / "sub/0"), plan.within)
