"""TensorBoard on a Unix socket, run by whichever Python has it: `SOCKET NAME:FOLDER,NAME:FOLDER [TOP…]`.

Its command can listen on ports only, which every account of the machine reaches. With tops it reads plain
files below them and nothing else: the job, which has fewer rights, may have put links anywhere, and a file of
the projector names others."""

import errno
import glob
import os
import stat
import sys
import types
from typing import Any, Dict, List, NoReturn, Optional, Sequence, Tuple, Union

from tensorboard import default, program  # pyright: ignore[reportMissingTypeStubs]
from tensorboard.compat.tensorflow_stub import errors  # pyright: ignore[reportMissingTypeStubs]
from tensorboard.compat.tensorflow_stub.io import (  # pyright: ignore[reportMissingTypeStubs]
    gfile,
)
from werkzeug import serving

_MOST_BYTES = 1 << 28
"""Read at once: the length of a record is what the job says that it is."""


class _OnSocket(serving.ThreadedWSGIServer, program.TensorBoardServer):
    daemon_threads = True

    def __init__(self, wsgi_app: Any, flags: Any) -> None:
        # Nobody may connect in between.
        os.umask(0o177)
        super().__init__(f"unix://{flags.host}", 0, wsgi_app)
        os.umask(0o077)

    def get_url(self) -> str:
        # Written into a file for others to find, which wants a port.
        return "http://localhost:1/"

    def print_serving_message(self) -> None:
        """Nobody reads it."""


class Beneath:
    """The file system of TensorBoard, as far as it lies below some folders. An open file is asked where it really
    is: by its name it may be another one at any moment."""

    def __init__(self, tops: Sequence[str]) -> None:
        self._tops = tuple(tops)

    def exists(self, filename: Union[str, bytes]) -> bool:
        """False of what lies elsewhere."""
        return self._status(filename) is not None

    def isdir(self, dirname: Union[str, bytes]) -> bool:
        """False of what lies elsewhere."""
        status = self._status(dirname)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def stat(self, filename: Union[str, bytes]) -> Any:
        """Its size."""
        status = self._status(filename)
        if status is None:
            raise errors.NotFoundError(None, None, "Could not find file")
        return gfile.StatData(status.st_size)

    def listdir(self, dirname: Union[str, bytes]) -> List[str]:
        """The names in it."""
        try:
            handle = self._opened(dirname, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise errors.NotFoundError(None, None, "Could not find directory") from error
        try:
            return os.listdir(handle)
        finally:
            os.close(handle)

    def glob(self, filename: Union[str, List[str]]) -> List[str]:
        """What matches and is not elsewhere."""
        patterns = [filename] if isinstance(filename, str) else filename
        return [path for one in patterns for path in glob.glob(one) if self.exists(path)]

    def join(self, path: str, *paths: str) -> str:
        """As everywhere."""
        return os.path.join(path, *paths)

    def read(
        self,
        filename: Union[str, bytes],
        binary_mode: bool = False,
        size: Optional[int] = None,
        continue_from: Optional[Dict[str, int]] = None,
    ) -> Tuple[Union[str, bytes], Dict[str, int]]:
        """From where the last reading ended."""
        try:
            handle = self._opened_plain(filename)
        except OSError as error:
            raise errors.NotFoundError(None, None, f"Not Found: {filename!r}") from error
        mode, encoding = ("rb", None) if binary_mode else ("r", "utf8")
        with open(handle, mode, encoding=encoding) as file:
            file.seek((continue_from or {}).get("opaque_offset", 0))
            data = file.read(_MOST_BYTES if size is None else min(size, _MOST_BYTES))
            return data, {"opaque_offset": file.tell()}

    def _no_writing(self, *_: object) -> NoReturn:
        raise errors.PermissionDeniedError(None, None, "Nothing is written here")

    write = append = makedirs = _no_writing

    def _status(self, path: Union[str, bytes]) -> Optional[os.stat_result]:
        try:
            handle = self._opened(path, os.O_PATH)
        except (OSError, ValueError):
            return None
        try:
            return os.fstat(handle)
        finally:
            os.close(handle)

    def _opened_plain(self, path: Union[str, bytes]) -> int:
        # NONBLOCK: opening a pipe would wait for a writer, for ever.
        handle = self._opened(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        if stat.S_ISREG(os.fstat(handle).st_mode):
            return handle
        os.close(handle)
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)

    def _opened(self, path: Union[str, bytes], flags: int) -> int:
        handle = os.open(path, flags | os.O_CLOEXEC)
        real = os.readlink(f"/proc/self/fd/{handle}")
        if any(f"{real}/".startswith(f"{top}/") for top in self._tops):
            return handle
        os.close(handle)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _keep_beneath(tops: Sequence[str]) -> None:
    # TensorFlow has file systems of its own, and is not imported where there is such a module.
    sys.modules["tensorboard.compat.notf"] = types.ModuleType("tensorboard.compat.notf")
    only = Beneath(tops)

    def of(filename: object) -> Beneath:
        return only

    # Stores and the web, too, may be named by a job: they would be asked with our rights, from our network.
    gfile.get_filesystem = of


def main(path: str, folders: str, *tops: str) -> None:
    """Serve until ended."""
    if tops:
        _keep_beneath(tops)
    board = program.TensorBoard(plugins=default.get_plugins(), server_class=_OnSocket)
    board.configure(
        argv=[
            *(sys.argv[0], "--host", path, "--port", "1", "--logdir_spec", folders),
            # The quick loader is a program of its own, with a port of its own.
            *("--load_fast", "false", "--reload_interval", "3"),
        ]
    )
    board.main()


if __name__ == "__main__":
    main(*sys.argv[1:])
