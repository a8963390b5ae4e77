"""The wheel of this very jumar, from its installed files: a bundle needs no checkout and no index for it."""

import base64
import hashlib
import importlib.metadata
import zipfile
from collections.abc import Iterator
from pathlib import Path

import jumar
from jumar.errors import HomeUnusable
from jumar.site.one_file import add_file

_METADATA = ("METADATA", "WHEEL", "entry_points.txt")


def build_wheel(folder: Path) -> Path:
    """Write it; gives its path."""
    found = importlib.metadata.distribution("jumar")
    inside = f"jumar-{found.version}.dist-info"
    output = folder / f"jumar-{found.version}-py3-none-any.whl"
    lines: list[str] = []
    with zipfile.ZipFile(output, "w") as archive:
        for name, data in (*_package(), *_metadata(found, inside)):
            add_file(archive, name, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
            lines.append(f"{name},sha256={digest.decode()},{len(data)}")
        lines.append(f"{inside}/RECORD,,")
        add_file(archive, f"{inside}/RECORD", ("\n".join(lines) + "\n").encode())
    return output


def _package() -> Iterator[tuple[str, bytes]]:
    package = Path(str(jumar.__file__)).parent
    yield from _files(package, "jumar")
    if not (package / "examples").is_dir():
        # A checkout has them at its top.
        yield from _files(package.parent.parent / "examples", "jumar/examples")


def _files(folder: Path, name: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"{name}/{path.relative_to(folder).as_posix()}", path.read_bytes()


def _metadata(found: importlib.metadata.Distribution, inside: str) -> Iterator[tuple[str, bytes]]:
    for name in _METADATA:
        text = found.read_text(name)
        if text is None:
            raise HomeUnusable(f"the installed jumar has no {name}", hint="install it again")
        yield f"{inside}/{name}", text.encode()
