"""The CANN of this machine as the version tables see it: home, release, compiler version."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jumar.host.versions import Version, parse_or_none
from jumar.launch.ascend.cann import Cann, cann_environment, find_cann

_BASES = ("usr/local/Ascend", "~/Ascend", "opt/Ascend")
_RELEASE = re.compile(r"(?:cann-)?\d+\.\d+[\w.+-]*")
_COMPILER_FILES = ("compiler/version.info", "share/info/compiler/version.info")
_COMPILER_VERSION = re.compile(r"^\s*Version\s*=\s*(\S+)", re.M)


@dataclass(frozen=True, slots=True)
class Software:
    """One CANN, or none."""

    cann: Cann | None

    @property
    def home(self) -> Path | None:
        """Its folder."""
        return self.cann.home if self.cann else None

    @property
    def version(self) -> Version | None:
        """Its release; None if there is no CANN or it does not say."""
        return parse_or_none(self.cann.version) if self.cann else None

    @property
    def compiler(self) -> Version | None:
        """The compiler version that MindSpore's own check reads."""
        if self.cann is None:
            return None
        for name in _COMPILER_FILES:
            match = _COMPILER_VERSION.search(_text(self.cann.home / name))
            if match:
                return parse_or_none(match[1])
        return None

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The variables its `set_env.sh` would add."""
        return dict(cann_environment(self.cann, environ).variables) if self.cann else {}


def software_here(root: Path, environ: Mapping[str, str]) -> Software:
    """The CANN that a user of this machine would mean."""
    return Software(find_cann(root, environ))


def all_cann(root: Path, environ: Mapping[str, str]) -> tuple[Cann, ...]:
    """Every CANN in the usual locations, newest first; links to the same folder count once."""
    found: dict[Path, Cann] = {}
    for place in _places(root, environ):
        inside = "/" + str(place.relative_to(root))
        cann = find_cann(root, {"ASCEND_HOME_PATH": inside})
        if cann is not None and (cann.home == place or place in cann.home.parents):
            found.setdefault(cann.home.resolve(), cann)
    lowest = Version.parse("0")
    return tuple(
        sorted(found.values(), key=lambda cann: parse_or_none(cann.version) or lowest, reverse=True)
    )


def bases(root: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The folders that CANN installers use."""
    home = environ.get("HOME", "")
    return tuple(
        root / name.replace("~", home).lstrip("/")
        for name in _BASES
        if not name.startswith("~") or home.startswith("/")
    )


def _places(root: Path, environ: Mapping[str, str]) -> list[Path]:
    places: list[Path] = []
    for base in bases(root, environ):
        for folder in (base, base / "ascend-toolkit", base / "nnae"):
            try:
                places += sorted(path for path in folder.iterdir() if _RELEASE.fullmatch(path.name))
            except OSError:
                continue
    return places


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
