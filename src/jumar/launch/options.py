"""The command line of `jumar launch`, with the spellings of torchrun and torch.distributed.launch.

Reads arguments and environment only; nothing is looked up on the machine."""

import argparse
import os
import pkgutil
import re
from typing import Dict, FrozenSet, List, Mapping, NamedTuple, NoReturn, Optional, Sequence, Tuple

from jumar.launch.jobdir.files import JobDir
from jumar.launch.limits import HANG_LIMIT_S, JOIN_LIMIT_S
from jumar.launch.nodes.team import Meeting
from jumar.launch.ranks.cards import BadUsage

KINDS = ("npu", "gpu", "sim", "cpu")
_DEVICES = re.compile(r"(?:(npu|gpu|sim|cpu)(?::(\d{1,5}))?|(\d{1,5})|(auto|all))", re.I)
_USAGE = "jumar launch [options] (SCRIPT.py | -m MODULE | PROGRAM) [arguments]"
_EPILOG = """\
exit codes: 0 all ranks are done; 75 all have saved and want to be run again; 120 a node was lost;
121 the nodes could not form a group; 122 a rank did not answer the others; 125 the launcher itself
was killed; 126, 127 the program cannot be started; 128+N the first failing rank was killed by
signal N; else that rank's own code.

torchrun's variables (PET_NNODES, PET_NPROC_PER_NODE, ...) stand for options that are not given.

an attempt of a job: jumar launch JOBDIR --attempt N [--node K] [--dry-run]"""
_VARIABLES = {
    "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "--shutdown-timeout",
    "PET_SHUTDOWN_TIMEOUT": "--shutdown-timeout",
    "PET_NNODES": "--nnodes",
    "PET_NPROC_PER_NODE": "--nproc-per-node",
    "PET_NODE_RANK": "--node-rank",
    "PET_MASTER_ADDR": "--master-addr",
    "PET_MASTER_PORT": "--master-port",
    "PET_RDZV_ENDPOINT": "--rdzv-endpoint",
    "PET_RDZV_ID": "--rdzv-id",
    "PET_MAX_RESTARTS": "--max-restarts",
    "PET_LOG_DIR": "--log-dir",
    "PET_LOCAL_RANKS_FILTER": "--local-ranks-filter",
}
_FLAG_VARIABLES = {
    "PET_STANDALONE": "--standalone",
    "PET_MODULE": "--module",
    "PET_NO_PYTHON": "--no-python",
    "PET_VIRTUAL_LOCAL_RANK": "--virtual-local-rank",
}
"""What torchrun reads for options that are not given; flags are numbers."""


class Options(NamedTuple):
    """What was asked for."""

    command: Tuple[str, ...]
    is_module: bool
    is_program: bool
    """Run as it is, even if it ends in .py."""
    kind: Optional[str]
    """None: whatever cards there are, else processes."""
    per_node: Optional[int]
    """Ranks on this node; None: one for each card, or each core where there are no cards."""
    meeting: Meeting
    log_dir: Optional[str]
    framework: str
    rank_table: Optional[str]
    cards_file: Optional[str]
    python: Optional[str]
    bind: bool
    pass_local_rank: bool
    virtual_local_rank: bool
    """Each rank sees its own card only, as number 0."""
    shown: Optional[FrozenSet[int]]
    """The local ranks whose lines are printed; None: all."""
    quiet: bool
    dry_run: bool


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        translated = _translations(message)
        raise BadUsage(message, translated) if translated else BadUsage(message)


def _translations(message: str) -> str:
    """How options of other launchers that `message` names are written here."""
    table = (pkgutil.get_data("jumar.launch", "foreign.tsv") or b"").decode().splitlines()[2:]
    rows = {option: (tool, here) for tool, option, here in (line.split("\t") for line in table)}
    named = [word.partition("=")[0] for word in message.split() if word.startswith("-")]
    # Accelerate and others take dashes too.
    known = {name: rows.get(name) or rows.get(_underscored(name)) for name in named}
    found = ((name, row) for name, row in known.items() if row is not None)
    return "; ".join(f"for {name} of {row[0]} write {row[1]}" for name, row in found)


def _underscored(option: str) -> str:
    return option[:2] + option[2:].replace("-", "_")


def parse(arguments: Sequence[str], environ: Mapping[str, str]) -> Options:
    """The options of one command line; raises BadUsage, or SystemExit after --help."""
    stand_ins = _stand_ins(environ)
    try:
        # In front, so that what is given on the command line wins.
        return _parse([*stand_ins.values(), *arguments], environ)
    except BadUsage as error:
        if stand_ins:
            error.hint += f"; options also come from {', '.join(stand_ins)}"
        raise


def parse_job(arguments: Sequence[str]) -> Tuple[JobDir, bool]:
    """Which attempt of a job to run, on which node, and whether only to say how; raises BadUsage."""
    parser = _Parser(prog="jumar launch JOBDIR", allow_abbrev=False)
    parser.add_argument("directory")
    parser.add_argument("--attempt", type=_count, required=True, metavar="N")
    parser.add_argument("--node", type=_count, default=0, metavar="K")
    parser.add_argument("--control", type=os.path.abspath, metavar="DIR")
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args(arguments)
    root = os.path.abspath(given.directory)
    return JobDir(root, given.attempt, given.node, given.control), given.dry_run


def _stand_ins(environ: Mapping[str, str]) -> Dict[str, str]:
    """The variables of torchrun that are set, with the options that they stand for."""
    found = {
        name: f"{option}={environ[name]}"
        for name, option in _VARIABLES.items()
        if environ.get(name)
    }
    for name, option in _FLAG_VARIABLES.items():
        if _number(name, environ.get(name) or "0", 0):
            found[name] = option
    return found


def _parse(arguments: Sequence[str], environ: Mapping[str, str]) -> Options:
    given = _parser().parse_args(arguments)
    words = given.command[1:] if given.command[:1] == ["--"] else given.command
    if not words:
        raise BadUsage("nothing to run was given")
    kind, count = given.devices
    if given.module and given.no_python:
        raise BadUsage("--module and --no-python exclude each other")
    if given.standalone:
        given.nodes = "1"
    least, nodes = _nodes(given.nodes)
    master, port = _address(given, nodes)
    return Options(
        command=tuple(words),
        is_module=given.module,
        is_program=given.no_python,
        kind=kind,
        per_node=count,
        meeting=Meeting(
            nodes=nodes,
            node=_node(given.node_rank, nodes, environ),
            master=master,
            port=port,
            run_id=given.run_id,
            key=given.run_id,
            grace_s=given.grace,
            restarts=given.restarts,
            join_limit_s=_join_limit_s(given),
            node_limit_s=given.node_limit,
            straggler_s=given.straggler,
            hang_limit_s=given.hang_limit,
            least=None if least == nodes else least,
            last_call_s=given.rendezvous.get("last_call_timeout", 30.0),
        ),
        log_dir=given.log_dir,
        framework=given.framework,
        rank_table=given.rank_table,
        cards_file=given.cards,
        python=given.python or environ.get("PYTHON_EXEC") or None,
        bind=given.bind == "auto",
        pass_local_rank=not given.use_env,
        virtual_local_rank=given.virtual_local_rank,
        shown=given.shown,
        quiet=given.quiet,
        dry_run=given.dry_run,
    )


def parse_devices(text: str) -> Tuple[Optional[str], Optional[int]]:
    """Kind and count of `8`, `cpu:3`, `npu` (one) or `auto` (all cards)."""
    match = _DEVICES.fullmatch(text.strip())
    if match is None:
        raise BadUsage(f"{text!r} is not a number of devices", "write 8, npu:8, cpu:3 or auto")
    if match[4]:
        return None, None
    count = int(match[2] or match[3] or 1)
    if count < 1:
        raise BadUsage(f"{text!r}: there must be at least one rank")
    return (match[1].lower() if match[1] else None), count


def _torchrun_count(text: str) -> Tuple[Optional[str], Optional[int]]:
    """There a kind alone means all of it."""
    word = text.strip().lower()
    return (word, None) if word in KINDS else parse_devices(text)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="jumar launch",
        usage=_USAGE,
        description="Start one process per device, watch them, and end them together.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_size(parser)
    _add_supervision(parser)
    _add_program(parser)
    return parser


def _both(name: str) -> List[str]:
    """torch writes its options with dashes and with underscores."""
    return [f"--{name}"] + ([f"--{name.replace('-', '_')}"] if "-" in name else [])


def _add_size(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("where").add_argument
    add("-d", "--devices", type=parse_devices, default=(None, 1), metavar="N|KIND:N|auto",
        help="ranks on this node: 8, npu:8, gpu:2, cpu:3, or auto: all cards, else all cores")  # fmt: skip
    add(*_both("nproc-per-node"), type=_torchrun_count, dest="devices", metavar="N|gpu|auto",
        help="the same, as torchrun")  # fmt: skip
    add("--nodes", *_both("nnodes"), default="1", metavar="N|MIN:MAX",
        help="how many nodes; with 1:4 nodes may be lost and come back, counted by --max-restarts")  # fmt: skip
    # torchrun takes the beginning of a word, and people write this one.
    add("--nnode", dest="nodes", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    add(*_both("node-rank"), type=int, metavar="K", help="which of them this is, from 0")
    add("--rdzv", *_both("rdzv-endpoint"), metavar="HOST:PORT",
        help="where node 0 is reached; its port and the next ones must be free")  # fmt: skip
    add(*_both("master-addr"), metavar="HOST", help="the host of --rdzv")
    add(*_both("master-port"), type=int, metavar="PORT", help="the port of --rdzv")
    add(*_both("rdzv-id"), dest="run_id", default="none", metavar="ID",
        help="nodes with another id are refused")  # fmt: skip
    add("--join-limit", type=_seconds, metavar="S",
        help="how long nodes wait for each other (300)")  # fmt: skip
    add("--node-limit", type=_seconds, default=15.0, metavar="S",
        help="a node that is silent this long is lost (15)")  # fmt: skip
    add("--cards", metavar="FILE", help="the cards as `jumar devices --json` prints them")
    add("--rank-table", metavar="FILE|make|none", help="the rank table of the NPUs")
    add("--standalone", action="store_true", help="one node (torchrun)")
    add(*_both("rdzv-conf"), dest="rendezvous", type=_rendezvous, default={}, metavar="KEY=S,...",
        help="last_call_timeout (30): how long more nodes than the least are waited for; join_timeout")  # fmt: skip
    add(*_both("rdzv-backend"), dest="ignored", help=argparse.SUPPRESS)


def _add_supervision(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("supervision").add_argument
    add("--grace", *_both("shutdown-timeout"), type=_seconds, default=30.0, metavar="S",
        help="grace period between SIGTERM and SIGKILL (30)")  # fmt: skip
    add("--restarts", *_both("max-restarts"), type=_count, default=0, metavar="N",
        help="start all ranks again, at most N times, when one fails (0)")  # fmt: skip
    add("--straggler", type=_seconds, default=30.0, metavar="S",
        help="name ranks that still run S seconds after another was done (30)")  # fmt: skip
    add("--hang-limit", type=_seconds, default=HANG_LIMIT_S, metavar="S",
        help="end all ranks when none does anything for S seconds (1800); 0: never")  # fmt: skip
    add(*_both("log-dir"), metavar="DIR", help="keep the ranks' logs here")
    add("-q", "--quiet", action="store_true", help="logs in files only, nothing on stdout")
    add(*_both("local-ranks-filter"), dest="shown", type=_local_ranks, metavar="K,...",
        help="print the lines of these local ranks only; files have all")  # fmt: skip
    add(*_both("redirects"), "-r", *_both("tee"), "-t", *_both("monitor-interval"),
        *_both("start-method"), *_both("role"), *_both("local-addr"), *_both("logs-specs"),
        *_both("event-log-handler"), *_both("numa-binding"), *_both("signals-to-handle"),
        *_both("duplicate-stdout-filters"), *_both("duplicate-stderr-filters"), dest="ignored", help=argparse.SUPPRESS)  # fmt: skip


def _add_program(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("program").add_argument
    add("-m", "--module", action="store_true", help="SCRIPT is a module's name")
    add(
        "--python",
        metavar="PATH",
        help="the interpreter for scripts and modules [default: the shell's]",
    )
    add("--framework", choices=("auto", "torch", "mindspore", "tensorflow"), default="auto",
        help="whose variables are set; auto looks at the script's imports")  # fmt: skip
    add("--bind", choices=("auto", "none"), default="auto", help="bind ranks to cores near cards")
    add(*_both("use-env"), action="store_true",
        help="never pass --local_rank, even to a script that declares it")  # fmt: skip
    add(
        *_both("no-python"), action="store_true", help="SCRIPT is a program, even if it ends in .py"
    )
    add(*_both("virtual-local-rank"), action="store_true",
        help="each rank sees its own card only, and is local rank 0")  # fmt: skip
    add(*_both("run-path"), action="store_true", help=argparse.SUPPRESS)
    add("--dry-run", action="store_true", help="print what would be started, and where")
    add("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds")
    return value


def _local_ranks(text: str) -> Optional[FrozenSet[int]]:
    """None where nothing is said, as for torchrun."""
    words = text.split(",") if text.strip() else []
    return frozenset(_number("--local-ranks-filter", word, 0) for word in words) or None


def _count(text: str) -> int:
    # argparse puts the option's name in front.
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return int(text)


def _number(name: str, text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise BadUsage(f"{name}: {text!r} is not a whole number") from None
    if value < least:
        raise BadUsage(f"{name}: {value} is less than {least}")
    return value


_NODES = "--nodes (--nnodes)"


def _nodes(text: str) -> Tuple[int, int]:
    """How few and how many: `4`, or `1:4` as torchrun has it."""
    ends = [_number(_NODES, end, 1) for end in text.split(":")]
    if len(ends) > 2 or ends[0] > ends[-1]:
        raise BadUsage(f"{_NODES}: {text!r} is not a number of nodes", "write 4, or 1:4")
    return ends[0], ends[-1]


def _rendezvous(text: str) -> Dict[str, float]:
    """What torchrun's --rdzv-conf says of waiting: `last_call_timeout=30,join_timeout=600`."""
    pairs = (word.partition("=") for word in text.split(",") if word.strip())
    return {
        key.strip(): _seconds(value)
        for key, _, value in pairs
        if key.strip() in ("last_call_timeout", "join_timeout", "timeout")
    }


def _join_limit_s(given: argparse.Namespace) -> float:
    if given.join_limit is not None:
        return float(given.join_limit)
    waits: Dict[str, float] = given.rendezvous
    return waits.get("join_timeout", waits.get("timeout", JOIN_LIMIT_S))


def _node(given: Optional[int], nodes: int, environ: Mapping[str, str]) -> Optional[int]:
    if nodes == 1:
        return 0
    if given is None:
        for variable in ("JUMAR_NODE_RANK", "SLURM_NODEID", "NODE_RANK", "GROUP_RANK"):
            if environ.get(variable, "").isdigit():
                given = int(environ[variable])
                break
    if given is not None and not 0 <= given < nodes:
        raise BadUsage(f"--node-rank {given} is not one of {nodes} nodes (from 0)")
    return given


def _address(given: argparse.Namespace, nodes: int) -> Tuple[str, int]:
    host, port = given.master_addr or "", given.master_port or 0
    if given.rdzv:
        text, _, digits = given.rdzv.rpartition(":")
        host, number = (text, digits) if text and digits.isdigit() else (given.rdzv, str(port))
        host, port = host.strip("[]"), int(number)
    if not 0 <= port < 65536 - 64:
        raise BadUsage(f"{port} cannot be a port")
    if nodes == 1:
        return host or "127.0.0.1", port
    if not host:
        raise BadUsage(
            "the address of node 0 is missing", "give --rdzv HOST:PORT, the same on every node"
        )
    return host, port or 29400


def program_of(options: Options, python: str) -> List[str]:
    """The argument vector of each rank, scripts with `python` unless another is asked for.

    Raises BadUsage."""
    words = list(options.command)
    if options.is_program:
        return words
    interpreter = options.python or python
    if options.is_module:
        return [interpreter, "-u", "-m", *words]
    if words[0].endswith(".py"):
        if not os.path.exists(words[0]):
            raise BadUsage(f"{words[0]} does not exist", f"it is looked for in {os.getcwd()}")
        return [interpreter, "-u", *words]
    return words
