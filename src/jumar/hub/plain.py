"""Which files lie in git itself, and which in LFS, where a client leaves that to the hub."""

import codecs

LARGE = (
    *("7z", "air", "arrow", "bin", "bz2", "ckpt", "ftz", "gz", "h5", "joblib", "mindir", "model"),
    *("msgpack", "npy", "npz", "om", "onnx", "ot", "parquet", "pb", "pickle", "pkl", "pt", "pth"),
    *("rar", "safetensors", "tar", "tflite", "tgz", "wasm", "xz", "zip", "zst"),
)
"""Endings of what people take for large; new repositories track them, and clients go by that too."""
_SAMPLE_BYTES = 512
# What is text by its name, in whatever coding.
_TEXT = (
    *(".cfg", ".css", ".csv", ".gitattributes", ".gitignore", ".html", ".ini", ".ipynb", ".jinja"),
    *(".js", ".json", ".jsonl", ".md", ".model_card", ".py", ".rst", ".sh", ".toml", ".tsv"),
    *(".txt", ".xml", ".yaml", ".yml"),
)
_LARGE = tuple(f".{ending}" for ending in LARGE)


def is_plain(path: str, size: int, sample: bytes, limit: int) -> bool:
    """Whether a file that begins with `sample` is text, and no larger than git itself may have."""
    begin, name = sample[:_SAMPLE_BYTES], path.lower()
    if size > limit or b"\0" in begin or name.endswith(_LARGE):
        return False
    return name.endswith(_TEXT) or _is_utf8(begin)


def _is_utf8(begin: bytes) -> bool:
    try:
        # The last letter may be cut.
        codecs.getincrementaldecoder("utf-8")().decode(begin)
    except UnicodeDecodeError:
        return False
    return True
