"""Where CANN is installed and the environment that its `set_env.sh` gives.

`find_cann` only looks at names and small text files under a root folder. `cann_environment` runs
the script in a shell with a time limit and, when there is no script or no shell, or the script
breaks off, computes the same variables by rule, for toolkits from 20.0 to today."""

import os
import re
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from jumar.launch.ascend.places import BASES, VARIABLES

SCRIPT_LIMIT_S = 20.0
_MARKS = ("opp", "fwkacllib", "compiler", "runtime", "lib64", "set_env.sh", "share/info")
_SCRIPTS = ("set_env.sh", "../set_env.sh", "bin/setenv.bash")
_VERSION_FILES = (
    "{arch}-linux/ascend_toolkit_install.info",
    "ascend_toolkit_install.info",
    "share/info/runtime/version.info",
    "runtime/version.info",
    "compiler/version.info",
    "fwkacllib/version.info",
    "opp/version.info",
)
_VERSION_LINE = re.compile(r"^\s*(version_dir|version)\s*=\s*\[?([0-9][\w.+-]*)", re.I | re.M)
_VERSION_NAME = re.compile(r"(?:cann-)?(\d+\.\d+[\w.+-]*)")
_SHELLS_OWN = frozenset({"_", "SHLVL", "PWD", "OLDPWD", "LC_ALL"})
_OWN_ARCH = {"aarch64": ("aarch64", "arm64"), "arm64": ("aarch64", "arm64")}


class Cann(NamedTuple):
    """One installed CANN."""

    home: Path
    """What ASCEND_HOME_PATH names."""
    version: Optional[str]
    set_env: Optional[Path]
    legacy: bool
    """A toolkit of 2020 and 2021, with `fwkacllib` instead of `compiler` and `runtime`."""


class CannEnvironment(NamedTuple):
    """The variables to set for the ranks, and where they come from, in words."""

    variables: Dict[str, str]
    source: str


def find_cann(
    root: Path, environ: Mapping[str, str], *, machine: Optional[str] = None
) -> Optional[Cann]:
    """The CANN that a person on this machine would mean, or None."""
    arch = machine or os.uname().machine
    for place in _candidates(root, environ):
        home = _home_in(place, arch)
        if home is not None:
            return Cann(
                home, _version(home, arch), _script(home), legacy=(home / "fwkacllib").is_dir()
            )
    return None


def is_sourced(environ: Mapping[str, str]) -> bool:
    """Whether a `set_env.sh` has done its work in this environment."""
    home = environ.get("ASCEND_HOME_PATH") or environ.get("ASCEND_TOOLKIT_HOME")
    libraries = environ.get("LD_LIBRARY_PATH", "")
    return bool(
        environ.get("ASCEND_OPP_PATH")
        and "tbe" in environ.get("PYTHONPATH", "")
        and ((home and home in libraries) or "fwkacllib" in libraries)
    )


def cann_environment(
    cann: Cann,
    environ: Mapping[str, str],
    *,
    root: Path = Path("/"),
    machine: Optional[str] = None,
    timeout_s: float = SCRIPT_LIMIT_S,
) -> CannEnvironment:
    """What sourcing the script changes in `environ`; nothing if that was done before."""
    if is_sourced(environ):
        return CannEnvironment({}, "set_env.sh was sourced before")
    if cann.set_env is None:
        why = "no set_env.sh"
    else:
        variables = _source(cann.set_env, environ, timeout_s)
        if variables and "ASCEND_OPP_PATH" in variables:
            return CannEnvironment(variables, str(cann.set_env))
        why = f"{cann.set_env} broke off"
    by_rule = _by_rule(cann, environ, root, machine or os.uname().machine)
    return CannEnvironment(by_rule, f"computed for {cann.home} ({why})")


def _candidates(root: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    for variable in VARIABLES:
        if environ.get(variable, "").startswith("/"):
            yield root / environ[variable].lstrip("/")
    for name in BASES:
        if name.startswith("~") and not environ.get("HOME", "").startswith("/"):
            continue
        base = root / name.replace("~", environ.get("HOME", "")).lstrip("/")
        yield base / "cann"
        yield from _newest_first(base, "cann-*")
        for package in ("ascend-toolkit", "nnae"):
            yield base / package / "latest"
            yield from _newest_first(base / package, "*")


def _newest_first(folder: Path, pattern: str) -> List[Path]:
    try:
        found = [path for path in folder.glob(pattern) if _VERSION_NAME.fullmatch(path.name)]
    except OSError:
        return []
    return sorted(found, key=lambda path: _version_key(path.name), reverse=True)


def _version_key(name: str) -> List[Tuple[int, int, str]]:
    # Words sort before numbers, so that 8.1.RC1 is older than 8.1.0.
    parts = re.findall(r"\d+|[A-Za-z]+", name.replace("cann-", ""))
    return [(1, int(part), "") if part.isdigit() else (0, 0, part.lower()) for part in parts]


def _home_in(place: Path, arch: str) -> Optional[Path]:
    if _has_marks(place):
        return place
    # 20.0 keeps everything one folder deeper, in arm64-linux_gcc7.3.0.
    for own in _OWN_ARCH.get(arch, (arch,)):
        for path in sorted(_glob(place, own + "-linux*"), reverse=True):
            if _has_marks(path):
                return path
    return None


def _has_marks(folder: Path) -> bool:
    return any(os.path.exists(str(folder / mark)) for mark in _MARKS)


def _glob(folder: Path, pattern: str) -> List[Path]:
    try:
        return list(folder.glob(pattern))
    except OSError:
        return []


def _script(home: Path) -> Optional[Path]:
    for name in _SCRIPTS:
        path = home.parent / name[3:] if name.startswith("../") else home / name
        if path.is_file():
            return path
    return None


def _version(home: Path, arch: str) -> Optional[str]:
    for name in _VERSION_FILES:
        for own in _OWN_ARCH.get(arch, (arch,)):
            found = dict(
                (match[1].lower(), match[2])
                for match in _VERSION_LINE.finditer(_text(home / name.format(arch=own)))
            )
            # version_dir is the toolkit's number; Version next to it counts another way.
            version = found.get("version_dir") or found.get("version")
            if version:
                return version
    real = Path(os.path.realpath(str(home)))
    names = [home.name, home.parent.name, real.name, real.parent.name]
    matches = (_VERSION_NAME.fullmatch(name) for name in names)
    return next((match[1] for match in matches if match), None)


def _text(path: Path) -> str:
    try:
        with open(str(path), encoding="utf-8", errors="replace") as file:
            return file.read(65536)
    except OSError:
        return ""


def _source(script: Path, environ: Mapping[str, str], timeout_s: float) -> Dict[str, str]:
    # Late: only where there is a script to ask.
    from jumar.launch.processes.probe import ask

    # The path is an argument, never a part of the program. Old scripts read unset variables, so
    # no `set -u`; what they print is not wanted.
    program = 'script=$1; shift; . "$script" >/dev/null 2>&1; exec cat /proc/self/environ'
    command = ["bash", "--noprofile", "--norc", "-c", program, "bash", str(script)]
    answer = ask(command, timeout_s=timeout_s, environ=environ, errors="surrogateescape")
    if not answer.ok:
        return {}
    after = dict(
        item.split("=", 1) for item in answer.output.split("\0") if "=" in item.lstrip("=")
    )
    return {
        name: value
        for name, value in after.items()
        if environ.get(name) != value
        and name not in _SHELLS_OWN
        and not name.startswith("BASH_FUNC_")
    }


def _by_rule(cann: Cann, environ: Mapping[str, str], root: Path, arch: str) -> Dict[str, str]:
    paths = _legacy_paths(cann.home) if cann.legacy else _paths(cann.home, arch)
    paths["LD_LIBRARY_PATH"] += _driver_libraries(root, arch)
    variables = {
        name: os.pathsep.join(str(path) for path in paths[name]) for name in paths if paths[name]
    }
    for name in ("PYTHONPATH", "LD_LIBRARY_PATH", "PATH"):
        if name in variables and environ.get(name):
            variables[name] += os.pathsep + environ[name]
    return variables


def _paths(home: Path, arch: str) -> Dict[str, List[Path]]:
    tbe = home / "opp/built-in/op_impl/ai_core/tbe"
    machine = "aarch64" if arch in _OWN_ARCH else arch
    return {
        "ASCEND_HOME_PATH": [home],
        "ASCEND_TOOLKIT_HOME": [home],
        "ASCEND_OPP_PATH": [home / "opp"],
        "ASCEND_AICPU_PATH": [home],
        "TOOLCHAIN_HOME": [home / "toolkit"],
        "PYTHONPATH": [home / "python/site-packages", tbe],
        "LD_LIBRARY_PATH": [
            home / "lib64",
            home / "lib64/plugin/opskernel",
            home / "lib64/plugin/nnengine",
            *_present(tbe / "op_tiling/lib/linux" / machine, home / "tools/aml/lib64"),
        ],
        "PATH": [home / "bin", *_present(home / "compiler/ccec_compiler/bin")],
    }


def _legacy_paths(home: Path) -> Dict[str, List[Path]]:
    operators = "opp/op_impl/built-in/ai_core/tbe"
    tbe = [home / operators, *_present(home / "fwkacllib/python/site-packages")]
    return {
        "ASCEND_HOME_PATH": [home],
        "ASCEND_OPP_PATH": [home / "opp"],
        "ASCEND_AICPU_PATH": [home],
        "TBE_IMPL_PATH": [home / operators],
        "PYTHONPATH": tbe,
        "LD_LIBRARY_PATH": [
            *_nnae_libraries(home),
            home / "fwkacllib/lib64",
            *_present(home / "atc/lib64", home / operators / "op_tiling"),
        ],
        "PATH": [home / "fwkacllib/ccec_compiler/bin", *_present(home / "fwkacllib/bin")],
    }


def _nnae_libraries(home: Path) -> List[Path]:
    # 20.0 runs training on the nnae package of the same version, installed beside the toolkit.
    parts = ["nnae" if part == "ascend-toolkit" else part for part in home.parts]
    beside = Path(*parts)
    return [] if beside == home else _present(beside / "fwkacllib/lib64")


def _driver_libraries(root: Path, arch: str) -> List[Path]:
    base = root / "usr/local/Ascend"
    gnu = "aarch64" if arch in _OWN_ARCH else arch
    return _present(
        base / "add-ons",
        base / "driver/lib64",
        base / "driver/lib64/common",
        base / "driver/lib64/driver",
        root / "usr/lib" / (gnu + "-linux-gnu") / "hdf5/serial",
    )


def _present(*paths: Path) -> List[Path]:
    return [path for path in paths if path.is_dir()]
