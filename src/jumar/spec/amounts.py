"""Amounts as people read them."""


def bytes_text(count: float) -> str:
    """`1.5 GB`."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def files_text(count: int) -> str:
    """`5,000 files`."""
    return "1 file" if count == 1 else f"{count:,} files"
