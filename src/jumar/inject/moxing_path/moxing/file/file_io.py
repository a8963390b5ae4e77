"""`file_io`: where ModelArts' module keeps these functions, and settings that scripts change.

The settings are there to be set. Here the measured rate decides how much is copied at a time, and every
big object goes in parts."""

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
from .tree import (
    append,
    append_remote,
    exists,
    get_size,
    glob,
    is_directory,
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

_NUMBER_OF_PROCESSES = 1
_LARGE_FILE_METHOD = 2
_LARGE_FILE_TASK_NUM = 1

__all__ = [
    "File",
    "MoxFileNameDuplicateException",
    "MoxFileNotExistsException",
    "MoxFileReadException",
    "MoxFileRespException",
    "append",
    "append_remote",
    "background_sync_copy",
    "copy",
    "copy_parallel",
    "exists",
    "get_size",
    "glob",
    "is_directory",
    "list_directory",
    "make_dirs",
    "mk_dir",
    "read",
    "remove",
    "rename",
    "scan_dir",
    "set_auth",
    "stat",
    "walk",
    "write",
]
