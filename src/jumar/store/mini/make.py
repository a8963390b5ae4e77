"""Make a mini data set: look at what is there, choose, copy."""

import tarfile
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import cast

from jumar.errors import BadInput, NotFound
from jumar.store.archive import Limits, is_archive, unpack
from jumar.store.base import Entry, Place, Store
from jumar.store.mini import binaries, tables
from jumar.store.mini.choice import few_of_each
from jumar.store.transfer.one import copy_entry

IMAGES = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".npy"}
STATIC_BYTES = 10_000_000
"""A single file above this size that no layout explains is kept whole: weights, word vectors."""
_MOST_TABLE_BYTES = 512_000_000
_TABLES = {".csv", ".tsv", ".json", ".xml"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniReport:
    """What a mini data set kept."""

    layout: str
    files: int
    kept: int
    bytes: int
    classes: int


@dataclass(frozen=True, slots=True)
class _Wish:
    per_class: int
    seed: int


@dataclass
class _Cut:
    """What is kept: whole files by name, and files that were made new."""

    kept: set[str] = field(default_factory=set[str])
    made: dict[str, bytes] = field(default_factory=dict[str, bytes])
    layouts: set[str] = field(default_factory=set[str])
    classes: int = 0


def make_mini(source: Place, target: Place, *, per_class: int, seed: int = 0) -> MiniReport:
    """Keep a few files of each class of `source` in `target`."""
    if per_class < 1:
        raise BadInput("--per-class has to be at least 1")
    target.store.make_ready()
    if source.key and is_archive(source.key) and not source.key.endswith("/"):
        return _mini_of_archive(source, target, per_class, seed)
    cut = len(source.prefix)
    files = {entry.key[cut:]: entry for entry in source.store.walk(source.prefix)}
    if not files:
        raise NotFound(f"there are no files at {source.url}")
    chosen = _choose(files, lambda name: _read(source.store, files[name]), _Wish(per_class, seed))
    return _write(source, target, files, chosen)


def _read(store: Store, entry: Entry) -> bytes:
    if entry.size > _MOST_TABLE_BYTES:
        raise BadInput(f"{entry.key} has {entry.size} bytes: too large to be cut in memory")
    return store.read(entry.key)


def _choose(files: dict[str, Entry], read: Callable[[str], bytes], wish: _Wish) -> _Cut:
    chosen = _Cut()
    left = set(files)
    for step in (_idx, _cifar, _tfrecord, _annotated):
        left -= step(files, left, read, wish, chosen)
    _folders(files, left, wish, chosen)
    return chosen


def _idx(
    files: dict[str, Entry],
    left: set[str],
    read: Callable[[str], bytes],
    wish: _Wish,
    chosen: _Cut,
) -> set[str]:
    done: set[str] = set()
    for images in sorted(left):
        labels = binaries.idx_partner(images)
        if labels is None or labels not in left:
            continue
        pixels = binaries.unpacked(images, read(images), _MOST_TABLE_BYTES)
        marks = binaries.unpacked(labels, read(labels), _MOST_TABLE_BYTES)
        _, _, body = binaries.read_idx(marks)
        kept = binaries.choose_labels([str(mark) for mark in body], wish.per_class, wish.seed)
        chosen.made[images] = binaries.repacked(images, binaries.cut_idx(pixels, kept))
        chosen.made[labels] = binaries.repacked(labels, binaries.cut_idx(marks, kept))
        chosen.layouts.add("idx")
        chosen.classes = max(chosen.classes, len(set(body)))
        done |= {images, labels}
    return done


def _cifar(
    files: dict[str, Entry],
    left: set[str],
    read: Callable[[str], bytes],
    wish: _Wish,
    chosen: _Cut,
) -> set[str]:
    done: set[str] = set()
    for name in sorted(left):
        label_bytes = binaries.cifar_label_bytes(files[name].size, name)
        if label_bytes is None:
            continue
        data = read(name)
        chosen.made[name] = binaries.cut_cifar(data, label_bytes, wish.per_class, wish.seed)
        step = binaries.CIFAR_PIXELS + label_bytes
        chosen.classes = max(chosen.classes, len(set(data[label_bytes - 1 :: step])))
        chosen.layouts.add("cifar")
        done.add(name)
    return done


def _tfrecord(
    files: dict[str, Entry],
    left: set[str],
    read: Callable[[str], bytes],
    wish: _Wish,
    chosen: _Cut,
) -> set[str]:
    done = {name for name in left if ".tfrecord" in PurePosixPath(name).name.lower()}
    for name in sorted(done):
        chosen.made[name] = binaries.cut_tfrecord(read(name), wish.per_class, wish.seed)
        chosen.layouts.add("tfrecord")
    return done


def _annotated(
    files: dict[str, Entry],
    left: set[str],
    read: Callable[[str], bytes],
    wish: _Wish,
    chosen: _Cut,
) -> set[str]:
    """Images that tables speak of: the tables give the classes and are cut along."""
    documents = _documents(left, files, read)
    by_name: dict[str, set[str]] = defaultdict(set)
    for name in left:
        if PurePosixPath(name).suffix.lower() not in _TABLES:
            by_name[PurePosixPath(name).name].add(name)
            by_name[PurePosixPath(name).stem].add(name)
    labels: dict[str, str] = {}
    for document in documents:
        for told, label in document.labels.items():
            for name in _found(told, document.name, by_name):
                labels.setdefault(name, label)
    if not labels:
        return set()
    kept = few_of_each(
        sorted(labels),
        per_class=wish.per_class,
        seed=wish.seed,
        class_of=lambda name: labels[name],
        name_of=lambda name: name,
    )
    chosen.kept |= set(kept)
    chosen.classes = max(chosen.classes, len(set(labels.values())))
    wanted = set(kept)

    for document in documents:
        chosen.layouts.add(document.kind)

        def keeps(told: str, document: "_Document" = document) -> bool:
            return bool(_found(told, document.name, by_name) & wanted)

        made = document.cut(keeps)
        if made is not None:
            chosen.made[document.name] = made
    return set(labels) | {document.name for document in documents}


def _found(told: str, table: str, by_name: dict[str, set[str]]) -> set[str]:
    """The files that a table means: by the whole path if that fits, else by the name."""
    candidates = by_name.get(PurePosixPath(told).name, set()) or by_name.get(told, set())
    exact = {name for name in candidates if name.endswith("/" + told) or name == told}
    near = {name for name in exact or candidates if _side(name) == _side(table)}
    return near or exact or candidates


def _side(name: str) -> str:
    """train, val or test, where a name tells: two splits may have files of one name."""
    text = name.lower()
    return next((word for word in ("train", "val", "test") if word in text), "")


@dataclass(frozen=True, slots=True)
class _Document:
    name: str
    kind: str
    labels: dict[str, str]
    cut: Callable[[Callable[[str], bool]], bytes | None]


def _documents(
    left: set[str], files: dict[str, Entry], read: Callable[[str], bytes]
) -> list[_Document]:
    found: list[_Document] = []
    for name in sorted(left):
        suffix = PurePosixPath(name).suffix.lower()
        if suffix in _TABLES and files[name].size <= _MOST_TABLE_BYTES:
            document = _document(name, suffix, read(name))
            if document is not None:
                found.append(document)
    return found


def _document(name: str, suffix: str, data: bytes) -> _Document | None:
    if suffix == ".xml":
        voc = tables.voc_label(data)
        if voc is None:
            return None
        image = voc[0] or PurePosixPath(name).stem
        return _Document(name, "voc", {image: voc[1]}, lambda keeps: data if keeps(image) else None)
    if suffix == ".json":
        return _json_document(name, tables.parse_json(data))
    text = data.decode("utf-8-sig", "replace")
    rows = tables.read_csv(text)
    if rows is None:
        return None
    header, delimiter = tables.csv_form(text)
    return _Document(
        name,
        "csv",
        tables.row_labels(rows),
        lambda keeps: tables.write_csv(tables.cut_rows(rows, keeps), header, delimiter).encode(),
    )


def _json_document(name: str, parsed: object) -> _Document | None:
    import json

    if tables.is_coco(parsed):
        coco = cast("tables.Row", parsed)
        return _Document(
            name,
            "coco",
            tables.coco_labels(coco),
            lambda keeps: json.dumps(tables.cut_coco(coco, keeps), ensure_ascii=False).encode(),
        )
    rows = tables.json_rows(parsed)
    if rows is None:
        return None
    return _Document(
        name,
        "json",
        tables.row_labels(rows),
        lambda keeps: json.dumps(tables.cut_rows(rows, keeps), ensure_ascii=False).encode(),
    )


def _folders(files: dict[str, Entry], left: set[str], wish: _Wish, chosen: _Cut) -> None:
    """The rest: a few of each folder; tables and large single files are kept whole."""
    members: list[str] = []
    for name in sorted(left):
        path = PurePosixPath(name)
        is_sample = path.suffix.lower() in IMAGES or len(path.parts) > 1
        if not is_sample or (files[name].size > STATIC_BYTES and path.suffix not in IMAGES):
            chosen.kept.add(name)
        else:
            members.append(name)
    kept = few_of_each(
        members,
        per_class=wish.per_class,
        seed=wish.seed,
        class_of=lambda name: str(PurePosixPath(name).parent),
        name_of=lambda name: name,
    )
    if members:
        chosen.layouts.add("folders")
        parents = {PurePosixPath(name).parent.name for name in members}
        chosen.classes = max(chosen.classes, len(parents))
    chosen.kept |= set(kept)


def _write(source: Place, target: Place, files: dict[str, Entry], chosen: _Cut) -> MiniReport:
    size = 0
    for name in sorted(chosen.kept):
        entry, key = files[name], target.prefix + name
        copy_entry(source.store, entry, target.store, key)
        size += entry.size
    for name, data in sorted(chosen.made.items()):
        target.store.write(target.prefix + name, data)
        size += len(data)
    return MiniReport(
        layout="+".join(sorted(chosen.layouts)) or "files",
        files=len(files),
        kept=len(chosen.kept) + len(chosen.made),
        bytes=size,
        classes=chosen.classes,
    )


def _mini_of_archive(source: Place, target: Place, per_class: int, seed: int) -> MiniReport:
    """Unpack aside, cut, and pack again where the target is an archive too."""
    from jumar.store.folder import FolderStore
    from jumar.store.url import parse_url

    with tempfile.TemporaryDirectory(prefix="jumar-mini-") as scratch:
        folder, small = Path(scratch) / "all", Path(scratch) / "mini"
        folder.mkdir()
        small.mkdir()
        unpack(
            source, Place(parse_url(str(folder)), FolderStore(str(folder), "aside"), ""), Limits()
        )
        report = make_mini(
            Place(parse_url(str(folder)), FolderStore(str(folder), "aside"), ""),
            Place(parse_url(str(small)), FolderStore(str(small), "aside"), ""),
            per_class=per_class,
            seed=seed,
        )
        if is_archive(target.key):
            packed = Path(scratch) / PurePosixPath(target.key).name
            _pack(small, packed)
            target.store.write(target.key, packed.read_bytes())
        else:
            for path in _sorted_files(small):
                key = target.prefix + path.relative_to(small).as_posix()
                target.store.write(key, path.read_bytes())
    return report


def _sorted_files(folder: Path) -> Iterator[Path]:
    yield from (path for path in sorted(folder.rglob("*")) if path.is_file())


def _pack(folder: Path, archive: Path) -> None:
    """The same files give the same archive: no times, no owners."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
            for path in _sorted_files(folder):
                info = zipfile.ZipInfo(path.relative_to(folder).as_posix())
                zipped.writestr(info, path.read_bytes(), zipfile.ZIP_DEFLATED)
        return
    mode = "w:gz" if archive.name.endswith(("gz",)) else "w"
    with tarfile.open(archive, mode) as packed:  # pyright: ignore[reportArgumentType]
        for path in _sorted_files(folder):
            info = tarfile.TarInfo(path.relative_to(folder).as_posix())
            info.size = path.stat().st_size
            with path.open("rb") as file:
                packed.addfile(info, file)
