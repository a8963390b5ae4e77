"""What is looked for in a script, one module per subject: for which causes, and the function that looks."""

from collections.abc import Callable, Sequence

from jumar.why.script import (
    calls,
    classes,
    commands,
    continued,
    diverging,
    endless,
    files,
    filtered,
    grads,
    handed,
    handles,
    handling,
    held,
    indexed,
    kept,
    keys,
    leaving,
    limits,
    lookups,
    loops,
    made,
    merged,
    modules,
    names,
    options,
    paths,
    processes,
    ranked,
    ranks,
    resumed,
    saves,
    searched,
    shadowed,
    shapes,
    sharded,
    shells,
    sides,
    signalled,
    sources,
    streams,
    subshells,
    swallowed,
    unbound,
    unfrozen,
    used_up,
    wrapped,
    yamls,
)
from jumar.why.script.reading import Fault, Finding, Script

Look = Callable[[Fault, Script], Finding | None]

CHECKS: Sequence[tuple[frozenset[str], Look]] = (
    (used_up.CAUSES, used_up.look),
    (sources.CAUSES, sources.look),
    (sides.CAUSES, sides.look),
    (handles.CAUSES, handles.look),
    (unbound.CAUSES, unbound.look),
    (calls.CAUSES, calls.look),
    (shadowed.CAUSES, shadowed.look),
    (made.CAUSES, made.look),
    (classes.CAUSES, classes.look),
    (lookups.CAUSES, lookups.look),
    (handling.CAUSES, handling.look),
    (names.CAUSES, names.look),
    (shapes.CAUSES, shapes.look),
    (options.OF_GRADIENTS, options.look_frozen),
    (grads.CAUSES, grads.look),
    (loops.CAUSES, loops.look),
    (diverging.CAUSES, diverging.look),
    (kept.CAUSES, kept.look),
    (ranked.CAUSES, ranked.look),
    (ranked.CAUSES, ranked.look_unset),
    (ranks.CAUSES, ranks.look),
    (sharded.CAUSES, sharded.look),
    (wrapped.CAUSES, wrapped.look),
    (options.CAUSES, options.look),
    (merged.CAUSES, merged.look),
    (yamls.CAUSES, yamls.look),
    (processes.CAUSES, processes.look),
    (subshells.CAUSES, subshells.look),
    (searched.CAUSES, searched.look),
    (modules.CAUSES, modules.look),
    (continued.CAUSES, continued.look),
    (limits.CAUSES, limits.look),
    (signalled.CAUSES, signalled.look),
    (resumed.CAUSES, resumed.look),
    (saves.CAUSES, saves.look),
    (commands.CAUSES, commands.look),
    (leaving.CAUSES, leaving.look),
    (swallowed.CAUSES, swallowed.look),
    (handed.CAUSES, handed.look),
    (paths.CAUSES, paths.look),
    (filtered.CAUSES, filtered.look),
    (shells.CAUSES, shells.look),
    (endless.CAUSES, endless.look),
    (keys.CAUSES, keys.look),
    (files.CAUSES, files.look),
    (unfrozen.CAUSES, unfrozen.look),
    (streams.CAUSES, streams.look),
    (held.CAUSES, held.look),
    (indexed.CAUSES, indexed.look),
    (sources.CAUSES, sources.beside),
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
