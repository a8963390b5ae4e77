"""Mini data sets are read by the loaders people use: every class is there, labels match.

torchvision has no build for the torch of these tests: its way of reading VOC and CIFAR's pickles is
followed here. MindSpore's own reader of CIFAR binary takes files of 10,000 records only."""

import contextlib
import csv
import io
import json
import os
import pickle
import struct
import subprocess
import tarfile
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, cast
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.store.mini.making import (
    CLASSES,
    coco,
    label_of,
    mini,
    picture,
    put,
    voc_xml,
    write_idx,
    write_tfrecord,
)
from torch.utils.data import DataLoader, Dataset

from jumar.store.credentials import StoreConfig

MINDSPORE = Path(__file__).parents[3] / ".venv-mindspore" / "bin" / "python"


def image_folder(folder: Path) -> None:
    for split in ("train", "val"):
        for label, name in enumerate(CLASSES):
            for number in range(9):
                put(folder / split / name / f"{number}.JPG", picture(label, "JPEG"))


def voc(folder: Path) -> None:
    """As VOC2012: lists, annotations, masks. The bird is only ever the second object."""
    lists: dict[str, list[str]] = {"train": [], "val": []}
    for number in range(24):
        name, label = f"2026_{number:06d}", number % 2
        put(folder / "JPEGImages" / f"{name}.jpg", picture(label, "JPEG"))
        labels = [CLASSES[label], *([CLASSES[2]] if number in (5, 10) else [])]
        put(folder / "Annotations" / f"{name}.xml", voc_xml(f"{name}.jpg", labels))
        put(folder / "SegmentationClass" / f"{name}.png", picture(label))
        lists["train" if number % 4 < 2 else "val"].append(name)
    main = folder / "ImageSets" / "Main"
    for split, members in {**lists, "trainval": lists["train"] + lists["val"]}.items():
        put(main / f"{split}.txt", "".join(f"{name}\n" for name in members).encode())
    flags = "".join(f"{name} {1 if n % 2 else -1:2d}\n" for n, name in enumerate(lists["train"]))
    put(main / "dog_train.txt", flags.encode())


def coco_folder(folder: Path) -> None:
    """Two splits; captions beside the instances; the bird is only on pictures of cats."""
    for split in ("train", "val"):
        labels = {
            f"{split}_{n:03d}.jpg": {n % 2, 2} if n in (8, 12) else {n % 2} for n in range(20)
        }
        for name, found in labels.items():
            put(folder / f"{split}2017" / name, picture(min(found), "JPEG"))
        document = coco(labels)
        put(folder / "annotations" / f"instances_{split}2017.json", json.dumps(document).encode())
        said = [{"id": n, "image_id": 100 + n, "caption": "a cat"} for n in range(20)]
        captions = {"images": document["images"], "annotations": said}
        put(folder / "annotations" / f"captions_{split}2017.json", json.dumps(captions).encode())


def mnist(folder: Path) -> None:
    for part, count in (("train", 200), ("t10k", 100)):
        labels = np.arange(count, dtype=np.uint8) % 10
        images = np.repeat(labels * 20, 28 * 28).reshape(count, 28, 28)
        put(folder / f"{part}-images-idx3-ubyte", write_idx(images))
        put(folder / f"{part}-labels-idx1-ubyte", write_idx(labels))


def tfrecords(folder: Path) -> None:
    for shard in range(4):
        labels = [(shard * 20 + number) % 3 for number in range(20)]
        # Longer than one byte of length can tell, and with the word for a label in it.
        images = [picture(label) + b"\x0a\x05label\x12" * 30 for label in labels]
        write_tfrecord(
            folder / f"train.tfrecord-{shard:05d}-of-00004",
            [
                {"image": (image, "byte"), "label": (label, "int"), "aaa": ([1] * 99, "int")}
                for image, label in zip(images, labels, strict=True)
            ],
        )


SCRIPT = """
import json, sys
from collections import Counter
import mindspore.dataset as ds
root = sys.argv[1]
def pairs(data, image="image"):
    rows = data.create_dict_iterator(output_numpy=True, num_epochs=1)
    return Counter(f"{int(row['label'])} {round(int(row[image].reshape(-1)[0]) / SCALE)}" for row in rows)
found = {}
SCALE = 40
for split in ("train", "val"):
    found[f"folder {split}"] = pairs(ds.ImageFolderDataset(f"{root}/folder/{split}", decode=True, extensions=[".JPG"]))
SCALE = 20
found["mnist"] = pairs(ds.MnistDataset(f"{root}/mnist", usage="train"))
for split in ("train", "val"):
    names = {"cat": 0, "dog": 1, "鸟": 2}
    rows = ds.VOCDataset(f"{root}/voc", task="Detection", usage=split, class_indexing=names, decode=True).create_dict_iterator(output_numpy=True, num_epochs=1)
    found[f"voc {split}"] = Counter(f"{int(x)} {round(int(r['image'][0, 0, 0]) / 40)}" for r in rows for x in r["label"].reshape(-1))
    rows = ds.CocoDataset(f"{root}/coco/{split}2017", annotation_file=f"{root}/coco/annotations/instances_{split}2017.json", task="Detection", decode=True).create_dict_iterator(output_numpy=True, num_epochs=1)
    found[f"coco {split}"] = Counter(f"{int(x)} {round(int(r['image'][0, 0, 0]) / 40)}" for r in rows for x in r["category_id"].reshape(-1))
import glob
from mindspore import dtype as t
schema = ds.Schema()
schema.add_column("label", de_type=t.int64, shape=[1])
rows = ds.TFRecordDataset(sorted(glob.glob(f"{root}/tfrecord/*")), schema, columns_list=["label"]).create_dict_iterator(output_numpy=True, num_epochs=1)
found["tfrecord"] = Counter(str(int(r["label"][0])) for r in rows)
for name in ("one.mindrecord", "many.mindrecord0"):
    rows = ds.MindDataset(f"{root}/mindrecord/{name}", shuffle=False).create_dict_iterator(output_numpy=True, num_epochs=1)
    found[name] = Counter(f"{int(r['label'])} {int(r['vector'][0])} {r['text']}" for r in rows)
print("FOUND" + json.dumps(found))
"""
WRITE_MINDRECORD = """
import os, sys
import numpy as np
from mindspore.mindrecord import FileWriter
os.makedirs(sys.argv[1])
schema = {"label": {"type": "int32"}, "vector": {"type": "float32", "shape": [-1]}, "text": {"type": "string"}}
for name, shards in (("one.mindrecord", 1), ("many.mindrecord", 2)):
    writer = FileWriter(f"{sys.argv[1]}/{name}", shards)
    writer.set_header_size(1 << 20)
    writer.set_page_size(1 << 20)
    writer.add_schema(schema, "test")
    writer.add_index(["label"])
    writer.write_raw_data([{"label": n % 3, "vector": np.full(4, n % 3, np.float32), "text": f"t{n % 3}"} for n in range(30)])
    writer.commit()
"""


def test_mindspore_reads_them(
    tmp_path: Path, config: StoreConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not MINDSPORE.exists():
        if os.environ.get("CI"):
            pytest.fail("MindSpore is not installed; make test installs it")
        pytest.skip("MindSpore is not installed: make mindspore")
    image_folder(tmp_path / "all" / "folder")
    mnist(tmp_path / "all" / "mnist")
    voc(tmp_path / "all" / "voc")
    coco_folder(tmp_path / "all" / "coco")
    tfrecords(tmp_path / "all" / "tfrecord")
    write = [str(MINDSPORE), "-c", WRITE_MINDRECORD, str(tmp_path / "all" / "mindrecord")]
    subprocess.run(write, check=True, capture_output=True, timeout=300)
    # jumar's own Python has no MindSpore; that of the shell has.
    monkeypatch.setenv("VIRTUAL_ENV", str(MINDSPORE.parents[1]))
    for layout in sorted(path.name for path in (tmp_path / "all").iterdir()):
        mini(tmp_path / "all" / layout, tmp_path / "few" / layout, config)
    done = subprocess.run(
        [str(MINDSPORE), "-c", SCRIPT, str(tmp_path / "few")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("FOUND"))
    found: dict[str, dict[str, int]] = json.loads(line.removeprefix("FOUND"))
    three = {"0 0": 3, "1 1": 3, "2 2": 3}
    assert found["folder train"] == found["folder val"] == three
    assert found["mnist"] == {f"{n} {n}": 3 for n in range(10)}
    assert found["tfrecord"] == {"0": 3, "1": 3, "2": 3}
    assert found["one.mindrecord"] == {f"{n} {n} t{n}": 3 for n in range(3)}
    assert found["many.mindrecord0"] == found["one.mindrecord"]
    # The third class comes with pictures of the others; each split has what it had of it.
    assert {label.split()[0] for label in found["voc train"]} == {"0", "1", "2"}
    assert {label.split()[0] for label in found["voc val"]} == {"0", "1", "2"}
    for split in ("train", "val"):
        assert found[f"coco {split}"]["1 0"] >= 3
        assert found[f"coco {split}"]["2 1"] >= 3
        assert found[f"coco {split}"]["3 0"] == 2


def test_pycocotools_reads_instances_and_captions(tmp_path: Path, config: StoreConfig) -> None:
    from pycocotools.coco import COCO

    coco_folder(tmp_path / "all")
    report = mini(tmp_path / "all", tmp_path / "few", config)
    assert (report.layout, report.classes) == ("coco", 3)
    for split in ("train2017", "val2017"):
        for kind in ("instances", "captions"):
            with contextlib.redirect_stdout(io.StringIO()):
                data = cast("Any", COCO(tmp_path / "few" / "annotations" / f"{kind}_{split}.json"))
            files = {image["file_name"] for image in data.loadImgs(data.getImgIds())}
            assert files == {path.name for path in (tmp_path / "few" / split).iterdir()}
            if kind == "instances":
                for category in data.getCatIds():
                    assert data.getImgIds(catIds=[category])
            else:
                assert len(data.getAnnIds()) == len(files)


def test_voc_as_torchvision_reads_it(tmp_path: Path, config: StoreConfig) -> None:
    voc(tmp_path / "all")
    mini(tmp_path / "all", tmp_path / "few", config)
    root = tmp_path / "few"
    for split in ("train", "val", "trainval"):
        listed = (root / "ImageSets" / "Main" / f"{split}.txt").read_text().split()
        seen: Counter[str] = Counter()
        for name in listed:
            image = label_of((root / "JPEGImages" / f"{name}.jpg").read_bytes())
            assert label_of((root / "SegmentationClass" / f"{name}.png").read_bytes()) == image
            tree = ElementTree.parse(root / "Annotations" / f"{name}.xml")
            labels = [element.text or "" for element in tree.iterfind("object/name")]
            assert labels[0] == CLASSES[image]
            seen.update(labels)
        assert set(seen) == set(CLASSES)
    train = (root / "ImageSets" / "Main" / "train.txt").read_text().split()
    flags = (root / "ImageSets" / "Main" / "dog_train.txt").read_text().splitlines()
    assert [line.split()[0] for line in flags] == train
    assert len(list((root / "JPEGImages").iterdir())) < 18


def test_tfrecord_reader_with_checksums(tmp_path: Path, config: StoreConfig) -> None:
    import crc32c

    reader: Any = import_module("tfrecord.reader")
    tfrecords(tmp_path / "all")
    report = mini(tmp_path / "all", tmp_path / "few", config)
    assert (report.layout, report.classes) == ("tfrecord", 3)
    seen: Counter[int] = Counter()
    for path in sorted((tmp_path / "few").iterdir()):
        for record in reader.tfrecord_loader(str(path), None):
            assert label_of(bytes(record["image"])) == int(record["label"][0])
            seen[int(record["label"][0])] += 1
        data, at = path.read_bytes(), 0
        while at < len(data):
            length, mark = struct.unpack_from("<QI", data, at)
            payload = data[at + 12 : at + 12 + length]
            for part, told in ((data[at : at + 8], mark), (payload, None)):
                crc = crc32c.crc32c(part)
                masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
                end = struct.unpack_from("<I", data, at + 12 + length)[0]
                assert masked == (end if told is None else told)
            at += 16 + length
    assert seen == {0: 3, 1: 3, 2: 3}


class _OldPickler(pickle._Pickler):  # pyright: ignore[reportPrivateUsage]
    """Writes strings as Python 2 did, in which CIFAR was published."""

    dispatch: ClassVar[dict[type, Any]] = dict(pickle._Pickler.dispatch)  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType, reportUnknownVariableType, reportAttributeAccessIssue]

    def save_string(self, value: str | bytes) -> None:
        data = value.encode("latin1") if isinstance(value, str) else value
        self.write(b"T" + struct.pack("<i", len(data)) + data)  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]

    dispatch[str] = dispatch[bytes] = save_string


@pytest.mark.filterwarnings("ignore:numpy.core:DeprecationWarning")
@pytest.mark.parametrize("encoding", ["latin1", "bytes"])
def test_cifar_pickles_as_torchvision_reads_them(
    tmp_path: Path, config: StoreConfig, encoding: str
) -> None:
    labels = [n % 10 for n in range(100)]
    pixels = np.repeat(np.array(labels, np.uint8), 3072).reshape(100, 3072)
    batch = {"data": pixels, "labels": labels, "filenames": [f"{n}_s_{n}.png" for n in labels]}
    folder = tmp_path / "all" / "cifar-10-batches-py"
    for name in ("data_batch_1", "test_batch"):
        out = io.BytesIO()
        _OldPickler(out, 2).dump({**batch, "batch_label": "batch 1 of 5"})
        put(folder / name, out.getvalue().replace(b"numpy._core", b"numpy.core"))
    put(folder / "batches.meta", pickle.dumps({"label_names": list("abcdefghij")}, 2))
    with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "all", "")
    report = mini(tmp_path / "cifar-10-python.tar.gz", tmp_path / "few", config)
    assert (report.layout, report.classes) == ("cifar", 10)
    few = tmp_path / "few" / "cifar-10-batches-py"
    assert (few / "batches.meta").read_bytes() == (folder / "batches.meta").read_bytes()
    for name in ("data_batch_1", "test_batch"):
        found = pickle.loads((few / name).read_bytes(), encoding=encoding)
        words = {key: key.encode() if encoding == "bytes" else key for key in batch}
        kept = found[words["labels"]]
        assert Counter(kept) == dict.fromkeys(range(10), 3)
        data = found[words["data"]]
        assert data.dtype == np.uint8
        assert (np.vstack([data]).reshape(-1, 3, 32, 32)[:, 0, 0, 0] == kept).all()
        assert len(found[words["filenames"]]) == 30


def test_a_pickle_is_never_run(tmp_path: Path, config: StoreConfig) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return (os.mkdir, (str(tmp_path / "owned"),))

    put(tmp_path / "all" / "data_batch_1", pickle.dumps({"data": Evil(), "labels": [1]}, 2))
    mini(tmp_path / "all", tmp_path / "few", config)
    assert not (tmp_path / "owned").exists()


# The package leaves its files to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_webdataset_reads_shards(tmp_path: Path, config: StoreConfig) -> None:
    webdataset: Any = import_module("webdataset")
    for shard in range(2):
        path = tmp_path / "all" / f"train-{shard:06d}.tar"
        path.parent.mkdir(exist_ok=True)
        with tarfile.open(path, "w") as archive:
            for number in range(30):
                label = number % 3
                for ending, data in (
                    ("png", picture(label)),
                    ("seg.png", picture(label)),
                    ("cls", str(label).encode()),
                ):
                    info = tarfile.TarInfo(f"{shard}{number:05d}.{ending}")
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
    report = mini(tmp_path / "all", tmp_path / "few", config)
    assert (report.layout, report.classes, report.kept) == ("webdataset", 3, 2)
    # Chosen over all shards, not in each.
    shards = [str(path) for path in sorted((tmp_path / "few").iterdir())]
    samples = list(webdataset.WebDataset(shards, shardshuffle=False))
    pairs = [(int(sample["cls"]), label_of(sample["png"])) for sample in samples]
    assert Counter(pairs) == {(0, 0): 3, (1, 1): 3, (2, 2): 3}
    assert all(label_of(sample["seg.png"]) == int(sample["cls"]) for sample in samples)


class CsvPictures(Dataset[tuple[int, str]]):
    """As in PyTorch's tutorial on data sets: a CSV of file and label."""

    def __init__(self, root: Path) -> None:
        self.root = root
        with (root / "labels.csv").open(newline="", encoding="utf-8") as file:
            self.rows = list(csv.reader(file))[1:]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[int, str]:
        name, label = self.rows[index]
        return label_of((self.root / "images" / name).read_bytes()), label


def test_a_torch_dataset_of_csv_and_pictures(tmp_path: Path, config: StoreConfig) -> None:
    rows = [(f"图 {n}.png", n % 3) for n in range(30)]
    for name, label in rows:
        put(tmp_path / "all" / "images" / name, picture(label))
    text = "".join(f"{name},{CLASSES[label]}\n" for name, label in rows)
    put(tmp_path / "all" / "labels.csv", f"image_file,what\n{text}".encode())
    mini(tmp_path / "all", tmp_path / "few", config)
    seen: Counter[str] = Counter()
    for shown, told in DataLoader(CsvPictures(tmp_path / "few"), batch_size=4):
        assert [CLASSES[int(label)] for label in shown] == list(told)
        seen.update(told)
    assert seen == dict.fromkeys(CLASSES, 3)
