"""How uv, venv, conda and pip create an environment, install into it or fetch its wheels.

Only the commands; nothing is run here."""

import importlib.util
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from jumar.errors import BadInput
from jumar.host.interpreter import inspect
from jumar.host.matrix import minor_of
from jumar.host.versions import Version

MAKE_LIMIT_S = 600.0
INSTALL_LIMIT_S = 3600.0
# From the oldest to the newest, as torch, torch_npu and their dependencies are tagged.
_PLATFORMS = (
    *("linux", "manylinux1", "manylinux2010", "manylinux2014"),
    *(f"manylinux_2_{minor}" for minor in (5, 12, 17, 24, 26, 27, 28, 31, 34)),
)
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


class Tool(StrEnum):
    """The tool that creates the environment."""

    UV = "uv"
    VENV = "venv"
    CONDA = "conda"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where packages come from; by default, as pip or uv are configured."""

    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One command and its time limit."""

    title: str
    command: tuple[str, ...] = field(repr=False)
    limit_s: float

    @property
    def shown(self) -> tuple[str, ...]:
        """The command without passwords in its URLs."""
        return tuple(_CREDENTIALS.sub("***@", word) for word in self.command)


def choose_tool(wanted: Tool | None, python: str, environ: Mapping[str, str]) -> Tool:
    """The requested tool if it is installed; otherwise the first of uv, venv and conda that works."""
    if wanted is not None:
        if wanted is Tool.VENV:
            _python_of(python, environ)
        elif shutil.which(wanted, path=environ.get("PATH", "")) is None:
            raise BadInput(
                f"{wanted} is not on PATH", hint="use another with: --with uv|venv|conda"
            )
        return wanted
    for tool in (Tool.UV, Tool.CONDA):
        if shutil.which(tool, path=environ.get("PATH", "")) is None:
            continue
        if tool is Tool.UV or _find_python(python, environ) is None:
            return tool
    _python_of(python, environ)
    return Tool.VENV


def make_steps(
    tool: Tool,
    *,
    at: Path,
    python: str,
    requirements: Sequence[str],
    sources: Sources,
    environ: Mapping[str, str],
) -> tuple[Step, ...]:
    """The commands that create the environment at `at` and install into it."""
    inside = str(at / "bin" / "python")
    options = tuple(_source_options(sources))
    if tool is Tool.UV:
        make = ("uv", "venv", "--no-project", "--python", python, str(at))
        install = ("uv", "pip", "install", "--python", inside)
    else:
        make = (
            (_python_of(python, environ), "-m", "venv", str(at))
            if tool is Tool.VENV
            else ("conda", "create", "--yes", "--prefix", str(at), f"python={python}", "pip")
        )
        install = (inside, "-m", "pip", "install", "--disable-pip-version-check", "--no-input")
    return (
        Step(f"create an environment with {tool}, Python {python}", make, MAKE_LIMIT_S),
        Step(
            f"install {len(requirements)} packages",
            (*install, *options, *requirements),
            INSTALL_LIMIT_S,
        ),
    )


def download_steps(
    *,
    to: Path,
    python: str,
    machine: str,
    requirements: Sequence[str],
    sources: Sources,
    environ: Mapping[str, str],
) -> tuple[Step, ...]:
    """The commands that fetch the wheels for a Python and a processor that are not this one's."""
    tag = "cp" + python.replace(".", "")
    abis = (f"{tag}m" if python == "3.7" else tag, "abi3", "none")
    platforms = [f"{kind}_{machine}" for kind in _PLATFORMS]
    command = (
        *_pip(environ),
        *("download", "--disable-pip-version-check", "--no-input", "--dest", str(to)),
        *("--only-binary", ":all:", "--implementation", "cp", "--python-version", python),
        *(word for abi in abis for word in ("--abi", abi)),
        *(word for platform in platforms for word in ("--platform", platform)),
        *_source_options(sources),
    )
    # Vendors' servers fail more often than indexes do: the rest is there already then.
    addressed = [one for one in requirements if " @ " in one]
    others = [one for one in requirements if " @ " not in one]
    title = f"download {len(others)} packages and what they need"
    return (
        Step(title, (*command, *others), INSTALL_LIMIT_S),
        *(
            Step(f"download {one}", (*command, "--no-deps", one), INSTALL_LIMIT_S)
            for one in addressed
        ),
    )


def _pip(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Only pip fetches wheels for another machine; uv can run it."""
    path = environ.get("PATH", "")
    if importlib.util.find_spec("pip") is not None:
        return (sys.executable, "-m", "pip")
    for name in ("pip3", "pip"):
        if shutil.which(name, path=path) is not None:
            return (name,)
    if shutil.which("uv", path=path) is not None:
        return ("uv", "tool", "run", "pip")
    raise BadInput("neither pip nor uv is on PATH", hint="install one, for example python3-pip")


def _source_options(sources: Sources) -> Iterator[str]:
    if sources.no_index:
        yield "--no-index"
    if sources.index_url is not None:
        yield from ("--index-url", sources.index_url)
    for url in sources.extra_index_urls:
        yield from ("--extra-index-url", url)
    for place in sources.find_links:
        yield from ("--find-links", place)


def _python_of(python: str, environ: Mapping[str, str]) -> str:
    found = _find_python(python, environ)
    if found is None:
        raise BadInput(
            f"venv needs Python {python}, which is not installed",
            hint=f"install python{python}, or let uv or conda install it: --with uv",
        )
    return found


def _find_python(python: str, environ: Mapping[str, str]) -> str | None:
    wanted = Version.parse(python)
    for name in (sys.executable, f"python{python}", "python3"):
        path = shutil.which(name, path=environ.get("PATH", ""))
        if path is None:
            continue
        try:
            # A shim may stand for a Python that is not installed: only running it tells.
            if minor_of(inspect(path, environ).version) == minor_of(wanted):
                return path
        except BadInput:
            continue
    return None
