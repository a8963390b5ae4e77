"""Branches and tags of a git repository as commits: a job runs what was there when it was submitted."""

import os
import re
import subprocess

from jumar.errors import BadInput

_LIMIT_S = 60.0
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
# `https://NAME:PASSWORD@…`: git repeats the address in what it says.
_SIGN_IN = re.compile(r"(https?://)[^/\s]+@")


def commit_of(url: str, ref: str) -> str:
    """The commit that a branch or a tag is now; BadInput where there is none."""
    shown = _SIGN_IN.sub(r"\1***@", url)
    names = [f"refs/heads/{ref}", f"refs/tags/{ref}", f"refs/tags/{ref}^{{}}"]
    if ref == "HEAD" or ref.startswith("refs/"):
        names = [ref, f"{ref}^{{}}"]
    found = _ask(url, shown, names)
    # A tag with a message is an object of its own; ^{} is what it stands for.
    commits = {found.get(f"{name}^{{}}", commit) for name, commit in found.items()}
    if not commits:
        raise BadInput(
            f"{shown} has no branch or tag {ref!r}", hint="list them with: git ls-remote URL"
        )
    if len(commits) > 1:
        raise BadInput(
            f"{ref!r} is both a branch and a tag of {shown}",
            hint=f"write refs/heads/{ref} or refs/tags/{ref}",
        )
    return commits.pop()


def _ask(url: str, shown: str, names: list[str]) -> dict[str, str]:
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", "ls-remote", "--", url, *names],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
        )
    except FileNotFoundError:
        raise BadInput("git is not installed here", hint="give the full commit") from None
    except subprocess.TimeoutExpired:
        raise BadInput(f"{shown} did not answer within {_LIMIT_S:g} s") from None
    if done.returncode != 0:
        said = _SIGN_IN.sub(r"\1***@", done.stderr.strip()).splitlines()
        raise BadInput(f"cannot read {shown}: {said[-1] if said else 'git failed'}")
    pairs = [line.split("\t", 1) for line in done.stdout.splitlines()]
    return {pair[1]: pair[0] for pair in pairs if len(pair) == 2 and _COMMIT.fullmatch(pair[0])}
