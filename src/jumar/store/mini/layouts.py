"""Which files of a data set to keep: each layout takes what it understands, folders the rest."""

import re
from collections import Counter, defaultdict
from pathlib import PurePosixPath

from jumar.errors import BadInput
from jumar.store.mini import binaries, pickles
from jumar.store.mini.arrays import ArrayFile, cut_arrays
from jumar.store.mini.choice import Wish, few_of_each
from jumar.store.mini.columns import open_columns, saved_datasets, without_counts
from jumar.store.mini.documents import Document, read_document
from jumar.store.mini.hdf5 import Hdf5
from jumar.store.mini.keyvalue import cut_lmdb
from jumar.store.mini.lines import open_json_lines, open_json_list, open_text_table
from jumar.store.mini.matlab import mat_documents, open_mat
from jumar.store.mini.megatron import open_tokens
from jumar.store.mini.mindrecord import cut_mindrecord
from jumar.store.mini.npy import Npy, Npz
from jumar.store.mini.records import cut_records
from jumar.store.mini.samples import TABLES, Files, folder_of, is_image, sample_of, split_of
from jumar.store.mini.tfrecord import open_tfrecord
from jumar.store.mini.tree import MOST_BYTES_IN_MEMORY, Chosen, Tree
from jumar.store.mini.webtar import open_shard

STATIC_BYTES = 10_000_000
"""Larger files that are few of their kind are kept whole: weights, word vectors."""
_UNSAID_BYTES = 1_000_000
"""Texts about a data set are no larger; a larger one is data."""
_MOST_LISTS = 200
_MOST_ARRAY_FILES = 20
_ABOUT = {".md", ".meta", ".py", ".yaml", ".yml", ".names", ".cfg", ".toml", ".html", ""} | TABLES
_WITH_LABELS = {"coco", "voc", "yolo", "labelme", "webdataset"}
_PICKLED = re.compile(r"(?:^|/)(?:data_batch_\d+|test_batch|train|test)$")


def choose(tree: Tree, wish: Wish) -> Chosen:
    """What to keep."""
    chosen = Chosen()
    left = set(tree.entries)
    for step in (
        *(_idx, _packed_records, _cifar, cut_lmdb, cut_mindrecord, _annotated),
        *(_arrays, _text_records),
    ):
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
                binaries.unpacked(name, tree.read(name), MOST_BYTES_IN_MEMORY)
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
        elif _PICKLED.search(name) and tree.entries[name].size <= MOST_BYTES_IN_MEMORY:
            found = pickles.cut_pickle(tree.read(name), wish)
        else:
            continue
        if found is not None:
            done |= chosen.make("cifar", {name: found[0]}, found[1])
    return done


def _packed_records(tree: Tree, left: set[str], wish: Wish, chosen: Chosen) -> set[str]:
    """Records that contain all there is of a sample."""
    openers = (open_columns, open_tfrecord, open_tokens, open_shard)
    beside = saved_datasets(tree, left, chosen)
    done = beside | cut_records(tree, left - beside, wish, chosen, openers)
    return done | (without_counts(tree, left - done, chosen) if done else set())


def _text_records(tree: Tree, left: set[str], wish: Wish, chosen: Chosen) -> set[str]:
    """Records in text files that describe no others."""
    return cut_records(
        *(tree, left, wish, chosen), (open_json_lines, open_json_list, open_text_table)
    )


def _arrays(tree: Tree, left: set[str], wish: Wish, chosen: Chosen) -> set[str]:
    """Arrays, unless each file is one of many samples."""
    kinds = Counter((folder_of(name), _suffix(name)) for name in left)
    files: dict[str, ArrayFile] = {}
    for name in sorted(left):
        suffix = _suffix(name)
        if kinds[folder_of(name), suffix] > _MOST_ARRAY_FILES:
            continue
        if suffix in (".npy", ".npz"):
            files[name] = Npy(tree, name) if suffix == ".npy" else Npz(tree, name)
        elif suffix in (".h5", ".hdf5", ".he5"):
            files[name] = Hdf5(tree, name)
        elif suffix == ".mat":
            files[name] = open_mat(tree, name)
    cut_arrays(files, wish, chosen)
    return set(files)


def _annotated(tree: Tree, left: set[str], wish: Wish, chosen: Chosen) -> set[str]:
    """Files that documents describe: the documents give the classes, and are reduced too."""
    files = Files(left)
    documents = _documents(tree, left, files)
    about = {document.name for document in documents}
    labels: dict[str, set[str]] = defaultdict(set)
    splits: dict[str, set[str]] = defaultdict(set)
    parts: dict[str, set[str]] = defaultdict(set)
    by_form = any(doc.kind in _WITH_LABELS and any(doc.labels.values()) for doc in documents)
    for document in documents:
        # Beside such documents, the numbers in lists are flags: "000012 -1".
        is_trusted = not by_form or document.kind in _WITH_LABELS
        for told, found in document.labels.items():
            for name in set(files.found(told, document.name)) - about:
                labels[sample_of(name)] |= found if is_trusted else set()
                split = document.splits.get(told) or split_of(document.name)
                splits[sample_of(name)].add(split or split_of(folder_of(name)))
                for part in document.parts.get(told, ()):
                    parts[sample_of(name)].update(files.found(part, document.name))
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
    chosen.kept |= {name for sample in kept for name in parts[sample]}
    members |= {name for found in parts.values() for name in found}
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
    mats = [name for name in sorted(left) if _suffix(name) == ".mat"]
    folders = Counter(map(folder_of, mats))
    # Many in a folder are samples.
    few = [name for name in mats if folders[folder_of(name)] <= _MOST_ARRAY_FILES]
    return found + mat_documents(tree, few, left, files)


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
        is_data = _suffix(name) not in _ABOUT or tree.size(name) > _UNSAID_BYTES
        if is_image(name) or not is_rare or not (is_large or is_about):
            samples[sample_of(name)].append(name)
        elif is_data:
            chosen.keep_whole(name, "not a data format that is known here")
        else:
            chosen.kept.add(name)
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
