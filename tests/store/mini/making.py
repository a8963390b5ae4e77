"""Data sets as people have them: small pictures whose colour is their class."""

import io
import struct
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from jumar.store.credentials import StoreConfig
from jumar.store.mini.make import MiniReport, make_mini
from jumar.store.places import open_place

CLASSES = ("cat", "dog", "鸟")


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


def picture(label: int, form: str = "PNG") -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (8, 8), (40 * label, 10, 200)).save(out, form)
    return out.getvalue()


def label_of(data: bytes) -> int:
    with Image.open(io.BytesIO(data)) as image:
        pixel = image.convert("RGB").getpixel((3, 3))
    assert isinstance(pixel, tuple)
    return round(pixel[0] / 40)


def voc_xml(image: str, labels: Iterable[str]) -> bytes:
    objects = "".join(
        f"<object><name>{label}</name><truncated>0</truncated><difficult>0</difficult><bndbox>"
        "<xmin>1</xmin><ymin>1</ymin><xmax>5</xmax><ymax>6</ymax></bndbox></object>"
        for label in labels
    )
    size = "<size><width>8</width><height>8</height><depth>3</depth></size>"
    return f"<annotation><filename>{image}</filename>{size}{objects}</annotation>".encode()


def write_idx(array: "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]") -> bytes:
    shape = struct.pack(f">{array.ndim}I", *array.shape)
    return b"\0\0\x08" + bytes([array.ndim]) + shape + array.tobytes()


def write_tfrecord(path: Path, records: Iterable[Mapping[str, tuple[object, str]]]) -> None:
    tfrecord: Any = import_module("tfrecord")
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = tfrecord.TFRecordWriter(str(path))
    for record in records:
        writer.write(dict(record))
    writer.close()


def coco(labels: dict[str, set[int]], categories: Iterable[str] = CLASSES) -> dict[str, object]:
    images = [
        {"id": 100 + n, "file_name": name, "width": 8, "height": 8} for n, name in enumerate(labels)
    ]
    pairs = [(100 + n, label) for n, name in enumerate(labels) for label in sorted(labels[name])]
    marks = [
        {
            "id": number,
            "image_id": image,
            "category_id": label + 1,
            "bbox": [0, 0, 3, 3],
            "area": 9,
            "iscrowd": 0,
        }
        for number, (image, label) in enumerate(pairs, 1)
    ]
    kinds = [{"id": n, "name": name} for n, name in enumerate(categories, 1)]
    return {"images": images, "annotations": marks, "categories": kinds}
