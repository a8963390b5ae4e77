"""What is looked for in a script, one module per subject: for which causes, and the function that looks."""

from collections.abc import Callable, Sequence

from jumar.why.script import (
    calls,
    classes,
    diverging,
    files,
    grads,
    handling,
    kept,
    keys,
    loops,
    made,
    names,
    shadowed,
    shapes,
    unbound,
    used_up,
)
from jumar.why.script.reading import Fault, Finding, Script

Look = Callable[[Fault, Script], Finding | None]

CHECKS: Sequence[tuple[frozenset[str], Look]] = (
    (used_up.CAUSES, used_up.look),
    (unbound.CAUSES, unbound.look),
    (calls.CAUSES, calls.look),
    (shadowed.CAUSES, shadowed.look),
    (made.CAUSES, made.look),
    (classes.CAUSES, classes.look),
    (handling.CAUSES, handling.look),
    (names.CAUSES, names.look),
    (keys.CAUSES, keys.look),
    (shapes.CAUSES, shapes.look),
    (grads.CAUSES, grads.look),
    (loops.CAUSES, loops.look),
    (diverging.CAUSES, diverging.look),
    (kept.CAUSES, kept.look),
    (files.CAUSES, files.look),
)
"""The first that finds something counts."""


def found_in(fault: Fault, script: Script) -> Finding | None:
    """What the script shows of a fault; None where nothing is sure."""
    if not script.is_known:
        return None
    for causes, look in CHECKS:
        found = look(fault, script) if fault.cause in causes else None
        if found is not None:
            return found
    return None
