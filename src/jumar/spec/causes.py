"""Why a job or an attempt ended, or is kept from ending.

A cause goes with named values, so that it can be said in any language (`jumar.words`) and programs
need not read sentences. `launch` writes the same names into result.json; a test keeps them alike."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from jumar.spec.text import storable

Values = Mapping[str, str | int]


class Cause(StrEnum):
    """Every cause there is."""

    # How the ranks ended.
    DONE = "done"
    EXIT_CODE = "exit-code"
    SIGNAL = "signal"
    OUT_OF_MEMORY = "out-of-memory"
    RUN_AGAIN = "run-again"
    NO_CUDA = "no-cuda"
    DISK_FULL = "disk-full"
    NO_ANSWER = "no-answer"
    HANG = "hang"
    # The command could not be started.
    MISSING_COMMAND = "missing-command"
    MISSING_INTERPRETER = "missing-interpreter"
    NOT_EXECUTABLE = "not-executable"
    NOT_A_PROGRAM = "not-a-program"
    ARGUMENTS_TOO_LONG = "arguments-too-long"
    WORK_FOLDER = "work-folder"
    FIXED_PATHS = "fixed-paths"
    CANNOT_START = "cannot-start"
    # Code, packages and data could not be brought.
    CODE = "code"
    CODE_GONE = "code-gone"
    CODE_DAMAGED = "code-damaged"
    CODE_ODD = "code-odd"
    CODE_OUTSIDE = "code-outside"
    GIT_ADDRESS = "git-address"
    REQUIREMENTS = "requirements"
    REQUIREMENTS_FILE = "requirements-file"
    REQUIREMENTS_MINDSPORE = "requirements-mindspore"
    NO_PYTHON = "no-python"
    IMAGE = "image"
    ACTIVATE = "activate"
    ACTIVATE_UNKNOWN = "activate-unknown"
    PYTHON_BROKEN = "python-broken"
    INPUTS = "inputs"
    JOB_DIRECTORY = "job-directory"
    RANK_TABLE = "rank-table"
    NETWORK = "network"
    # Somebody or something ended it.
    TIME_LIMIT = "time-limit"
    STOPPED = "stopped"
    STOPPED_WAITING = "stopped-waiting"
    STOPPED_BY_SIGNAL = "stopped-by-signal"
    STOP_UNWRITTEN = "stop-unwritten"
    AFTER_FAILED = "after-failed"
    AFTER_GONE = "after-gone"
    PREEMPTED = "preempted"
    MAINTENANCE = "maintenance"
    SWEEP = "sweep"
    SEGMENTS_USED = "segments-used"
    NO_PROGRESS = "no-progress"
    MEASURED = "measured"
    # It was lost.
    SUPERVISOR_KILLED = "supervisor-killed"
    KEEPER_KILLED = "keeper-killed"
    LAUNCHER_KILLED = "launcher-killed"
    KILLED_BY_SERVER = "killed-by-server"
    MACHINE_RESTARTED = "machine-restarted"
    NODE_LOST = "node-lost"
    EVICTED = "evicted"
    POD_FAILED = "pod-failed"
    NODES_APART = "nodes-apart"
    NEVER_STARTED = "never-started"
    DIRECTORY_GONE = "directory-gone"
    RESULT_UNREADABLE = "result-unreadable"
    NO_RESULT = "no-result"
    ACCOUNT_GONE = "account-gone"
    # What the platform itself did or could not do.
    START_REFUSED = "start-refused"
    START_FAILS = "start-fails"
    FOLDER_FULL = "folder-full"
    FOLDER_CLOSED = "folder-closed"
    SET_ASIDE = "set-aside"
    PENDING = "pending"


SUBJECT = ("rank", "node", "process", "output")
"""Values of any cause whose sentence is about a program of the job. `rank`: one of several, -1 the
MindSpore scheduler. `node`: one of several. `process`: what the command left running, `output` where that
one writes. None of them: the command itself."""

ENDED = "ended"
"""A value of a job that waits for another attempt: the state that the last one ended in."""

Form = tuple[str, ...]
_OF_A_STEP = (("error",), ("step", "code"), ("step", "signal"), ("step", "limit_s"))
FORMS: Mapping[Cause, tuple[Form, ...]] = {
    Cause.DONE: ((),),
    Cause.EXIT_CODE: (("code",),),
    Cause.SIGNAL: (("signal",),),
    Cause.OUT_OF_MEMORY: ((), ("step",)),
    Cause.RUN_AGAIN: (("code",),),
    Cause.NO_CUDA: (("code",),),
    Cause.DISK_FULL: ((), ("code",), ("signal",)),
    # A rank that others waited for in vain: it hung, or was done.
    Cause.NO_ANSWER: ((), ("code",)),
    # `places`: which ranks were where.
    Cause.HANG: (("limit_s", "places"),),
    # A shell's 126 or 127, or the command itself.
    Cause.MISSING_COMMAND: (("code",), ("command",)),
    Cause.MISSING_INTERPRETER: (("file",),),
    Cause.NOT_EXECUTABLE: (("file",),),
    Cause.NOT_A_PROGRAM: (("file",),),
    Cause.ARGUMENTS_TOO_LONG: (("command",),),
    Cause.WORK_FOLDER: (("folder", "error"),),
    Cause.FIXED_PATHS: (("command", "error"),),
    Cause.CANNOT_START: (("command", "error"),),
    Cause.CODE: _OF_A_STEP,
    Cause.CODE_GONE: (("file",),),
    Cause.CODE_DAMAGED: (("error",),),
    Cause.CODE_ODD: (("file",),),
    Cause.CODE_OUTSIDE: (("file",),),
    Cause.GIT_ADDRESS: ((),),
    Cause.REQUIREMENTS: _OF_A_STEP,
    Cause.REQUIREMENTS_FILE: (("file",),),
    Cause.REQUIREMENTS_MINDSPORE: (("installed", "wanted"),),
    Cause.NO_PYTHON: ((),),
    Cause.IMAGE: _OF_A_STEP,
    Cause.ACTIVATE: _OF_A_STEP,
    Cause.ACTIVATE_UNKNOWN: (("name",),),
    Cause.PYTHON_BROKEN: (("command", "error"),),
    Cause.INPUTS: (("error",),),
    Cause.JOB_DIRECTORY: (("error",), ("error", "limit_s")),
    Cause.RANK_TABLE: (("error",),),
    Cause.NETWORK: (("error",),),
    Cause.TIME_LIMIT: ((),),
    # `by`: the administrator who did it, if it was not the owner. `why`: their own words.
    Cause.STOPPED: ((), ("by",), ("why",), ("by", "why")),
    Cause.STOPPED_WAITING: ((), ("by",), ("why",), ("by", "why")),
    Cause.STOPPED_BY_SIGNAL: ((),),
    Cause.STOP_UNWRITTEN: (("error",),),
    Cause.AFTER_FAILED: (("job",),),
    Cause.AFTER_GONE: (("job",),),
    Cause.PREEMPTED: ((),),
    # A drain asked it to leave, and its `why`; also of a job that is still at it.
    Cause.MAINTENANCE: ((), ("why",)),
    Cause.SWEEP: ((),),
    Cause.SEGMENTS_USED: (("segments",),),
    Cause.NO_PROGRESS: (("segments",),),
    Cause.MEASURED: ((),),
    Cause.SUPERVISOR_KILLED: ((),),
    Cause.KEEPER_KILLED: ((),),
    Cause.LAUNCHER_KILLED: ((),),
    Cause.KILLED_BY_SERVER: ((),),
    Cause.MACHINE_RESTARTED: ((),),
    Cause.NODE_LOST: (("nodes",),),
    Cause.EVICTED: (("error",),),
    Cause.POD_FAILED: (("error",),),
    Cause.NODES_APART: (("error",),),
    Cause.NEVER_STARTED: (("limit_s",),),
    Cause.DIRECTORY_GONE: (("folder",),),
    Cause.RESULT_UNREADABLE: (("error",),),
    Cause.NO_RESULT: ((),),
    Cause.ACCOUNT_GONE: (("user",),),
    Cause.START_REFUSED: (("error",),),
    # `limit_s`: of an attempt that is still to be started, for how long that is tried.
    Cause.START_FAILS: (("error",), ("error", "limit_s")),
    Cause.FOLDER_FULL: (("folder",), ("folder", "limit_s")),
    Cause.FOLDER_CLOSED: (("folder", "error"), ("folder", "error", "limit_s")),
    Cause.SET_ASIDE: (("error",),),
    # The site may or may not say why.
    Cause.PENDING: (("engine",), ("engine", "error")),
}
"""The values that each cause comes with: one or more sets of them, each with a sentence of its own."""


class Wait(StrEnum):
    """What there is to say about a job that waits in the queue."""

    STARTS = "starts"
    NEVER_NONE = "never-none"
    NEVER_MACHINE = "never-machine"
    NEVER_NODES = "never-nodes"
    NEVER_ALLOWED = "never-allowed"
    NO_ENGINE = "no-engine"
    RUNNING_LIMIT = "running-limit"
    DEVICE_LIMIT = "device-limit"
    CARDS = "cards"
    FITTING = "fitting"
    KEPT = "kept"
    YIELDS = "yields"
    DRAIN = "drain"
    FOREIGN = "foreign"
    ON_HOLD = "on-hold"
    PLACE = "place"
    PUT_AHEAD = "put-ahead"
    PUT_LAST = "put-last"
    USED_LESS = "used-less"
    FAIR_TURNS = "fair-turns"
    AFTER = "after"
    AFTER_ANY = "after-any"
    AFTER_MORE = "after-more"
    ARRAY_LIMIT = "array-limit"


WAIT_FORMS: Mapping[Wait, tuple[Form, ...]] = {
    Wait.STARTS: ((),),
    Wait.NEVER_NONE: (("kind",), ("kind", "nodes")),
    Wait.NEVER_MACHINE: (("count", "kind", "total"),),
    Wait.NEVER_NODES: (("nodes", "count", "kind", "able"),),
    Wait.NEVER_ALLOWED: (("needs", "limit"),),
    Wait.NO_ENGINE: (("engine",),),
    # `job`: an earlier one of the same user, which is over the limit.
    Wait.RUNNING_LIMIT: (("limit",), ("limit", "job")),
    Wait.DEVICE_LIMIT: (
        ("limit", "used", "needs"),
        ("limit", "used", "kept", "needs"),
        ("limit", "used", "job"),
        ("limit", "used", "kept", "job"),
    ),
    Wait.CARDS: (("free", "total", "kind", "count"), ("free", "total", "kind", "count", "nodes")),
    Wait.FITTING: (("fitting", "count"),),
    Wait.KEPT: (("kind", "job"), ("kind", "job", "shorter")),
    Wait.YIELDS: (("job",),),
    Wait.DRAIN: ((), ("why",)),
    # Cards that processes use which belong to no job; whose they are.
    Wait.FOREIGN: (("used", "by"),),
    # Cards that an administrator keeps from being given out.
    Wait.ON_HOLD: (("held",),),
    Wait.PLACE: (("place",),),
    Wait.PUT_AHEAD: (("jobs",),),
    Wait.PUT_LAST: ((),),
    # How many users and groups came later and are ahead; their names are in the record.
    Wait.USED_LESS: (("ahead",),),
    Wait.FAIR_TURNS: (("ahead",),),
    # `job`: a job or an array.
    Wait.AFTER: (("job",),),
    Wait.AFTER_ANY: (("job",),),
    Wait.AFTER_MORE: (("jobs",),),
    Wait.ARRAY_LIMIT: (("limit",),),
}


_VALUE_NAMES = frozenset(SUBJECT).union(*(form for forms in FORMS.values() for form in forms))


def known(cause: str, values: Values) -> tuple[Cause | None, dict[str, str | int]]:
    """A cause and its values as a stranger told them, without what means nothing here."""
    if cause not in set(Cause):
        return None, {}
    named = {name: value for name, value in values.items() if name in _VALUE_NAMES}
    return Cause(cause), {
        name: storable(value) if isinstance(value, str) else value for name, value in named.items()
    }


def best_form(forms: Iterable[Form], values: Values) -> Form | None:
    """The largest set of values that is there whole; None where none is."""
    whole = [form for form in forms if all(name in values for name in form)]
    return max(whole, key=len, default=None)
