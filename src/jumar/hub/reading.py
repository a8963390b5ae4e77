"""Reading a repository: revisions, trees, files, history. Links in trees are never followed."""

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from jumar.errors import NotFound
from jumar.hub.gitting import GitFailed, git
from jumar.hub.names import COMMIT, check_path, is_ref_name
from jumar.hub.pre_receive import MOST_POINTER_BYTES, POINTER

MAIN = "main"
_LEAST_POINTER_BYTES = 100
_REMEMBERED = 20_000


class RevisionNotFound(NotFound):
    """No such branch, tag or commit."""


class EntryNotFound(NotFound):
    """No such file at this revision."""

    def __init__(self, path: str, commit: str) -> None:
        super().__init__(f"{path} does not exist at this revision")
        self.commit = commit


@dataclass(frozen=True, slots=True)
class Pointer:
    """What a file of LFS stands for."""

    oid: str
    size: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One file or folder of a tree."""

    path: str
    mode: str
    oid: str
    stored: int
    """Bytes in git; of a folder 0."""
    pointer: Pointer | None = None
    raw: bytes = b""
    """The path as git has it, which need not be text."""

    @property
    def is_folder(self) -> bool:
        return self.mode == "040000"

    @property
    def size(self) -> int:
        return self.stored if self.pointer is None else self.pointer.size

    @property
    def etag(self) -> str:
        return self.oid if self.pointer is None else self.pointer.oid


@dataclass(frozen=True, slots=True)
class Commit:
    """One line of the history."""

    id: str
    author: str
    at: float
    title: str
    message: str


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch or a tag and the commit that it is at."""

    name: str
    ref: str
    commit: str


def commit_of(folder: Path, revision: str) -> str:
    """The whole id of the commit that a branch, a tag or an id names."""
    if COMMIT.fullmatch(revision):
        try:
            return _whole_id(folder, revision)
        except GitFailed:
            candidates = []
    elif is_ref_name(revision):
        candidates = [f"refs/heads/{revision}", f"refs/tags/{revision}"]
        if re.fullmatch("[0-9a-f]{7,39}", revision):
            candidates.append(revision)
    else:
        candidates = []
    for candidate in candidates:
        with suppress(GitFailed):
            return _verified(folder, candidate)
    if not any(refs(folder)):
        raise RevisionNotFound(
            "the repository is empty", hint="push or upload something to it first"
        )
    raise RevisionNotFound(
        f"no revision {revision[:100]!r}", hint="give a branch, a tag or a commit"
    )


def branch_at(folder: Path, branch: str) -> str:
    """The newest commit of a branch; RevisionNotFound where a tag or a commit is called so, or nothing is."""
    if is_ref_name(branch):
        with suppress(GitFailed):
            return _verified(folder, f"refs/heads/{branch}")
    raise RevisionNotFound(f"no branch {branch[:100]!r}", hint="commits are made on branches")


def _verified(folder: Path, name: str) -> str:
    words = ("rev-parse", "-q", "--verify", "--end-of-options", f"{name}^{{commit}}")
    return git(folder, *words).decode().strip()


# Clients ask for each file of a commit twice and by its whole id: what a commit has never changes.
@lru_cache(_REMEMBERED)
def _whole_id(folder: Path, commit: str) -> str:
    return _verified(folder, commit)


def head_of(folder: Path) -> str | None:
    """The newest commit of the main branch; None while there is none."""
    try:
        return commit_of(folder, MAIN)
    except RevisionNotFound:
        return None


def entries(folder: Path, commit: str, path: str = "", *, recursive: bool = True) -> list[Entry]:
    """The files and folders below `path`, which is not among them."""
    words = ["ls-tree", "-z", "-l", "-t", "--full-tree", *(["-r"] if recursive else []), commit]
    if path:
        words += ["--", f"{check_path(path.rstrip('/'))}/"]
    found = [_entry(line) for line in git(folder, *words).split(b"\0") if line]
    inside = f"{path.rstrip('/')}/" if path else ""
    return _with_pointers(
        folder, [one for one in found if one is not None and one.path.startswith(inside)]
    )


@lru_cache(_REMEMBERED)
def entry_at(folder: Path, commit: str, path: str) -> Entry:
    """The file at `path`; EntryNotFound where there is none."""
    said = git(folder, "ls-tree", "-z", "-l", "--full-tree", commit, "--", check_path(path))
    found = [_entry(line) for line in said.split(b"\0") if line]
    files = [one for one in found if one is not None and one.path == path and not one.is_folder]
    if not files:
        raise EntryNotFound(path, commit)
    return _with_pointers(folder, files)[0]


def _entry(line: bytes) -> Entry | None:
    head, _, path = line.partition(b"\t")
    mode, kind, oid, size = head.decode().split()
    if kind == "commit":
        # A repository inside of a repository is elsewhere.
        return None
    text = path.decode("utf-8", "replace")
    return Entry(text, mode, oid, 0 if size == "-" else int(size), raw=path)


def _with_pointers(folder: Path, found: list[Entry]) -> list[Entry]:
    maybe = [
        one.oid
        for one in found
        if not one.is_folder and _LEAST_POINTER_BYTES < one.stored <= MOST_POINTER_BYTES
    ]
    contents = blobs(folder, maybe)
    return [replace(one, pointer=pointer_in(contents.get(one.oid, b""))) for one in found]


def pointer_in(content: bytes) -> Pointer | None:
    """What `content` points to, if it is a pointer of LFS."""
    match = POINTER.fullmatch(content)
    return None if match is None else Pointer(match[1].decode(), int(match[2]))


def pointer_text(pointer: Pointer) -> bytes:
    """A pointer as git keeps it."""
    text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{pointer.oid}\nsize {pointer.size}\n"
    return text.encode()


def blobs(folder: Path, oids: list[str]) -> dict[str, bytes]:
    """The contents of small files, by their ids in git."""
    if not oids:
        return {}
    said = git(folder, "cat-file", "--batch", given="".join(f"{oid}\n" for oid in oids).encode())
    found: dict[str, bytes] = {}
    place = 0
    while place < len(said):
        end = said.index(b"\n", place)
        oid, _kind, size = said[place:end].decode().split()
        found[oid] = said[end + 1 : end + 1 + int(size)]
        place = end + 2 + int(size)
    return found


def content(folder: Path, oid: str) -> bytes:
    """A plain file, whole: the rule for pushes keeps them small."""
    return git(folder, "cat-file", "blob", oid)


def text_at(folder: Path, commit: str, path: str, most: int) -> str:
    """A plain text file, or nothing if there is none or it is larger."""
    try:
        entry = entry_at(folder, commit, path)
    except EntryNotFound:
        return ""
    if entry.pointer is not None or entry.stored > most:
        return ""
    return content(folder, entry.oid).decode("utf-8", "replace")


def history(folder: Path, commit: str, *, most: int = 50, path: str = "") -> list[Commit]:
    """The newest commits first."""
    where = ["--", path] if path else []
    said = git(folder, "log", "-z", f"-n{most}", "--format=%H%n%an%n%ct%n%s%n%b", commit, *where)
    found: list[Commit] = []
    for block in said.decode("utf-8", "replace").split("\0"):
        if block:
            sha, author, at, title, message = (*block.split("\n", 4), "", "", "", "")[:5]
            found.append(Commit(sha, author, float(at), title, message.strip()))
    return found


def count_commits(folder: Path, commit: str) -> int:
    """How many commits led to this one."""
    return int(git(folder, "rev-list", "--count", commit))


def refs(folder: Path) -> tuple[list[Ref], list[Ref]]:
    """Branches and tags."""
    form = "--format=%(refname)%00%(objectname)%00%(*objectname)"
    said = git(folder, "for-each-ref", form, "refs/heads", "refs/tags")
    branches: list[Ref] = []
    tags: list[Ref] = []
    for line in said.decode("utf-8", "replace").splitlines():
        ref, sha, peeled = line.split("\0")
        kind, _, name = ref.removeprefix("refs/").partition("/")
        (branches if kind == "heads" else tags).append(Ref(name, ref, peeled or sha))
    return branches, tags


def iso(at: float) -> str:
    """A moment as the Hugging Face clients read it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
