"""Files of a repository at a commit, for jobs: folders made once per commit, and archives of code.

They are copies: a job that writes into its input must not change what others get."""

import hashlib
import json
import os
import re
import secrets
import shutil
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from sqlalchemy import select

from jumar.database.tables import job_templates, jobs
from jumar.errors import BadInput, NotFound
from jumar.hub import reading
from jumar.hub.address import SCHEME, Address, parse
from jumar.hub.gitting import GitFailed, git
from jumar.hub.objects import Objects
from jumar.hub.reading import Entry
from jumar.hub.repositories import Repositories
from jumar.spec.repos import RepoRecord

_LIMIT_S = 1800.0
_LINK = "120000"
_TAR = "tree.tar"
_TREE = re.compile(r"/hub/trees/[0-9a-f]+/([0-9a-f]{32})")


class Checkouts:
    """Makes and keeps them below the hub's folder."""

    def __init__(self, repositories: Repositories, objects: Objects) -> None:
        self._repositories = repositories
        self._objects = objects
        self._home = repositories.home
        self._using = threading.Lock()

    def folder(self, repo: RepoRecord, commit: str, path: str) -> Path:
        """The folder, or the file, at `path` of a commit; all of it where there is no path."""
        name = _digest(f"{commit}:{path}")
        made = self._kept(repo, name, lambda aside: self._fill(repo, commit, path, aside))
        return made / path if path else made

    def tar(self, repo: RepoRecord, commit: str, path: str) -> Path:
        """The same as a tar file with whole paths, for jobs that have no right to the folder."""

        def make(aside: Path) -> None:
            aside.mkdir(mode=0o700)
            self._fill(repo, commit, path, aside / "tree")
            with tarfile.open(aside / _TAR, "w", format=tarfile.PAX_FORMAT) as tar:
                _add_all(tar, aside / "tree")
            shutil.rmtree(aside / "tree")

        return self._kept(repo, _tar_name(commit, path), make) / _TAR

    def _kept(self, repo: RepoRecord, name: str, make: Callable[[Path], None]) -> Path:
        """What `make` made under that name, now or earlier: whole, or not at all."""
        made = self._home / "trees" / repo.id / name
        if self._in_use_again(made):
            return made
        made.parent.mkdir(parents=True, exist_ok=True)
        aside = made.with_name(f".{secrets.token_hex(8)}")
        try:
            make(aside)
            aside.rename(made)
        except (OSError, GitFailed):
            # Somebody else has made the same meanwhile.
            if not made.is_dir():
                self._repositories.check_exists(repo)
                raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return made

    def _in_use_again(self, made: Path) -> bool:
        """Whether it is there; then it stays for another day, until a job is known to name it."""
        with self._using:
            try:
                os.utime(made)
            except FileNotFoundError:
                return False
            return True

    def collect(self, cut: float) -> int:
        """Remove what no job names and none was given since `cut`; how many there were."""
        named = self._named_by_jobs()
        gone = 0
        for made in (self._home / "trees").glob("*/*"):
            aside = made.with_name(f".{secrets.token_hex(8)}")
            with self._using:
                # It may be that somebody else has just removed it.
                if made.name in named or not made.exists() or made.stat().st_mtime >= cut:
                    continue
                made.rename(aside)
            shutil.rmtree(aside, ignore_errors=True)
            gone += 1
        return gone

    def _named_by_jobs(self) -> set[str]:
        found: set[str] = set()
        with self._repositories.database.read() as connection:
            for table in (jobs, job_templates):
                query = select(table.c.spec).where(table.c.spec.contains("/hub/trees/"))
                for row in connection.execute(query):
                    found.update(_TREE.findall(row.spec))
                query = select(table.c.spec).where(table.c.spec.contains(SCHEME))
                for row in connection.execute(query):
                    found.update(_tars_named_in(json.loads(row.spec)))
        return found

    def archive(self, repo: RepoRecord, commit: str, path: str) -> IO[bytes]:
        """A tar file of the same, alike for the same commit."""
        place = self.folder(repo, commit, path)
        file = tempfile.TemporaryFile(dir=self._objects.spool)  # noqa: SIM115 - the caller closes it
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            _add_all(tar, place)
        file.seek(0)
        return file

    def _fill(self, repo: RepoRecord, commit: str, path: str, target: Path) -> None:
        folder = self._repositories.folder(repo)
        found = [one for one in reading.entries(folder, commit, path) if not one.is_folder]
        if path and not found:
            found = [reading.entry_at(folder, commit, path)]
        if not found:
            raise NotFound(f"{repo.owner}/{repo.name} has no files at this revision")
        target.mkdir(mode=0o700)
        # Of LFS files only the pointers lie in git.
        plain = [one for one in found if one.pointer is None and one.mode != _LINK]
        _check_out(folder, commit, plain, target)
        for one in found:
            if one.pointer is not None:
                self._copy(repo, one, target / os.fsdecode(one.raw))
        # Last, so that nothing is written through one.
        for one in found:
            if one.mode == _LINK:
                _link(folder, one, target, path)

    def _copy(self, repo: RepoRecord, entry: Entry, target: Path) -> None:
        assert entry.pointer is not None
        target.parent.mkdir(parents=True, exist_ok=True)
        source = self._objects.open(repo, entry.pointer.oid, entry.path)
        with source, target.open("xb") as file:
            shutil.copyfileobj(source, file, 4 << 20)


def pinned(address: Address, commit: str) -> Address:
    """The same address with the commit that its revision stands for now."""
    return Address(address.kind, address.owner, address.name, commit, address.path)


def _check_out(folder: Path, commit: str, plain: list[Entry], target: Path) -> None:
    if not plain:
        return
    with tempfile.TemporaryDirectory(dir=target.parent) as aside:
        index = {"GIT_INDEX_FILE": os.path.join(aside, "index")}
        git(folder, "read-tree", commit, env=index)
        names = b"\0".join(one.raw for one in plain) + b"\0"
        words = (f"--work-tree={target}", "checkout-index", "-z", "--stdin")
        git(folder, *words, given=names, env=index, limit_s=_LIMIT_S)


def _link(folder: Path, entry: Entry, target: Path, path: str) -> None:
    """Make a link that leads from one place of the checkout to another; others lead to who knows where."""
    to = reading.content(folder, entry.oid)
    name = os.path.normpath(os.path.join(os.path.dirname(entry.raw), to))
    inside = os.fsencode(path).rstrip(b"/") + b"/" if path else b""
    # Up is where it seems to be only as long as no other link was followed.
    parts = to.split(b"/")
    first = next((place for place, part in enumerate(parts) if part != b".."), len(parts))
    goes_up_later = b".." in parts[first:]
    if not to or os.path.isabs(to) or b"\0" in to or goes_up_later:
        return
    if name.split(b"/")[0] == b".." or not name.startswith(inside):
        return
    place = target / os.fsdecode(entry.raw)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(os.fsdecode(to))


def _tar_name(commit: str, path: str) -> str:
    return _digest(f"tar:{commit}:{path}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _tars_named_in(spec: dict[str, Any]) -> Iterator[str]:
    urls: dict[str, str] = spec.get("inputs") or {}
    for url in urls.values():
        if url.startswith(SCHEME):
            # A template may have any text there.
            with suppress(BadInput):
                address = parse(url)
                yield _tar_name(address.revision, address.path)


def _add_all(tar: tarfile.TarFile, place: Path) -> None:
    for inner in sorted(place.rglob("*")):
        tar.add(inner, inner.relative_to(place), recursive=False, filter=_plain)


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "", ""
    return info
