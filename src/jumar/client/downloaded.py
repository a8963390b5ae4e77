"""Models and data sets as people have them on disk: in any folder, or in the cache of Hugging Face."""

import os
from dataclasses import dataclass
from pathlib import Path

from jumar.errors import BadInput

_LEFT_OUT = frozenset({".git", "__pycache__", ".ipynb_checkpoints"})
# What downloads into a folder leave beside the files.
_NOTES = (".cache", "huggingface")
_CACHED = {"models": "model", "datasets": "dataset"}
_OF_MODELS = (".safetensors", ".ckpt", ".pth", ".pt", ".bin", ".onnx", ".mindir", ".om", ".gguf")
_OF_DATA = (
    ".parquet",
    ".jsonl",
    ".arrow",
    ".csv",
    ".tfrecord",
    ".mindrecord",
    "-ubyte.gz",
    "-ubyte",
)


@dataclass(frozen=True, slots=True)
class Downloaded:
    """What a folder seems to be; empty where it does not tell."""

    folder: Path
    """Where its files are."""
    kind: str
    name: str


def read(folder: Path) -> Downloaded:
    """What the folder is, by its name in a cache, else by its files."""
    kind, _, rest = folder.name.partition("--")
    if kind in _CACHED and (folder / "snapshots").is_dir():
        return Downloaded(_latest(folder), _CACHED[kind], rest.rpartition("--")[2])
    names = [path.lower() for path in files_below(folder)]
    if any(name.endswith(_OF_MODELS) for name in names):
        return Downloaded(folder, "model", folder.resolve().name)
    is_data = any(name.endswith(_OF_DATA) for name in names)
    return Downloaded(folder, "dataset" if is_data else "", folder.resolve().name)


def _latest(cached: Path) -> Path:
    """The snapshot of the main branch, else the one that was fetched last."""
    try:
        main = cached / "snapshots" / (cached / "refs/main").read_text("utf-8").strip()
    except FileNotFoundError:
        main = cached / "refs/main"
    if main.is_dir():
        return main
    found = sorted((cached / "snapshots").iterdir(), key=lambda one: one.stat().st_mtime)
    if not found:
        raise BadInput(f"{cached} holds no download", hint="download it again, whole")
    return found[-1]


def files_below(place: Path) -> dict[str, Path]:
    """The files of a folder by their paths in it, or the one file. Links to files are followed: a cache
    is made of them."""
    if place.is_file():
        return {place.name: place}
    if not place.is_dir():
        raise BadInput(f"{place} does not exist", hint="give a file or a folder")
    found: dict[str, Path] = {}
    for folder, inner, names in os.walk(place):
        inner[:] = sorted(name for name in inner if name not in _LEFT_OUT)
        here = Path(folder).relative_to(place)
        if here.parts[:2] == _NOTES:
            inner.clear()
            continue
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file():
                found[(here / name).as_posix()] = path
    return found
