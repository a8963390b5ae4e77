"""Limits that the training's own shell scripts or code set, and what runs into them."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from jumar.why.script.own import all_nodes, called, calls_in, own_files
from jumar.why.script.reading import Fault, Finding, Place, Script
from jumar.why.script.shelltext import shell_lines, shell_value
from jumar.why.script.tree import chain_of, dotted, parents_of, shown, statement_at

CAUSES = frozenset(
    (
        *("killed", "time-limit", "file-limit", "process-limit", "host-allocation"),
        *("file-write", "nothing"),
    )
)
_ULIMIT = re.compile(
    r"\bulimit\s+(?:-[SH]\s+)*-(?:[SH]*)(?P<which>[tnvuf])\s+(?P<value>[^\s;&|#]+)"
)
_PRLIMIT = re.compile(
    r"\bprlimit\b[^\n]*?--(?P<which>cpu|nofile|as|nproc|fsize)=(?P<value>[^\s:]+)"
)
_NAMED = {"cpu": "t", "nofile": "n", "as": "v", "nproc": "u", "fsize": "f"}
_RESOURCES = {
    "RLIMIT_CPU": "t",
    "RLIMIT_NOFILE": "n",
    "RLIMIT_AS": "v",
    "RLIMIT_NPROC": "u",
    "RLIMIT_FSIZE": "f",
}
_TIMEOUT = re.compile(
    r"\btimeout\s+(?P<options>(?:-\S+\s+(?:KILL\s+|9\s+|SIGKILL\s+|TERM\s+|\d+\w?\s+(?=\d))?)*)(?P<value>\d+(?:\.\d+)?[smhd]?)\s+\S"
)
_KILLS = re.compile(r"KILL\b|-s ?9\b|-k\b|--kill-after")
_FEW_BYTES = 4
"""A request of more than this part of the limit is too large in itself."""
_KIB = 1024
_ASKED = re.compile(r"you tried to allocate (?P<bytes>\d+) bytes")
_MEMORY = re.compile(r"out of memory|oom[-_ ]?kill|OOMKilled|Killed process \d+", re.I)
_OPENS = re.compile(
    r"^(?:open|io\.open|gzip\.open|bz2\.open|h5py\.File|zipfile\.ZipFile|ZipFile|tarfile\.open|np\.load|np\.memmap|numpy\.memmap|Image\.open|rasterio\.open|safe_open|netCDF4\.Dataset|\w+\.open)$"
)
_LOOPS = ast.For | ast.While | ast.ListComp | ast.DictComp | ast.SetComp
_OF_WORKERS = re.compile(r"worker|ancdata|received 0 items|DataLoader|rebuild_storage_fd", re.I)


@dataclass(frozen=True, slots=True)
class _Limit:
    """A limit that a line sets."""

    place: Place
    value: str


def look(fault: Fault, script: Script) -> Finding | None:
    """The line that sets the limit, and what in the code uses it up."""
    if fault.cause == "file-limit":
        found = _tensors_kept(fault, script) or _files_kept(script)
        return found or _told(script, "n", "limit-files", "file-limit")
    if fault.cause == "process-limit":
        return _told(script, "u", "limit-processes", "process-limit")
    if fault.cause == "host-allocation":
        return _address_space(fault, script)
    if re.search(r"File size limit exceeded|SIGXFSZ|File too large", fault.error):
        return _told(script, "f", "limit-file-size", "file-write")
    is_killed = fault.cause == "killed" or re.search(
        r"\bKilled\b|SIGKILL|SIGXCPU|CPU time limit|\b137\b", fault.error
    )
    if is_killed and not _MEMORY.search(fault.log):
        return _told(script, "t", "limit-cpu", "time-limit") or _timed_out(fault, script)
    return None


def _told(script: Script, which: str, name: str, cause: str) -> Finding | None:
    limits = list(_limits(script, which))
    if len({one.value for one in limits}) != 1:
        return None
    place = limits[0].place
    values = {"where": str(place), "line": place.text[:160], "limit": limits[0].value}
    return Finding(name, values, (place,), cause)


def _limits(script: Script, which: str) -> Iterator[_Limit]:
    for line in shell_lines(script):
        for pattern in (_ULIMIT, _PRLIMIT):
            found = pattern.search(line.text)
            if found is None or _NAMED.get(found["which"], found["which"]) != which:
                continue
            value = shell_value(script, found["value"]) or found["value"]
            if value not in ("unlimited", "hard", "soft") and "ulimit" not in value:
                yield _Limit(script.place(line.file, line.number), value)
    for own in own_files(script):
        for call in calls_in([own.tree]):
            kind = dotted(call.args[0]).rpartition(".")[2] if call.args else ""
            if called(call) == "setrlimit" and _RESOURCES.get(kind) == which and len(call.args) > 1:
                given = call.args[1]
                soft = given.elts[0] if isinstance(given, ast.Tuple) and given.elts else given
                yield _Limit(script.place(own.file, call), shown(soft))


def _timed_out(fault: Fault, script: Script) -> Finding | None:
    """`timeout -s KILL 3600 python train.py`."""
    found = [
        (line, match)
        for line in shell_lines(script)
        if (match := _TIMEOUT.search(line.text)) is not None and _KILLS.search(match["options"])
    ]
    if len(found) != 1:
        return None
    line, match = found[0]
    # The shell quotes the command that was killed.
    is_quoted = "timeout" in fault.error or "timeout" in fault.log
    if not is_quoted and fault.cause != "killed":
        return None
    place = script.place(line.file, line.number)
    values = {"where": str(place), "line": place.text[:160], "limit": match["value"]}
    return Finding("limit-timeout", values, (place,), "time-limit")


def _address_space(fault: Fault, script: Script) -> Finding | None:
    """`ulimit -v`, where what was asked for is not too much in itself."""
    limits = list(_limits(script, "v"))
    asked = _ASKED.search(fault.error)
    if len({one.value for one in limits}) != 1 or not limits[0].value.isdigit():
        return None
    is_shell = "ulimit" in limits[0].place.text
    limit = int(limits[0].value) * (_KIB if is_shell else 1)
    if asked is None or int(asked["bytes"]) * _FEW_BYTES > limit:
        return None
    place = limits[0].place
    gib = f"{limit / _KIB**3:.1f}"
    values = {"where": str(place), "line": place.text[:160], "limit": gib}
    return Finding("limit-memory", values, (place,), "host-allocation")


def _tensors_kept(fault: Fault, script: Script) -> Finding | None:
    """What workers of a loader sent is kept as it is, batch by batch."""
    if not _OF_WORKERS.search(fault.error) and not _OF_WORKERS.search(fault.log[-4000:]):
        return None
    for own in own_files(script):
        lines = {call.line for call in script.calls if call.file == own.file}
        for loop in all_nodes(own.tree):
            if not isinstance(loop, ast.For) or not _over_loader(own.tree, loop.iter):
                continue
            is_there = any(loop.lineno <= line <= (loop.end_lineno or 0) for line in lines)
            given = {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
            kept = next(_kept_in(loop, given), None)
            if kept is None or (lines and not is_there):
                continue
            where = script.place(own.file, kept)
            values = {"code": where.text[:120], "where": str(where), "loop": where.file}
            limits = [one for one in _limits(script, "n") if one.value.isdigit()]
            if len({one.value for one in limits}) != 1:
                return Finding("tensors-kept", values, (where,), "library-use")
            place = limits[0].place
            values |= {"limit": limits[0].value, "set": str(place)}
            return Finding("tensors-kept-limit", values, (where, place), "library-use")
    return None


def _files_kept(script: Script) -> Finding | None:
    """A file is opened for each of many, and none is closed."""
    failed = script.failed
    tree = None if failed is None else script.tree(failed.file)
    statement = None if failed is None or tree is None else statement_at(tree, failed.line)
    if failed is None or tree is None or statement is None:
        return None
    opens = next((one for one in calls_in([statement]) if _OPENS.match(dotted(one.func))), None)
    if opens is None or isinstance(statement, ast.With):
        return None
    around = list(chain_of(opens, parents_of(tree)))
    loop = next((one for one in around if isinstance(one, _LOOPS)), None)
    if loop is None or any(called(one) == "close" for one in calls_in([loop])):
        return None
    where = script.place(failed.file, opens)
    values = {"code": where.text[:120], "where": str(where)}
    return Finding("files-kept", values, (where,), "library-use")


def _over_loader(tree: ast.Module, node: ast.expr) -> bool:
    """Whether a loop goes over a DataLoader, as far as its name or its making tells."""
    if isinstance(node, ast.Call) and called(node) in ("enumerate", "tqdm", "track", "zip"):
        return bool(node.args) and _over_loader(tree, node.args[0])
    if isinstance(node, ast.Call):
        return "oader" in called(node)
    name = dotted(node).rpartition(".")[2]
    is_made = any(
        isinstance(one, ast.Assign)
        and isinstance(one.value, ast.Call)
        and "DataLoader" in called(one.value)
        and any(dotted(to).rpartition(".")[2] == name for to in one.targets)
        for one in all_nodes(tree)
    )
    return bool(name) and (
        is_made or re.search(r"loader|_dl$|^dl$|batches", name, re.I) is not None
    )


def _kept_in(loop: ast.For, given: set[str]) -> Iterator[ast.Call]:
    """Calls that put parts of a batch, and no copies, into a list."""
    holders = parents_of(ast.Module(body=[loop], type_ignores=[]))
    for call in calls_in(loop.body):
        if called(call) not in ("append", "extend") or len(call.args) != 1:
            continue
        parts = call.args[0].elts if isinstance(call.args[0], ast.Tuple) else [call.args[0]]
        is_inner = any(
            isinstance(one, ast.For) for one in chain_of(call, holders) if one is not loop
        )
        if not is_inner and any(_base(one) in given for one in parts):
            yield call


def _base(node: ast.expr) -> str:
    """`batch` of `batch["x"][0]`; what is called is a new tensor."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
