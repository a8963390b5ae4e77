"""A signal that the script sends to itself."""

import ast
import re

from jumar.why.script.own import called, calls_in, own_files
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import argument, dotted, shown

CAUSES = frozenset(
    (
        "crash",
        "crash-located",
        "aborted",
        "killed",
        "asked-to-end",
        "worker-died",
        "nothing",
        "child-failed",
    )
)
_SIGNALS = {
    "SIGSEGV": r"[Ss]egmentation fault|SIGSEGV|\b139\b|exitcode\W+-11\b",
    "SIGABRT": r"\bAborted\b|SIGABRT|\b134\b|exitcode\W+-6\b",
    "SIGKILL": r"\bKilled\b|SIGKILL|\b137\b|exitcode\W+-9\b",
    "SIGBUS": r"Bus error|SIGBUS|\b135\b",
    "SIGFPE": r"Floating point exception|SIGFPE|\b136\b",
    "SIGILL": r"Illegal instruction|SIGILL|\b132\b",
    "SIGTERM": r"\bTerminated\b|SIGTERM|\b143\b",
}
_NUMBERS = {"11": "SIGSEGV", "6": "SIGABRT", "9": "SIGKILL", "7": "SIGBUS", "15": "SIGTERM"}


def look(fault: Fault, script: Script) -> Finding | None:
    """The call that sends it, if it is the only one and the log shows that very signal."""
    found = [
        (own, call, name)
        for own in own_files(script)
        for call in calls_in([own.tree])
        if (name := _sends(call)) is not None
    ]
    if len(found) != 1:
        return None
    own, call, name = found[0]
    if not re.search(_SIGNALS[name], f"{fault.error}\n{fault.log[-4000:]}"):
        return None
    where = script.place(own.file, call)
    place = fault.values.get("place", "")
    is_elsewhere = place.rpartition(":")[0].endswith(".py") and not place.endswith(f":{where.line}")
    if is_elsewhere:
        return None
    values = {"where": str(where), "code": shown(call), "signal": name}
    return Finding("signal-own", values, (where,), "python-error")


def _sends(call: ast.Call) -> str | None:
    """The signal that a call sends to its own process."""
    whole = dotted(call.func)
    if whole == "os.abort":
        return "SIGABRT"
    if whole in ("faulthandler._sigsegv", "faulthandler._read_null"):
        return "SIGSEGV"
    at = 0 if called(call) == "raise_signal" else 1
    is_self = (
        whole in ("os.kill", "os.killpg")
        and bool(call.args)
        and isinstance(call.args[0], ast.Call)
        and called(call.args[0]) in ("getpid", "getpgid", "getpgrp")
    )
    if called(call) != "raise_signal" and not is_self:
        return None
    given = argument(call, "sig", at)
    text = "" if given is None else ast.unparse(given).rpartition(".")[2]
    name = _NUMBERS.get(text, text)
    return name if name in _SIGNALS else None
