"""torch.save into a file: written aside and renamed, so that a script killed meanwhile still has the file of
before. Torch itself empties the old one first."""

import errno
import functools
import os
import stat
from typing import Any

from jumar_start.advance import ADVANCE


def install(serialization: Any) -> None:
    """Replace it in the module that has just been imported."""
    save = serialization.save

    @functools.wraps(save)
    def save_aside(obj: Any, f: Any, *args: Any, **options: Any) -> Any:
        target = _plain_target(f)
        if target is None:
            return save(obj, f, *args, **options)
        # A name is limited in bytes, of which a character may take four.
        name = os.fsdecode(os.fsencode(os.path.basename(target))[:200])
        aside = os.path.join(os.path.dirname(target), f".{name}.{os.urandom(4).hex()}")
        try:
            save(obj, aside, *args, **options)
            _as_before(target, aside)
            os.replace(aside, target)
        except BaseException as error:
            _remove(aside)
            if not _has_no_room(error):
                raise
        else:
            ADVANCE.saved(target)
            return None
        # No place for two: as torch does it.
        done = save(obj, f, *args, **options)
        ADVANCE.saved(target)
        return done

    serialization.save = save_aside


def _plain_target(f: Any) -> Any:
    if not isinstance(f, (str, os.PathLike)):
        return None
    target = os.path.realpath(os.fsdecode(f))
    if os.path.lexists(target) and not stat.S_ISREG(os.lstat(target).st_mode):
        return None
    return target


def _as_before(target: str, aside: str) -> None:
    if os.path.exists(target):
        os.chmod(aside, stat.S_IMODE(os.stat(target).st_mode))


def _has_no_room(error: BaseException) -> bool:
    """For a second file: torch says so with errors of its own, too."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS)
    return isinstance(error, RuntimeError)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
