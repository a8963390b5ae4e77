"""What belongs together: an image, its mask, its label file; and which file a table refers to."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

IMAGES = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm"}
TABLES = {".csv", ".tsv", ".json", ".jsonl", ".xml", ".txt", ".lst", ".cls"}
"""Files that may describe others."""
# Folders that hold parts of one sample under one name: images/7.jpg and labels/7.txt.
_SIDES_OF_A_SAMPLE = {
    *("image", "images", "img", "imgs", "jpegimages"),
    *("label", "labels", "mask", "masks", "annotation", "annotations", "xmls"),
    *("segmentationclass", "segmentationobject", "trimaps", "depth", "gt"),
}
_SPLIT = re.compile(r"(?:^|[^a-z])(train|val|valid|validation|test)(?:ing)?(?:[^a-z]|$)")
_SAME_SPLIT = {"valid": "val", "validation": "val"}


def is_image(name: str) -> bool:
    """Whether this is the name of a sample."""
    return PurePosixPath(name).suffix.lower() in IMAGES


def sample_of(name: str) -> str:
    """The sample that a file is part of: the same for all its parts."""
    path = PurePosixPath(name)
    folders: list[str] = []
    for part in path.parts[:-1]:
        shown = "*" if part.lower() in _SIDES_OF_A_SAMPLE else part
        # annotations/trimaps/7.png goes with images/7.jpg.
        if shown != "*" or folders[-1:] != ["*"]:
            folders.append(shown)
    return "/".join((*folders, path.stem))


def split_of(name: str) -> str:
    """train, val or test, if the path contains such a word; the last one wins."""
    found: list[str] = _SPLIT.findall(name.lower())
    return _SAME_SPLIT.get(found[-1], found[-1]) if found else ""


def folder_of(name: str) -> str:
    """The folder of a file or sample: `.` at the top."""
    return str(PurePosixPath(name).parent)


class Files:
    """Finds the files that a table refers to, even if its paths start from another folder."""

    def __init__(self, names: Iterable[str]) -> None:
        self._by_name: dict[str, list[str]] = defaultdict(list)
        self._by_stem: dict[str, list[str]] = defaultdict(list)
        for name in sorted(names):
            path = PurePosixPath(name)
            self._by_name[path.name].append(name)
            # Label files share the stem of their image, but are not what the stem refers to.
            if path.suffix.lower() not in TABLES:
                self._by_stem[path.stem].append(name)

    def knows(self, told: str) -> float:
        """How certainly `told` is a file here: 1 with its extension, less without."""
        last = _parts(told)[-1]
        if last in self._by_name:
            return 1.0
        return 0.9 if self._by_bare_name(last) else 0.0

    def _by_bare_name(self, last: str) -> list[str]:
        """Files with this stem; images are often converted without updating the tables."""
        return self._by_stem.get(PurePosixPath(last).stem if is_image(last) else last, [])

    def found(self, told: str, table: str) -> tuple[str, ...]:
        """The files: the longest match of the given path, in the table's split, nearest to the table."""
        *folders, last = _parts(told)
        names = self._by_name.get(last) or self._by_bare_name(last)
        if len(names) < 2:
            return tuple(names)
        names = _best(names, [_common(reversed(folders), _upwards(name)) for name in names])
        names = _best(names, [split_of(folder_of(name)) == split_of(table) for name in names])
        home = PurePosixPath(table).parts[:-1]
        nearest: list[str] = []
        # It refers to both an image and its mask, wherever they are.
        for ending in sorted({PurePosixPath(name).suffix for name in names}):
            alike = [name for name in names if PurePosixPath(name).suffix == ending]
            nearest += _best(alike, [_common(home, PurePosixPath(name).parts) for name in alike])
        return tuple(nearest)


def _parts(told: str) -> list[str]:
    parts = [part for part in told.strip().replace("\\", "/").split("/") if part not in ("", ".")]
    return parts or [""]


def _upwards(name: str) -> Iterable[str]:
    return reversed(PurePosixPath(name).parts[:-1])


def _common(left: Iterable[str], right: Iterable[str]) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count


def _best(names: list[str], scores: Sequence[int]) -> list[str]:
    best = max(scores)
    return [name for name, score in zip(names, scores, strict=True) if score == best]
