"""Which files of a data set to keep: each layout takes what it understands, folders the rest."""

import gzip
import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import BinaryIO

from jumar.errors import BadInput
from jumar.store.base import Entry, Store
from jumar.store.folder import FolderStore
from jumar.store.mini import binaries, pickles, tfrecord
from jumar.store.mini.choice import Wish, few_of_each
from jumar.store.mini.documents import Document, read_document
from jumar.store.mini.samples import TABLES, Files, folder_of, is_image, sample_of, split_of
from jumar.store.parallel import in_threads

STATIC_BYTES = 10_000_000
"""Larger files that are few of their kind are kept whole: weights, word vectors."""
_MOST_TABLE_BYTES = 512_000_000
_MOST_LISTS = 200
_READERS = 16
_WINDOW_BYTES = 8 << 20
_ABOUT = {".md", ".meta", ".py", ".yaml", ".yml", ".names", ".cfg", ".toml", ".html", ""} | TABLES
_WITH_LABELS = {"coco", "voc", "yolo", "labelme", "webdataset"}
_PICKLED = re.compile(r"(?:^|/)(?:data_batch_\d+|test_batch|train|test)$")


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of a data set, by their relative names."""

    store: Store
    entries: dict[str, Entry]

    def without(self, names: set[str]) -> "Tree":
        """The other files."""
        return Tree(self.store, {n: e for n, e in self.entries.items() if n not in names})

    def read(self, name: str) -> bytes:
        """A whole file."""
        if self.entries[name].size > _MOST_TABLE_BYTES:
            raise BadInput(f"{name} is too large to be reduced in memory")
        return self.store.read(self.entries[name].key)

    def open(self, name: str) -> BinaryIO:
        """A file to be read sequentially, however large."""
        entry = self.entries[name]
        if isinstance(self.store, FolderStore):
            return open(self.store.path(entry.key), "rb")
        return io.BufferedReader(_Window(self.store, entry), _WINDOW_BYTES)

    def read_many(self, names: list[str]) -> list[bytes]:
        """Several small files, a few at a time."""
        return in_threads(self.read, names, _READERS)


class _Window(io.RawIOBase):
    """An object as a file, one range request per read."""

    def __init__(self, store: Store, entry: Entry) -> None:
        self._store, self._entry, self._at = store, entry, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self._at >= self._entry.size:
            return 0
        data = self._store.read(self._entry.key, self._at, len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


@dataclass
class Chosen:
    """What is kept: unchanged files by name, and rewritten files."""

    kept: set[str] = field(default_factory=set[str])
    made: dict[str, bytes] = field(default_factory=dict[str, bytes])
    layouts: set[str] = field(default_factory=set[str])
    classes: int = 0

    def make(self, layout: str, files: dict[str, bytes], classes: int) -> set[str]:
        """Record rewritten files of one layout; returns their names."""
        self.layouts.add(layout)
        self.made.update(files)
        self.classes = max(self.classes, classes)
        return set(files)


def choose(tree: Tree, wish: Wish) -> Chosen:
    """What to keep."""
    chosen = Chosen()
    left = set(tree.entries)
    for step in (_idx, _cifar, _tfrecord, _annotated):
        left -= step(tree, left, wish, chosen)
    _folders(tree, left, wish, chosen)
    return chosen


def _idx(tree: Tree, left: set[str], wish: Wish, chosen: Chosen) -> set[str]:
    done: set[str] = set()
    for images in sorted(left):
        labels = binaries.idx_partner(images)
        if labels is None or labels not in left:
            continue
        try:
            pixels, marks = (
                binaries.unpacked(name, tree.read(name), _MOST_TABLE_BYTES)
                for name in (images, labels)
            )
            *cut, classes = binaries.cut_idx_pair(pixels, marks, wish)
        except BadInput as error:
            raise BadInput(f"{images}: {error}") from error
        made = zip((images, labels), cut, strict=True)
        packed = {name: binaries.repacked(name, data) for name, data in made}
        done |= chosen.make("idx", packed, classes)
    return done


def _cifar(tree: Tree, left: set[str], wish: Wish, chosen: Chosen) -> set[str]:
    done: set[str] = set()
    for name in sorted(left):
        if binaries.may_be_cifar(name, tree.entries[name].size):
            found = binaries.cut_cifar(tree.read(name), wish)
        elif _PICKLED.search(name) and tree.entries[name].size <= _MOST_TABLE_BYTES:
            found = pickles.cut_pickle(tree.read(name), wish)
        else:
            continue
        if found is not None:
            done |= chosen.make("cifar", {name: found[0]}, found[1])
    return done


def _tfrecord(tree: Tree, left: set[str], wish: Wish, chosen: Chosen) -> set[str]:
    groups: dict[str, list[str]] = defaultdict(list)
    for name in sorted(left):
        group = tfrecord.shard_group(name)
        if group is not None and _is_tfrecord(tree, name):
            groups[group].append(name)
    done: set[str] = set()
    for shards in groups.values():
        # Two passes, so that only what is kept is held in memory.
        records: list[tuple[str, int, frozenset[str]]] = []
        for shard in shards:
            payloads = enumerate(_records(tree, shard))
            records += [(shard, n, tfrecord.labels_of(payload)) for n, (_, payload) in payloads]
        kept = few_of_each(
            *(records, wish),
            classes_of=lambda record: record[2] or {""},
            name_of=lambda record: f"{record[0]}#{record[1]}",
        )
        wanted = {(shard, number) for shard, number, _ in kept}
        made: dict[str, bytes] = {}
        for shard in sorted({shard for shard, _ in wanted}):
            numbered = enumerate(_records(tree, shard))
            whole = (data for number, (data, _) in numbered if (shard, number) in wanted)
            made[shard] = _as_packed(tree, shard, b"".join(whole))
        labels = {label for _, _, found in records for label in found}
        done |= chosen.make("tfrecord", made, len(labels)) | set(shards)
    return done


def _is_gzip(tree: Tree, name: str) -> bool:
    with tree.open(name) as file:
        return file.read(2) == b"\x1f\x8b"


def _is_tfrecord(tree: Tree, name: str) -> bool:
    if _is_gzip(tree, name):
        return True
    with tree.open(name) as file:
        return tfrecord.is_tfrecord(file.read(12))


def _as_packed(tree: Tree, name: str, data: bytes) -> bytes:
    return gzip.compress(data, mtime=0) if _is_gzip(tree, name) else data


def _records(tree: Tree, name: str) -> Iterable[tuple[bytes, bytes]]:
    is_gzip = _is_gzip(tree, name)
    try:
        with tree.open(name) as file:
            opened = gzip.GzipFile(fileobj=file) if is_gzip else file
            yield from tfrecord.read_records(opened)
    except (BadInput, EOFError, gzip.BadGzipFile) as error:
        raise BadInput(f"{name}: {error}") from error


def _annotated(tree: Tree, left: set[str], wish: Wish, chosen: Chosen) -> set[str]:
    """Files that documents describe: the documents give the classes, and are reduced too."""
    files = Files(left)
    documents = _documents(tree, left, files)
    about = {document.name for document in documents}
    labels: dict[str, set[str]] = defaultdict(set)
    splits: dict[str, set[str]] = defaultdict(set)
    by_form = any(doc.kind in _WITH_LABELS and any(doc.labels.values()) for doc in documents)
    for document in documents:
        # Beside such documents, the numbers in lists are flags: "000012 -1".
        is_trusted = not by_form or document.kind in _WITH_LABELS
        for told, found in document.labels.items():
            for name in set(files.found(told, document.name)) - about:
                labels[sample_of(name)] |= found if is_trusted else set()
                splits[sample_of(name)].add(split_of(document.name) or split_of(folder_of(name)))
    if not labels:
        return set()

    def classes_of(sample: str) -> list[str]:
        # If documents only list files, the folders give the classes.
        own = labels[sample] or {sample.rpartition("/")[0]}
        return [f"{split}\0{label}" for split in splits[sample] - {""} or {""} for label in own]

    kept = set(
        few_of_each(sorted(labels), wish, classes_of=classes_of, name_of=lambda sample: sample)
    )
    for document in documents:
        chosen.layouts.add(document.kind)
        made = document.cut(
            lambda told, table=document.name: any(
                sample_of(name) in kept for name in files.found(told, table)
            )
        )
        if made is not None:
            chosen.made[document.name] = made
    members = {name for name in left - about if sample_of(name) in labels}
    chosen.kept |= {name for name in members if sample_of(name) in kept}
    names = {
        label
        for sample, found in labels.items()
        for label in found or {PurePosixPath(sample).parent.name}
    }
    chosen.classes = max(chosen.classes, len(names))
    return members | about


def _documents(tree: Tree, left: set[str], files: Files) -> list[Document]:
    """Those of the files that describe others."""
    candidates: list[str] = []
    lists = Counter(folder_of(name) for name in left if _suffix(name) == ".txt")
    for name in sorted(left):
        suffix = _suffix(name)
        is_own = suffix == ".txt" and files.knows(PurePosixPath(name).stem) > 0
        # Thousands of texts in a folder are samples.
        if suffix in TABLES and (
            suffix != ".txt" or is_own or lists[folder_of(name)] <= _MOST_LISTS
        ):
            candidates.append(name)
    found: list[Document] = []
    for name, data in zip(candidates, tree.read_many(candidates), strict=True):
        document = read_document(name, data, files)
        if document is not None and any(
            set(files.found(told, name)) - {name} for told in document.labels
        ):
            found.append(document)
    return found


def _suffix(name: str) -> str:
    return PurePosixPath(name).suffix.lower()


def _folders(tree: Tree, left: set[str], wish: Wish, chosen: Chosen) -> None:
    """The rest: a few of each folder; small groups are kept whole."""
    kinds = Counter((folder_of(name), _suffix(name)) for name in left)
    samples: dict[str, list[str]] = defaultdict(list)
    for name in sorted(left):
        is_rare = kinds[folder_of(name), _suffix(name)] <= wish.per_class
        is_large = tree.entries[name].size > STATIC_BYTES
        is_about = _suffix(name) in _ABOUT or "/" not in name
        if not is_image(name) and is_rare and (is_large or is_about):
            chosen.kept.add(name)
        else:
            samples[sample_of(name)].append(name)
    if not samples:
        return
    labels = _labels_by_place(list(samples))
    kept = few_of_each(
        *(samples, wish), classes_of=lambda sample: (labels[sample],), name_of=lambda sample: sample
    )
    chosen.layouts.add("folders")
    names = {PurePosixPath(label).name for label in labels.values()}
    chosen.classes = max(chosen.classes, len(names))
    chosen.kept |= {name for sample in kept for name in samples[sample]}


def _labels_by_place(samples: list[str]) -> dict[str, str]:
    """The folder of each sample; in a folder that is not a class, the name up to its number."""
    by_folder: dict[str, list[str]] = defaultdict(list)
    for sample in samples:
        by_folder[folder_of(sample)].append(sample)
    may_be_classes = {
        folder for folder in by_folder if folder != "." and not split_of(PurePosixPath(folder).name)
    }
    siblings = Counter(folder_of(folder) for folder in may_be_classes)
    labels: dict[str, str] = {}
    for folder, members in by_folder.items():
        is_class = folder in may_be_classes and siblings[folder_of(folder)] > 1
        words = {sample: _word(sample) for sample in members}
        told_by_name = not is_class and len(set(words.values())) <= len(members) / 2
        for sample in members:
            labels[sample] = f"{folder}/{words[sample]}" if told_by_name else folder
    return labels


def _word(sample: str) -> str:
    """`cat` of `cat.12` and of `cat_007`."""
    return re.sub(r"[ ._-]*\d+$", "", PurePosixPath(sample).name)
