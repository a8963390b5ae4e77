"""Code that clients upload: tar files named by their SHA-256, kept once however often they are used."""

import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

from jumar.errors import BadInput, NotFound, StorageFull

MOST_BYTES = 2 << 30
_DIGEST = re.compile(r"[0-9a-f]{64}")


class CodeTooLarge(BadInput):
    """More code than the platform keeps."""

    status = 413


class CodeArchives:
    """A folder of tar files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, digest: str) -> Path:
        """Where the archive is; NotFound if it was never uploaded."""
        path = self.path(digest)
        if not path.is_file():
            raise NotFound(
                f"no uploaded code {digest[:12]}…",
                hint=f"upload it first: PUT /api/v1/code/{digest}",
            )
        return path

    def has(self, digest: str) -> bool:
        """Whether it was uploaded."""
        return self.path(digest).is_file()

    def receive(self, digest: str, chunks: Iterable[bytes]) -> None:
        """Keep an upload, if its content is what its name says."""
        target = self.path(digest)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        aside = self._folder / f".{digest[:12]}-{secrets.token_hex(8)}"
        try:
            with aside.open("xb") as file:
                actual = _copy(chunks, file.write)
                if actual != digest:
                    raise BadInput(f"the upload's SHA-256 is {actual}, not {digest}")
                file.flush()
                os.fsync(file.fileno())
            aside.rename(target)
        except OSError as error:
            raise StorageFull(f"cannot keep the uploaded code: {error.strerror}") from error
        finally:
            aside.unlink(missing_ok=True)

    def path(self, digest: str) -> Path:
        """Where the archive belongs, whether it is there or not."""
        if not _DIGEST.fullmatch(digest):
            raise BadInput(f"{digest[:80]!r} is not a SHA-256 in hexadecimal digits")
        return self._folder / f"{digest}.tar"


def _copy(chunks: Iterable[bytes], write: Callable[[bytes], object]) -> str:
    digest, size = hashlib.sha256(), 0
    for chunk in chunks:
        size += len(chunk)
        if size > MOST_BYTES:
            raise CodeTooLarge(
                f"the code is larger than {MOST_BYTES >> 30} GiB",
                hint="leave data out of it (.jumarignore) and give it as an input",
            )
        digest.update(chunk)
        write(chunk)
    return digest.hexdigest()
