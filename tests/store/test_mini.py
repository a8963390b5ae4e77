"""Mini data sets: the loaders people use still load them, every class is there, labels match."""

import csv
import gzip
import io
import json
import os
import struct
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from jumar.errors import BadInput
from jumar.store.accounts import StoreConfig
from jumar.store.archive import Limits, unpack
from jumar.store.mini.make import MiniReport, make_mini
from jumar.store.places import open_place

CLASSES = ("cat", "dog", "鸟")


@pytest.fixture
def config(folder_config: StoreConfig) -> StoreConfig:
    return folder_config


def mini(
    source: str | Path, target: str | Path, config: StoreConfig, per_class: int = 3, seed: int = 0
) -> MiniReport:
    return make_mini(
        open_place(str(source), config),
        open_place(str(target), config),
        per_class=per_class,
        seed=seed,
    )


def put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def names(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def image_folder(folder: Path) -> None:
    for split in ("train", "val"):
        for label in CLASSES:
            for number in range(10):
                put(folder / split / label / f"{number}.jpg", f"{split}{label}{number}".encode())


def test_folders_of_classes(tmp_path: Path, config: StoreConfig) -> None:
    image_folder(tmp_path / "all")
    put(tmp_path / "all" / "vgg16.pth", os.urandom(10_100_000))
    report = mini(tmp_path / "all", tmp_path / "few", config)
    assert (report.layout, report.classes, report.kept) == ("folders", 3, 2 * 3 * 3 + 1)
    for split in ("train", "val"):
        counts = {d.name: len(list(d.iterdir())) for d in (tmp_path / "few" / split).iterdir()}
        assert counts == dict.fromkeys(CLASSES, 3)
    kept = tmp_path / "few" / "vgg16.pth"
    assert kept.read_bytes() == (tmp_path / "all" / "vgg16.pth").read_bytes()


def test_the_seed_decides(tmp_path: Path, config: StoreConfig) -> None:
    image_folder(tmp_path / "all")
    for target, seed in (("a", 1), ("b", 1), ("c", 2)):
        mini(tmp_path / "all", tmp_path / target, config, seed=seed)
    assert names(tmp_path / "a") == names(tmp_path / "b") != names(tmp_path / "c")


def flat_images(folder: Path) -> dict[str, str]:
    labels = {f"img_{n:03d}.jpg": CLASSES[n % 3] for n in range(60)}
    for name, label in labels.items():
        put(folder / "images" / name, label.encode())
    return labels


def test_csv_beside_flat_images(tmp_path: Path, config: StoreConfig) -> None:
    labels = flat_images(tmp_path / "all")
    rows = "".join(f"images/{name},{label},0.5\n" for name, label in labels.items())
    put(tmp_path / "all" / "labels.csv", f"filename,label,score\n{rows}".encode())
    report = mini(tmp_path / "all", tmp_path / "few", config)
    assert (report.layout, report.classes) == ("csv", 3)
    with (tmp_path / "few" / "labels.csv").open(newline="") as file:
        kept = list(csv.DictReader(file))
    assert Counter(row["label"] for row in kept) == dict.fromkeys(CLASSES, 3)
    for row in kept:
        assert (tmp_path / "few" / row["filename"]).read_text() == row["label"]
    assert len(names(tmp_path / "few")) == 10


def test_json_beside_flat_images(tmp_path: Path, config: StoreConfig) -> None:
    labels = flat_images(tmp_path / "all")
    rows = [{"image": name, "label": label} for name, label in labels.items()]
    put(tmp_path / "all" / "annotations.json", json.dumps(rows).encode())
    mini(tmp_path / "all", tmp_path / "few", config)
    kept = json.loads((tmp_path / "few" / "annotations.json").read_text())
    assert Counter(row["label"] for row in kept) == dict.fromkeys(CLASSES, 3)
    for row in kept:
        assert (tmp_path / "few" / "images" / row["image"]).read_text() == row["label"]


def test_coco(tmp_path: Path, config: StoreConfig) -> None:
    labels = flat_images(tmp_path / "all")
    coco = {
        "info": {"year": 2026},
        "images": [{"id": n + 100, "file_name": name} for n, name in enumerate(labels)],
        "annotations": [
            {
                "id": n,
                "image_id": n // 2 + 100,
                "category_id": (n // 2) % 3 + 1,
                "bbox": [0, 0, 1, 1],
            }
            for n in range(120)
        ],
        "categories": [{"id": n + 1, "name": label} for n, label in enumerate(CLASSES)],
    }
    put(tmp_path / "all" / "annotations" / "instances.json", json.dumps(coco).encode())
    report = mini(tmp_path / "all", tmp_path / "few", config)
    assert (report.layout, report.classes) == ("coco", 3)
    kept = json.loads((tmp_path / "few" / "annotations" / "instances.json").read_text())
    assert kept["categories"] == coco["categories"]
    assert len(kept["images"]) == 9
    assert len(kept["annotations"]) == 18
    files = {image["id"]: image["file_name"] for image in kept["images"]}
    for mark in kept["annotations"]:
        label = CLASSES[int(mark["category_id"]) - 1]
        assert (tmp_path / "few" / "images" / files[mark["image_id"]]).read_text() == label


def test_voc(tmp_path: Path, config: StoreConfig) -> None:
    for number in range(30):
        label = CLASSES[number % 3]
        put(tmp_path / "all" / "JPEGImages" / f"{number}.jpg", label.encode())
        text = f"<annotation><filename>{number}.jpg</filename><object><name>{label}</name></object></annotation>"
        put(tmp_path / "all" / "Annotations" / f"{number}.xml", text.encode())
    report = mini(tmp_path / "all", tmp_path / "few", config, per_class=2)
    assert (report.layout, report.classes, report.kept) == ("voc", 3, 12)
    for path in (tmp_path / "few" / "Annotations").iterdir():
        image = tmp_path / "few" / "JPEGImages" / f"{path.stem}.jpg"
        assert f"<name>{image.read_text()}</name>" in path.read_text()


def write_idx(array: "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]") -> bytes:
    return (
        b"\0\0\x08"
        + bytes([array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.tobytes()
    )


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_mnist(tmp_path: Path, config: StoreConfig, ending: str) -> None:
    labels = np.arange(100, dtype=np.uint8) % 10
    images = np.repeat(labels, 4).reshape(100, 2, 2)
    pack = gzip.compress if ending else bytes
    put(tmp_path / "all" / f"train-images-idx3-ubyte{ending}", pack(write_idx(images)))
    put(tmp_path / "all" / f"train-labels-idx1-ubyte{ending}", pack(write_idx(labels)))
    assert mini(tmp_path / "all", tmp_path / "few", config).classes == 10
    raw = [
        (tmp_path / "few" / f"train-{part}-ubyte{ending}").read_bytes()
        for part in ("images-idx3", "labels-idx1")
    ]
    pixels, marks = [gzip.decompress(data) if ending else data for data in raw]
    kept = np.frombuffer(marks, np.uint8, offset=8)
    shown = np.frombuffer(pixels, np.uint8, offset=16).reshape(-1, 2, 2)
    assert struct.unpack(">I", marks[4:8]) == (30,)
    assert Counter(kept.tolist()) == dict.fromkeys(range(10), 3)
    assert (shown[:, 0, 0] == kept).all()


def test_cifar(tmp_path: Path, config: StoreConfig) -> None:
    records = b"".join(bytes([n % 10]) + bytes([n % 10]) * 3072 for n in range(100))
    put(tmp_path / "all" / "data_batch_1.bin", records)
    assert mini(tmp_path / "all", tmp_path / "few", config).layout == "cifar"
    kept = np.frombuffer((tmp_path / "few" / "data_batch_1.bin").read_bytes(), np.uint8).reshape(
        -1, 3073
    )
    assert Counter(kept[:, 0].tolist()) == dict.fromkeys(range(10), 3)
    assert (kept[:, 0] == kept[:, 1]).all()


def example(label: int) -> bytes:
    """A tf.train.Example with one feature, `label`, an int64 list."""
    value = b"\x1a\x03\x0a\x01" + bytes([label])
    entry = b"\x0a\x05label\x12" + bytes([len(value)]) + value
    features = b"\x0a" + bytes([len(entry)]) + entry
    return b"\x0a" + bytes([len(features)]) + features


def test_tfrecord(tmp_path: Path, config: StoreConfig) -> None:
    payloads = [example(n % 4) for n in range(40)]
    records = b"".join(struct.pack("<Q", len(p)) + b"CRC1" + p + b"CRC2" for p in payloads)
    put(tmp_path / "all" / "train.tfrecord", records)
    mini(tmp_path / "all", tmp_path / "few", config)
    kept: list[bytes] = []
    data, at = (tmp_path / "few" / "train.tfrecord").read_bytes(), 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        kept.append(data[at + 12 : at + 12 + length])
        at += 16 + length
    assert Counter(kept) == {example(n): 3 for n in range(4)}


@pytest.mark.parametrize("name", ["set.zip", "set.tar", "set.tar.gz"])
def test_archives(tmp_path: Path, config: StoreConfig, name: str) -> None:
    image_folder(tmp_path / "all")
    packed = tmp_path / name
    if name.endswith(".zip"):
        with zipfile.ZipFile(packed, "w") as archive:
            for path in sorted((tmp_path / "all").rglob("*.jpg")):
                archive.write(path, path.relative_to(tmp_path / "all"))
    else:
        with tarfile.open(packed, "w:gz" if name.endswith("gz") else "w") as archive:
            archive.add(tmp_path / "all", ".")
    store = open_place("obs://lab/", config).store
    store.write(f"dataset/{name}", packed.read_bytes())
    mini(f"obs://lab/dataset/{name}", "obs://lab/mini/", config)
    kept = [entry.key for entry in store.walk("mini/")]
    assert len(kept) == 18
    mini(f"obs://lab/dataset/{name}", f"obs://lab/mini-packed/{name}", config)
    data = io.BytesIO(store.read(f"mini-packed/{name}"))
    if name.endswith(".zip"):
        with zipfile.ZipFile(data) as archive:
            inside = archive.namelist()
    else:
        with tarfile.open(fileobj=data) as archive:
            inside = archive.getnames()
    assert sorted(f"mini/{one}" for one in inside) == sorted(kept)


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def tarred(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("up.zip", zipped({"good": b"x", "../escape": b"x"})),
        ("lead.zip", zipped({"/etc/cron.d/x": b"x"})),
        ("bomb.zip", zipped({"zeros": bytes(150_000_000)})),
        ("up.tar", tarred((tarfile.TarInfo("a/../../escape"), b"x"))),
        ("link.tar", tarred((link("out", "/etc"), b""), (tarfile.TarInfo("out/x"), b"x"))),
        ("broken.zip", b"PK\x03\x04 and nothing"),
        ("broken.tar", b"nothing"),
    ],
)
def test_bad_archives_are_refused_and_leave_nothing(
    tmp_path: Path, config: StoreConfig, name: str, data: bytes
) -> None:
    store = open_place("obs://lab/", config).store
    store.write(name, data)
    with pytest.raises(BadInput):
        unpack(
            open_place(f"obs://lab/{name}", config), open_place("obs://lab/to/", config), Limits()
        )
    assert [entry.key for entry in store.walk()] == [name]
    assert not any(path.name == "escape" for path in tmp_path.rglob("*"))


def test_names_of_chinese_windows_are_read(config: StoreConfig) -> None:
    store = open_place("obs://lab/", config).store
    raw = zipped({"XXXX.txt": b"hi"}).replace(b"XXXX", "数据".encode("gbk"))
    store.write("gbk.zip", raw)
    report = unpack(
        open_place("obs://lab/gbk.zip", config), open_place("obs://lab/to/", config), Limits()
    )
    assert report.files == 1
    assert store.read("to/数据.txt") == b"hi"
