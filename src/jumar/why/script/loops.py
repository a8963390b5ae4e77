"""The training loop itself: steps that are named and not called, gradients that add up, parameters that the optimizer does not have."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from jumar.why.script.origin import (
    LOOPS,
    near,
    shown,
)
from jumar.why.script.reading import Fault, Finding, Script
from jumar.why.script.tree import chain_of, dotted, own_nodes, parents_of, scope_at

CAUSES = frozenset(
    ("nothing", "not-a-number", "checked", "child-failed", "error-line", "numerical")
)
_UNTOLD = ("nothing", "child-failed", "error-line")
_STEPS = {
    "zero_grad": "not-called-zero-grad",
    "step": "not-called-step",
    "backward": "not-called-backward",
}
_OPTIMIZERS = re.compile(
    r"(?:^|\.)(?:SGD|Adam|AdamW|RMSprop|Adagrad|Adadelta|NAdam|RAdam|Adamax|LBFGS|ASGD|Lion|Adafactor|NPUFusedAdamW?)$"
)
_SPREADS = re.compile(r"\bnan\b|\binf\b|diverged|not finite", re.IGNORECASE)
_TRAINERS = re.compile(r"\b(?:Trainer|LightningModule|Accelerator|deepspeed|backward_and_step)\b")


def look(fault: Fault, script: Script) -> Finding | None:
    """What in the loop keeps it from training, or lets it diverge."""
    files = list(near(script))
    for file, tree in files:
        told = _not_called(script, file, tree) or _new_head(script, file, tree)
        if told is not None:
            return told if fault.cause not in _UNTOLD else replace(told, cause="library-use")
    if fault.cause == "not-a-number" or _SPREADS.search(fault.error):
        return _never_zeroed(script, files)
    return None


def _not_called(script: Script, file: str, tree: ast.Module) -> Finding | None:
    """`optimizer.zero_grad` as a statement."""
    for node in ast.walk(tree):
        named = node.value if isinstance(node, ast.Expr) else None
        if isinstance(named, ast.Attribute) and named.attr in _STEPS:
            place = script.place(file, named)
            values = {"code": shown(named), "where": str(place)}
            return Finding(_STEPS[named.attr], values, (place,))
    return None


def _new_head(script: Script, file: str, tree: ast.Module) -> Finding | None:
    """`net.fc = nn.Linear(…)` below `Adam(net.parameters())`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        is_optimizer = _OPTIMIZERS.search(dotted(node.value.func)) and node.value.args
        given = node.value.args[0] if is_optimizer else None
        if not isinstance(given, ast.Call) or not isinstance(given.func, ast.Attribute):
            continue
        model = dotted(given.func.value)
        if given.func.attr != "parameters" or not model or model == "self":
            continue
        scope = scope_at(tree, node.lineno)
        name = dotted(node.targets[0])
        for later in own_nodes(scope):
            if not isinstance(later, ast.Assign) or later.lineno <= node.lineno:
                continue
            target = dotted(later.targets[0])
            is_layer = isinstance(later.value, ast.Call) and re.search(
                r"(?:^|\.)nn\.[A-Z]\w+$", dotted(later.value.func)
            )
            made_anew = [
                one
                for one in own_nodes(scope)
                if isinstance(one, ast.Assign)
                and one.lineno > later.lineno
                and name in [dotted(each) for each in one.targets]
            ]
            groups = any(
                isinstance(one, ast.Attribute) and one.attr == "add_param_group"
                for one in ast.walk(tree)
            )
            if target.startswith(f"{model}.") and is_layer and not made_anew and not groups:
                places = (script.place(file, node), script.place(file, later))
                values = {"optimizer": name, "layer": target, "made": str(places[0])}
                return Finding("layer-after-optimizer", {**values, "where": str(places[1])}, places)
    return None


def _never_zeroed(script: Script, files: list[tuple[str, ast.Module]]) -> Finding | None:
    """No zero_grad() anywhere, and a step in a loop."""
    steps: list[tuple[str, ast.Call]] = []
    for file, tree in files:
        text = script.text(file) or ""
        if "zero_grad" in text or ".grad = None" in text or _TRAINERS.search(text):
            return None
        parents = parents_of(tree)
        steps += [(file, one) for one in _stepped(script, file, tree, parents)]
    if len(steps) != 1:
        return None
    file, call = steps[0]
    place = script.place(file, call)
    return Finding("never-zeroed", {"code": shown(call), "where": str(place)}, (place,))


def _stepped(
    script: Script, file: str, tree: ast.Module, parents: dict[ast.AST, ast.AST]
) -> Iterator[ast.Call]:
    made = {
        dotted(node.targets[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and _OPTIMIZERS.search(dotted(node.value.func))
    }
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        is_looped = any(isinstance(one, LOOPS) for one in chain_of(call, parents))
        if call.func.attr == "step" and dotted(call.func.value) in made and is_looped:
            yield call
