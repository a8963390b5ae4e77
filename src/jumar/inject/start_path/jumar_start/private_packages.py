"""What a job installs is its own: `pip install` goes to a layer over the Python that runs it.

A layer is a virtual environment in the job directory that sees the packages of the Python below it, one
per Python that the job uses. pip itself then does the right thing: a newer version in the layer hides the
older one below, and nothing below is ever removed. The layer is made when something is first installed;
until then a Python that starts only finds its folder, empty. Programs of the Python below (`torchrun`,
`accelerate`) see the layer as well, which a virtual environment alone would not give.

Every Python of every job runs this first, so it imports nothing that `site` has not imported already;
what installs is in `private_layer`."""

import os
import sys

_PIP_MAIN = "pip._internal.cli.main"
LOCKED = "JUMAR_PIP_LOCKED"
"""Set where pip runs for the layer already."""
SITE = ("site-packages", "dist-packages")
_INSTALLERS = (b"pip", b"setup.py", b"conda", b"mamba", b"micromamba")


class Layer:
    """The private environment over the Python that runs this."""

    def __init__(self, root: str) -> None:
        self.root = root
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        self.is_current = os.path.dirname(sys.prefix) == root
        below = sys.prefix.replace(os.sep, "+")[-120:]
        self.path = sys.prefix if self.is_current else os.path.join(root, version + below)
        self.site = os.path.join(self.path, "lib", "python" + version, "site-packages")
        self.below = os.path.join(self.site, "below.pth")
        """Written last: then it is ready."""
        self.is_pip = False
        """Whether this process is a pip that stays as it is."""

    def is_needless(self) -> bool:
        """Whether this is an environment that the job has made for itself: newer than the first of its
        layers, whose folder was made when its first Python started."""
        if self.is_current or sys.prefix == sys.base_prefix:
            return False
        try:
            made = os.stat(os.path.join(sys.prefix, "pyvenv.cfg")).st_mtime
            layers = [os.path.join(self.root, name, "lib") for name in os.listdir(self.root)]
            return any(os.stat(lib).st_mtime < made for lib in layers if os.path.isdir(lib))
        except OSError:
            return False

    def show(self) -> None:
        """Put it before the packages below, behind the standard library."""
        if self.is_current:
            return
        import site

        try:
            # It must be there: Python looks once whether an entry of its path is a folder.
            os.makedirs(self.site, exist_ok=True)
        except OSError:
            # A full disk, or a job directory that is gone: then there is nothing to see either.
            return
        before = list(sys.path)
        site.addsitedir(self.site)
        added = [entry for entry in sys.path if entry not in before]
        at = next((n for n, entry in enumerate(before) if entry.endswith(SITE)), len(before))
        sys.path[:] = [*before[:at], *added, *before[at:]]


def install(root: str) -> None:
    """Let this process see the layer over its Python; if it installs packages, have that done there."""
    layer = Layer(root)
    if layer.is_needless():
        return
    words = _command_line()
    if LOCKED not in os.environ:
        if any(os.path.basename(word).startswith(_INSTALLERS) for word in words):
            from jumar_start import private_layer

            private_layer.take_over(layer, [os.fsdecode(word) for word in words])
        _stand_in_for_pip(layer)
    layer.show()


def _stand_in_for_pip(layer: Layer) -> None:
    """Scripts import pip and call its `main`; all ways to it end in this module."""
    if _PIP_MAIN in sys.modules or layer.is_pip:
        return
    stand_in = type(sys)(_PIP_MAIN)

    def main(args: "list[str] | None" = None) -> int:
        from jumar_start import private_layer

        return private_layer.run_pip(layer, sys.argv[1:] if args is None else list(args))

    stand_in.__dict__["main"] = main
    sys.modules[_PIP_MAIN] = stand_in


def _command_line() -> "list[bytes]":
    # sys.argv is not whole yet, and sys.orig_argv is missing before 3.10.
    try:
        with open("/proc/self/cmdline", "rb") as file:
            return file.read().split(b"\0")[1:-1]
    except OSError:
        return []
