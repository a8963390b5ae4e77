"""What repositories, revisions and paths in them may be called. Nothing here becomes a path on disk."""

import re
from typing import Literal, get_args

from jumar.errors import BadInput

Kind = Literal["project", "model", "dataset"]
KINDS: tuple[Kind, ...] = get_args(Kind)
PLURALS: dict[str, Kind] = {"projects": "project", "models": "model", "datasets": "dataset"}

# The rules of the Hugging Face clients, which refuse anything else before they ask.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_-])?", re.ASCII)
_BAD_ENDS = (".git", ".ipynb", ".lock")
RULE = "use up to 96 letters, digits, '.', '_' and '-'; no '--' or '..', and no .git or .ipynb at the end"
# First parts of addresses that mean something else.
_RESERVED = frozenset(
    [
        "api",
        "models",
        "datasets",
        "projects",
        "spaces",
        "kernels",
        "buckets",
        "lfs",
        "xet",
        "hub",
        "settings",
    ]
)
_REF_FLAW = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)")
COMMIT = re.compile(r"[0-9a-f]{40}")
OID = re.compile(r"[0-9a-f]{64}")
_LONGEST_REF = 200
_LONGEST_PATH = 4096
_LONGEST_PART = 255


def is_repo_name(text: str) -> bool:
    """Whether a repository can be called so."""
    return (
        _NAME.fullmatch(text) is not None
        and "--" not in text
        and ".." not in text
        and not text.lower().endswith(_BAD_ENDS)
    )


def check_repo_name(owner: str, name: str) -> None:
    """BadInput, in words, for a name that no repository can have."""
    if not is_repo_name(name):
        raise BadInput(f"{name[:100]!r} is not a name for a repository", hint=RULE)
    if owner.lower() in _RESERVED:
        raise BadInput(f"nobody called {owner!r} can own repositories: the name is reserved")


def kind_of(text: str) -> Kind:
    """The kind of this name; BadInput where there is none."""
    for kind in KINDS:
        if kind == text:
            return kind
    raise BadInput(f"{text[:40]!r} is not a kind of repository", hint=", ".join(KINDS))


def plural(kind: str) -> str:
    """The kind as addresses have it."""
    return f"{kind}s"


def is_ref_name(text: str) -> bool:
    """Whether a branch or a tag can be called so."""
    return (
        0 < len(text) <= _LONGEST_REF
        and not text.startswith(("-", "/", ".", "refs/"))
        and not text.endswith(("/", "."))
        and text != "@"
        and _REF_FLAW.search(text) is None
    )


def check_path(path: str) -> str:
    """`path`, if a file in a repository may lie there; git's own check comes on top of it."""
    parts = path.split("/")
    if (
        len(path.encode("utf-8", "replace")) > _LONGEST_PATH
        or any(ord(letter) < 32 or ord(letter) == 127 for letter in path)
        or any(_is_bad_part(part) for part in parts)
    ):
        raise BadInput(
            f"{path[:200]!r} cannot be the path of a file in a repository",
            hint="give a path relative to the repository, without '..' and without .git",
        )
    return path


def _is_bad_part(part: str) -> bool:
    return (
        part in ("", ".", "..")
        or part.lower().rstrip(". ") in (".git", "git~1")
        or len(part.encode("utf-8", "replace")) > _LONGEST_PART
    )
