"""Write a port to a new folder or over its own source: written aside and renamed, all or nothing.

The source is only read, except in place; a second run into the same folder replaces only what an
earlier run wrote there."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jumar.errors import BadInput, StorageFull
from jumar.port.scan import REPORT_FOLDER

if TYPE_CHECKING:
    from jumar.port.tree import TreeResult

MANIFEST = "manifest.json"


def check_target(source: Path, target: Path) -> None:
    """Refuse a target that would harm the source or somebody's files."""
    inner, outer = target.resolve(), source.resolve()
    if inner == outer:
        raise BadInput(f"{target} is the source itself", hint="use --in-place to change it")
    if inner.is_relative_to(outer):
        raise BadInput(f"{target} is inside {source}", hint="choose a folder next to it")
    if outer.is_relative_to(inner):
        raise BadInput(f"{source} is inside {target}", hint="choose another folder for the output")
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise BadInput(f"{target} exists and is not a folder")
    if not target.exists() or not any(target.iterdir()):
        return
    manifest = read_manifest(target / REPORT_FOLDER)
    if manifest is None:
        raise BadInput(
            f"{target} is not empty",
            hint="choose a new folder; jumar port only replaces its own output",
        )
    edited = changed_since(target, manifest)
    if edited:
        raise BadInput(
            f"{target} was changed after the last port: {edited}",
            hint="choose a new folder, so that your changes are not lost",
        )


def read_manifest(report: Path) -> dict[str, Any] | None:
    """What an earlier run wrote, if there was one."""
    try:
        return cast("dict[str, Any]", json.loads((report / MANIFEST).read_text("utf-8")))
    except (OSError, ValueError):
        return None


def changed_since(target: Path, manifest: dict[str, Any]) -> str:
    """The first file of an earlier output that was edited since; empty if none was."""
    for path, (size, mtime_ns) in manifest["written"].items():
        try:
            status = os.lstat(target / path)
        except OSError:
            continue
        if (status.st_size, status.st_mtime_ns) != (size, mtime_ns):
            return str(path)
    return ""


def write_tree(
    result: "TreeResult", target: Path, reports: Iterable[tuple[str, str]], manifest: dict[str, Any]
) -> None:
    """Write the port and its reports next to the target, then rename them into place."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise BadInput(
            f"cannot write {target}: {error.strerror}", hint="choose a folder with write permission"
        ) from error
    try:
        write_copy(result, aside, ported=True)
        written = {path: _stamp(aside / path) for path in _listed(result, aside)}
        write_reports(aside / REPORT_FOLDER, reports, {**manifest, "written": written})
        aside.chmod(0o755)
        _swap(aside, target)
    except OSError as error:
        raise StorageFull(f"cannot write {target}: {error.strerror}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _swap(aside: Path, target: Path) -> None:
    if not target.exists():
        aside.rename(target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
    try:
        target.rename(old / "was")
        aside.rename(target)
    finally:
        shutil.rmtree(old, ignore_errors=True)


def write_copy(result: "TreeResult", folder: Path, *, ported: bool) -> None:
    """Fill a folder with the files of the source, original or ported."""
    changed = {r.path: r.ported for r in result.results if ported and r.ported is not None}
    made: set[str] = set()
    for found in result.files:
        place = folder / found.path
        parent = os.path.dirname(found.path)
        if parent not in made:
            place.parent.mkdir(parents=True, exist_ok=True)
            made.add(parent)
        source = result.root / found.path
        if found.is_link:
            os.symlink(os.readlink(source), place)
        elif found.problem:
            continue
        elif found.path in changed:
            place.write_bytes(changed[found.path])
            shutil.copymode(source, place)
        else:
            _copy(source, place)
    for path, data in result.added_files if ported else ():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def _copy(source: Path, place: Path) -> None:
    try:
        shutil.copy2(source, place)
    except PermissionError:
        # Already reported as unreadable; the rest of the repository is still useful.
        place.unlink(missing_ok=True)


def _listed(result: "TreeResult", folder: Path) -> list[str]:
    every = [f.path for f in result.files] + [path for path, _ in result.added_files]
    return [path for path in every if os.path.lexists(folder / path)]


def _stamp(path: Path) -> tuple[int, int]:
    status = os.lstat(path)
    return status.st_size, status.st_mtime_ns


def write_in_place(result: "TreeResult") -> int:
    """Replace each changed file with its port; each is written aside and renamed."""
    todo = [(r.path, r.ported) for r in result.results if r.ported is not None]
    staged: list[tuple[str, Path]] = []
    try:
        for path, data in [*todo, *result.added_files]:
            staged.append((_stage(result.root / path, data), result.root / path))
        for temporary, place in staged:
            os.replace(temporary, place)
    except OSError as error:
        raise StorageFull(f"cannot write into {result.root}: {error.strerror}") from error
    finally:
        for temporary, _ in staged:
            Path(temporary).unlink(missing_ok=True)
    return len(staged)


def _stage(place: Path, data: bytes) -> str:
    handle, temporary = tempfile.mkstemp(prefix=f".{place.name}-", dir=place.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    if place.exists():
        shutil.copymode(place, temporary)
    else:
        os.chmod(temporary, 0o644)
    return temporary


def write_reports(
    folder: Path, reports: Iterable[tuple[str, str]], manifest: dict[str, Any] | None = None
) -> None:
    """Write the reports into their folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in reports:
        (folder / name).write_bytes(text.encode("utf-8", errors="surrogateescape"))
    if manifest is not None:
        (folder / MANIFEST).write_text(json.dumps(manifest), "utf-8")
