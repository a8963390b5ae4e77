"""What scripts written for other platforms count on: hccl.json and pod.env in the job directory, and
fixed paths.

/pod.env, /cache and ModelArts' folders come true in a view of the job's own (`namespace`);
~/tensorboard/<job>/logs is a link in the home folder. Only what the command, the job's variables
or small text files of its code mention is made; looking for that is bounded.

pod.env is as Apulis and its ancestor DLWorkspace put it there, for scripts that source it: every variable of the
container as `export NAME=value`, and those of the platform. Launch scripts take the device list from VISIBLE_IDS,
addresses from NPU_IPS and their place from DLWS_ROLE_NAME and DLWS_ROLE_IDX. The addresses of other nodes' ssh
daemons are left out: jumar starts every node itself."""

import json
import os
import re
import shlex
from typing import (
    Any,
    Dict,
    FrozenSet,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    cast,
)

from jumar.launch.ascend import apply
from jumar.launch.ascend.facts import CardFacts
from jumar.launch.ascend.ranktable.records import RankDevice, RankServer, RankTable, RankTableError
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.job import Job
from jumar.launch.jobdir.safefile import write_json, write_whole
from jumar.launch.processes.namespace import TMP, Mount, View, trial, view_of

Part = Optional[Dict[str, Any]]
_MODELARTS = "/home/ma-user/modelarts"
# Where ModelArts puts the code; of jobs that came over its API.
_CODE = re.compile(re.escape(_MODELARTS) + r"/user-job-dir/(?!\.{1,2}$)[^/\0]+")
_WHOLE = rb"(?<![\w.~/})$-])/(?:(?P<pod>pod\.env)|(?P<cache>cache)|(?P<ma>home/ma-user/modelarts))(?![\w.-])"
_BOARD = rb"(?:~|HOME\}?|/root|/home/[\w.-]+)/(?P<board>tensorboard)\b"
_NAMES = rb"JUMAR_(?:(?P<cache_dir>CACHE)|(?P<board_dir>TENSORBOARD))_DIR"
# By which the ranks of a job tell each other that one of them has copied or unpacked the data. Bounded: a text can
# have any number of them in a row.
_LOCKS = rb"(?<![\w.~/})$-])/tmp/(?P<lock>\w{0,99}sync\w{0,99}\.lock)"
_TMP = re.compile(r"([1-9][0-9]{0,8})\.([0-9]{1,9})", re.ASCII)
_MENTION = re.compile(b"|".join((_WHOLE, _BOARD, _NAMES, _LOCKS)))
# Looked for first: most texts have none, and a plain search is many times quicker.
_SIGNS = (b"/pod.env", b"/cache", b"/modelarts", b"/tensorboard", b"JUMAR_", b".lock")
_ENDINGS = (".py", ".sh", ".yaml", ".yml")
_SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages"})
MOST_FILE_BYTES = 1 << 20
_MOST_BYTES = 16 << 20
MOST_ENTRIES = 4000
_NOT_IN_POD_ENV = ("HOME", "INTERACTIVE", "LS_COLORS", "PATH", "PWD", "OLDPWD", "SHLVL", "_")


class JobTable(NamedTuple):
    """The rank table of a job on NPUs, as far as one can be made."""

    table: Optional[RankTable] = None
    path: Optional[str] = None
    ranks: Sequence[int] = ()
    """Each local rank's number in it."""


def part_of(address: str, cards: Sequence[CardFacts], troubles: List[str]) -> Part:
    """This node's part of the rank table; a job may do without."""
    try:
        return apply.table_part(address, cards)
    except RankTableError as error:
        troubles.append(f"no rank table: {error}")
        return None


def table_of(
    directory: JobDir,
    parts: Sequence[Part],
    address: str,
    cards: Sequence[CardFacts],
    troubles: List[str],
) -> JobTable:
    """The table of all nodes; node 0 writes it."""
    if not parts or any(part is None for part in parts):
        return JobTable()
    path = directory.path("hccl.json")
    try:
        table = apply.merge_parts(parts)
        if directory.node == 0:
            # Made anew by each attempt: waiting for the disk would only delay the ranks.
            write_whole(path, apply.dumps(table).encode(), mode=0o666)
            troubles += apply.faults_in(table, cards)
    except RankTableError as error:
        troubles.append(f"no rank table: {error}")
        return JobTable()
    return JobTable(table, path, apply.ranks_of_cards(table, address, cards))


def write_variables(
    directory: JobDir,
    job: Job,
    table: JobTable,
    addresses: Sequence[str],
    environment: Dict[str, str],
) -> None:
    """pod.env of this node, with the environment of its ranks."""
    address = addresses[directory.node]
    server = None if table.table is None else apply.server_of(table.table, address)
    pod = Pod(job.job_id, job.user, directory.node, job.nodes, tuple(addresses), table.path)
    variables = pod_variables(pod, server)
    if server is not None:
        # As the ranks have it: counted within the visible devices.
        variables["DEVICE_ID"] = "0"
    write_whole(directory.pod_env, os.fsencode(render(variables, environment)))


def empty_cache(directory: JobDir) -> None:
    """As a new machine has it: what an attempt before left there may be torn, and a script that copies
    its checkpoints there counts on an empty folder. Raises OSError."""
    cache = directory.path("cache")
    if directory.number > 1 and os.path.isdir(cache) and not os.path.islink(cache):
        # Late, as in other preparations: a first attempt, and most others, start without it.
        import shutil

        gone = f"{cache}.gone"
        shutil.rmtree(gone, ignore_errors=True)
        os.rename(cache, gone)
        shutil.rmtree(gone, ignore_errors=True)


def provide_paths(
    directory: JobDir,
    job: Job,
    home: Optional[str],
    folder: str,
    troubles: List[str],
    *,
    is_contained: bool = False,
) -> Optional[View]:
    """Make what the job mentions; what cannot be made is told in `troubles`. A container makes its view
    itself."""
    cache, board = directory.path("cache"), directory.path("tensorboard")
    found = mentions(job, folder)
    in_home = "board" in found or "tensorboard" in job.endpoints
    if in_home or "board_dir" in found:
        os.makedirs(board, exist_ok=True)
    if in_home and home:
        place = os.path.join(home, "tensorboard", job.job_id)
        troubles += _link_board(directory, board, place)
    if found & {"cache", "cache_dir"}:
        os.makedirs(cache, exist_ok=True)
    promised = [Mount(*pair) for pair in job.mounts]
    troubles += [
        f"{mount.target} is missing for this job: {mount.source} does not exist on this machine"
        for mount in promised
        if not os.path.exists(mount.source)
    ]
    if is_contained:
        both = (*promised, *_mounts(directory, job, found))
        return View(tuple(one for one in both if os.path.exists(one.source)), directory.attempt)
    wanted = _mounts(directory, job, found)
    tmp = _own_tmp(directory, job, found)
    if not wanted and not promised and not tmp:
        return None
    view = view_of(wanted, directory.attempt, promised, tmp)
    refusal = None if view is None else trial(view)
    if view is not None and refusal is not None and tmp:
        troubles.append(f"{TMP} stays that of all jobs: {refusal}")
        view = view_of(wanted, directory.attempt, promised)
        refusal = None if view is None else trial(view)
    if view is not None and refusal is not None:
        paths = ", ".join(mount.target for mount in view.mounts)
        troubles.append(f"{paths} cannot be made for this job: {refusal}")
        view = None
    return view


def mentions(job: Job, folder: str) -> FrozenSet[str]:
    """Which of `pod`, `cache`, `ma`, `board`, `cache_dir`, `board_dir`, `lock` a job speaks of."""
    found: Set[str] = set()
    words = [job.command] if isinstance(job.command, str) else job.command
    for text in (*words, *job.environment.values()):
        found.update(_in(text.encode("utf-8", "replace")))
    left = _MOST_BYTES
    for path in _texts(folder):
        try:
            with open(path, "rb") as file:
                text = file.read(MOST_FILE_BYTES)
        except OSError:
            continue
        found.update(_in(text))
        left -= len(text)
        if left <= 0:
            break
    return frozenset(found)


def _in(text: bytes) -> Set[str]:
    if not any(sign in text for sign in _SIGNS):
        return set()
    return {match.lastgroup for match in _MENTION.finditer(text) if match.lastgroup}


def _texts(folder: str) -> Iterator[str]:
    """Small text files, those at the top first; gives up on a folder that is very large."""
    seen = 0
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop(0)) as found:
                for entry in found:
                    seen += 1
                    if seen > MOST_ENTRIES:
                        return
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in _SKIPPED and not entry.name.startswith("."):
                            waiting.append(entry.path)
                    elif entry.name.endswith(_ENDINGS) and _is_small(entry):
                        yield entry.path
        except OSError:
            continue


def _is_small(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_file() and entry.stat().st_size <= MOST_FILE_BYTES
    except OSError:
        return False


def _mounts(directory: JobDir, job: Job, found: FrozenSet[str]) -> List[Mount]:
    made: List[Mount] = []
    if "pod" in found:
        made.append(Mount("/pod.env", directory.pod_env))
    if "cache" in found:
        made.append(Mount("/cache", directory.path("cache")))
    if "ma" in found:
        data = job.data_paths(directory)
        for side, names in (("inputs", list(job.inputs)), ("outputs", list(job.outputs))):
            made += [Mount(f"{_MODELARTS}/{side}/{name}_0", data[name]) for name in names]
        code = job.environment.get("MA_CODE_DIR", "")
        if _CODE.fullmatch(code):
            made.append(Mount(code, directory.path("code")))
        made += [Mount(path, data[name]) for name, path in _elsewhere(job) if name in data]
    return made


def _own_tmp(directory: JobDir, job: Job, found: FrozenSet[str]) -> str:
    """A script finds its locks gone when it starts, as on a new machine: with one that another job left,
    or has at the same time, it takes its data for copied. Not for jobs with endpoints, whose programs
    are reached by way of the real /tmp."""
    if "lock" not in found or job.endpoints:
        return ""
    if directory.number > 1:
        _remove_earlier_tmp(directory)
    tmp = directory.path("tmp", f"{directory.number}.{directory.node}")
    os.makedirs(tmp, exist_ok=True)
    return tmp


def _remove_earlier_tmp(directory: JobDir) -> None:
    """Each attempt of this node may have copied all its data there."""
    import shutil

    top = directory.path("tmp")
    for name in os.listdir(top) if os.path.isdir(top) else ():
        made = _TMP.fullmatch(name)
        if made and int(made[1]) < directory.number and int(made[2]) == directory.node:
            shutil.rmtree(os.path.join(top, name), ignore_errors=True)


def _elsewhere(job: Job) -> List[Tuple[str, str]]:
    """Inputs and outputs that a client of ModelArts wants in folders of its own choice."""
    try:
        told: Any = json.loads(job.environment.get("MA_LOCAL_DIRS", "{}"))
    except ValueError:
        return []
    pairs = cast("Dict[str, Any]", told).items() if isinstance(told, dict) else ()
    return [(name, path) for name, path in pairs if isinstance(path, str) and path[:1] == "/"]


def _link_board(directory: JobDir, board: str, place: str) -> List[str]:
    link = os.path.join(place, "logs")
    try:
        os.makedirs(place, exist_ok=True)
        if not os.path.lexists(link):
            os.symlink(board, link)
        # Whoever removes the job removes it too.
        write_json(directory.board_link, {"link": link})
    except OSError as error:
        return [f"{link} cannot be made: {error.strerror}"]
    return []


class Pod(NamedTuple):
    """What the platform tells a container of the job it runs in."""

    job_id: str
    user: str
    node: int
    nodes: int
    host_ips: Tuple[str, ...]
    """One a node."""
    rank_table: Optional[str] = None
    vc: str = "platform"


def pod_variables(pod: Pod, server: Optional[RankServer]) -> Dict[str, str]:
    """The platform's variables on this node; `server` holds the node's NPUs, None without any."""
    devices: Tuple[RankDevice, ...] = server.devices if server else ()
    distributed = pod.nodes > 1
    arch = "arm64" if os.uname().machine in ("aarch64", "arm64") else "amd64"
    names = {
        "JOB_ID": pod.job_id,
        "USER_NAME": pod.user,
        "UID": str(os.getuid()),
        "GID": str(os.getgid()),
        "VC_NAME": pod.vc,
        "ROLE_NAME": "worker" if distributed else "master",
        "ROLE_IDX": str(pod.node),
        "NUM_PS": "1" if distributed else "0",
        "NUM_WORKER": str(pod.nodes),
        "NUM_GPU_PER_WORKER": str(len(devices)),
        "SD_SELF_IP": pod.host_ips[pod.node],
        "SD_SELF_HOST_IP": pod.host_ips[pod.node],
    }
    for node, address in enumerate(pod.host_ips):
        role = f"worker{node}" if distributed else "master"
        names[f"SD_{role}_IP"] = address
        names[f"SD_{role}_HOST_IP"] = address
    variables = {"DLWS_" + name: value for name, value in names.items()}
    variables.update({"DLTS_" + name: variables["DLWS_" + name] for name in ("JOB_ID", "ROLE_IDX")})
    variables["DLWS_WORKER_NUM"] = str(pod.nodes)
    variables["DLWS_IS_NPU_JOB"] = "true" if devices else "false"
    variables["POD_NAME"] = pod.job_id
    variables["POD_IP"] = pod.host_ips[pod.node]
    if devices:
        variables.update(_npu_variables(pod, devices, "huawei_npu_" + arch))
    return variables


def _npu_variables(pod: Pod, devices: Tuple[RankDevice, ...], kind: str) -> Dict[str, str]:
    variables = {
        "DLWS_GPU_TYPE": kind,
        "VISIBLE_IDS": ",".join(str(device.device_id) for device in devices),
        "NPU_IPS": ",".join(
            f"{device.device_id}:{device.device_ip}" for device in devices if device.device_ip
        ),
        "DEVICE_ID": str(devices[0].device_id),
        "DEVICE_INDEX": str(devices[0].device_id),
        "RANK_SIZE": str(len(devices) * pod.nodes),
        "JOB_ID": pod.job_id,
        "SOC_VERSION": "Ascend910",
    }
    if pod.rank_table:
        variables["RANK_TABLE_FILE"] = pod.rank_table
    return variables


def render(variables: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """The file's text: the container's own variables, then the platform's, quoted for a shell."""
    own = {name: value for name, value in environ.items() if _is_shown(name)}
    lines = [_export(name, value) for name, value in sorted({**own, **variables}.items())]
    if environ.get("PATH"):
        lines.append("export PATH={}:${{PATH}}".format(shlex.quote(environ["PATH"])))
    return "\n".join(lines) + "\n"


def _is_shown(name: str) -> bool:
    return name.isidentifier() and name not in _NOT_IN_POD_ENV


def _export(name: str, value: str) -> str:
    return f"export {name}={shlex.quote(value)}"
