"""`mox.file`: files and folders at `obs://`, `s3://` and local paths alike.

One difference from `shutil.copytree`: if the target ends in `/` and the source does not, the folder
itself is copied into the target, as common recipes expect
(`copy_parallel('obs://b/free_train/ckpt', '/cache/')` creates `/cache/ckpt`). If the target's last
name is already the source's, the content is copied."""

from . import file_io
from .file_io import *  # noqa: F403  scripts find the same functions here and there
from .patch import shift
from .tree import append_str, isdir

__all__ = ["append_str", "file_io", "isdir", "shift"]
__all__ += file_io.__all__
