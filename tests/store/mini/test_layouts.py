"""Layouts as they are found: every class is there, labels match, the rest is left out."""

import csv
import gzip
import io
import json
import lzma
import os
import struct
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.store.mini.making import (
    CLASSES,
    coco,
    label_of,
    mini,
    names,
    picture,
    put,
    voc_xml,
    write_idx,
    write_tfrecord,
)

from jumar.errors import BadInput
from jumar.store.credentials import StoreConfig
from jumar.store.places import open_place


def image_folder(folder: Path) -> None:
    for split in ("train", "val"):
        for label in CLASSES:
            for number in range(10):
                put(folder / split / label / f"{number}.jpg", f"{split}{label}{number}".encode())


def counts(folder: Path) -> dict[str, int]:
    """Files in each folder."""
    return dict(Counter(os.path.dirname(name) for name in names(folder)))


def test_folders_of_classes(tmp_path: Path, config: StoreConfig) -> None:
    image_folder(tmp_path / "all")
    put(tmp_path / "all" / "vgg16.pth", os.urandom(10_100_000))
    report = mini(tmp_path / "all", tmp_path / "few", config)
    assert (report.layout, report.classes, report.kept) == ("folders", 3, 2 * 3 * 3 + 1)
    for split in ("train", "val"):
        found = {d.name: len(list(d.iterdir())) for d in (tmp_path / "few" / split).iterdir()}
        assert found == dict.fromkeys(CLASSES, 3)
    kept = tmp_path / "few" / "vgg16.pth"
    assert kept.read_bytes() == (tmp_path / "all" / "vgg16.pth").read_bytes()


def test_nested_classes_capital_endings_and_large_pictures(
    tmp_path: Path, config: StoreConfig
) -> None:
    for label in ("animals/cat", "animals/dog", "plants/rose"):
        for number in range(8):
            put(tmp_path / "all" / label / f"IMG_{number}.JPEG", bytes(10_000_001 * (number < 4)))
    mini(tmp_path / "all", tmp_path / "few", config)
    assert counts(tmp_path / "few") == {"animals/cat": 3, "animals/dog": 3, "plants/rose": 3}


def test_labels_in_file_names(tmp_path: Path, config: StoreConfig) -> None:
    for number in range(20):
        put(tmp_path / "all" / "train" / f"cat.{number}.jpg", b"c")
        put(tmp_path / "all" / "train" / f"dog.{number}.jpg", b"d")
        put(tmp_path / "all" / "test1" / f"{number}.jpg", b"?")
    report = mini(tmp_path / "all", tmp_path / "few", config)
    kept = Counter(name.split(".")[0] for name in names(tmp_path / "few"))
    assert (kept["train/cat"], kept["train/dog"]) == (3, 3)
    assert counts(tmp_path / "few")["test1"] == 3
    assert report.classes == 3


def test_flat_sounds_and_large_volumes_are_samples(tmp_path: Path, config: StoreConfig) -> None:
    for number in range(20):
        put(tmp_path / "all" / f"{number}.wav", b"sound")
        put(tmp_path / "volumes" / "scans" / f"{number}.nii", bytes(10_000_001))
    put(tmp_path / "all" / "README.md", b"what it is")
    mini(tmp_path / "all", tmp_path / "few", config)
    assert counts(tmp_path / "few") == {"": 4}
    mini(tmp_path / "volumes", tmp_path / "few volumes", config)
    assert counts(tmp_path / "few volumes") == {"scans": 3}


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


def test_a_place_inside_the_source_is_refused(tmp_path: Path, config: StoreConfig) -> None:
    labels = flat_images(tmp_path / "all")
    table = "".join(f"images/{name},{label}\n" for name, label in labels.items())
    put(tmp_path / "all" / "labels.csv", table.encode())
    for target in (tmp_path / "all", tmp_path / "all" / "few"):
        with pytest.raises(BadInput, match="inside"):
            mini(tmp_path / "all", target, config)
    assert (tmp_path / "all" / "labels.csv").read_text() == table


def test_a_list_of_pictures_leaves_the_classes_to_their_folders(
    tmp_path: Path, config: StoreConfig
) -> None:
    image_folder(tmp_path / "all")
    listed = names(tmp_path / "all")
    table = "".join(f"{number} {name}\n" for number, name in enumerate(listed))
    put(tmp_path / "all" / "images.txt", table.encode())
    assert mini(tmp_path / "all", tmp_path / "few", config).classes == len(CLASSES)


@pytest.mark.parametrize(
    ("table", "header", "row", "encoding"),
    [
        ("labels.csv", "", "{name},{label}", "utf-8"),
        ("labels.csv", "编号,类别", "{stem},{label}", "gbk"),
        ("labels.csv", "id;score;breed", "{stem};0.1;{label}", "utf-8-sig"),
        ("labels.tsv", "path\tlabel", "C:\\data\\images\\{name}\t{label}", "utf-8"),
        ("labels.csv", "label,file", '"{label}","/home/ann/set/images/{name}"', "utf-8"),
        ("train.txt", "", "images/{name} {label}", "utf-8"),
        ("list.lst", "", "{label}\t./images/{name}", "utf-8"),
    ],
)
def test_tables_of_many_forms(
    tmp_path: Path, config: StoreConfig, table: str, header: str, row: str, encoding: str
) -> None:
    labels = flat_images(tmp_path / "all")
    rows = [row.format(name=n, stem=Path(n).stem, label=label) for n, label in labels.items()]
    lines = [*([header] if header else []), *rows]
    put(tmp_path / "all" / table, "\r\n".join([*lines, ""]).encode(encoding))
    assert mini(tmp_path / "all", tmp_path / "few", config).classes == 3
    kept = (tmp_path / "few" / table).read_bytes().decode(encoding).split("\r\n")
    assert kept[-1] == ""
    assert kept[: len(lines) - len(rows)] == lines[: len(lines) - len(rows)]
    kept_rows = kept[len(lines) - len(rows) : -1]
    assert set(kept_rows) < set(rows)
    shown = Counter(path.read_text() for path in (tmp_path / "few" / "images").iterdir())
    assert shown == dict.fromkeys(CLASSES, 3)
    for path in (tmp_path / "few" / "images").iterdir():
        assert any(path.stem in line and path.read_text() in line for line in kept_rows)


def test_boxes_in_a_csv_without_header(tmp_path: Path, config: StoreConfig) -> None:
    """Several rows a picture, numbers that repeat before the word that is the class."""
    rows: list[str] = []
    for number in range(30):
        put(tmp_path / "all" / "jpg" / f"{number}.jpg", b"picture")
        boxes = [CLASSES[number % 2], *([CLASSES[2]] if number == 4 else [])]
        rows += [f"jpg/{number}.png,{number % 5},7,30,40,{label}\n" for label in boxes]
    put(tmp_path / "all" / "boxes.csv", "".join(rows).encode())
    assert mini(tmp_path / "all", tmp_path / "few", config).classes == 3
    kept = (tmp_path / "few" / "boxes.csv").read_text().splitlines()
    shown = Counter(line.split(",")[-1] for line in kept)
    assert shown[CLASSES[2]] == 1
    assert min(shown[CLASSES[0]], shown[CLASSES[1]]) == 3
    files = {line.split(",")[0].replace("png", "jpg") for line in kept}
    assert files == names(tmp_path / "few") - {"boxes.csv"}


def test_lines_above_a_list_stay(tmp_path: Path, config: StoreConfig) -> None:
    """As in CelebA: a count, the names of the columns, then rows; and masks far from pictures."""
    rows: list[str] = []
    for number in range(30):
        name = f"{number:06d}"
        put(tmp_path / "all" / "images" / f"{name}.jpg", b"picture")
        put(tmp_path / "all" / "annotations" / "trimaps" / f"{name}.png", b"mask")
        rows.append(f"{name}.jpg {1 if number % 3 else -1:2d}  1\n")
    text = "30\nSmiling Young\n" + "".join(rows)
    put(tmp_path / "all" / "annotations" / "list_attr.txt", text.encode())
    mini(tmp_path / "all", tmp_path / "few", config)
    kept = (tmp_path / "few" / "annotations" / "list_attr.txt").read_text().splitlines()
    assert kept[:2] == ["30", "Smiling Young"]
    assert Counter(line.split()[1] for line in kept[2:]) == {"1": 3, "-1": 3}
    stems = {line.split(".")[0] for line in kept[2:]}
    for side in ("images", "annotations/trimaps"):
        assert {path.stem for path in (tmp_path / "few" / side).iterdir()} == stems


def test_arrays_at_the_top_are_kept_whole(tmp_path: Path, config: StoreConfig) -> None:
    for name in ("x_train", "y_train", "x_test", "y_test"):
        put(tmp_path / "all" / f"{name}.npy", name.encode())
    mini(tmp_path / "all", tmp_path / "few", config, per_class=4)
    assert len(names(tmp_path / "few")) == 4


def test_each_split_has_every_class(tmp_path: Path, config: StoreConfig) -> None:
    """Two splits with files of the same names, and a table in each."""
    for split, shift in (("train", 0), ("val", 1)):
        rows = {f"{n}.jpg": CLASSES[(n + shift) % 3] for n in range(30)}
        for name, label in rows.items():
            put(tmp_path / "all" / split / "pics" / name, label.encode())
        text = "".join(f"{name},{label}\n" for name, label in rows.items())
        put(tmp_path / "all" / f"{split}.csv", f"image,label\n{text}".encode())
    mini(tmp_path / "all", tmp_path / "few", config)
    for split in ("train", "val"):
        with (tmp_path / "few" / f"{split}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert Counter(row["label"] for row in rows) == dict.fromkeys(CLASSES, 3)
        for row in rows:
            assert (tmp_path / "few" / split / "pics" / row["image"]).read_text() == row["label"]


def test_one_name_in_two_folders_is_told_apart_by_its_path(
    tmp_path: Path, config: StoreConfig
) -> None:
    lines = [f"/mnt/old/set/{label}/{n}.jpg,{label}" for label in "ab" for n in range(9)]
    for label in "ab":
        for number in range(9):
            put(tmp_path / "all" / label / f"{number}.jpg", label.encode())
    put(tmp_path / "all" / "index.csv", "\n".join(["path,y", *lines]).encode())
    mini(tmp_path / "all", tmp_path / "few", config)
    kept = (tmp_path / "few" / "index.csv").read_text().split()[1:]
    assert Counter(line[-1] for line in kept) == {"a": 3, "b": 3}
    assert {line.split(",")[0].removeprefix("/mnt/old/set/") for line in kept} == names(
        tmp_path / "few"
    ) - {"index.csv"}


def _read_json(text: str, form: str) -> dict[str, str]:
    if form == "mapping":
        return json.loads(text)
    rows: list[dict[str, str]]
    if form == "lines":
        rows = [json.loads(line) for line in text.splitlines()]
    elif form == "in data":
        document = json.loads(text)
        assert document["version"] == 2
        rows = document["data"]
    else:
        rows = json.loads(text)
    return {row["image"]: row["label"] for row in rows}


@pytest.mark.parametrize("form", ["list", "in data", "mapping", "lines"])
def test_json_beside_flat_images(tmp_path: Path, config: StoreConfig, form: str) -> None:
    labels = flat_images(tmp_path / "all")
    rows = [{"image": name, "label": label, "at": [1, 2]} for name, label in labels.items()]
    name = "metadata.jsonl" if form == "lines" else "annotations.json"
    text = {
        "list": json.dumps(rows),
        "in data": json.dumps({"version": 2, "data": rows}),
        "mapping": json.dumps(labels),
        "lines": "".join(json.dumps(row) + "\n" for row in rows),
    }[form]
    put(tmp_path / "all" / name, text.encode())
    assert mini(tmp_path / "all", tmp_path / "few", config).classes == 3
    kept = _read_json((tmp_path / "few" / name).read_text(), form)
    assert Counter(kept.values()) == dict.fromkeys(CLASSES, 3)
    for image, label in kept.items():
        assert (tmp_path / "few" / "images" / image).read_text() == label


def test_coco(tmp_path: Path, config: StoreConfig) -> None:
    labels = {f"img_{n:03d}.png": {n % 3} for n in range(60)}
    for name, (label,) in labels.items():
        put(tmp_path / "all" / "images" / name, picture(label))
    document = coco(labels)
    put(tmp_path / "all" / "annotations" / "instances.json", json.dumps(document).encode())
    report = mini(tmp_path / "all", tmp_path / "few", config)
    assert (report.layout, report.classes) == ("coco", 3)
    kept = json.loads((tmp_path / "few" / "annotations" / "instances.json").read_text())
    assert kept["categories"] == document["categories"]
    assert len(kept["images"]) == len(kept["annotations"]) == 9
    files = {image["id"]: image["file_name"] for image in kept["images"]}
    for mark in kept["annotations"]:
        data = (tmp_path / "few" / "images" / files[mark["image_id"]]).read_bytes()
        assert label_of(data) == mark["category_id"] - 1


def test_voc_whose_annotations_name_other_images(tmp_path: Path, config: StoreConfig) -> None:
    for number in range(30):
        label = CLASSES[number % 3]
        put(tmp_path / "all" / "pictures" / f"{number}.jpg", label.encode())
        put(tmp_path / "all" / "marks" / f"{number}.xml", voc_xml("camera.jpg", [label]))
    report = mini(tmp_path / "all", tmp_path / "few", config, per_class=2)
    assert (report.layout, report.classes, report.kept) == ("voc", 3, 12)
    for path in (tmp_path / "few" / "marks").iterdir():
        image = tmp_path / "few" / "pictures" / f"{path.stem}.jpg"
        assert f"<name>{image.read_text()}</name>" in path.read_text()


def test_yolo_keeps_pictures_with_their_labels(tmp_path: Path, config: StoreConfig) -> None:
    for split in ("train", "val"):
        for number in range(30):
            label = number % 3
            put(tmp_path / "all" / "images" / split / f"{number}.jpg", str(label).encode())
            line = f"{label} 0.5 0.5 0.1 0.2\n" * (1 + number % 2)
            put(tmp_path / "all" / "labels" / split / f"{number}.txt", line.encode())
    put(tmp_path / "all" / "classes.txt", "\n".join(CLASSES).encode())
    put(tmp_path / "all" / "data.yaml", b"train: images/train\n")
    report = mini(tmp_path / "all", tmp_path / "few", config)
    assert (report.layout, report.classes) == ("yolo", 3)
    for split in ("train", "val"):
        found = sorted((tmp_path / "few" / "images" / split).iterdir())
        assert Counter(path.read_text() for path in found) == {"0": 3, "1": 3, "2": 3}
        for path in found:
            told = (tmp_path / "few" / "labels" / split / f"{path.stem}.txt").read_text()
            assert told.startswith(f"{path.read_text()} ")
    assert {"classes.txt", "data.yaml"} < names(tmp_path / "few")


def test_masks_stay_with_their_pictures(tmp_path: Path, config: StoreConfig) -> None:
    for number in range(30):
        put(tmp_path / "all" / "images" / f"{number}.jpg", b"picture")
        put(tmp_path / "all" / "masks" / f"{number}.png", b"mask")
    mini(tmp_path / "all", tmp_path / "few", config)
    pictures, masks = (
        {path.stem for path in (tmp_path / "few" / side).iterdir()} for side in ("images", "masks")
    )
    assert pictures == masks
    assert len(masks) == 3


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


def test_mnist_that_does_not_fit_is_told_by_name(tmp_path: Path, config: StoreConfig) -> None:
    labels = np.zeros(7, np.uint8)
    put(tmp_path / "all" / "t10k-images-idx3-ubyte", write_idx(np.zeros((8, 2, 2), np.uint8)))
    put(tmp_path / "all" / "t10k-labels-idx1-ubyte", write_idx(labels))
    with pytest.raises(BadInput, match="t10k-images-idx3-ubyte: 8 images have 7 labels"):
        mini(tmp_path / "all", tmp_path / "few", config)


@pytest.mark.parametrize(("coarse", "classes"), [(False, 10), (True, 100)])
def test_cifar(tmp_path: Path, config: StoreConfig, coarse: bool, classes: int) -> None:
    rows = [(n % classes, n % classes // 5) for n in range(5 * classes)]
    records = b"".join(bytes([g, f] if coarse else [f]) + bytes([f]) * 3072 for f, g in rows)
    put(tmp_path / "all" / "data_batch_1.bin", records)
    put(tmp_path / "all" / "pytorch_model.bin", bytes([77]) * 3073 * 4)
    report = mini(tmp_path / "all", tmp_path / "few", config)
    assert (report.layout, report.classes) == ("cifar", classes)
    kept = np.frombuffer((tmp_path / "few" / "data_batch_1.bin").read_bytes(), np.uint8).reshape(
        -1, 3073 + coarse
    )
    assert Counter(kept[:, int(coarse)].tolist()) == dict.fromkeys(range(classes), 3)
    assert (kept[:, int(coarse)] == kept[:, -1]).all()
    assert (tmp_path / "few" / "pytorch_model.bin").read_bytes() == bytes([77]) * 3073 * 4


def test_damaged_tfrecords_are_told_by_name(tmp_path: Path, config: StoreConfig) -> None:
    path = tmp_path / "all" / "train.tfrecord"
    write_tfrecord(path, [{"label": (1, "int")}])
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(BadInput, match=r"train\.tfrecord: .* ends inside a record"):
        mini(tmp_path / "all", tmp_path / "few", config)


@pytest.mark.parametrize("name", ["set.zip", "set.tar", "set.tar.gz", "set.tar.xz"])
def test_archives(tmp_path: Path, config: StoreConfig, name: str) -> None:
    image_folder(tmp_path / "all")
    packed = tmp_path / name
    if name.endswith(".zip"):
        with zipfile.ZipFile(packed, "w") as archive:
            for path in sorted((tmp_path / "all").rglob("*.jpg")):
                archive.write(path, path.relative_to(tmp_path / "all"))
    else:
        with tarfile.open(packed, "w") as archive:
            archive.add(tmp_path / "all", ".")
    store = open_place("obs://lab/", config).store
    store.write(f"dataset/{name}", packed.read_bytes())
    mini(f"obs://lab/dataset/{name}", "obs://lab/mini/", config)
    kept = [entry.key for entry in store.walk("mini/")]
    assert len(kept) == 18
    for source, target in (
        (f"obs://lab/dataset/{name}", f"obs://lab/mini-packed/{name}"),
        ("obs://lab/dataset", "obs://lab/mini-folder"),
    ):
        mini(source, target, config)
        data = store.read(f"{target.split('/')[3]}/{name}")
        if name.endswith(".zip"):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                inside = archive.namelist()
        else:
            # Packed as its name says: plain tar is not gzip.
            opened = {"gz": gzip.decompress, "xz": lzma.decompress}.get(name[-2:], bytes)(data)
            with tarfile.open(fileobj=io.BytesIO(opened), mode="r:") as archive:
                inside = archive.getnames()
        assert sorted(f"mini/{one}" for one in inside) == sorted(kept)


def test_from_a_server_as_from_a_folder(
    door_config: StoreConfig, door_bucket: str, tmp_path: Path
) -> None:
    for number in range(12):
        put(tmp_path / "all" / "a" / f"{number}.jpg", b"a")
        put(tmp_path / "all" / "b" / f"{number}.jpg", b"b")
    put(tmp_path / "all" / "list.csv", b"".join(b"a/%d.jpg,1\n" % n for n in range(12)))
    records = [{"label": (n % 2, "int"), "image": (bytes(70_000), "byte")} for n in range(200)]
    write_tfrecord(tmp_path / "all" / "train.tfrecord", records)
    store = open_place(f"obs://{door_bucket}/", door_config).store
    for name in names(tmp_path / "all"):
        store.write(f"set/{name}", (tmp_path / "all" / name).read_bytes())
    mini(f"obs://{door_bucket}/set", f"obs://{door_bucket}/mini", door_config)
    mini(tmp_path / "all", tmp_path / "few", door_config)
    few = {entry.key.removeprefix("mini/") for entry in store.walk("mini/")}
    assert few == names(tmp_path / "few")
    for name in few:
        assert store.read(f"mini/{name}") == (tmp_path / "few" / name).read_bytes()
    assert len(store.read("mini/train.tfrecord")) < 7 * 71_000
