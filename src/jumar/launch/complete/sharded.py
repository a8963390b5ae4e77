"""Checkpoints that are folders, most of them with files of each rank: complete when every file that belongs
to them is there and whole. Each rule says whether a folder is of its kind, and then checks it."""

import os
import re
from itertools import islice
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    cast,
)

from . import one_file, pickled, safetensors, torch_file
from .verdict import Torn, Unclear, opened, size_of

MANIFEST = "jumar.json"
_MOST_OF_METADATA = 256 << 20


class Kind(NamedTuple):
    """`applies` to a folder's name and what is in it; `check` raises."""

    name: str
    applies: Callable[[str, Set[str]], bool]
    check: Callable[[str, Set[str]], None]


def kind_of(folder: str, names: Set[str]) -> Optional[Kind]:
    """The rule for a folder with these entries."""
    return next((kind for kind in KINDS if kind.applies(os.path.basename(folder), names)), None)


def is_numbered(name: str) -> bool:
    """As the folders of checkpoints are: epoch-3, checkpoint-500, iter_0000010, global_step2."""
    return bool(re.search(r"\d$", name))


def check_files(folder: str, names: Sequence[str]) -> None:
    """Each is there, and none is torn."""
    for name in names:
        try:
            one_file.check(os.path.join(folder, name))
        except Torn as error:
            raise Torn(f"{name}: {error}") from error
        except Unclear:
            continue


def _check_manifest(folder: str, names: Set[str]) -> None:
    """Written by jumar's own helpers when all ranks had saved: every file and its size."""
    del names
    files: Any = safetensors.read_json(os.path.join(folder, MANIFEST)).get("files")
    if not isinstance(files, dict) or not files:
        raise Torn(f"{MANIFEST} names no files")
    for name, size in cast("Dict[str, Any]", files).items():
        path = os.path.join(folder, name)
        if os.path.isabs(name) or ".." in name.split("/"):
            raise Unclear(f"{MANIFEST} names files elsewhere")
        with opened(path) as file:
            if size_of(file) != size:
                raise Torn(f"{name} has {size_of(file)} bytes instead of {size}")


def _check_dcp(folder: str, names: Set[str]) -> None:
    """torch.distributed.checkpoint: the metadata, written last, says where every tensor lies."""
    if ".metadata" not in names:
        raise Torn(".metadata is missing")
    with opened(os.path.join(folder, ".metadata")) as file:
        if size_of(file) > _MOST_OF_METADATA:
            raise Unclear(".metadata is too large to read")
        metadata = pickled.evaluate(file)
    stored = metadata.attribute("storage_data") if isinstance(metadata, pickled.Made) else None
    if not isinstance(stored, pickled.Pairs):
        raise Unclear(".metadata does not say where tensors lie")
    ends: Dict[str, int] = {}
    for _, value in stored.pairs:
        path, end = _place(value)
        ends[path] = max(ends.get(path, 0), end)
    for path, end in ends.items():
        if os.path.isabs(path) or ".." in path.split("/"):
            raise Unclear(".metadata names files elsewhere")
        with opened(os.path.join(folder, path)) as file:
            if size_of(file) < end:
                raise Torn(f"{path} has {size_of(file)} bytes instead of {end}")


def _place(value: Any) -> Tuple[str, int]:
    if isinstance(value, pickled.Made):
        path, offset, length = (
            value.attribute(name) for name in ("relative_path", "offset", "length")
        )
        if isinstance(path, str) and isinstance(offset, int) and isinstance(length, int):
            return path, offset + length
    raise Unclear(".metadata does not say where tensors lie")


_DS_MODEL = re.compile(r"(?:zero_pp_rank_(\d+)_)?mp_rank_(\d+)_model_states\.pt")
_DS_ZERO = re.compile(r"(?:bf16_|fp16_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt")


def _check_deepspeed(folder: str, names: Set[str]) -> None:
    """DeepSpeed: the worlds' sizes are in each model file; `latest` is written too early to prove a thing."""
    models = sorted(name for name in names if _DS_MODEL.fullmatch(name))
    if not models:
        raise Torn("the model's file is missing")
    check_files(folder, sorted(name for name in names if name.endswith(".pt")))
    with opened(os.path.join(folder, models[0])) as file:
        state = torch_file.value(file)
    data, model = _number(state, "dp_world_size", 1), _number(state, "mp_world_size", 1)
    if models[0].startswith("zero_"):
        _all_there(_DS_MODEL, names, data, model)
    elif len(models) < model:
        raise Torn(f"{model - len(models)} of {model} model files are missing")
    stage = _path(state, ("ds_config", "zero_optimization", "stage"))
    if any(_DS_ZERO.fullmatch(name) for name in names) or (isinstance(stage, int) and stage > 0):
        _all_there(_DS_ZERO, names, data, model)


def _all_there(pattern: "re.Pattern[str]", names: Set[str], data: int, model: int) -> None:
    found = {
        (int(match[1]), int(match[2]))
        for match in map(pattern.fullmatch, names)
        if match and match[1]
    }
    missing = [(d, m) for m in range(model) for d in range(data) if (d, m) not in found]
    if missing:
        raise Torn(
            f"{len(missing)} of {data * model} shards are missing, the first of rank {missing[0][0]}"
        )


def _path(value: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        value = value.items if isinstance(value, pickled.Made) else value
        value = value.get(key) if isinstance(value, pickled.Pairs) else None
    return value


def _number(state: Any, key: str, otherwise: int) -> int:
    value = _path(state, (key,))
    return value if isinstance(value, int) and 0 < value < 1 << 20 else otherwise


_RNG = re.compile(r"rng_state(?:_(\d+))?\.pth")
_WEIGHTS = re.compile(r"(?:model|pytorch_model|adapter_model)(?:[-_]\d.*)?\.(?:safetensors|bin)")
_HUGGING_FACE = {"trainer_state.json", "training_args.bin", "random_states_0.pkl"}
_OF_TRAINING = _HUGGING_FACE | {"optimizer.pt", "optimizer.bin", "scheduler.pt", "scheduler.bin"}
_MOST_BESIDE = 1000


def _is_hugging_face(name: str, names: Set[str]) -> bool:
    # The folder above the numbered ones may hold a model and a state too: no place to resume from.
    found = names & _HUGGING_FACE or any(_WEIGHTS.fullmatch(entry) for entry in names)
    return bool(is_numbered(name) and found)


def _check_hugging_face(folder: str, names: Set[str]) -> None:
    """Of transformers' Trainer or accelerate, saved without our hooks. The Trainer's state and accelerate's
    random states are written last, by the first rank."""
    for index in sorted(name for name in names if name.endswith(".index.json")):
        check_index(folder, index)
    suffixes = (".safetensors", ".bin", ".pt", ".pth", ".pkl")
    check_files(folder, sorted(name for name in names if name.endswith(suffixes)))
    inner = sorted(name for name in names if os.path.isdir(os.path.join(folder, name)))
    sharded = [name for name in inner if _inner(folder, name)]
    if not sharded and not any(_WEIGHTS.fullmatch(name) for name in names):
        raise Torn("the weights are missing")
    if "random_states_0.pkl" in names:
        return
    if not sharded and _is_model_only(folder, names):
        raise Unclear("it is a model only: nothing to resume from")
    safetensors.read_json(os.path.join(folder, "trainer_state.json"))
    is_trained_on = "scheduler.pt" in names or any(_RNG.fullmatch(name) for name in names)
    if not sharded and "optimizer.pt" not in names:
        if is_trained_on:
            raise Torn("the optimizer is missing")
        raise Unclear("it is a model only: nothing to resume from")
    ranks = sorted(int(match[1]) for match in map(_RNG.fullmatch, names) if match and match[1])
    if ranks != list(range(len(ranks))) or (not ranks and "rng_state.pth" not in names):
        raise Torn("the random state of a rank is missing")


def _is_model_only(folder: str, names: Set[str]) -> bool:
    """As `save_pretrained` leaves it. The Trainer writes the weights first, too: then there is something of a
    training in what it has written before."""
    return not _has_training(names) and not any(map(_has_training, _others(folder)))


def _has_training(names: Set[str]) -> bool:
    return bool(names & _OF_TRAINING) or any(_RNG.fullmatch(name) for name in names)


def _others(folder: str) -> Iterator[Set[str]]:
    """What is in those beside it whose names differ in numbers."""
    above, name = os.path.split(folder)
    family = re.sub(r"\d+", "#", name)
    with os.scandir(above or ".") as entries:
        for entry in islice(entries, _MOST_BESIDE):
            if re.sub(r"\d+", "#", entry.name) == family and entry.is_dir(follow_symlinks=False):
                yield set(os.listdir(entry.path))


def check_index(folder: str, index: str) -> None:
    """All files that an index of weights names."""
    weights: Any = safetensors.read_json(os.path.join(folder, index)).get("weight_map")
    if not isinstance(weights, dict):
        raise Torn(f"{index} names no files")
    files = sorted(
        {name for name in cast("Dict[str, Any]", weights).values() if isinstance(name, str)}
    )
    if any("/" in name for name in files):
        raise Unclear(f"{index} names files elsewhere")
    check_files(folder, files)


def _inner(folder: str, name: str) -> bool:
    """A sharded part within a folder, which has to be whole; whether it is one."""
    inner = os.path.join(folder, name)
    names = set(os.listdir(inner))
    kind = kind_of(inner, names)
    if kind is None:
        return False
    kind.check(inner, names)
    return True


_MEGATRON_RANK = re.compile(r"mp_rank_\d+(?:_\d+)*")


def _check_megatron(folder: str, names: Set[str]) -> None:
    """Megatron's older form: one folder per rank of the model; their number is in the first one's arguments."""
    ranks = sorted(name for name in names if _MEGATRON_RANK.fullmatch(name))
    wanted = 0
    for rank in ranks:
        inner = os.path.join(folder, rank)
        files = sorted(name for name in os.listdir(inner) if name.endswith(".pt"))
        if not files:
            raise Torn(f"{rank} is empty")
        check_files(inner, files)
        main = next(
            (name for name in ("model_optim_rng.pt", "model_rng.pt") if name in files), None
        )
        if main is None:
            raise Torn(f"{rank} has no model")
        wanted = wanted or _megatron_ranks(os.path.join(inner, main))
    if len(ranks) < wanted:
        raise Torn(f"{wanted - len(ranks)} of {wanted} ranks are missing")


def _megatron_ranks(path: str) -> int:
    with opened(path) as file:
        try:
            arguments = _path(torch_file.value(file), ("args",))
        except Unclear:
            return 0
    if not isinstance(arguments, pickled.Made):
        return 0
    count = 1
    for kind in ("tensor", "pipeline"):
        size = arguments.attribute(f"{kind}_model_parallel_size")
        count *= size if isinstance(size, int) and 0 < size < 1 << 16 else 1
    return count


def _has(*patterns: "re.Pattern[str]") -> Callable[[str, Set[str]], bool]:
    def applies(folder: str, names: Set[str]) -> bool:
        del folder
        return any(pattern.fullmatch(name) for pattern in patterns for name in names)

    return applies


KINDS: List[Kind] = [
    Kind("jumar", _has(re.compile(re.escape(MANIFEST))), _check_manifest),
    Kind("huggingface", _is_hugging_face, _check_hugging_face),
    Kind("dcp", _has(re.compile(r"\.metadata|__\d+_\d+\.distcp")), _check_dcp),
    Kind("deepspeed", _has(_DS_MODEL, _DS_ZERO), _check_deepspeed),
    Kind("megatron", _has(_MEGATRON_RANK), _check_megatron),
]
