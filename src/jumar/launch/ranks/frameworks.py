"""The variables that torch, MindSpore and TensorFlow want to find, for one rank.

What a person has set in the shell stays, except what names the rank itself."""

import os
import re
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence

from jumar.launch.ascend.facts import CardFacts

_NAMES = {
    "torch": "torch",
    "pytorch": "torch",
    "mindspore": "mindspore",
    "tensorflow": "tensorflow",
    "tf": "tensorflow",
}
_IMPORT = re.compile(rb"^\s*(?:import|from)\s+(torch|mindspore|tensorflow)\b", re.M)
_OTHER_SPELLINGS = rb"(?:[\"'][\w-]+[\"']\s*,\s*)*"
_LOCAL_RANK = re.compile(rb"add_argument\(\s*" + _OTHER_SPELLINGS + rb"[\"'](--local[_-]rank)[\"']")
_MOST_BYTES = 1 << 20
VISIBLE = {"npu": "ASCEND_RT_VISIBLE_DEVICES", "gpu": "CUDA_VISIBLE_DEVICES"}
SIM_DEVICES = "JUMAR_SIM_DEVICES"
"""How many simulated NPUs there are; which ones makes no difference."""


class Group(NamedTuple):
    """All ranks of a run, as one node sees them."""

    node: int
    nodes: int
    first_rank: int
    local_count: int
    world_size: int
    master: str
    port: int
    address: str
    """Of this node, as the others reach it."""
    run_id: str
    restart: int = 0
    most_restarts: int = 0


class Devices(NamedTuple):
    """What the ranks of this node compute on."""

    kind: str
    cards: Sequence[CardFacts]
    rank_table: Optional[str] = None
    table_ranks: Sequence[int] = ()
    """Each local rank's number in the rank table."""


def named(words: Optional[str]) -> Optional[str]:
    """The framework that a person names: `pytorch`, `MindSpore 2.6`, `tensorflow-1.15`."""
    match = re.match(r"\s*([a-z]+)", words or "", re.I)
    return _NAMES.get(match[1].lower()) if match else None


def guess(script: bytes) -> str:
    """The framework that the text of a script imports; torch when it does not say."""
    match = _IMPORT.search(script)
    return match[1].decode() if match else "torch"


def local_rank_argument(script: bytes) -> Optional[str]:
    """`--local_rank` in the spelling that the text of a script declares it, None when it does not."""
    match = _LOCAL_RANK.search(script)
    return match[1].decode() if match else None


def variables_of(
    framework: str, group: Group, devices: Devices, local_rank: int, environ: Mapping[str, str]
) -> Dict[str, str]:
    """What one rank gets on top of the environment."""
    rank = group.first_rank + local_rank
    made = {
        "OMP_NUM_THREADS": environ.get("OMP_NUM_THREADS") or _threads_each(group.local_count),
        **_torch(group, local_rank),
        **visible_devices(devices.kind, devices.cards),
    }
    if devices.kind == "npu" and group.nodes > 1 and "HCCL_SOCKET_IFNAME" not in environ:
        made["HCCL_IF_IP"] = environ.get("HCCL_IF_IP") or group.address
    if needs_scheduler(framework, devices):
        made.update(_mindspore_cluster(group, rank, local_rank))
    elif framework in ("mindspore", "tensorflow") or devices.rank_table is not None:
        made.update(_rank_table(group, devices, local_rank))
    return made


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


def as_the_only_one(made: Dict[str, str], devices: Devices, local_rank: int) -> Dict[str, str]:
    """The same for a rank that sees its own card only: that one has number 0 there."""
    counted = ("LOCAL_RANK", "DEVICE_ID", "ASCEND_DEVICE_ID")
    own = visible_devices(devices.kind, devices.cards[local_rank : local_rank + 1])
    return {**made, **{name: "0" for name in counted if name in made}, **own}


def starter_variables(group: Group, devices: Devices, environ: Mapping[str, str]) -> Dict[str, str]:
    """For a command that starts its ranks itself: what platforms with NPUs tell it, and where the
    nodes meet, also as torchrun reads it."""
    made = visible_devices(devices.kind, devices.cards)
    if group.nodes > 1:
        names = {
            "NNODES": str(group.nodes),
            "NODE_RANK": str(group.node),
            "MASTER_ADDR": group.master,
            "MASTER_PORT": str(group.port),
        }
        made.update({**names, **{f"PET_{name}": value for name, value in names.items()}})
    if devices.kind in ("npu", "sim"):
        defaults = {"RANK_SIZE": str(len(devices.cards) * group.nodes), "DEVICE_ID": "0"}
        if devices.rank_table is not None:
            defaults["RANK_TABLE_FILE"] = devices.rank_table
        made.update({name: environ.get(name) or value for name, value in defaults.items()})
    return made


def needs_scheduler(framework: str, devices: Devices) -> bool:
    """MindSpore forms a dynamic cluster where no rank table says who is where."""
    return framework == "mindspore" and devices.rank_table is None


def scheduler_variables(group: Group) -> Dict[str, str]:
    """For the extra process that a MindSpore dynamic cluster needs on node 0."""
    made = _mindspore_cluster(group, 0, 0)
    made["MS_ROLE"] = "MS_SCHED"
    del made["MS_NODE_ID"], made["DEVICE_ID"]
    return made


def conflicting(framework: str, devices: Devices) -> List[str]:
    """Variables that must not be there, because they mean another way to form the group."""
    if needs_scheduler(framework, devices):
        return ["RANK_TABLE_FILE", "RANK_ID", "RANK_SIZE"]
    return ["MS_ROLE", "MS_SCHED_HOST", "MS_SCHED_PORT", "MS_WORKER_NUM", "MS_NODE_ID"]


def _torch(group: Group, local_rank: int) -> Dict[str, str]:
    return {
        "RANK": str(group.first_rank + local_rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(group.world_size),
        "LOCAL_WORLD_SIZE": str(group.local_count),
        "NODE_RANK": str(group.node),
        "GROUP_RANK": str(group.node),
        "MASTER_ADDR": group.master,
        "MASTER_PORT": str(group.port),
        "GROUP_WORLD_SIZE": str(group.nodes),
        # torchrun knows groups of ranks with different roles; here all have one.
        "ROLE_NAME": "default",
        "ROLE_RANK": str(group.first_rank + local_rank),
        "ROLE_WORLD_SIZE": str(group.world_size),
        # Lightning and Accelerate take these as the sign that a launcher has started them.
        "TORCHELASTIC_RUN_ID": group.run_id,
        "TORCHELASTIC_RESTART_COUNT": str(group.restart),
        "TORCHELASTIC_MAX_RESTARTS": str(group.most_restarts),
    }


def _mindspore_cluster(group: Group, rank: int, local_rank: int) -> Dict[str, str]:
    return {
        "MS_ROLE": "MS_WORKER",
        "MS_WORKER_NUM": str(group.world_size),
        "MS_SCHED_HOST": group.master,
        "MS_SCHED_PORT": str(group.port),
        "MS_NODE_ID": str(rank),
        "DEVICE_ID": str(local_rank),
    }


def _rank_table(group: Group, devices: Devices, local_rank: int) -> Dict[str, str]:
    rank = group.first_rank + local_rank
    if local_rank < len(devices.table_ranks):
        rank = devices.table_ranks[local_rank]
    made = {
        "RANK_ID": str(rank),
        "RANK_SIZE": str(group.world_size),
        "JOB_ID": group.run_id,
        # Both count within the visible devices.
        "DEVICE_ID": str(local_rank),
        "ASCEND_DEVICE_ID": str(local_rank),
    }
    if devices.rank_table is not None:
        made["RANK_TABLE_FILE"] = devices.rank_table
    return made


def start_of(script: str) -> bytes:
    """Its text, as far as imports and options are looked for; nothing where it cannot be read."""
    try:
        with open(script, "rb") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return b""


def _threads_each(ranks: int) -> str:
    """OMP_NUM_THREADS for ranks that share the cores of this process."""
    return str(max(1, len(os.sched_getaffinity(0)) // max(1, ranks)))
