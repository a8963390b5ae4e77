"""The pre-receive hook of every repository, run by git inside of its quarantine: standard library only.

Refuses plain files over a size, with the lines to run, and LFS pointers whose objects the server does
not have. Which those are it asks the server through the open socket that it inherits."""

import json
import os
import re
import socket
import subprocess
import sys

POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-[^\n]*\n)*oid sha256:([0-9a-f]{64})\nsize (\d{1,18})\n"
)
MOST_POINTER_BYTES = 1024
_SHOWN = 10


def main() -> int:
    """0 when the push may go on."""
    # Old commit, new commit, ref; one that is removed has no new commit.
    new = [sha for _old, sha, _ref in map(str.split, sys.stdin) if sha.strip("0")]
    if not new:
        return 0
    limit = int(os.environ["JUMAR_PLAIN_LIMIT"])
    too_big, small = _new_files("\n".join(new), limit)
    if too_big:
        _tell_of_big_ones(too_big, limit)
        return 1
    missing = _ask_for_missing(_pointers(small))
    if missing:
        _say("refused: the LFS objects of these files were not uploaded:")
        for path, oid in missing[:_SHOWN]:
            _say(f"  {path} (sha256:{oid})")
        _say("upload them with: git lfs push --all origin")
        return 1
    return 0


def _new_files(new: str, limit: int) -> tuple[list[tuple[str, int]], dict[bytes, str]]:
    """(path, size) of files that are too large, and (path, blob) of what may be a pointer."""
    listed = subprocess.Popen(
        ["git", "rev-list", "--objects", "--stdin", "--not", "--all"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    checked = subprocess.Popen(
        ["git", "cat-file", "--batch-check=%(objecttype) %(objectsize) %(objectname) %(rest)"],
        stdin=listed.stdout,
        stdout=subprocess.PIPE,
    )
    assert listed.stdin is not None
    assert listed.stdout is not None
    assert checked.stdout is not None
    listed.stdout.close()
    listed.stdin.write(new.encode())
    listed.stdin.close()
    too_big: list[tuple[str, int]] = []
    small: dict[bytes, str] = {}
    for line in checked.stdout:
        kind, size, name, path = line.rstrip(b"\n").split(b" ", 3)
        if kind != b"blob":
            continue
        if int(size) > limit:
            too_big.append((path.decode("utf-8", "replace"), int(size)))
        elif 100 < int(size) <= MOST_POINTER_BYTES:
            small[name] = path.decode("utf-8", "replace")
    if listed.wait() != 0 or checked.wait() != 0:
        _say("refused: the push cannot be read")
        sys.exit(1)
    return too_big, small


def _pointers(small: dict[bytes, str]) -> dict[str, tuple[str, int]]:
    """{oid: (path, size)} of those that are LFS pointers."""
    if not small:
        return {}
    done = subprocess.run(
        ["git", "cat-file", "--batch"],
        input=b"\n".join(small) + b"\n",
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, tuple[str, int]] = {}
    place = 0
    while place < len(done.stdout):
        end = done.stdout.index(b"\n", place)
        name, _kind, size = done.stdout[place:end].split()
        content = done.stdout[end + 1 : end + 1 + int(size)]
        match = POINTER.fullmatch(content)
        if match:
            found[match[1].decode()] = (small[name], int(match[2]))
        place = end + 2 + int(size)
    return found


def _ask_for_missing(pointers: dict[str, tuple[str, int]]) -> list[tuple[str, str]]:
    if not pointers:
        return []
    with socket.socket(fileno=int(os.environ["JUMAR_REFEREE"])) as server:
        server.settimeout(60)
        asked = {oid: size for oid, (_path, size) in pointers.items()}
        server.sendall(json.dumps(asked).encode() + b"\n")
        with server.makefile("rb") as answers:
            missing: list[str] = json.loads(answers.readline())
    return [(pointers[oid][0], oid) for oid in missing]


def _tell_of_big_ones(too_big: list[tuple[str, int]], limit: int) -> None:
    _say(f"refused: plain files may have at most {limit} bytes here; larger ones belong into LFS:")
    for path, size in too_big[:_SHOWN]:
        _say(f"  {path} ({size} bytes)")
    if len(too_big) > _SHOWN:
        _say(f"  and {len(too_big) - _SHOWN} more")
    patterns = sorted({_pattern(path) for path, _size in too_big})[:_SHOWN]
    for pattern in patterns:
        _say(f'run: git lfs track "{pattern}"')
    listed = ",".join(patterns)
    # The second one brings the files back that the first one leaves as pointers in the working folder.
    _say(f'then: git lfs migrate import --include="{listed}" && git lfs checkout && git push')


def _pattern(path: str) -> str:
    stem, dot, ending = path.rpartition("/")[2].rpartition(".")
    return f"*.{ending}" if stem and dot else path


def _say(text: str) -> None:
    # What is quoted may hold anything; a terminal shows it.
    sys.stderr.write("jumar: " + "".join(c if c.isprintable() else "?" for c in text) + "\n")


if __name__ == "__main__":
    sys.exit(main())
