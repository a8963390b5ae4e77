"""Tar files for tests that upload code."""

import io
import tarfile


def tar_of(**files: str) -> bytes:
    """A tar file of the given texts; `src__x` is `src/x.py`."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name.replace("__", "/") + ".py")
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return made.getvalue()
