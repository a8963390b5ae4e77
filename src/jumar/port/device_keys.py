"""Devices known by what stands beside them: a key, a parameter, the function that picks one."""

import ast

from jumar.port.context import PythonFile
from jumar.port.device_names import NAMED_DEVICE, OTHER_DEVICES, is_device_name
from jumar.port.labels import name_called
from jumar.port.patterns import lazy_pattern

_LOOKUPS = lazy_pattern(r"get(?:_\w+)?|getenv|getattr|pop|setdefault")
"""Functions that look a key up, a project's own `get_conf` among them."""


def place_of_key(call: ast.Call) -> int:
    """Where a lookup has its key: `get("device")`, `getattr(args, "device")`."""
    return 1 if name_called(call) == "getattr" else 0


def looks_up_device(call: ast.Call) -> bool:
    """Whether this is `config.get("device")`, `os.getenv("DEVICE", "cuda")` or the like."""
    key = place_of_key(call)
    if not _LOOKUPS.fullmatch(name_called(call)) or len(call.args) <= key:
        return False
    named = call.args[key]
    return isinstance(named, ast.Constant) and is_device_name(str(named.value))


def is_map_location(holder: ast.Dict, file: PythonFile) -> bool:
    """Whether a dictionary says where `torch.load` puts what was saved on which device."""
    parent = file.parent(holder)
    if isinstance(parent, ast.keyword):
        return parent.arg == "map_location"
    return isinstance(parent, ast.Assign) and any(
        isinstance(t, ast.Name) and t.id == "map_location" for t in parent.targets
    )


def is_device_map(holder: ast.Dict, file: PythonFile) -> bool:
    """Whether a dictionary says which part of a model goes where: `device_map={"": "cuda"}`."""
    parent = file.parent(holder)
    if isinstance(parent, ast.keyword):
        return parent.arg == "device_map"
    return isinstance(parent, ast.Assign) and any(
        isinstance(t, ast.Name) and t.id == "device_map" for t in parent.targets
    )


def is_default(node: ast.expr, arguments: ast.arguments) -> bool:
    """Whether an expression is the default of a parameter for devices."""
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(
            positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True
        ),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return any(default is node and is_device_name(parameter.arg) for parameter, default in pairs)


def picks_device(node: ast.expr, file: PythonFile) -> bool:
    """Whether a variable of `def pick_device(name)` also takes the name of another device."""
    function = file.enclosing_function(node)
    if not isinstance(node, ast.Name) or function is None or not NAMED_DEVICE.search(function.name):
        return False
    return any(
        isinstance(beside, ast.Constant) and beside.value in OTHER_DEVICES
        for one in ast.walk(function)
        for beside in _beside(one, node.id)
    )


def _beside(node: ast.AST, name: str) -> list[ast.expr]:
    """What a variable is compared with or set to."""
    if isinstance(node, ast.Compare) and getattr(node.left, "id", "") == name:
        return node.comparators
    if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == name for t in node.targets):
        return [node.value]
    return []


def makes_device_fixture(holder: ast.expr, file: PythonFile) -> bool:
    """Whether a list is in `@fixture(params=…)` of a function that yields a device."""
    for around in file.ancestors(holder):
        if isinstance(around, ast.FunctionDef):
            return is_device_name(around.name)
        if isinstance(around, ast.keyword) and around.arg != "params":
            return False
        if not isinstance(around, (ast.IfExp, ast.keyword, ast.Call)):
            return False
    return False
