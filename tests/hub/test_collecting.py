"""Cleaning up: nothing that a ref reaches is ever deleted, whoever pushes meanwhile; the rest goes."""

import json
import os
import tarfile
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, insert, update

from jumar.database.access import open_database
from jumar.database.tables import hub_links, job_templates
from jumar.errors import BadInput, NotFound, TooLarge
from jumar.hub.collecting import DAY_S, Nightly, reached
from jumar.hub.gitting import git
from jumar.hub.hub import Hub
from jumar.hub.repositories import Limits, RepoNotFound
from jumar.people.accounts import Accounts
from jumar.spec.people import UserRecord
from jumar.spec.repos import RepoRecord

_numbers = iter(range(10**6))


class Bench:
    """A hub without a server around it."""

    def __init__(self, home: Path, limits: Limits | None = None) -> None:
        self.database = open_database(f"sqlite:///{home / 'jumar.db'}")
        accounts = Accounts(self.database)
        user = accounts.tokens.user_of(accounts.bootstrap("ann"))
        assert user is not None
        self.user: UserRecord = user
        self.hub = Hub(self.database, home, limits)
        self.hub.prepare()

    def repo(self) -> RepoRecord:
        return self.hub.repositories.create(self.user, "project", f"r{next(_numbers)}")

    def send(self, repo: RepoRecord, content: bytes) -> str:
        with self.hub.objects.incoming(repo, None, len(content)) as incoming:
            incoming.write(content)
            return incoming.keep().oid

    def commit(self, repo: RepoRecord, branch: str, files: dict[str, str]) -> str:
        return self.hub.deposits.commit(repo, branch, "ann", "x", files)

    def collect(self) -> int:
        """As nightly, but nothing has a day's grace."""
        return self.hub.collector.collect(unused_s=0.0, dead_for_s=0.0).objects

    def check(self) -> None:
        """Everything that refs reach is here, whole."""
        for repo in self.hub.repositories.all():
            wanted = reached(self.hub.repositories.folder(repo))
            assert set(self.hub.objects.linked(repo, wanted)) == wanted

    def stored(self) -> int:
        return sum(len(files) for _, _, files in os.walk(self.hub.objects.spool.parent / "lfs"))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Generator[Bench]:
    made = Bench(tmp_path_factory.mktemp("collecting"))
    yield made
    made.database.close()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "commit", "branch", "drop", "rewrite", "share", "delete", "collect"]),
        st.integers(0, 2),
    ),
    min_size=3,
    max_size=8,
)  # fmt: skip


@settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_no_order_of_events_loses_an_object_that_is_referred_to(
    bench: Bench, steps: list[tuple[str, int]]
) -> None:
    repos = [bench.repo()]
    sent: dict[str, list[str]] = {repos[0].id: [bench.send(repos[0], os.urandom(20))]}
    bench.commit(repos[0], "main", {"w0.bin": sent[repos[0].id][0]})
    for what, number in steps:
        repo = repos[-1]
        oid = sent[repo.id][number % len(sent[repo.id])]
        folder = bench.hub.repositories.folder(repo)
        match what:
            case "send":
                sent[repo.id].append(bench.send(repo, os.urandom(20)))
            case "commit":
                with suppress(BadInput):  # it was collected meanwhile: told, never lost
                    bench.commit(repo, "main", {f"w{number}.bin": oid})
            case "branch":
                git(folder, "update-ref", f"refs/heads/b{number}", "refs/heads/main")
            case "drop":
                git(folder, "update-ref", "-d", f"refs/heads/b{number}")
            case "rewrite":
                first = git(folder, "rev-list", "--max-parents=0", "refs/heads/main").split()[0]
                git(folder, "update-ref", "refs/heads/main", first.decode())
            case "share":
                repos.append(bench.repo())
                bench.hub.objects.offer(bench.user, repos[-1], {oid: 20})
                sent[repos[-1].id] = [oid, bench.send(repos[-1], os.urandom(20))]
                bench.commit(repos[-1], "main", {"w.bin": sent[repos[-1].id][1]})
            case "delete" if len(repos) > 1:
                bench.hub.repositories.delete(repos.pop(0))
            case _:
                bench.collect()
        bench.check()
    for repo in repos:
        bench.hub.repositories.delete(repo)
    bench.collect()
    assert bench.stored() == 0


def test_pushes_while_it_is_cleaned_up_all_the_time(bench: Bench) -> None:
    repo = bench.repo()
    over = threading.Event()

    def collect() -> None:
        while not over.is_set():
            bench.hub.collector.collect(unused_s=0.5, dead_for_s=0.0)

    def push(number: int) -> None:
        content = os.urandom(30)
        for _try in range(50):
            bench.send(repo, os.urandom(30))
            oid = bench.send(repo, content)
            try:
                bench.commit(repo, "main", {f"{number}.bin": oid})
            except BadInput:
                continue
            return
        raise AssertionError("never came through")

    bench.commit(repo, "main", {"first.bin": bench.send(repo, b"0")})
    with ThreadPoolExecutor(4) as pool:
        collecting = pool.submit(collect)
        try:
            for future in [pool.submit(push, number) for number in range(4)]:
                future.result(timeout=120)
        finally:
            over.set()
        collecting.result(timeout=60)
    bench.check()
    assert len(reached(bench.hub.repositories.folder(repo))) == 5
    git(bench.hub.repositories.folder(repo), "fsck", "--strict")


def test_an_upload_that_ends_while_leftovers_are_looked_for_is_none(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seen_before(folder: str) -> list[Path]:
        return [bench.hub.repositories.home / folder / "gone"]

    monkeypatch.setattr(bench.hub.repositories, "_in", seen_before)
    bench.hub.repositories.sweep()


def test_what_was_just_sent_has_a_day_and_rows_of_a_backup_cost_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    repo = bench.repo()
    oid, other = bench.send(repo, b"sent"), bench.send(repo, b"committed")
    bench.commit(repo, "main", {"w.bin": other})
    before = bench.stored()
    assert bench.hub.collector.collect().forgotten == 0
    old = update(hub_links).values(touched_at=time.time() - 2 * DAY_S)
    bench.database.write(lambda c: c.execute(old))
    found = bench.hub.collector.collect()
    assert (found.forgotten, found.objects, bench.stored()) == (1, 0, before)
    assert bench.hub.collector.collect(dead_for_s=0.0).bytes == len(b"sent")
    assert set(bench.hub.objects.linked(repo, [oid, other])) == {other}
    # As after a restore: the repository is newer than the rows.
    bench.database.write(lambda c: c.execute(hub_links.delete().where(hub_links.c.repo == repo.id)))
    assert bench.collect() == 0
    # A repository that cannot be read keeps everything of everybody.
    ref = bench.hub.repositories.folder(repo) / "refs/heads/main"
    ref.write_text("0" * 39 + "1\n")
    assert bench.hub.collector.collect(unused_s=0.0, dead_for_s=0.0).objects == 0
    assert bench.stored() == before - 1


def test_files_of_jobs_go_when_no_job_names_them(bench: Bench) -> None:
    repo = bench.repo()
    commit = bench.commit(repo, "main", {"a.txt": bench.send(repo, b"text")})
    folder = bench.hub.checkouts.folder(repo, commit, "")
    assert bench.hub.collector.collect().checkouts == 0
    os.utime(folder, (0, 0))
    # Given to a job once more, it stays for another day.
    assert bench.hub.checkouts.folder(repo, commit, "") == folder
    assert bench.hub.collector.collect().checkouts == 0
    os.utime(folder, (0, 0))
    assert bench.hub.collector.collect().checkouts == 1
    assert not folder.exists()


def test_tar_files_of_jobs_stay_while_one_names_them(bench: Bench) -> None:
    repo = bench.repo()
    commit = bench.commit(repo, "main", {"sub/a.txt": bench.send(repo, b"text")})
    tar = bench.hub.checkouts.tar(repo, commit, "sub")
    with tarfile.open(tar) as opened:
        assert opened.getnames() == ["sub", "sub/a.txt"]
    address = f"hub://project/ann/{repo.name}@{commit}:sub"
    assert bench.hub.tree_of("ann", address) == tar
    spec = json.dumps({"inputs": {"x": address, "odd": "hub://nothing", "own": "/data"}})
    row = {"user": "ann", "name": "t", "spec": spec, "created_at": 0.0, "is_shared": False}
    bench.database.write(lambda connection: connection.execute(insert(job_templates).values(**row)))
    os.utime(tar.parent, (0, 0))
    assert bench.hub.collector.collect().checkouts == 0
    bench.database.write(lambda connection: connection.execute(delete(job_templates)))
    assert bench.hub.collector.collect().checkouts == 1
    assert not tar.exists()


def test_single_objects_become_packs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jumar.hub.collecting._MOST_LOOSE", 0)
    repo = bench.repo()
    bench.commit(repo, "main", {"a.txt": bench.send(repo, b"1")})
    commit = bench.commit(repo, "main", {"a.txt": bench.send(repo, b"2")})
    folder = bench.hub.repositories.folder(repo)
    assert not git(folder, "count-objects").startswith(b"0 ")
    bench.hub.collector.collect()
    assert git(folder, "count-objects").startswith(b"0 ")
    assert git(folder, "rev-parse", "main").decode().strip() == commit
    git(folder, "fsck", "--strict")


def test_once_a_day_whatever_restarts(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    for _start in range(2):
        assert Nightly(bench.hub.collector, tmp_path).do_if_due() is None
    os.utime(tmp_path / "hub/collected", (0, 0))
    nightly = Nightly(bench.hub.collector, tmp_path)
    assert nightly.do_if_due() is not None
    assert nightly.do_if_due() is None


def test_quotas_hold_for_all_ways_in(tmp_path: Path) -> None:
    full = Bench(tmp_path, Limits(quota_bytes=50_000))
    repo = full.repo()
    first = full.send(repo, b"x" * 20_000)
    with ThreadPoolExecutor(4) as pool:
        # Each of them would fit alone.
        sent = [pool.submit(full.send, repo, bytes([n]) * 20_000) for n in range(4)]
        outcomes = [future.exception(timeout=60) for future in sent]
    assert sum(outcome is None for outcome in outcomes) == 1
    assert all(isinstance(one, TooLarge) for one in outcomes if one is not None)
    assert full.stored() == 2
    # What is there already takes no more room, but counts for each repository.
    assert full.send(repo, b"x" * 20_000) == first
    assert full.hub.repositories.pack_limit(repo) <= 10_000
    second = full.repo()
    with pytest.raises(TooLarge):
        full.hub.objects.offer(full.user, second, {first: 20_000})
    full.database.close()


def test_a_push_counts_with_all_else_of_its_owner(tmp_path: Path) -> None:
    full = Bench(tmp_path, Limits(disk_bytes=50_000))
    taken = {"bytes": 0}
    full.hub.repositories.quota.others = lambda owner: taken["bytes"]
    repo = full.repo()
    full.send(repo, b"x" * 20_000)
    taken["bytes"] = 20_000
    with pytest.raises(TooLarge, match="jobs, uploaded code and repositories"):
        full.send(repo, b"y" * 20_000)
    assert full.hub.repositories.pack_limit(repo) <= 10_000
    taken["bytes"] = 0
    full.send(repo, b"y" * 20_000)
    full.database.close()


def test_a_repository_that_is_deleted_amid_an_upload_a_commit_or_a_checkout_is_not_found(
    bench: Bench,
) -> None:
    """As whoever looked it up a moment before sees it."""
    repo = bench.repo()
    oid = bench.send(repo, b"x" * 20)
    commit = bench.commit(repo, "main", {"w.bin": oid})
    before = bench.stored()
    with bench.hub.objects.incoming(repo, None, 3) as incoming:
        incoming.write(b"new")
        bench.hub.repositories.delete(repo)
        with pytest.raises(NotFound, match="deleted meanwhile"):
            incoming.keep()
    assert bench.stored() == before
    with pytest.raises(NotFound):
        bench.hub.objects.offer(bench.user, repo, {oid: 20})
    for ask in (
        lambda: bench.hub.deposits.commit(repo, "main", "ann", "x", {}, texts={"a": "b"}),
        lambda: bench.hub.commits.move_ref(repo, "refs/tags/a", commit),
        lambda: bench.hub.checkouts.folder(repo, commit, ""),
        lambda: bench.hub.checkouts.archive(repo, commit, ""),
    ):
        with pytest.raises(RepoNotFound):
            ask()
    assert list((bench.hub.repositories.home / "trees").glob(f"{repo.id}/*")) == []
