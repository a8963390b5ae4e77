"""An answer kept as a file: whole or not at all, for its owner's eyes only."""

import os
import secrets
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from jumar.errors import BadInput, Conflict, ServerUnreachable

_BLOCK = 1 << 20


def download(response: HTTPResponse, path: Path, *, replace: bool) -> int:
    """Write the answer aside, then put it in place; its size."""
    aside = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                expected = response.length
                while block := response.read(_BLOCK):
                    file.write(block)
                size = file.tell()
                file.flush()
                os.fsync(file.fileno())
            if expected is not None and size != expected:
                raise ServerUnreachable(f"the answer broke off after {size} of {expected} bytes")
            _put_in_place(aside, path, replace)
        finally:
            aside.unlink(missing_ok=True)
    except HTTPException as error:
        raise ServerUnreachable(f"the answer broke off: {error}") from error
    except TimeoutError as error:
        raise ServerUnreachable("the answer broke off: it took too long") from error
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}") from error
    return size


def _put_in_place(aside: Path, path: Path, replace: bool) -> None:
    if replace:
        aside.replace(path)
        return
    try:
        os.link(aside, path)
    except FileExistsError:
        raise Conflict(f"{path} is there already", hint="write over it with --force") from None
