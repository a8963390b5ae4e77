"""LMDB, by lmdb: environments as people fill them with samples.

What must still fit in the end: `num-samples` with numbered keys (text recognition), `__len__` and
`__keys__` (pickled, as many ImageNet tools do), `meta_info.txt` beside it (super-resolution)."""

import pickle
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, cast

from jumar.store.mini.choice import Few, Wish
from jumar.store.mini.documents import Row, plain_labels
from jumar.store.mini.pickles import read_plain
from jumar.store.mini.tfrecord import proto_fields
from jumar.store.mini.tree import Chosen, Tree, Uncuttable, library

_COUNT = b"num-samples"
_LENGTH, _KEYS = b"__len__", b"__keys__"
_NUMBERED = re.compile(rb"(.*?)(\d+)$", re.DOTALL)
_TRAILING = re.compile(r"[ ._-]*\d+$")
_MOST_NAMED = 64
_DATUM_LABEL = 5
_MAP_BYTES = 1 << 40
_LIMIT_S = 3600
_LOOK = """
import sys, lmdb
opened = lmdb.open(sys.argv[1], subdir=False, readonly=True, lock=False, readahead=False)
with opened.begin() as transaction:
    for key, value in transaction.cursor():
        bytes(value)
"""


def cut_lmdb(tree: Tree, left: set[str], wish: Wish, chosen: Chosen) -> set[str]:
    """Reduce all environments: folders with `data.mdb`, and single files."""
    done: set[str] = set()
    for name in sorted(left):
        is_folder = PurePosixPath(name).name == "data.mdb"
        if not is_folder and not name.lower().endswith((".lmdb", ".mdb")):
            continue
        if PurePosixPath(name).name == "lock.mdb":
            # Made anew by whoever opens the environment.
            done.add(name)
            continue
        done |= {name, f"{name}-lock"} & left
        try:
            with tempfile.TemporaryDirectory(prefix="jumar-lmdb-") as scratch:
                done |= _cut(tree, name, left, wish, chosen, Path(scratch))
        except Uncuttable as error:
            chosen.keep_whole(name, str(error))
        except library("lmdb", name).Error as error:
            chosen.keep_whole(name, f"not an LMDB file, or damaged: {error}")
    return done


def _cut(
    tree: Tree, name: str, left: set[str], wish: Wish, chosen: Chosen, scratch: Path
) -> set[str]:
    lmdb = library("lmdb", name)
    path = tree.local(name, scratch)
    # A damaged file is mapped into memory all the same, and kills whoever reads it.
    looked = subprocess.run(
        [sys.executable, "-c", _LOOK, str(path)], capture_output=True, check=False, timeout=_LIMIT_S
    )
    if looked.returncode:
        raise Uncuttable("not an LMDB file, or damaged")
    with _environment(lmdb, path) as environment:
        keys, few = _choose(lmdb, environment, wish)
        made = scratch / "made.mdb"
        with (
            lmdb.open(str(made), subdir=False, map_size=_MAP_BYTES, lock=False) as new,
            environment.begin() as source,
            new.begin(write=True) as target,
        ):
            for old, key in keys.items():
                target.put(key, source.get(old))
            for key, value in _counts(source, keys, len(few.chosen())).items():
                target.put(key, value)
    chosen.make("lmdb", {name: made.read_bytes()}, few.classes)
    # Super-resolution lists its keys beside: "0801_s001.png (480,480,3) 1".
    told = f"{name.rpartition('/')[0]}/meta_info.txt".lstrip("/")
    if told not in left:
        return set()
    kept = {key.decode("utf-8", "replace") for key in keys}
    lines = tree.read(told).splitlines(keepends=True)
    own = [line for line in lines if _listed(line) in kept]
    chosen.made[told] = b"".join(own)
    return {told}


def _listed(line: bytes) -> str:
    first = (line.decode("utf-8", "replace").split() or [""])[0]
    return first.rpartition(".")[0] or first


@contextmanager
def _environment(lmdb: Any, path: Path) -> Generator[Any]:
    with lmdb.open(
        str(path), subdir=False, readonly=True, lock=False, readahead=False, max_dbs=1
    ) as environment:
        yield environment


def _choose(lmdb: Any, environment: Any, wish: Wish) -> tuple[dict[bytes, bytes], Few]:
    """Which keys to keep, and as what; records of one number stay together."""
    with environment.begin() as transaction:
        _refuse_named(lmdb, environment, transaction)
        is_numbered = transaction.get(_COUNT) is not None
        records: dict[bytes, list[bytes]] = defaultdict(list)
        labels: dict[bytes, set[str]] = defaultdict(set)
        for key, value in transaction.cursor():
            if key in (_COUNT, _LENGTH, _KEYS):
                continue
            number = _NUMBERED.match(key) if is_numbered else None
            record = number[2] if number is not None else key
            records[record].append(key)
            labels[record] |= _labels_of(key, value, is_numbered)
    few, order = Few(wish, guessed=is_numbered), sorted(records)
    for record in order:
        few.see(record.hex(), labels[record])
    kept = [order[at] for at in few.chosen()]
    names: dict[bytes, bytes] = {}
    for place, record in enumerate(kept, 1):
        for key in records[record]:
            # Readers count from 1 to `num-samples`.
            new = str(place).zfill(len(record)).encode()
            names[key] = key[: len(key) - len(record)] + new if is_numbered else key
    return names, few


def _refuse_named(lmdb: Any, environment: Any, transaction: Any) -> None:
    if transaction.stat()["entries"] > _MOST_NAMED:
        return
    for key in list(transaction.cursor().iternext(values=False)):
        try:
            environment.open_db(key, txn=transaction, create=False)
        except lmdb.Error:
            continue
        raise Uncuttable("it has named databases inside")


def _labels_of(key: bytes, value: bytes, is_numbered: bool) -> set[str]:
    """What the value says, or the key: `cat/0012` and `cat_0012` are cats."""
    if is_numbered:
        return {value.decode("utf-8", "replace")} if key.startswith(b"label") else set()
    found = _pickled_label(value) if value[:1] == b"\x80" else _datum_label(value)
    if found:
        return found
    text = key.decode("utf-8", "replace")
    folder, _, last = text.rpartition("/")
    word = folder or _TRAILING.sub("", last)
    return {word} if word and word != text else set()


def _pickled_label(value: bytes) -> set[str]:
    plain = read_plain(value)
    if isinstance(plain, dict):
        return plain_labels(cast("Row", plain))
    if isinstance(plain, list | tuple):
        numbers = [n for n in cast("list[Any]", plain) if isinstance(n, int)]
        return {str(numbers[-1])} if len(numbers) == 1 else set()
    return set()


def _datum_label(value: bytes) -> set[str]:
    """The label of Caffe's Datum."""
    try:
        fields = dict(proto_fields(value))
    except (IndexError, ValueError):
        return set()
    label = fields.get(_DATUM_LABEL)
    return {str(label)} if isinstance(label, int) and {1, 2, 3} <= fields.keys() else set()


def _counts(source: Any, keys: dict[bytes, bytes], count: int) -> dict[bytes, bytes]:
    """The records that count the others, as they were written."""
    made: dict[bytes, bytes] = {}
    if source.get(_COUNT) is not None:
        made[_COUNT] = str(count).encode()
    for key, told in ((_LENGTH, len(keys)), (_KEYS, sorted(keys))):
        old = source.get(key)
        if old is None:
            continue
        if read_plain(old) is None:
            raise Uncuttable(f"its {key.decode()} is no pickle")
        made[key] = pickle.dumps(told, protocol=min(4, old[1]))
    return made
