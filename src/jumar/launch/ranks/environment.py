"""The environment of a rank, put together in one place and in one order; what comes later wins:

1. inherited: the shell's on a command line; for a job the launcher's own, without what belongs to the
   platform and without what looks like a secret, since those of the server are not the job's
2. the job's own `environment`; what it activates changes both
3. the Python of its requirements
4. the devices: what CANN and HCCL want, or the simulated plug-in
5. the platform: run-time porting, the job's own packages, moxing, and the JUMAR_ variables of the job
6. the rank: its cards, and what its framework reads

And which Python a script runs with: that of the shell jumar is called from, wherever jumar itself lives."""

import os
import re
import sys
from functools import lru_cache
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional

from jumar.launch.jobdir import safefile
from jumar.launch.ranks import frameworks
from jumar.launch.ranks.frameworks import Devices, Group

_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|(^|_)(AK|SK|PAT|KEY|AUTH)(_|$)|API_?KEY", re.I)
_PACKAGE = os.path.abspath(__file__)[: -len("launch/ranks/environment.py")]
INJECTED = os.path.join(_PACKAGE, "inject")
_SIM_PATH = os.path.join(INJECTED, "sim_path")
_SIM_TOOLS = os.path.join(INJECTED, "sim_tools")
_JOB_TOOLS = os.path.join(INJECTED, "job_tools")
_START_PATH = os.path.join(INJECTED, "start_path")
_MOXING_PATH = os.path.join(INJECTED, "moxing_path")
_FRAMEWORKS = ("torch", "mindspore")
_PYTHONS = ("python3", "python")

# What must be known before a process starts; the rest is `jumar_start/repeatable.py`.
_REPEATABLE = {
    "PYTHONHASHSEED": "0",
    # cuBLAS, NCCL: one workspace, one way to sum. The attention of flash-attn and Transformer Engine.
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    "NCCL_ALGO": "Ring",
    "FLASH_ATTENTION_DETERMINISTIC": "1",
    "NVTE_ALLOW_NONDETERMINISTIC_ALGO": "0",
    "TF_DETERMINISTIC_OPS": "1",
    # HCCL, and the matrix products of CANN's libraries.
    "HCCL_DETERMINISTIC": "true",
    "LCCL_DETERMINISTIC": "1",
    "CLOSE_MATMUL_K_SHIFT": "1",
    "ATB_MATMUL_SHUFFLE_K_ENABLE": "0",
}


class Environment(NamedTuple):
    """The variables of all ranks of a node, from which those of each rank are made."""

    common: Dict[str, str]
    inherited: Mapping[str, str]
    own: Mapping[str, str]

    @classmethod
    def of(
        cls,
        inherited: Mapping[str, str],
        kind: str,
        *,
        own: Optional[Mapping[str, str]] = None,
        activated: Optional[Mapping[str, str]] = None,
        python: Optional[Mapping[str, str]] = None,
        is_auto_ported: bool = False,
        private: Optional[str] = None,
        store_file: Optional[str] = None,
        platform: Optional[Mapping[str, str]] = None,
        is_contained: bool = False,
    ) -> "Environment":
        """Layers 1 to 5. `activated`: what the first two have become by activating something.
        `private`: the folder for what is installed while the job runs."""
        # Where Python was is in the log when a rank crashes, or is aborted because it hangs.
        always = {"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}
        base = {**inherited, **(own or {})} if activated is None else activated
        common = {**always, **base, **(python or {})}
        if kind == "npu":
            # Late: everything about the vendor's world, only where there are NPUs to use.
            from jumar.launch.ascend.apply import cann_variables, hccl_variables

            common.update(hccl_variables(common))
            if not is_contained:
                # An image says itself where its CANN is.
                common.update(cann_variables(common))
        elif kind == "sim":
            common.update(simulation_path(common))
        if common.get("JUMAR_DETERMINISTIC") == "1":
            common = {**_REPEATABLE, **common}
        if is_auto_ported:
            common.update(_auto_port(common))
        if private is not None:
            common.update(_private_packages(common, private))
            common.update(job_tools_path(common))
        if store_file is not None:
            common.update(_hub(common, store_file))
            common.update(_moxing_path(common, store_file))
        common.update(platform or {})
        return cls(common, inherited, own or {})

    def of_rank(
        self, framework: str, group: Group, devices: Devices, local_rank: int, *, alone: bool
    ) -> Dict[str, str]:
        """Layer 6; `alone`: the rank sees its own card only."""
        base = self._without_conflicts(framework, devices)
        made = frameworks.variables_of(framework, group, devices, local_rank, base)
        if alone:
            made = frameworks.as_the_only_one(made, devices, local_rank)
        return {**base, **made}

    def of_scheduler(self, framework: str, group: Group, devices: Devices) -> Dict[str, str]:
        """Layer 6 of the process that a MindSpore cluster has besides its ranks."""
        base = self._without_conflicts(framework, devices)
        return {**base, **frameworks.scheduler_variables(group)}

    def of_starter(self, group: Group, devices: Devices) -> Dict[str, str]:
        """Layer 6 of a command that starts its ranks itself."""
        return {**self.common, **frameworks.starter_variables(group, devices, self.own)}

    def shown(self, variables: Mapping[str, str]) -> List[str]:
        """What differs from the inherited ones, for a person to read; secrets are hidden."""
        return [
            f"{name}={_shown(name, value)}"
            for name, value in sorted(variables.items())
            if self.inherited.get(name) != value
        ]

    def _without_conflicts(self, framework: str, devices: Devices) -> Dict[str, str]:
        unwanted = frameworks.conflicting(framework, devices)
        return {name: value for name, value in self.common.items() if name not in unwanted}


def _shown(name: str, value: str) -> str:
    if is_secret(name):
        return "(hidden)"
    return (
        "(chosen at start)" if name in ("MASTER_PORT", "MS_SCHED_PORT") and value == "0" else value
    )


def is_secret(name: str) -> bool:
    """Whether a variable of this name looks like a secret."""
    return bool(_SECRET.search(name))


def inherited(environ: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
    """The launcher's own environment, cleaned, with a Python that can be found."""
    source = os.environ if environ is None else environ
    kept = {
        name: value
        for name, value in source.items()
        if not name.startswith("JUMAR_") and not is_secret(name)
    }
    kept["PATH"] = _with_python(kept)
    kept.setdefault("PYTHONUNBUFFERED", "1")
    return kept


def _with_python(environment: Mapping[str, str]) -> str:
    """PATH on which `python` is the active environment's, else the one that runs this if it can train."""
    folders = environment.get("PATH", os.defpath)
    own = os.path.dirname(sys.executable)
    if not own or own in folders.split(os.pathsep):
        return folders
    active = environment.get("VIRTUAL_ENV") or environment.get("CONDA_PREFIX")
    is_last = active or not has_framework()
    return os.pathsep.join((folders, own) if is_last else (own, folders))


def simulation_path(environ: Mapping[str, str]) -> Dict[str, str]:
    """PYTHONPATH on which `import torch_npu` finds the simulated plug-in first, and PATH on which
    `npu-smi` is that of the simulated cards.

    Where the launcher travels alone, as one file, there is none to find."""
    if not os.path.isdir(_SIM_PATH):
        return {}
    return {
        "PYTHONPATH": os.pathsep.join([_SIM_PATH, *_python_path(environ)]),
        "PATH": os.pathsep.join([_SIM_TOOLS, environ.get("PATH", os.defpath)]),
    }


def job_tools_path(environ: Mapping[str, str]) -> Dict[str, str]:
    """PATH on which jobs find the `sudo` that other platforms' containers have."""
    if not os.path.isdir(_JOB_TOOLS):
        return {}
    return {"PATH": os.pathsep.join([_JOB_TOOLS, environ.get("PATH", os.defpath)])}


def _auto_port(environ: Mapping[str, str]) -> Dict[str, str]:
    """What makes a script and its children read cuda as npu.

    Where the launcher travels alone newer plug-ins still do it themselves."""
    if not os.path.isdir(_START_PATH):
        return {"TORCH_TRANSFER_TO_NPU": "1"}
    return {"PYTHONPATH": _start_path(environ), "JUMAR_AUTO_PORT": "1"}


def _private_packages(environ: Mapping[str, str], folder: str) -> Dict[str, str]:
    """What keeps packages that the job installs out of the Python that others use, and their programs
    on its PATH. Where the launcher travels alone nothing can."""
    if not os.path.isdir(_START_PATH):
        return {}
    programs = os.path.join(folder, "bin")
    return {
        "PYTHONPATH": _start_path(environ),
        "PATH": os.pathsep.join([programs, environ.get("PATH", os.defpath)]),
        "JUMAR_PRIVATE_PYTHON": folder,
    }


def _start_path(environ: Mapping[str, str]) -> str:
    """PYTHONPATH with the folder whose `sitecustomize` acts before a script's first line."""
    others = [entry for entry in _python_path(environ) if entry != _START_PATH]
    return os.pathsep.join([_START_PATH, *others])


def _hub(environ: Mapping[str, str], store_file: str) -> Dict[str, str]:
    """What has the Hugging Face libraries ask the platform's hub, unless the job says whom to ask."""
    if "HF_ENDPOINT" in environ or "HF_TOKEN" in environ:
        return {}
    try:
        told: Dict[str, str] = safefile.read_object(store_file).get("hub") or {}
    except (OSError, ValueError):
        return {}
    return dict(told)


def _moxing_path(environ: Mapping[str, str], store_file: str) -> Dict[str, str]:
    """PYTHONPATH on which `import moxing` finds ours last, and the stores that it then knows."""
    if not os.path.isdir(_MOXING_PATH) or not os.path.exists(store_file):
        return {}
    entries = [*_python_path(environ), _MOXING_PATH]
    return {"PYTHONPATH": os.pathsep.join(entries), "JUMAR_STORE_FILE": store_file}


def _python_path(environ: Mapping[str, str]) -> List[str]:
    return [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


def shell_python(environ: Mapping[str, str]) -> str:
    """The active environment's Python, else the first on PATH, else the one that runs this.

    An environment that was made for jumar alone (pipx, a site) may be on PATH for the sake of the
    command `jumar`; its Python is nobody's for training, so the next one is taken."""
    active = active_python(environ)
    if active is not None:
        return active
    found = list(_on_path(environ))
    if _is_for_jumar_alone():
        found = [path for path in found if not _is_own(path)]
    return found[0] if found else sys.executable


def active_python(environ: Mapping[str, str]) -> Optional[str]:
    """The Python of the activated environment; of two, the one that comes first on PATH."""
    folders = _folders(environ)
    found: List[str] = []
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        path = os.path.join(environ.get(variable) or "/nonexistent", "bin", "python")
        if _is_program(path):
            found.append(path)

    def place(path: str) -> int:
        folder = os.path.dirname(path)
        return folders.index(folder) if folder in folders else len(folders)

    return min(found, key=place) if found else None


@lru_cache(maxsize=None)
def has_framework() -> bool:
    """Whether the Python that runs this can train: it finds torch or MindSpore. Looked for once: it takes longer
    than all else that is done for the variables of a rank."""
    import importlib.util

    return any(importlib.util.find_spec(name) is not None for name in _FRAMEWORKS)


def _is_for_jumar_alone() -> bool:
    return sys.prefix != sys.base_prefix and not has_framework()


def _on_path(environ: Mapping[str, str]) -> Iterator[str]:
    folders = _folders(environ)
    for name in _PYTHONS:
        for folder in folders:
            path = os.path.join(folder, name)
            if _is_program(path):
                yield path


def _folders(environ: Mapping[str, str]) -> List[str]:
    return [one for one in environ.get("PATH", os.defpath).split(os.pathsep) if one]


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _is_own(path: str) -> bool:
    own = os.path.realpath(os.path.dirname(sys.executable))
    return os.path.realpath(os.path.dirname(path)) == own


def own_program() -> List[str]:
    """How this launcher is started once more: as the module, or the file that it came in."""
    if sys.argv[0].endswith(".pyz"):
        return [sys.executable, os.path.abspath(sys.argv[0])]
    # A file in the current folder must not be imported in place of ours.
    safe = ["-P"] if sys.version_info >= (3, 11) else []
    return [sys.executable, *safe, "-m", "jumar.launch"]
