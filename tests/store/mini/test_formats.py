"""Mini sets of data in files of records and arrays, read back with the libraries people use."""

import gzip
import json
import pickle
import struct
from collections import Counter
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from tests.store.dialects import Dialect, speaking
from tests.store.mini.making import coco, label_of, mini, names, picture, put

from jumar.errors import BadInput
from jumar.store.credentials import StoreConfig

THREE = {0: 3, 1: 3, 2: 3}


def read_json_lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def test_json_lines_and_lists_of_text(tmp_path: Path, config: StoreConfig) -> None:
    every, few = tmp_path / "all", tmp_path / "few"
    pretraining = [{"text": f"文本 {n}", "id": n} for n in range(90)]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in pretraining).encode()
    put(every / "pretrain-00000.jsonl", lines)
    put(every / "pretrain-00001.jsonl.gz", gzip.compress(lines))
    tuning = [
        {"messages": [{"role": "user", "content": str(n)}], "category": n % 3} for n in range(60)
    ]
    put(every / "sft.jsonl", "\n".join(map(json.dumps, tuning)).encode())
    alpaca = [{"instruction": f"do {n}", "input": "", "output": f"done {n}"} for n in range(50)]
    put(every / "alpaca.json", json.dumps(alpaca).encode())
    put(every / "news.csv", "".join(f'{n % 3},"a ""title"",\n{n}"\n' for n in range(40)).encode())
    # Not samples: they stay.
    put(every / "dataset_info.json", json.dumps({"alpaca": {"file_name": "alpaca.json"}}).encode())
    put(every / "broken.jsonl", b'{"text": 1}\nnot json\n' * 10)
    report = mini(every, few, config)
    assert names(few) == names(every)
    for packed in (False, True):
        data = (
            few / ("pretrain-00001.jsonl.gz" if packed else "pretrain-00000.jsonl")
        ).read_bytes()
        rows = read_json_lines(gzip.decompress(data) if packed else data)
        assert len(rows) == 3
        assert all(row in pretraining for row in rows)
    kept = read_json_lines((few / "sft.jsonl").read_bytes())
    assert Counter(row["category"] for row in kept) == THREE
    assert all(row in tuning for row in kept)
    assert len(json.loads((few / "alpaca.json").read_bytes())) == 3
    assert Counter(line[0] for line in (few / "news.csv").read_text().split('"\n')[:-1]) == {
        "0": 3,
        "1": 3,
        "2": 3,
    }
    assert (few / "dataset_info.json").read_bytes() == (every / "dataset_info.json").read_bytes()
    assert [(one.name, one.bytes) for one in report.whole] == [("broken.jsonl", 210)]
    assert "line 2 is not JSON" in report.whole[0].why


def test_conversations_about_several_pictures(tmp_path: Path, config: StoreConfig) -> None:
    rows = [
        {"messages": [{"content": "<image>"}], "images": [f"images/{n}.png", f"images/b{n}.png"]}
        for n in range(20)
    ]
    for n in range(20):
        put(tmp_path / "all/images" / f"{n}.png", picture(1))
        put(tmp_path / "all/images" / f"b{n}.png", picture(2))
    put(tmp_path / "all/data.json", json.dumps(rows).encode())
    mini(tmp_path / "all", tmp_path / "few", config)
    kept = json.loads((tmp_path / "few/data.json").read_bytes())
    assert len(kept) == 3
    told = {name for row in kept for name in row["images"]}
    assert names(tmp_path / "few") == told | {"data.json"}


def table(start: int, count: int) -> Any:
    """As `datasets` writes it: a class with names, a picture in a struct."""
    arrow: Any = import_module("pyarrow")
    labels = [n % 3 for n in range(start, start + count)]
    features = {"features": {"label": {"names": ["a", "b", "c"], "_type": "ClassLabel"}}}
    made = arrow.table(
        {
            "image": [{"bytes": picture(label), "path": None} for label in labels],
            "label": arrow.array(labels, arrow.int64()),
        }
    )
    return made.replace_schema_metadata({"huggingface": json.dumps({"info": features})})


def images_match(rows: list[dict[str, Any]]) -> Counter[int]:
    assert all(label_of(row["image"]["bytes"]) == row["label"] for row in rows)
    return Counter(row["label"] for row in rows)


def test_parquet_and_arrow(tmp_path: Path, config: StoreConfig) -> None:
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    every, few = tmp_path / "all", tmp_path / "few"
    for split in ("train", "validation"):
        for shard in range(3):
            path = every / "hub/data" / f"{split}-{shard:05d}-of-00003.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            parquet.write_table(table(shard, 40), path, row_group_size=7, compression="zstd")
    card = "---\nlicense: mit\ndataset_info:\n  splits:\n  - name: train\n    num_examples: 120\n---\n# 卡\n"
    put(every / "hub/README.md", card.encode())
    objects = [{"bbox": [[0.0] * 4], "category": [0, 2] if n == 17 else [n % 2]} for n in range(30)]
    parquet.write_table(
        arrow.table({"objects": objects, "n": list(range(30))}), every / "boxes.parquet"
    )
    saved = every / "saved/train"
    for shard in range(2):
        path = saved / f"data-{shard:05d}-of-00002.arrow"
        path.parent.mkdir(parents=True, exist_ok=True)
        made = table(shard, 30)
        with arrow.ipc.new_stream(str(path), made.schema) as writer:
            writer.write_table(made, max_chunksize=8)
    files = [{"filename": f"data-{shard:05d}-of-00002.arrow"} for shard in range(2)]
    put(saved / "state.json", json.dumps({"_data_files": files, "_fingerprint": "f1"}).encode())
    info = {"features": {}, "splits": {"train": {"num_examples": 60}}, "dataset_size": 9}
    put(saved / "dataset_info.json", json.dumps(info).encode())
    put(saved / "cache-0123.arrow", b"of an earlier map")
    put(every / "saved/dataset_dict.json", b'{"splits": ["train"]}')
    report = mini(every, few, config)
    assert (report.layout, report.classes, report.whole) == ("arrow+parquet", 3, ())
    for split in ("train", "validation"):
        shards = sorted((few / "hub/data").glob(f"{split}-*"))
        tables = [parquet.read_table(path) for path in shards]
        assert b"ClassLabel" in tables[0].schema.metadata[b"huggingface"]
        assert parquet.ParquetFile(shards[0]).metadata.row_group(0).column(0).compression == "ZSTD"
        assert images_match([row for one in tables for row in one.to_pylist()]) == THREE
    card = (few / "hub/README.md").read_text(encoding="utf-8")
    assert ("splits" in card, "license: mit" in card, "# 卡" in card) == (False, True, True)
    boxes = parquet.read_table(few / "boxes.parquet").to_pylist()
    assert {label for row in boxes for label in row["objects"]["category"]} == {0, 1, 2}
    assert len(boxes) < 10
    state = json.loads((few / "saved/train/state.json").read_bytes())
    assert state["_data_files"] == files
    assert state["_fingerprint"] != "f1"
    assert "splits" not in json.loads((few / "saved/train/dataset_info.json").read_bytes())
    rows: list[dict[str, Any]] = []
    for file in files:
        with arrow.memory_map(str(few / "saved/train" / file["filename"])) as source:
            rows += arrow.ipc.open_stream(source).read_all().to_pylist()
    assert images_match(rows) == THREE
    assert not (few / "saved/train/cache-0123.arrow").exists()


class MegatronIndex:
    """As megatron.core's `_IndexReader` and `IndexedDataset.get`."""

    def __init__(self, stem: Path) -> None:
        data = stem.with_suffix(".idx").read_bytes()
        assert data[:9] == b"MMIDIDX\x00\x00"
        version, code, count, documents = struct.unpack_from("<QBQQ", data, 9)
        assert (version, code) == (1, 8)
        at = 34
        self.lengths = np.frombuffer(data, np.int32, count, at)
        self.pointers = np.frombuffer(data, np.int64, count, at + 4 * count)
        self.documents = np.frombuffer(data, np.int64, documents, at + 12 * count)
        assert len(data) == at + 12 * count + 8 * documents
        self.tokens = stem.with_suffix(".bin").read_bytes()

    def sequence(self, at: int) -> list[int]:
        return np.frombuffer(self.tokens, np.uint16, self.lengths[at], self.pointers[at]).tolist()


def test_megatron_tokens(tmp_path: Path, config: StoreConfig) -> None:
    """Documents of one to three sequences: each begins with its number."""
    sequences, documents = list[list[int]](), [0]
    for document in range(50):
        sequences += [[document, part, *range(document)] for part in range(document % 3 + 1)]
        documents.append(len(sequences))
    tokens = [np.array(one, np.uint16).tobytes() for one in sequences]
    starts = np.cumsum([0, *map(len, tokens)])[:-1]
    head = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, len(sequences), len(documents))
    lengths = np.array([len(one) for one in sequences], np.int32)
    index = head + lengths.tobytes() + starts.astype(np.int64).tobytes()
    put(tmp_path / "all/web_text_document.idx", index + np.array(documents, np.int64).tobytes())
    put(tmp_path / "all/web_text_document.bin", b"".join(tokens))
    report = mini(tmp_path / "all", tmp_path / "few", config)
    assert (report.layout, report.kept, report.whole) == ("megatron", 2, ())
    made = MegatronIndex(tmp_path / "few/web_text_document")
    assert len(made.documents) == 4
    for start, end in zip(made.documents[:-1], made.documents[1:], strict=True):
        number = made.sequence(start)[0]
        assert [made.sequence(at) for at in range(start, end)] == [
            one for one in sequences if one[0] == number
        ]
    put(tmp_path / "bad/a.bin", b"short")
    put(tmp_path / "bad/a.idx", index + np.array(documents, np.int64).tobytes())
    with pytest.raises(BadInput, match=r"a\.bin: the index does not match the tokens"):
        mini(tmp_path / "bad", tmp_path / "not", config)


def squares(labels: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    return np.repeat(labels.astype(np.uint8) * 40, 64).reshape(len(labels), 8, 8)


def match(images: Any, labels: Any, per_class: int = 3) -> None:
    marks = np.asarray(labels).reshape(-1)
    assert (np.asarray(images)[:, 3, 3] // 40 == marks).all()
    assert Counter(marks.tolist()) == dict.fromkeys(range(3), per_class)


def test_npy_and_npz(tmp_path: Path, config: StoreConfig) -> None:
    every, few = tmp_path / "all", tmp_path / "few"
    train, test = np.arange(60) % 3, np.arange(45)[::-1] % 3
    (every / "pairs").mkdir(parents=True)
    np.savez(
        every / "mnist.npz",
        x_train=squares(train),
        y_train=train,
        x_test=squares(test),
        y_test=test,
    )
    # As MedMNIST: labels in a column; the same number of samples in two splits.
    np.savez_compressed(
        every / "medmnist.npz",
        train_images=squares(train),
        train_labels=train[:, None].astype(np.uint8),
        val_images=squares(train[::-1]),
        val_labels=train[::-1, None].astype(np.uint8),
    )
    np.save(every / "pairs/X_train.npy", np.asfortranarray(squares(train)))
    np.save(every / "pairs/y_train.npy", train.astype(">i2"))
    np.save(every / "pairs/X_test.npy", squares(test))
    np.save(every / "pairs/y_test.npy", np.array(["cat", "dog", "鸟"])[test])
    np.save(every / "embedding.npy", np.zeros((100, 4), np.float32))
    np.save(every / "objects.npy", np.array([{"a": 1}, None]), allow_pickle=True)
    report = mini(every, few, config)
    assert (report.layout, report.classes) == ("npy+npz", 3)
    with np.load(few / "mnist.npz") as found:
        match(found["x_train"], found["y_train"])
        match(found["x_test"], found["y_test"])
    with np.load(few / "medmnist.npz") as found:
        match(found["train_images"], found["train_labels"])
        match(found["val_images"], found["val_labels"])
    match(np.load(few / "pairs/X_train.npy"), np.load(few / "pairs/y_train.npy"))
    words = np.load(few / "pairs/y_test.npy")
    match(np.load(few / "pairs/X_test.npy"), [["cat", "dog", "鸟"].index(word) for word in words])
    # What has no samples that are known as such is kept, and that is said.
    assert {one.name for one in report.whole} == {"embedding.npy", "objects.npy"}
    assert (few / "embedding.npy").read_bytes() == (every / "embedding.npy").read_bytes()


def test_hdf5(tmp_path: Path, config: StoreConfig) -> None:
    h5py: Any = import_module("h5py")
    every, few = tmp_path / "all", tmp_path / "few"
    every.mkdir()
    labels = np.arange(60) % 3
    with h5py.File(every / "shapes0.h5", "w") as file:
        file.create_dataset("data", data=squares(labels), chunks=(5, 8, 8), compression="gzip")
        file["label"] = labels[:, None].astype(np.uint8)
        file["data"].attrs["unit"] = "grey"
        file["names"] = ["a", "b", "c"]
    # As PatchCamelyon: images and labels in files of their own.
    with h5py.File(every / "split_train_x.h5", "w") as file:
        file["x"] = squares(labels[::-1])
    with h5py.File(every / "split_train_y.h5", "w") as file:
        file["y"] = labels[::-1].reshape(-1, 1, 1, 1)
    # As in robot learning: a group for each episode.
    with h5py.File(every / "demos.hdf5", "w") as file:
        for n in range(20):
            file[f"data/demo_{n}/actions"] = np.full((n + 2, 3), n)
            file[f"data/demo_{n}"].attrs["length"] = n + 2
    put(every / "damaged.h5", b"not HDF5")
    report = mini(every, few, config)
    assert (report.layout, report.classes) == ("hdf5", 3)
    with h5py.File(few / "shapes0.h5") as file:
        match(file["data"][()], file["label"][()])
        assert (file["data"].attrs["unit"], file["data"].compression) == ("grey", "gzip")
        assert len(file["names"]) == 3
    with h5py.File(few / "split_train_x.h5") as x, h5py.File(few / "split_train_y.h5") as y:
        match(x["x"][()], y["y"][()])
    with h5py.File(few / "demos.hdf5") as file:
        assert len(file["data"]) == 3
        for demo in file["data"].values():
            assert len(demo["actions"]) == demo.attrs["length"] == demo["actions"][0, 0] + 2
    assert [one.name for one in report.whole] == ["damaged.h5"]


def test_mat_files(tmp_path: Path, config: StoreConfig) -> None:
    matlab: Any = import_module("scipy.io")
    labels = np.arange(60) % 3
    # As SVHN: samples along the last axis.
    (tmp_path / "svhn").mkdir()
    pixels = squares(labels).transpose(1, 2, 0)
    matlab.savemat(
        tmp_path / "svhn/train_32x32.mat", {"X": pixels, "y": labels[:, None].astype(float)}
    )
    mini(tmp_path / "svhn", tmp_path / "few", config)
    found = matlab.loadmat(tmp_path / "few/train_32x32.mat")
    match(found["X"].transpose(2, 0, 1), found["y"])
    # As Flowers102: labels by the number of the image, splits as lists of numbers.
    flowers = tmp_path / "flowers"
    for n in range(1, 61):
        put(flowers / "jpg" / f"image_{n:05d}.jpg", picture(n % 3, "JPEG"))
    matlab.savemat(
        flowers / "imagelabels.mat", {"labels": np.array([[n % 3 + 1 for n in range(1, 61)]])}
    )
    splits = {"trnid": range(1, 20), "valid": range(20, 31), "tstid": range(31, 61)}
    matlab.savemat(
        flowers / "setid.mat", {key: np.array([list(ids)]) for key, ids in splits.items()}
    )
    report = mini(flowers, tmp_path / "few102", config)
    assert (report.classes, report.whole) == (3, ())
    marks = matlab.loadmat(tmp_path / "few102/imagelabels.mat")["labels"][0]
    listed: set[str] = set()
    for key, ids in matlab.loadmat(
        tmp_path / "few102/setid.mat", variable_names=list(splits)
    ).items():
        if key in splits:
            images = [f"jpg/image_{n:05d}.jpg" for n in ids[0]]
            for n, image in zip(ids[0], images, strict=True):
                assert label_of((tmp_path / "few102" / image).read_bytes()) == marks[n - 1] - 1
            assert Counter(int(marks[n - 1]) for n in ids[0]) == {1: 3, 2: 3, 3: 3}
            listed.update(images)
    assert names(tmp_path / "few102") == listed | {"imagelabels.mat", "setid.mat"}
    # As Stanford Cars: a struct array that names the files.
    cars = tmp_path / "cars"
    rows = [(f"{n:05d}.jpg", n % 3 + 1) for n in range(1, 31)]
    for name, label in rows:
        put(cars / "cars_train" / name, picture(label - 1, "JPEG"))
    struct_array = np.array([rows], dtype=[("fname", object), ("class", object)])
    matlab.savemat(tmp_path / "cars/annos.mat", {"annotations": struct_array})
    mini(cars, tmp_path / "fewcars", config)
    notes = matlab.loadmat(tmp_path / "fewcars/annos.mat", squeeze_me=True)["annotations"]
    assert Counter(int(note["class"]) for note in notes) == {1: 3, 2: 3, 3: 3}
    for note in notes:
        image = tmp_path / "fewcars/cars_train" / str(note["fname"])
        assert label_of(image.read_bytes()) == int(note["class"]) - 1


def test_lmdb(tmp_path: Path, config: StoreConfig) -> None:
    lmdb: Any = import_module("lmdb")

    def write(name: str, rows: dict[bytes, bytes], subdir: bool = True) -> None:
        (tmp_path / "all").mkdir(exist_ok=True)
        with (
            lmdb.open(str(tmp_path / "all" / name), subdir=subdir, map_size=1 << 24) as made,
            made.begin(write=True) as writer,
        ):
            for key, value in rows.items():
                writer.put(key, value)

    ocr = {b"num-samples": b"40"}
    for n in range(1, 41):
        ocr |= {b"image-%09d" % n: b"picture of word %d" % n, b"label-%09d" % n: b"word %d" % n}
    write("ocr", ocr)
    keyed = {b"%05d" % n: pickle.dumps((picture(n % 3), n % 3)) for n in range(30)}
    write(
        "imagenet.lmdb",
        {**keyed, b"__keys__": pickle.dumps(list(keyed)), b"__len__": pickle.dumps(30)},
        False,
    )
    write("sr.lmdb", {b"0801_s%03d" % n: picture(1) for n in range(30)})
    put(
        tmp_path / "all/sr.lmdb/meta_info.txt",
        b"".join(b"0801_s%03d.png (8,8,3) 1\n" % n for n in range(30)),
    )
    with lmdb.open(str(tmp_path / "all/named"), max_dbs=2, map_size=1 << 20) as named:
        named.open_db(b"inside")
    report = mini(tmp_path / "all", tmp_path / "few", config)
    assert report.layout == "lmdb"
    assert [one.name for one in report.whole] == ["named/data.mdb"]

    def read(name: str, subdir: bool = True) -> dict[bytes, bytes]:
        path = str(tmp_path / "few" / name)
        with (
            lmdb.open(path, subdir=subdir, readonly=True, lock=False) as env,
            env.begin() as reader,
        ):
            return dict(reader.cursor())

    words = read("ocr")
    assert words.pop(b"num-samples") == b"3"
    assert {key[-9:] for key in words} == {b"%09d" % n for n in (1, 2, 3)}
    for n in (1, 2, 3):
        assert words[b"image-%09d" % n] == b"picture of " + words[b"label-%09d" % n]
    images = read("imagenet.lmdb", subdir=False)
    kept, count = pickle.loads(images.pop(b"__keys__")), pickle.loads(images.pop(b"__len__"))
    assert (set(kept), count) == (set(images), 9)
    pairs = [pickle.loads(value) for value in images.values()]
    assert Counter((label, label_of(image)) for image, label in pairs) == {
        (n, n): 3 for n in range(3)
    }
    listed = (tmp_path / "few/sr.lmdb/meta_info.txt").read_text().splitlines()
    assert {line.split(".")[0].encode() for line in listed} == set(read("sr.lmdb"))
    assert len(listed) == 3


def test_panoptic_masks_stay_with_their_pictures(tmp_path: Path, config: StoreConfig) -> None:
    every, few = tmp_path / "all", tmp_path / "few"
    labels = {f"{n:012d}.jpg": {n % 3} for n in range(20)}
    document = coco(labels)
    images: Any = document["images"]
    marks = [
        {
            "image_id": image["id"],
            "file_name": image["file_name"].replace("jpg", "png"),
            "segments_info": [{"id": 1, "category_id": n % 3 + 1, "area": 64}],
        }
        for n, image in enumerate(images)
    ]
    for n, name in enumerate(labels):
        put(every / "val2017" / name, picture(n % 3, "JPEG"))
        mask = every / "annotations/panoptic_val2017" / name.replace("jpg", "png")
        put(mask, picture(n % 3))
    put(every / "annotations/instances_val2017.json", json.dumps(document).encode())
    put(
        every / "annotations/panoptic_val2017.json",
        json.dumps({**document, "annotations": marks}).encode(),
    )
    mini(every, few, config)
    told = json.loads((few / "annotations/panoptic_val2017.json").read_bytes())
    by_id = {image["id"]: image["file_name"] for image in told["images"]}
    assert len(by_id) == len(told["annotations"]) == 9
    for mark in told["annotations"]:
        mask = (few / "annotations/panoptic_val2017" / mark["file_name"]).read_bytes()
        image = (few / "val2017" / by_id[mark["image_id"]]).read_bytes()
        assert label_of(mask) == label_of(image) == mark["segments_info"][0]["category_id"] - 1
    assert len(list((few / "annotations/panoptic_val2017").iterdir())) == 9


def test_from_a_bucket_as_from_a_folder(tmp_path: Path, config: StoreConfig) -> None:
    """Libraries that seek, and one that needs a path, read objects too."""
    h5py, lmdb, arrow, parquet = (
        cast("Any", import_module(name)) for name in ("h5py", "lmdb", "pyarrow", "pyarrow.parquet")
    )
    every, labels = tmp_path / "all", np.arange(60) % 3
    every.mkdir()
    parquet.write_table(
        arrow.table({"label": labels, "x": labels}), every / "a.parquet", row_group_size=9
    )
    with h5py.File(every / "b.h5", "w") as file:
        file["data"], file["label"] = squares(labels), labels
    np.savez(every / "c.npz", x=squares(labels), y=labels)
    with (
        lmdb.open(str(every / "d.lmdb"), subdir=False, map_size=1 << 20) as made,
        made.begin(write=True) as writer,
    ):
        for n in range(30):
            writer.put(b"cat_%03d" % n, b"x")
    (every / "d.lmdb-lock").unlink()
    put(every / "e.jsonl", b"".join(b'{"text": "%d"}\n' % n for n in range(30)))
    here = mini(every, tmp_path / "few", config)
    with speaking(Dialect("2")) as dialect:
        for path in every.iterdir():
            dialect.put(f"set/{path.name}", path.read_bytes())
        there = mini("obs://lab/set", tmp_path / "far", replace(config, obs=dialect.credential))
    assert there == here
    assert here.layout == "hdf5+jsonl+lmdb+npz+parquet"
    for name in sorted(names(every) - {"b.h5"}):
        assert (tmp_path / "far" / name).read_bytes() == (tmp_path / "few" / name).read_bytes()
    with h5py.File(tmp_path / "far/b.h5") as file:
        match(file["data"][()], file["label"][()])


def test_damaged_files_are_kept_or_named(tmp_path: Path, config: StoreConfig) -> None:
    """What belongs to a file that stays whole stays whole; a map of memory kills nobody."""
    lmdb: Any = import_module("lmdb")
    every, labels = tmp_path / "all", np.arange(60) % 3
    every.mkdir()
    np.save(every / "x.npy", squares(labels))
    np.save(every / "y.npy", labels)
    (every / "x.npy").write_bytes((every / "x.npy").read_bytes()[:-700])
    with lmdb.open(str(every / "d"), map_size=1 << 20) as made, made.begin(write=True) as writer:
        for n in range(300):
            writer.put(b"cat_%03d" % n, bytes(500))
    (every / "d/data.mdb").write_bytes((every / "d/data.mdb").read_bytes()[:9000])
    put(every / "f.mat", b"MATLAB 5.0" + bytes(70))
    report = mini(every, tmp_path / "few", config)
    assert {one.name for one in report.whole} == {"x.npy", "y.npy", "d/data.mdb", "f.mat"}
    assert names(tmp_path / "few") == names(every) - {"d/lock.mdb"}
    for name, data in (("a.parquet", b"PAR1"), ("b.jsonl.gz", gzip.compress(b"{}\n" * 99)[:-20])):
        put(tmp_path / name / name, data)
        with pytest.raises(BadInput, match=name):
            mini(tmp_path / name, tmp_path / "not", config)


def test_single_files_and_missing_libraries(
    tmp_path: Path, config: StoreConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "a.jsonl", b"".join(b'{"text": "%d"}\n' % n for n in range(30)))
    mini(tmp_path / "a.jsonl", tmp_path / "small.jsonl", config)
    assert len(read_json_lines((tmp_path / "small.jsonl").read_bytes())) == 3
    mini(tmp_path / "a.jsonl", tmp_path / "folder", config)
    assert (tmp_path / "folder/a.jsonl").read_bytes() == (tmp_path / "small.jsonl").read_bytes()
    put(tmp_path / "weights.pth", b"?" * 100)
    with pytest.raises(BadInput, match=r"weights\.pth cannot be reduced"):
        mini(tmp_path / "weights.pth", tmp_path / "other", config)
    monkeypatch.setitem(import_module("sys").modules, "pyarrow", None)
    put(tmp_path / "b.parquet", b"PAR1")
    with pytest.raises(BadInput, match="with pyarrow, which is not installed") as caught:
        mini(tmp_path / "b.parquet", tmp_path / "other", config)
    assert "pip install pyarrow" in str(caught.value.hint)
