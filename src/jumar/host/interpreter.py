"""The Python that jobs will run with, inspected from outside.

Versions come from the names of package metadata folders, read by a small program in that Python:
nothing is imported, and it works from Python 3.6 on. `try_imports` does import, in a separate
process with a time limit."""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from jumar.errors import BadInput
from jumar.host.versions import Version
from jumar.launch.processes.probe import Answer, ask
from jumar.launch.ranks.environment import shell_python

INSPECT_LIMIT_S = 20.0
NO_AUTOLOAD = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
"""Keeps `import torch` from loading torch_npu by itself."""
_MARK = "jumar-answer:"
_INSPECT = r"""
import json, os, platform, re, struct, sys
form = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.\-]*?)-([^-]+)(?:-py[0-9.]+)?\.(?:dist|egg)-info$")
found = {}
for folder in sys.path[1:]:
    try:
        names = os.listdir(folder)
    except OSError:
        continue
    for name in names:
        match = form.match(name)
        if match:
            found.setdefault(re.sub(r"[-_.]+", "-", match.group(1)).lower(), match.group(2))
print("\njumar-answer:" + json.dumps({
    "version": platform.python_version(), "bits": 8 * struct.calcsize("P"), "packages": found}))
"""
_IMPORT = r"""
import json, sys
answer = {"versions": {}}
for name in sys.argv[1:]:
    try:
        module = __import__(name)
    except BaseException as error:
        answer.update(failed=name, error="%s: %s" % (type(error).__name__, error))
        break
    answer["versions"][name] = str(getattr(module, "__version__", "unknown"))
npu = getattr(sys.modules.get("torch"), "npu", None)
if npu is not None and "failed" not in answer:
    try:
        answer["npus"] = npu.device_count() if npu.is_available() else 0
    except BaseException as error:
        answer["npu_error"] = "%s: %s" % (type(error).__name__, error)
cuda = getattr(sys.modules.get("torch"), "cuda", None)
version = getattr(sys.modules.get("torch"), "version", None)
if getattr(version, "cuda", None) and "failed" not in answer:
    answer["cuda"] = version.cuda
    try:
        nccl = cuda.nccl.version()
        answer["nccl"] = ".".join(map(str, nccl)) if isinstance(nccl, tuple) else str(nccl)
    except BaseException:
        answer["nccl"] = None
    try:
        answer["gpus"] = cuda.device_count() if cuda.is_available() else 0
        cuda.init()
    except BaseException as error:
        answer.update(gpus=0, gpu_error="%s: %s" % (type(error).__name__, error))
print("\njumar-answer:" + json.dumps(answer))
"""


_RUN_CHECK = """
import mindspore
check = getattr(mindspore, "run_check", None)
print("this MindSpore is too old to check itself: installed successfully") if check is None else check()
"""
_CONTENT = re.compile(r"installed.*successfully")


@dataclass(frozen=True, slots=True)
class Interpreter:
    """One Python and the packages it sees."""

    executable: str
    version: Version
    bits: int
    packages: Mapping[str, str]
    """Normalised names, such as `torch-npu`, to versions."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of importing packages there."""

    versions: Mapping[str, str]
    failed: str | None = None
    error: str | None = None
    npus: int | None = None
    """How many NPUs torch sees; None if torch has no `npu` or was not imported."""
    npu_error: str | None = None
    cuda: str | None = None
    """The CUDA that torch is built for; None if for none."""
    gpus: int | None = None
    gpu_error: str | None = None
    nccl: str | None = None


def resolve_python(python: str | None, environ: Mapping[str, str]) -> str:
    """The interpreter to check: the given one, otherwise that of the shell."""
    if python is None:
        return shell_python(environ)
    found = shutil.which(python, path=environ.get("PATH", ""))
    if found is None:
        raise BadInput(
            f"no Python at {python!r}",
            hint="give the path of an interpreter: --python /path/to/bin/python",
        )
    return found


def inspect(
    executable: str, environ: Mapping[str, str], *, limit_s: float = INSPECT_LIMIT_S
) -> Interpreter:
    """Ask an interpreter for its version and packages; raise BadInput if it does not work."""
    answer = ask([executable, "-c", _INSPECT], timeout_s=limit_s, environ=environ)
    told = _told(answer)
    if told is None:
        raise BadInput(
            f"{executable} does not work as a Python interpreter: {_last_words(answer)}",
            hint="give another interpreter: --python /path/to/bin/python",
        )
    return Interpreter(
        executable=executable,
        version=Version.parse(str(told["version"])),
        bits=int(told["bits"]),
        packages=cast("dict[str, str]", told["packages"]),
    )


def try_imports(
    executable: str, modules: Sequence[str], environ: Mapping[str, str], *, limit_s: float
) -> Imported:
    """Import the modules one after the other in a separate process."""
    answer = ask([executable, "-c", _IMPORT, *modules], timeout_s=limit_s, environ=environ)
    told = _told(answer)
    if told is None:
        return Imported({}, failed=modules[0], error=_last_words(answer))
    return Imported(
        versions=cast("dict[str, str]", told["versions"]),
        failed=told.get("failed"),
        error=told.get("error"),
        npus=told.get("npus"),
        npu_error=told.get("npu_error"),
        cuda=told.get("cuda"),
        gpus=told.get("gpus"),
        gpu_error=told.get("gpu_error"),
        nccl=told.get("nccl"),
    )


def mindspore_computes(
    executable: str, environ: Mapping[str, str], *, limit_s: float
) -> tuple[bool, str]:
    """Whether `mindspore.run_check()`, which multiplies on the device, is content; and its words."""
    answer = ask([executable, "-c", _RUN_CHECK], timeout_s=limit_s, environ=environ)
    lines = [line.strip() for line in answer.output.splitlines()]
    said = next((line for line in lines if _CONTENT.search(line)), None)
    # It prints an error and ends as if all were well.
    return (True, said) if said is not None else (False, _last_words(answer))


def _told(answer: Answer) -> dict[str, Any] | None:
    for line in reversed(answer.output.splitlines()):
        if line.startswith(_MARK):
            try:
                told: object = json.loads(line.removeprefix(_MARK))
            except ValueError:
                return None
            return cast("dict[str, Any]", told) if isinstance(told, dict) else None
    return None


def _last_words(answer: Answer) -> str:
    if answer.trouble is not None:
        return answer.trouble
    if answer.code is not None and answer.code < 0:
        return f"killed by signal {-answer.code}"
    lines = answer.output.split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "no answer")
