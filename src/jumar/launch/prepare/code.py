"""Bring the code of a job into its directory: an uploaded tar file, or one commit of a git
repository. It is made aside and renamed, and kept for later attempts.

Nothing from either may write outside the folder or run while it is brought."""

import errno
import os
import re
from typing import TYPE_CHECKING, BinaryIO, Dict, List, NamedTuple, Optional, Tuple

from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.job import Job, Request
from jumar.launch.jobdir.trouble import trouble_with
from jumar.launch.prepare.steps import Step, Steps
from jumar.launch.processes.control import Control
from jumar.launch.verdict import SetupFailed

if TYPE_CHECKING:
    import tarfile

GIT_LIMIT_S = 600.0
ARCHIVE_DESCRIPTOR = "descriptor"
"""Names an archive that came as an open file: `descriptor:5`."""
_PROTOCOLS = "https:http:ssh:git:file"
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:[0-9]+)?\Z", re.ASCII)
_HELPER = """!f() { if test "$1" = get; then \
printf 'username=%s\\npassword=%s\\n' "$JUMAR_GIT_USER" "$JUMAR_GIT_PASSWORD"; fi; }; f"""


def bring_code(
    directory: JobDir, job: Job, request: Request, steps: Steps, environment: Dict[str, str]
) -> str:
    """The folder the ranks start in, of a job that names none; raises SetupFailed."""
    folder = directory.path("code")
    if os.path.isdir(folder):
        return folder
    aside = directory.path(f"code.{directory.number}.new")
    _clear(aside)
    try:
        os.makedirs(aside)
        if job.code == "archive":
            _unpack(
                _required(request.archive, "request.json names no archive"), aside, steps.control
            )
        elif job.code == "git":
            _fetch(
                _required(job.git_url, "no git address"),
                job.git_commit or "",
                aside,
                steps,
                environment,
            )
        os.rename(aside, folder)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            full = trouble_with(error, directory.root)
            raise SetupFailed(full.cause, full.reason, values=full.values) from error
        raise _not_fetched(error.strerror or str(error)) from error
    finally:
        _clear(aside)
    return folder


def bring_trees(directory: JobDir, request: Request, steps: Steps) -> None:
    """Unpack the inputs that came as tar files; raises SetupFailed."""
    for name, archive in request.trees.items():
        folder = directory.path("inputs", name)
        if os.path.isdir(folder):
            continue
        aside = directory.path(f"inputs.{directory.number}.new")
        _clear(aside)
        try:
            os.makedirs(aside)
            _unpack(archive, aside, steps.control)
            os.makedirs(os.path.dirname(folder), exist_ok=True)
            os.rename(aside, folder)
        finally:
            _clear(aside)


def _clear(folder: str) -> None:
    """Remove what an attempt before, or this one, has left there."""
    if os.path.lexists(folder):
        # Late, as with tar files and addresses: of most jobs there is nothing, and the ranks wait.
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


def _required(value: Optional[str], complaint: str) -> str:
    if not value:
        raise _not_fetched(complaint)
    return value


def _not_fetched(words: str) -> SetupFailed:
    return SetupFailed("code", f"the code could not be fetched: {words}", values={"error": words})


def _damaged(words: str) -> SetupFailed:
    reason = f"the uploaded code is not a complete tar file: {words}"
    return SetupFailed("code-damaged", reason, values={"error": words})


def _outside(name: str) -> SetupFailed:
    reason = f"the uploaded code contains {name}, which leads outside of it"
    return SetupFailed("code-outside", reason, values={"file": name})


def _unpack(archive: str, folder: str, control: Control) -> None:
    import tarfile

    links: List[Tuple[str, str]] = []
    try:
        # Uncompressed only: a small file must not become a large folder.
        with _opened(archive) as file, tarfile.open(fileobj=file, mode="r:") as tar:
            for member in tar:
                control.check()
                _unpack_member(tar, member, folder, links)
    except tarfile.TarError as error:
        raise _damaged(str(error)) from error
    # Last, so that no file is written through a link.
    for path, target in links:
        os.symlink(target, path)


def _opened(archive: str) -> BinaryIO:
    """The tar file: at a path, or `descriptor:N` where only the platform may open it."""
    kind, _, number = archive.rpartition(":")
    if kind == ARCHIVE_DESCRIPTOR:
        return os.fdopen(os.dup(int(number)), "rb")
    try:
        return open(archive, "rb")
    except FileNotFoundError as error:
        reason = f"the uploaded code no longer exists: {archive}"
        raise SetupFailed("code-gone", reason, values={"file": archive}) from error


def _unpack_member(
    tar: "tarfile.TarFile", member: "tarfile.TarInfo", folder: str, links: List[Tuple[str, str]]
) -> None:
    import shutil

    parts = member_parts(member.name)
    path = os.path.join(folder, *parts)
    if member.isdir():
        os.makedirs(path, exist_ok=True)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if member.issym():
        links.append((path, _inner_target(member.linkname, depth=len(parts) - 1, name=member.name)))
    elif member.isreg() and not member.issparse():
        source = tar.extractfile(member)
        if source is None:
            raise _damaged(member.name)
        with source, open(path, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        os.chmod(path, 0o755 if member.mode & 0o111 else 0o644)
    else:
        odd = f"the uploaded code contains {member.name}, which is not a file, folder or link"
        raise SetupFailed("code-odd", odd, values={"file": member.name})


def member_parts(name: str) -> List[str]:
    """The parts of a path that stays inside; raises SetupFailed for any other."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise _outside(name)
    return parts


def _inner_target(target: str, depth: int, name: str) -> str:
    parts = [part for part in target.split("/") if part not in ("", ".")]
    upwards = 0
    while upwards < len(parts) and parts[upwards] == "..":
        upwards += 1
    # `..` after a name could climb out through another link.
    if target.startswith("/") or upwards > depth or ".." in parts[upwards:]:
        raise _outside(f"{name} -> {target}")
    return target


def _fetch(url: str, commit: str, folder: str, steps: Steps, environment: Dict[str, str]) -> None:
    variables = {
        **environment,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "SSH_ASKPASS": "/bin/false",
        "GIT_SSH_COMMAND": "ssh -o BatchMode=yes -o ConnectTimeout=20",
        "GIT_ALLOW_PROTOCOL": _PROTOCOLS,
        "LC_ALL": "C",
    }
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        variables.pop(name, None)
    place = _place(url)
    git = ["git", "-c", "core.hooksPath=/dev/null", "-c", "init.templateDir=", "-C", folder]

    def step(what: str, *words: str) -> Step:
        return Step(f"git {what}", [*git, what, "--quiet", *words], variables, folder, 120)

    def fetch(*words: str) -> Step:
        plain = ("--quiet", "--no-tags", "--no-recurse-submodules")
        return Step(
            "git fetch",
            [*git, *place.options, "fetch", *plain, *words],
            {**variables, **place.variables},
            folder,
            GIT_LIMIT_S,
        )

    steps.run("code", step("init"))
    one = fetch("--depth=1", "--", place.url, commit)
    if len(commit) < 40 or steps.try_run(one) is not None:
        # Short commits, and servers that hand out only branches: all of it, then.
        steps.run("code", fetch("--", place.url, "+refs/*:refs/remotes/all/*"))
    steps.run("code", step("checkout", "--detach", f"{commit}^{{commit}}"))


class _Place(NamedTuple):
    """A repository as git is told of it."""

    url: str
    options: List[str]
    variables: Dict[str, str]


def _place(url: str) -> _Place:
    """A password goes to git by its environment: everybody on the machine can read command lines."""
    from urllib.parse import unquote, urlsplit, urlunsplit

    try:
        parts = urlsplit(url)
        user, password = unquote(parts.username or ""), parts.password
    except ValueError as error:
        raise SetupFailed("git-address", "the git address cannot be read") from error
    if parts.scheme not in ("http", "https") or password is None:
        return _Place(url, [], {})
    password, host = unquote(password), parts.netloc.rpartition("@")[2]
    if not _HOST.match(host) or not (user + password).isprintable():
        # It would become part of git's settings, or of what is said to git.
        raise SetupFailed("git-address", "the git address cannot be read")
    return _Place(
        urlunsplit(parts._replace(netloc=host)),
        # None of the machine's own helpers, which might keep it; and this one for this host only.
        ["-c", "credential.helper=", "-c", f"credential.{parts.scheme}://{host}.helper={_HELPER}"],
        {"JUMAR_GIT_USER": user, "JUMAR_GIT_PASSWORD": password},
    )
