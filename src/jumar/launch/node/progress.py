"""Whether an attempt has come further than the one before it: by the checkpoints that it has left."""

import os
from typing import List, NamedTuple, Optional

from jumar.launch.complete import SetAside, changed_ns, newest_complete, set_aside_torn
from jumar.launch.jobdir.files import JobDir


class Saved(NamedTuple):
    """A checkpoint as it was at one moment: one with a fixed name is written again and again."""

    path: str
    changed_ns: int


def begin(directory: JobDir) -> List[SetAside]:
    """Set aside what an earlier attempt has left half written."""
    # The first one has left nothing yet: what is there may be another job's, which writes it now.
    return set_aside_torn(directory.path("ckpt")) if directory.number > 1 else []


def resume_from(directory: JobDir) -> str:
    """The checkpoint that this attempt goes on from; empty when there is none."""
    return newest_complete(directory.path("ckpt")) or ""


def newest(directory: JobDir, folder: Optional[str]) -> Optional[Saved]:
    """The checkpoint that was written last, wherever a script may save: not all know JUMAR_CKPT_DIR.
    `folder`: where the command runs."""
    places = [directory.path("ckpt"), directory.path("cache", "ckpt")]
    places += _outputs(directory.path("out"))
    if folder is not None:
        places += [os.path.join(folder, name) for name in ("ckpt", "checkpoints", "output")]
    found = (newest_complete(os.path.realpath(place)) for place in places)
    saved = (Saved(path, changed_ns(path)) for path in found if path is not None)
    return max(saved, key=lambda one: one.changed_ns, default=None)


def _outputs(folder: str) -> List[str]:
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    except OSError:
        return []
