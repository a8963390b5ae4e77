"""An answer kept as a file: whole or not at all, for its owner's eyes only."""

from http.client import HTTPException, HTTPResponse
from pathlib import Path

from jumar.errors import BadInput, Conflict, ServerUnreachable
from jumar.wholefile import whole_file

_BLOCK = 1 << 20


def download(response: HTTPResponse, path: Path, *, replace: bool) -> int:
    """Write the answer aside, then put it in place; its size."""
    try:
        with whole_file(path, private=True, durable=True, replace=replace) as file:
            expected = response.length
            while block := response.read(_BLOCK):
                file.write(block)
            size = file.tell()
            if expected is not None and size != expected:
                raise ServerUnreachable(f"the answer broke off after {size} of {expected} bytes")
    except FileExistsError:
        raise Conflict(f"{path} is there already", hint="write over it with --force") from None
    except HTTPException as error:
        raise ServerUnreachable(f"the answer broke off: {error}") from error
    except TimeoutError as error:
        raise ServerUnreachable("the answer broke off: it took too long") from error
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}") from error
    return size
