"""What is looked for in a script, one module per subject: for which causes, and the function that looks."""

from collections.abc import Callable, Sequence

from jumar.why.script import (
    commands,
    endless,
    handed,
    leaving,
    lookups,
    modules,
    options,
    paths,
    processes,
    ranks,
    shells,
    swallowed,
    unbound,
    wrapped,
    yamls,
)
from jumar.why.script.reading import Fault, Finding, Script

Look = Callable[[Fault, Script], Finding | None]

CHECKS: Sequence[tuple[frozenset[str], Look]] = (
    (unbound.CAUSES, unbound.look),
    (ranks.CAUSES, ranks.look),
    (wrapped.CAUSES, wrapped.look),
    (options.CAUSES, options.look),
    (yamls.CAUSES, yamls.look),
    (processes.CAUSES, processes.look),
    (modules.CAUSES, modules.look),
    (commands.CAUSES, commands.look),
    (leaving.CAUSES, leaving.look),
    (swallowed.CAUSES, swallowed.look),
    (handed.CAUSES, handed.look),
    (paths.CAUSES, paths.look),
    (shells.CAUSES, shells.look),
    (endless.CAUSES, endless.look),
    (lookups.CAUSES, lookups.look),
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
