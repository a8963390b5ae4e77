"""What an attempt is told: job.json and request.json as records, checked when they are read, and the
file that asks it to end."""

import errno
import os
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, TypeVar, Union, cast

from jumar.launch.ascend.facts import CardFacts, facts_of
from jumar.launch.jobdir.files import FORMAT, JobDir
from jumar.launch.jobdir.safefile import Unusable, create_json, read_object
from jumar.launch.limits import HANG_LIMIT_S, JOIN_LIMIT_S
from jumar.launch.processes.container import Container
from jumar.launch.processes.left_behind import IDLE_LIMIT_S
from jumar.launch.processes.process import boot_id

T = TypeVar("T")
Command = Union[str, List[str]]


class Job(NamedTuple):
    """What to run; the same for every attempt."""

    job_id: str
    name: str
    user: str
    command: Command
    code: str
    """`folder`, `git`, `archive` or `none`."""
    workdir: Optional[str]
    git_url: Optional[str]
    git_commit: Optional[str]
    device_kind: str
    device_count: int
    ranks: str
    """`node`: the command once; `device`: once per device."""
    framework: Optional[str]
    """As the person named it."""
    environment: Dict[str, str]
    inputs: Dict[str, str]
    outputs: Dict[str, Optional[str]]
    requirements: Optional[str]
    endpoints: Tuple[str, ...]
    grace_s: float
    env_cache: str
    ckpt: Optional[str] = None
    """Where checkpoints go, when that is not the job directory."""
    auto_port: bool = False
    """Whether cuda is read as npu."""
    nodes: int = 1
    activate: Tuple[str, ...] = ()
    """What to activate before anything of the job runs, line by line."""
    array_index: Optional[int] = None
    """Which one of its array."""
    launch: Optional[str] = None
    """`ray`: the command is run once, in a Ray cluster of the job's nodes."""
    hang_limit_s: float = HANG_LIMIT_S
    """All ranks have hung when none has done anything for so long; 0: that is never said."""
    mounts: Tuple[Tuple[str, str], ...] = ()
    """Paths that the site has promised to jobs, and the folders of this machine that they mean."""
    is_network_closed: bool = False
    """Whether its ranks may reach each other only."""

    @property
    def has_data(self) -> bool:
        """Whether anything that it reads or writes has a place of its own."""
        return bool(self.inputs or self.outputs or self.ckpt is not None)

    def data_paths(self, directory: JobDir) -> Dict[str, str]:
        """The path of each input and output, as the job gets it."""
        made = {name: path or directory.path("out", name) for name, path in self.outputs.items()}
        return {**self.inputs, **made}

    def data_variables(self, directory: JobDir) -> Dict[str, str]:
        """The same in variables."""
        paths = self.data_paths(directory)
        inputs = {f"JUMAR_INPUT_{name.upper()}": paths[name] for name in self.inputs}
        outputs = {f"JUMAR_OUTPUT_{name.upper()}": paths[name] for name in self.outputs}
        return {**inputs, **outputs}


class Staging(NamedTuple):
    """The platform's own programs that carry data to and from the node; what they carry is not
    known here. Each is an argument vector."""

    bring: List[str]
    """Before the ranks start."""
    keep: Optional[List[str]]
    """Beside the ranks; there when something has to be sent back."""
    send: Optional[List[str]]
    """After them."""
    status: str
    """Where they tell how far they are: JSON, with `error` in words."""
    send_limit_s: float


class NodeShare(NamedTuple):
    """One of several nodes that an attempt is given."""

    name: str
    address: str
    """Where the other nodes reach it."""


class Request(NamedTuple):
    """What one attempt is given, as far as it concerns this node."""

    cards: Tuple[int, ...]
    deadline: Optional[float]
    """Unix seconds."""
    notify: Optional[str]
    archive: Optional[str]
    facts: Tuple[CardFacts, ...] = ()
    """What the engine knows of the cards."""
    staging: Optional[Staging] = None
    idle_limit_s: float = IDLE_LIMIT_S
    """How long what the command has left running may do nothing."""
    deadline_monotonic: Optional[float] = None
    """The deadline by the clock of the boot that `boot_id` names."""
    boot_id: Optional[str] = None
    nodes: Tuple[NodeShare, ...] = ()
    """All of them, where there are several."""
    port: int = 0
    """Where node 0 of several listens."""
    secret: str = ""
    """By which its nodes know each other: the job's id is no secret, and anybody on the network may call."""
    join_limit_s: float = JOIN_LIMIT_S
    """How long nodes wait for each other."""
    ask_before_s: float = 0.0
    """How long before the deadline the ranks are asked to end."""
    segment: int = 1
    """Which part of a training that takes several time limits this is, and of how many."""
    segments: str = "1"
    card_count: int = 0
    """How many cards the node has, where `cards` are places in their order."""
    container: Optional[Container] = None
    """What its ranks run in, if the job has an image."""
    trees: Dict[str, str] = {}  # noqa: RUF012 - nobody changes it
    """Tar files of inputs by their names, as `archive` is the code's."""
    is_contained: bool = False
    """Whether the launcher itself is in a container, which has no cards but the job's."""

    def asks_at(self) -> Optional[float]:
        """When the ranks are asked to end, on the monotonic clock."""
        ends_at = self.ends_at()
        return None if ends_at is None else ends_at - self.ask_before_s

    def ends_at(self) -> Optional[float]:
        """The deadline on the monotonic clock; a clock that was set meanwhile changes nothing."""
        if self.deadline is None:
            return None
        if self.deadline_monotonic is not None and self.boot_id == boot_id():
            return self.deadline_monotonic
        return time.monotonic() + (self.deadline - time.time())

    @property
    def card_facts(self) -> List[CardFacts]:
        """One record for each card, in ascending order."""
        return facts_of(sorted(self.cards), self.facts)


def read_job(directory: JobDir) -> Job:
    """The job of a directory; raises Unusable."""
    value = _read(directory.job)
    if value.get("format") != FORMAT:
        raise Unusable(f"{directory.job} has format {value.get('format')}, not {FORMAT}")

    def build() -> Job:
        git = cast("Dict[str, str]", value.get("git") or {})
        return Job(
            job_id=str(value["job_id"]),
            name=str(value["name"]),
            user=str(value["user"]),
            command=value["command"],
            code=str(value["code"]),
            workdir=value.get("workdir"),
            git_url=git.get("url"),
            git_commit=git.get("commit"),
            device_kind=str(value["device"]["kind"]),
            device_count=int(value["device"]["count"]),
            ranks=str(value["ranks"]),
            framework=value.get("framework"),
            environment=dict(value["environment"]),
            inputs=dict(value["inputs"]),
            outputs=dict(value["outputs"]),
            requirements=value.get("requirements"),
            endpoints=tuple(value.get("endpoints") or ()),
            grace_s=float(value["grace_s"]),
            env_cache=str(value["env_cache"]),
            ckpt=value.get("ckpt"),
            auto_port=bool(value.get("auto_port")),
            nodes=int(value.get("nodes") or 1),
            activate=tuple(value.get("activate") or ()),
            array_index=value.get("array_index"),
            launch=value.get("launch"),
            hang_limit_s=float(value.get("hang_limit_s", HANG_LIMIT_S)),
            is_network_closed=value.get("network") == "closed",
            mounts=tuple(cast("Dict[str, str]", value.get("mounts") or {}).items()),
        )

    job = _built(directory.job, build)
    if directory.node >= job.nodes:
        raise Unusable(f"{directory.job} has no node {directory.node}")
    return job


def read_request(directory: JobDir) -> Request:
    """What the engine wrote for this attempt; raises Unusable."""
    value = _read(directory.request)
    nodes: List[Dict[str, Any]] = value.get("nodes") or []
    if directory.node >= max(1, len(nodes)):
        raise Unusable(f"{directory.request} has no node {directory.node}")
    own = nodes[directory.node] if nodes else value
    return _built(
        directory.request,
        lambda: Request(
            cards=tuple(int(card) for card in own["cards"]),
            deadline=value.get("deadline"),
            notify=value.get("notify"),
            archive=value.get("archive"),
            facts=tuple(CardFacts.from_json(card) for card in own.get("facts") or ()),
            staging=_staging(value.get("staging")),
            deadline_monotonic=value.get("deadline_monotonic"),
            boot_id=value.get("boot_id"),
            idle_limit_s=float(value.get("idle_limit_s", IDLE_LIMIT_S)),
            nodes=tuple(NodeShare(str(node["name"]), str(node["address"])) for node in nodes),
            port=int(value.get("port") or 0),
            secret=str(value.get("secret") or ""),
            join_limit_s=float(value.get("join_limit_s", JOIN_LIMIT_S)),
            ask_before_s=float(value.get("ask_before_s") or 0.0),
            segment=int(value.get("segment") or 1),
            segments=str(value.get("segments") or 1),
            card_count=int(own.get("card_count") or 0),
            container=_container(value.get("container")),
            trees=_texts(value.get("trees")),
        ),
    )


def _texts(value: Optional[Dict[str, Any]]) -> Dict[str, str]:
    return {str(name): str(text) for name, text in (value or {}).items()}


def _container(value: Optional[Dict[str, Any]]) -> Optional[Container]:
    if value is None:
        return None
    options = tuple(str(word) for word in value.get("options") or ())
    return Container(str(value["program"]), str(value["image"]), options)


def _staging(value: Optional[Dict[str, Any]]) -> Optional[Staging]:
    if value is None:
        return None
    return Staging(**{name: value[name] for name in Staging._fields})


def _read(path: str) -> Dict[str, Any]:
    try:
        return read_object(path)
    except FileNotFoundError as error:
        raise Unusable(f"{path} does not exist") from error


def _built(path: str, build: Callable[[], T]) -> T:
    try:
        return build()
    except (KeyError, TypeError, ValueError) as error:
        raise Unusable(f"{path} is damaged: {type(error).__name__} {error}") from error


def read_stop(directory: JobDir) -> Optional[str]:
    """Why the attempt shall end; None while nobody asks, or while that cannot be told."""
    try:
        return str(read_object(directory.stop).get("why", "stopped"))
    except OSError:
        return None
    except Unusable:
        # The file exists: whatever it holds, somebody wants an end.
        return "stopped"


def prepare_stop(directory: JobDir) -> None:
    """Make room for a later request to stop."""
    create_json(directory.stop_ready, {"why": "stopped"})


def ask_to_stop(directory: JobDir, why: str) -> None:
    """Ask the attempt to end; once is enough. Needs no room on the disk where it was prepared."""
    if os.path.lexists(directory.stop):
        return
    try:
        create_json(directory.stop, {"why": why})
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        os.rename(directory.stop_ready, directory.stop)
