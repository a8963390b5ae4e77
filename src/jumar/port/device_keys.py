"""Devices known by what stands beside them: a key, a parameter, the function that picks one."""

import ast

from jumar.port.context import PythonFile, name_called
from jumar.port.device_names import NAMED_DEVICE, OTHER_DEVICES, is_device_name
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
    return _is_given_as("map_location", holder, file)


def is_device_map(holder: ast.Dict, file: PythonFile) -> bool:
    """Whether a dictionary says which part of a model goes where: `device_map={"": "cuda"}`."""
    return _is_given_as("device_map", holder, file)


def _is_given_as(name: str, holder: ast.Dict, file: PythonFile) -> bool:
    parent = file.parent(holder)
    if isinstance(parent, ast.keyword):
        return parent.arg == name
    return isinstance(parent, ast.Assign) and any(
        isinstance(t, ast.Name) and t.id == name for t in parent.targets
    )


def lists_activities(holder: ast.expr, file: PythonFile) -> bool:
    """Whether a list says what a profiler watches: `activities=["cpu", "cuda"]`."""
    parent = file.parent(holder)
    if isinstance(parent, ast.keyword):
        return parent.arg == "activities"
    return isinstance(parent, ast.arguments) and _parameter_of(holder, parent) == "activities"


def is_default(node: ast.expr, arguments: ast.arguments) -> bool:
    """Whether an expression is the default of a parameter for devices."""
    return is_device_name(_parameter_of(node, arguments))


def _parameter_of(node: ast.expr, arguments: ast.arguments) -> str:
    """The parameter that an expression is the default of."""
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(
            positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True
        ),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return next((parameter.arg for parameter, default in pairs if default is node), "")


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


def is_parameter_of_test(node: ast.expr, holder: ast.expr, file: PythonFile) -> bool:
    """Whether a value is the device in `parametrize("size, device", [(8, "cuda"), param(…)])`."""
    values = holder.args if isinstance(holder, ast.Call) else getattr(holder, "elts", [])
    rows = file.parent(holder)
    call = file.parent(rows) if isinstance(rows, (ast.List, ast.Tuple)) else None
    if not isinstance(call, ast.Call) or name_called(call) != "parametrize" or node not in values:
        return False
    if isinstance(holder, ast.Call) and name_called(holder) != "param":
        return False
    names = _names_of_parameters(call.args[0])
    place = values.index(node)
    return call.args[1:2] == [rows] and place < len(names) and is_device_name(names[place])


def _names_of_parameters(named: ast.expr) -> list[str]:
    if isinstance(named, ast.Constant):
        return [name.strip() for name in str(named.value).split(",")]
    parts = named.elts if isinstance(named, (ast.List, ast.Tuple)) else []
    return [str(part.value) if isinstance(part, ast.Constant) else "" for part in parts]


def holds_rng_devices(holder: ast.expr, file: PythonFile) -> bool:
    """Whether this is the list of `fork_rng(devices=["cuda"])`."""
    parent = file.parent(holder)
    call = file.parent(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call) or file.name(call.func) != "torch.random.fork_rng":
        return False
    return parent is not call or call.args[:1] == [holder]


def is_joined_to_cpu(holder: ast.expr, file: PythonFile) -> bool:
    """Whether a list is added to one with the CPU: `["cpu"] + (["cuda"] if … else [])`."""
    whole: ast.AST = holder
    parent = file.parent(holder)
    while (isinstance(parent, ast.IfExp) and parent.test is not whole) or (
        isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add)
    ):
        whole, parent = parent, file.parent(parent)
    return whole is not holder and any(
        isinstance(n, ast.List) and any(getattr(e, "value", "") == "cpu" for e in n.elts)
        for n in ast.walk(whole)
    )


def is_device(node: ast.AST, file: PythonFile) -> bool:
    """Whether an expression surely yields a device or its name."""
    if isinstance(node, ast.Name):
        return is_device_name(node.id) or _is_target_of_to(node, file)
    if isinstance(node, ast.Attribute):
        if node.attr == "type":
            return True
        return is_device_name(node.attr)
    if isinstance(node, ast.Subscript):
        key = node.slice
        return isinstance(key, ast.Constant) and is_device_name(str(key.value))
    if isinstance(node, ast.Call):
        return _call_yields_device(node, file)
    return False


def _is_target_of_to(node: ast.Name, file: PythonFile) -> bool:
    """Whether a name is the parameter of a method `to(self, target)`."""
    function = file.enclosing_function(node)
    if function is None or function.name != "to" or len(function.args.args) != 2:
        return False
    return function.args.args[1].arg == node.id


def _call_yields_device(node: ast.Call, file: PythonFile) -> bool:
    if isinstance(node.func, ast.Name) and node.func.id == "str" and node.args:
        return is_device(node.args[0], file)
    if isinstance(node.func, ast.Attribute):
        if node.func.attr in ("lower", "strip", "split", "upper"):
            return is_device(node.func.value, file)
        if node.func.attr in ("get_device", "device"):
            return True
    return file.name(node.func) == "torch.device" or looks_up_device(node)
