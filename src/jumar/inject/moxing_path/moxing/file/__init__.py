"""`mox.file`: files and folders at `obs://`, `s3://` and local paths alike.

One difference from `shutil.copytree`: if the target ends in `/` and the source does not, the folder
itself is copied into the target, as common recipes expect
(`copy_parallel('obs://b/free_train/ckpt', '/cache/')` creates `/cache/ckpt`). If the target's last
name is already the source's, the content is copied."""

from . import file_io
from .background import background_sync_copy
from .copying import copy, copy_parallel, rename
from .errors import (
    MoxFileNameDuplicateException,
    MoxFileNotExistsException,
    MoxFileReadException,
    MoxFileRespException,
)
from .locations import set_auth
from .objects import File
from .patch import shift
from .tree import (
    append,
    append_remote,
    append_str,
    exists,
    get_size,
    glob,
    is_directory,
    isdir,
    list_directory,
    make_dirs,
    mk_dir,
    read,
    remove,
    scan_dir,
    stat,
    walk,
    write,
)

__all__ = [
    "File",
    "MoxFileNameDuplicateException",
    "MoxFileNotExistsException",
    "MoxFileReadException",
    "MoxFileRespException",
    "append",
    "append_remote",
    "append_str",
    "background_sync_copy",
    "copy",
    "copy_parallel",
    "exists",
    "file_io",
    "get_size",
    "glob",
    "is_directory",
    "isdir",
    "list_directory",
    "make_dirs",
    "mk_dir",
    "read",
    "remove",
    "rename",
    "scan_dir",
    "set_auth",
    "shift",
    "stat",
    "walk",
    "write",
]
