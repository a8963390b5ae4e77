"""Which files lie in git itself, and which in LFS, where a client leaves that to the hub."""

_SAMPLE_BYTES = 512
# What is text by its name; all else goes through LFS.
_TEXT = (
    *(".cfg", ".css", ".csv", ".gitattributes", ".gitignore", ".html", ".ini", ".ipynb", ".jinja"),
    *(
        ".js",
        ".json",
        ".jsonl",
        ".md",
        ".model_card",
        ".py",
        ".rst",
        ".sh",
        ".toml",
        ".tsv",
        ".txt",
    ),
    *(".xml", ".yaml", ".yml"),
)


def is_plain(path: str, size: int, sample: bytes, limit: int) -> bool:
    """Whether a file that begins with `sample` is text, and no larger than git itself may have."""
    is_text = path.lower().endswith(_TEXT) and b"\0" not in sample[:_SAMPLE_BYTES]
    return size <= limit and is_text
