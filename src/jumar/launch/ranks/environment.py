"""Which variables a program of a job gets.

It starts from the environment of the launcher, without what belongs to the platform and without
what looks like a secret: those of the server are not the job's."""

import os
import re
import socket
import sys
from typing import Dict, List, Mapping, Optional, Sequence

from jumar.launch.ascend.facts import CardFacts

_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|(^|_)(AK|SK|PAT|KEY|AUTH)(_|$)|API_?KEY", re.I)
VISIBLE = {"npu": "ASCEND_RT_VISIBLE_DEVICES", "gpu": "CUDA_VISIBLE_DEVICES"}
SIM_DEVICES = "JUMAR_SIM_DEVICES"
"""How many simulated NPUs there are; which ones makes no difference."""
_PACKAGE = os.path.abspath(__file__)[: -len("launch/ranks/environment.py")]
_INJECT = os.path.join(_PACKAGE, "inject")
_SIM_PATH = os.path.join(_INJECT, "sim_path")
_START_PATH = os.path.join(_INJECT, "start_path")
_MOXING_PATH = os.path.join(_INJECT, "moxing_path")


def inherited(environ: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
    """The launcher's own environment, cleaned, with a Python that can be found."""
    source = os.environ if environ is None else environ
    kept = {
        name: value
        for name, value in source.items()
        if not name.startswith("JUMAR_") and not _SECRET.search(name)
    }
    kept["PATH"] = _with_python(kept)
    kept.setdefault("PYTHONUNBUFFERED", "1")
    return kept


def _with_python(environment: Mapping[str, str]) -> str:
    """PATH on which `python` is the active environment's, else the one that runs this."""
    folders = environment.get("PATH", os.defpath)
    own = os.path.dirname(sys.executable)
    if not own or own in folders.split(os.pathsep):
        return folders
    active = environment.get("VIRTUAL_ENV") or environment.get("CONDA_PREFIX")
    return os.pathsep.join((folders, own) if active else (own, folders))


def visible_devices(kind: str, cards: Sequence[CardFacts]) -> Dict[str, str]:
    """The variable that limits a process to its cards; CPU slots have none."""
    if kind == "sim":
        return {SIM_DEVICES: str(len(cards))}
    variable = VISIBLE.get(kind)
    if variable is None:
        return {}
    uuids = [card.uuid for card in cards if card.uuid is not None]
    # The NPU runtime silently drops what follows a space or a smaller number.
    numbers = sorted(card.visible_as for card in cards if card.uuid is None)
    return {variable: ",".join([*uuids, *map(str, numbers)])}


def simulation_path(environ: Mapping[str, str]) -> Dict[str, str]:
    """PYTHONPATH on which `import torch_npu` finds the simulated plug-in first.

    Where the launcher travels alone, as one file, there is none to find."""
    if not os.path.isdir(_SIM_PATH):
        return {}
    return {"PYTHONPATH": os.pathsep.join([_SIM_PATH, *_python_path(environ)])}


def auto_port(environ: Mapping[str, str]) -> Dict[str, str]:
    """What makes a script and its children read cuda as npu.

    Where the launcher travels alone newer plug-ins still do it themselves."""
    if not os.path.isdir(_START_PATH):
        return {"TORCH_TRANSFER_TO_NPU": "1"}
    entries = [_START_PATH, *_python_path(environ)]
    return {"PYTHONPATH": os.pathsep.join(entries), "JUMAR_AUTO_PORT": "1"}


def moxing_path(environ: Mapping[str, str], store_file: str) -> Dict[str, str]:
    """PYTHONPATH on which `import moxing` finds ours last, and the stores that it then knows."""
    if not os.path.isdir(_MOXING_PATH) or not os.path.exists(store_file):
        return {}
    entries = [*_python_path(environ), _MOXING_PATH]
    return {"PYTHONPATH": os.pathsep.join(entries), "JUMAR_STORE_FILE": store_file}


def _python_path(environ: Mapping[str, str]) -> List[str]:
    return [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


def rank_variables(
    *,
    rank: int,
    world_size: int,
    local_rank: int,
    local_world_size: int,
    node: int,
    master: str,
    port: int,
) -> Dict[str, str]:
    """What torch.distributed reads with `env://`."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(local_world_size),
        "NODE_RANK": str(node),
        "GROUP_RANK": str(node),
        "MASTER_ADDR": master,
        "MASTER_PORT": str(port),
    }


def threads_each(ranks: int) -> str:
    """OMP_NUM_THREADS for ranks that share the cores of this process."""
    return str(max(1, len(os.sched_getaffinity(0)) // max(1, ranks)))


def free_port(address: str = "127.0.0.1") -> int:
    """A port that nobody listens on now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as door:
        door.bind((address, 0))
        return int(door.getsockname()[1])
