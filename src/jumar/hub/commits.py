"""Commits that are made here, for clients that send files instead of packs.

The files are imported into a scratch repository that borrows the real one's objects, and from there
pushed: every change of a branch goes through `git receive-pack`, its checks and our hook."""

import base64
import binascii
import json
import logging
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from jumar.errors import BadInput, Conflict, FileChanged
from jumar.hub.gitting import GitFailed, bound, environment, git, no_git, words
from jumar.hub.names import OID, check_path, is_ref_name
from jumar.hub.objects import Objects
from jumar.hub.reading import (
    EntryNotFound,
    Pointer,
    RevisionNotFound,
    branch_at,
    commit_of,
    entry_at,
    head_of,
    pointer_text,
)
from jumar.hub.referee import judged
from jumar.hub.repositories import Repositories
from jumar.spec.repos import RepoRecord

log = logging.getLogger(__name__)
_TRIES = 5
_MOST_FILES = 100_000
_MOST_MESSAGE = 64 << 10
_LOST_A_RACE = ("stale info", "failed to update ref", "cannot lock ref", "fetch first")
_ATTRIBUTES = ".gitattributes"
_IMPORT_LIMIT_S = 600.0
Fields = Mapping[str, Any]
_NOTHING: tuple[str, Fields] = ("", {})


class Commits:
    """Makes commits in the repositories."""

    def __init__(self, repositories: Repositories, objects: Objects) -> None:
        self._repositories = repositories
        self._objects = objects
        self._home = repositories.home

    def make(self, repo: RepoRecord, branch: str, user: str, lines: BinaryIO) -> str:
        """The commit that the operations in `lines` (JSON, one each) make on a branch."""
        if not is_ref_name(branch):
            raise RevisionNotFound(f"no branch {branch[:100]!r}")
        folder = self._repositories.folder(repo)
        with self._repositories.changing(repo):
            self._repositories.check_exists(repo)
            for _try in range(_TRIES):
                lines.seek(0)
                made = self._try(repo, folder, branch, user, lines)
                if made is not None:
                    self._repositories.refresh(repo)
                    return made
        raise Conflict(f"others keep changing {branch}", hint="try again")

    def move_ref(self, repo: RepoRecord, ref: str, commit: str | None) -> None:
        """Make a branch or a tag at a commit that is there, or remove it; both with receive-pack."""
        folder = self._repositories.folder(repo)
        with self._repositories.changing(repo), self._scratch(folder) as scratch:
            self._repositories.check_exists(repo)
            self._push(repo, folder, scratch, f"{commit or ''}:{ref}", lease=None)

    def _try(
        self, repo: RepoRecord, folder: Path, branch: str, user: str, lines: BinaryIO
    ) -> str | None:
        """The new commit; None where somebody else was quicker."""
        parent = self._parent(folder, branch)
        operations = _operations(lines, self._repositories.limits.plain_bytes)
        key, header = next(operations, _NOTHING)
        if key != "header":
            raise BadInput("the first line of a commit must be its header")
        expected = header.get("parentCommit")
        if expected and expected != parent:
            raise FileChanged("the branch has changed since", hint="read it again, then try again")
        with self._scratch(folder) as scratch:
            message = _message(header)
            lfs_paths = self._import(repo, folder, scratch, parent, user, message, operations)
            _track(scratch, lfs_paths, user, message, parent)
            new = git(scratch, "rev-parse", "refs/heads/new").decode().strip()
            if parent and _tree(scratch, new) == _tree(scratch, parent):
                return parent
            lease = f"refs/heads/{branch}:{parent or ''}"
            pushed = self._push(repo, folder, scratch, f"{new}:refs/heads/{branch}", lease=lease)
        return new if pushed else None

    @staticmethod
    def _parent(folder: Path, branch: str) -> str | None:
        try:
            return branch_at(folder, branch)
        except RevisionNotFound:
            if head_of(folder) is not None:
                raise
            return None

    @contextmanager
    def _scratch(self, folder: Path) -> Generator[Path]:
        scratch = self._home / "spool" / f"{secrets.token_hex(8)}.git"
        scratch.mkdir(parents=True)
        try:
            git(scratch, "init", "-q", "--bare", "--template=", ".")
            (scratch / "objects/info").mkdir(exist_ok=True)
            (scratch / "objects/info/alternates").write_text(f"{folder / 'objects'}\n", "utf-8")
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _import(
        self,
        repo: RepoRecord,
        folder: Path,
        scratch: Path,
        parent: str | None,
        user: str,
        message: str,
        operations: Iterator[tuple[str, Fields]],
    ) -> list[str]:
        """Run the operations; the paths of LFS files among them."""
        lfs_paths: list[str] = []
        with _importing(scratch) as stream:
            stream.write(_commit_head(user, message, parent))
            for key, value in operations:
                path = check_path(_text(value, "path").rstrip("/"))
                match key:
                    case "file":
                        _write_file(stream, path, _content(value, path))
                    case "lfsFile":
                        lfs_paths.append(path)
                        _write_file(stream, path, self._pointer(repo, value, path))
                    case "deletedFile" | "deletedFolder" | "deletedEntry":
                        stream.write(b"D " + _quoted(path) + b"\n")
                    case "copyFile":
                        stream.write(_copy(folder, value, path, parent))
                    case _:
                        raise BadInput(f"unknown operation {key[:40]!r} in a commit")
        return lfs_paths

    def _pointer(self, repo: RepoRecord, value: Fields, path: str) -> bytes:
        oid = _text(value, "oid")
        found = self._objects.linked(repo, [oid]).get(oid) if OID.fullmatch(oid) else None
        if found is None:
            raise BadInput(
                f"{path}: LFS object {oid[:64]!r} was not uploaded to this repository",
                hint="upload it first, then commit",
            )
        return pointer_text(Pointer(oid, found.size))

    def _push(
        self, repo: RepoRecord, folder: Path, scratch: Path, what: str, *, lease: str | None
    ) -> bool:
        """Whether the branch was moved; False when somebody else was quicker."""
        limits = self._repositories.limits
        hooks = self._home / "hooks"
        judging = judged(
            folder, hooks, limits.plain_bytes, lambda w: self._objects.missing(repo, w)
        )
        with judging as ruled:
            receive = words("receive-pack", config=ruled.config)
            options = ["-q", "--porcelain", "--receive-pack", _in_shell(receive)]
            options += [] if lease is None else [f"--force-with-lease={lease}"]
            try:
                git(
                    scratch,
                    "push",
                    *options,
                    os.fspath(folder),
                    what,
                    env=ruled.env,
                    descriptors=ruled.descriptors,
                    limit_s=_IMPORT_LIMIT_S,
                )
            except GitFailed as error:
                if any(sign in error.said for sign in _LOST_A_RACE):
                    return False
                log.info("a commit was refused: %s", error.said)
                raise BadInput(_refusal(error.said), hint="nothing was changed") from error
        return True


def _operations(lines: BinaryIO, plain_limit: int) -> Iterator[tuple[str, Fields]]:
    longest = plain_limit * 4 // 3 + (1 << 16)
    for number in range(1, _MOST_FILES + 2):
        line = lines.readline(longest + 1)
        if not line:
            return
        if len(line) > longest:
            raise BadInput(
                f"line {number} of the commit: plain files may have at most {plain_limit} bytes",
                hint="upload larger files through LFS",
            )
        if not line.strip():
            continue
        try:
            values = json.loads(line)
            key, value = values["key"], values["value"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise BadInput(f"line {number} of the commit is not an operation") from None
        if not isinstance(key, str) or not isinstance(value, dict):
            raise BadInput(f"line {number} of the commit is not an operation")
        yield key, cast("Fields", value)
    raise BadInput(f"a commit may have at most {_MOST_FILES} operations", hint="make several")


def _message(header: Fields) -> str:
    summary, description = header.get("summary"), header.get("description")
    text = "\n\n".join(str(part) for part in (summary, description) if part)
    return text.replace("\0", " ")[:_MOST_MESSAGE] or "Update"


def _text(value: Fields, name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str):
        raise BadInput(f"an operation of the commit has no {name}")
    return found


def _content(value: Fields, path: str) -> bytes:
    text = _text(value, "content")
    if value.get("encoding") != "base64":
        return text.encode("utf-8", "replace")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadInput(f"{path}: the content is not base64") from None


def _copy(folder: Path, value: Fields, path: str, parent: str | None) -> bytes:
    revision = value.get("srcRevision")
    commit = commit_of(folder, str(revision)) if revision else parent
    source = _text(value, "srcPath")
    if commit is None:
        raise EntryNotFound(source, "")
    entry = entry_at(folder, commit, source)
    return f"M {entry.mode} {entry.oid} ".encode() + _quoted(path) + b"\n"


@contextmanager
def _importing(scratch: Path) -> Generator[IO[bytes]]:
    """The standard input of a fast-import, whose failures are refusals."""
    command = words("-C", os.fspath(scratch), "fast-import", "--quiet", "--force", "--done")
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )
    except FileNotFoundError as error:
        raise no_git() from error
    bound(process.pid)
    assert process.stdin is not None
    try:
        yield process.stdin
        process.stdin.write(b"\ndone\n")
        process.stdin.close()
        if process.wait(_IMPORT_LIMIT_S) != 0:
            raise BadInput(
                "the files of the commit do not fit together", hint="nothing was changed"
            )
    except BrokenPipeError:
        raise BadInput(
            "the files of the commit do not fit together", hint="nothing was changed"
        ) from None
    finally:
        process.kill()
        process.wait()
        with suppress(BrokenPipeError):
            process.stdin.close()


def _commit_head(user: str, message: str, parent: str | None) -> bytes:
    who, text = (
        f"{user} <{user}@jumar> {int(time.time())} +0000".encode(),
        message.encode("utf-8", "replace"),
    )
    head = b"feature done\ncommit refs/heads/new\nauthor %s\ncommitter %s\ndata %d\n%s\n"
    start = b"" if parent is None else f"from {parent}\n".encode()
    return head % (who, who, len(text), text) + start


def _write_file(stream: IO[bytes], path: str, content: bytes) -> None:
    stream.write(b"M 100644 inline " + _quoted(path) + b"\ndata %d\n" % len(content))
    stream.write(content)
    stream.write(b"\n")


def _quoted(path: str) -> bytes:
    # Control characters were refused before.
    return (
        b'"' + path.encode("utf-8", "replace").replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
    )


def _track(
    scratch: Path, lfs_paths: list[str], user: str, message: str, parent: str | None
) -> None:
    """Have git know each LFS file for one: else it would check out the pointer."""
    if not lfs_paths:
        return
    index = {"GIT_INDEX_FILE": os.fspath(scratch / "attributes.index")}
    git(scratch, "read-tree", "refs/heads/new", env=index)
    asked = "\0".join(lfs_paths).encode() + b"\0"
    said = git(scratch, "check-attr", "--cached", "--stdin", "-z", "filter", given=asked, env=index)
    fields = said.decode("utf-8", "replace").split("\0")
    untracked = [
        path for path, value in zip(fields[::3], fields[2::3], strict=False) if value != "lfs"
    ]
    if not untracked:
        return
    try:
        before = git(scratch, "cat-file", "blob", f"refs/heads/new:{_ATTRIBUTES}")
    except GitFailed:
        before = b""
    if before and not before.endswith(b"\n"):
        before += b"\n"
    added = "".join(f"{_pattern(path)} filter=lfs diff=lfs merge=lfs -text\n" for path in untracked)
    tree = git(scratch, "rev-parse", "refs/heads/new^{tree}").decode().strip()
    with _importing(scratch) as stream:
        # One commit, not two: made anew from the first one's files.
        stream.write(_commit_head(user, message, parent))
        stream.write(f'M 040000 {tree} ""\n'.encode())
        _write_file(stream, _ATTRIBUTES, before + added.encode())


def _pattern(path: str) -> str:
    """A line of .gitattributes for one file, in the form that git-lfs writes."""
    escaped = "".join(f"\\{letter}" if letter in "*?[]\\" else letter for letter in path)
    return "/" + escaped.replace(" ", "[[:space:]]")


def _tree(folder: Path, commit: str) -> bytes:
    return git(folder, "rev-parse", f"{commit}^{{tree}}")


def _in_shell(command: list[str]) -> str:
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in command)


def _refusal(said: str) -> str:
    """What our own hook said, or that git's check found something; never git's paths."""
    ours = [line.partition("jumar: ")[2] for line in said.splitlines() if "jumar: " in line]
    if ours:
        return "\n".join(line.strip() for line in ours)
    for line in said.splitlines():
        _, found, words_ = line.partition("fsck error")
        if found:
            return f"git's check refused it{words_}"
    return "git refused this commit"
