"""Whether a position in the code holds a device: decided by its context, not by the value."""

import ast
import re
from enum import Enum, auto

from jumar.port.context import PythonFile, name_called
from jumar.port.device_keys import (
    holds_rng_devices,
    is_default,
    is_device,
    is_device_map,
    is_joined_to_cpu,
    is_map_location,
    is_parameter_of_test,
    lists_activities,
    looks_up_device,
    makes_device_fixture,
    picks_device,
    place_of_key,
)
from jumar.port.device_names import (
    NAMED_DEVICE,
    OBJECT_ARGUMENTS,
    OTHER_DEVICES,
    PLATFORMS,
    TEXT_ARGUMENTS,
    beside,
    is_device_name,
    is_foreign,
    is_label,
    takes_devices,
)
from jumar.port.patterns import lazy_pattern
from jumar.port.prose import TAKE_PROSE, is_prose

_TOLD_DEVICE = lazy_pattern(r"\bdevice\b", re.IGNORECASE)
_OPTION_MAKERS = ("add_argument", "option", "add_option", "Option", "Argument", "Field", "field")
_MOVES = ("to", "cuda", "to_empty", "flat_param_to")
_OF_OTHERS = ("set_device", "to_device")
"""Methods of other packages' objects that take a device; theirs may have to be a text."""
_RUNTIMES = ("caffe2", "tvm")
"""Packages that run torch's models themselves: a file about them checks for what they know."""
_ALLOWED = lazy_pattern(r"allowed|supported|valid|known|choices|available|options", re.IGNORECASE)
_OF_A_VENDOR = lazy_pattern(r"nvidia|amd|rocm", re.IGNORECASE)


class Role(Enum):
    """What a device is used as."""

    OBJECT = auto()
    """a `torch.device` would do"""
    TEXT = auto()
    """a string is needed"""
    COMPARED = auto()
    CHOICE = auto()
    """one of the values that are allowed"""


def role(node: ast.expr, file: PythonFile, *, certain: bool) -> Role | None:
    """The role of an expression; `certain` literals are devices unless they are prose."""
    parent = file.parent(node)
    if is_label(node, parent, file):
        return None
    found = _role_at(node, parent, file)
    if found in (Role.COMPARED, Role.CHOICE) and _is_about_a_runtime(file):
        return None
    if found is None and certain and not is_prose(node, parent, file):
        return Role.TEXT
    return found


def _is_about_a_runtime(file: PythonFile) -> bool:
    return any(name in file.source.text and file.names.knows(name) for name in _RUNTIMES)


def _role_at(node: ast.expr, parent: ast.AST | None, file: PythonFile) -> Role | None:
    if isinstance(parent, ast.Call):
        return _argument(node, parent, file)
    if isinstance(parent, ast.keyword):
        return _keyword(parent, file)
    if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
        return Role.TEXT if _assigned(parent, file) else None
    if isinstance(parent, ast.Dict):
        return _in_dict(node, parent, file)
    if isinstance(parent, ast.arguments):
        return Role.TEXT if is_default(node, parent) else None
    if isinstance(parent, ast.Return):
        return Role.TEXT if _returned(parent, file) else None
    if isinstance(parent, (ast.Compare, ast.MatchValue)):
        return Role.COMPARED if _compared(node, parent, file) else None
    if isinstance(parent, (ast.List, ast.Tuple, ast.Set)):
        return _listed(node, parent, file)
    if isinstance(node, (ast.IfExp, ast.BoolOp)) and _beside_cpu(node):
        return Role.TEXT
    return None


def _argument(node: ast.expr, call: ast.Call, file: PythonFile) -> Role | None:
    position = call.args.index(node) if node in call.args else -1
    if position < 0:
        return None
    name, position = _function_of(call, position, file)
    if is_foreign(name):
        return None
    if TEXT_ARGUMENTS.get(name) == position:
        return Role.TEXT
    if OBJECT_ARGUMENTS.get(name) == position:
        return Role.OBJECT
    if name.startswith("torch.cuda.") and position == 0 and ".amp." not in name:
        return Role.OBJECT
    if isinstance(call.func, ast.Attribute):
        found = _method_argument(node, call, call.func, file)
        if found is not None:
            return found
    if isinstance(node, (ast.IfExp, ast.BoolOp)) and _beside_cpu(node):
        return Role.TEXT
    if _is_fallback(call, position) or is_parameter_of_test(node, call, file):
        return Role.TEXT
    parameter = file.parameter(call, position) or _of_some_method(node, call, position, file)
    return Role.TEXT if is_device_name(parameter) or _is_for_a_package(node, name) else None


def _of_some_method(node: ast.expr, call: ast.Call, position: int, file: PythonFile) -> str:
    """The parameter that `trainer.average(model, "cuda")` names, whichever class the object has."""
    if not isinstance(node, ast.Constant) or not isinstance(call.func, ast.Attribute):
        return ""
    return file.project.parameter_of_methods(call.func.attr, position)


def _function_of(call: ast.Call, position: int, file: PythonFile) -> tuple[str, int]:
    """The function that gets an argument, and as which one: `partial(autocast, "cuda")` hands it on."""
    name = file.name(call.func) or _chosen(call.func, file)
    if name == "functools.partial" and position > 0:
        return file.name(call.args[0]) or "", position - 1
    return name, position


def _is_for_a_package(node: ast.expr, name: str) -> bool:
    """Whether `"cuda"` is passed to a function of another package: that can only be a device."""
    takes = takes_devices(name) and name.rpartition(".")[2] not in TAKE_PROSE
    return takes and isinstance(node, ast.Constant)


def _method_argument(
    node: ast.expr, call: ast.Call, method: ast.Attribute, file: PythonFile
) -> Role | None:
    if method.attr in _MOVES and call.args[0] is node:
        return Role.OBJECT
    if method.attr in _OF_OTHERS and call.args[0] is node:
        return Role.TEXT
    if method.attr == "startswith" and _holds_device(method.value, file):
        return Role.COMPARED
    if method.attr in ("assertEqual", "assertEquals"):
        others = (other for other in call.args[:2] if other is not node)
        return Role.TEXT if any(is_device(other, file) for other in others) else None
    return None


def _chosen(called: ast.expr, file: PythonFile) -> str:
    """The function that `scope = autocast if half else nullcontext` may refer to."""
    bound = file.bound(called)
    for value in bound:
        if isinstance(value, ast.IfExp):
            names = (file.name(part) or "" for part in (value.body, value.orelse))
            return next((n for n in names if n in TEXT_ARGUMENTS), "")
    return ""


def _is_fallback(call: ast.Call, position: int) -> bool:
    """Whether an argument is the default of `get("device", …)`."""
    return position == place_of_key(call) + 1 and looks_up_device(call)


def _keyword(keyword: ast.keyword, file: PythonFile) -> Role | None:
    call = file.parent(keyword)
    if not isinstance(call, ast.Call) or keyword.arg is None:
        return None
    if keyword.arg in ("default", "value", "const", "help") and _makes_device_option(call, file):
        return Role.TEXT if keyword.arg != "help" else None
    if isinstance(keyword.value, (ast.IfExp, ast.BoolOp)) and _beside_cpu(keyword.value):
        return Role.OBJECT if keyword.arg in ("device", "map_location") else Role.TEXT
    name = file.name(call.func) or ""
    if is_foreign(name):
        return None
    if keyword.arg == "type" and name == "torch.device":
        return Role.TEXT
    if keyword.arg == "device_map":
        # Usually "auto" or a table of layers; a device name puts the whole model there.
        return Role.TEXT
    if not is_device_name(keyword.arg):
        return None
    takes_object = keyword.arg in ("device", "map_location") and (
        name.startswith("torch.")
        or (isinstance(call.func, ast.Attribute) and call.func.attr in ("to", "load", "to_empty"))
    )
    return Role.OBJECT if takes_object and name not in TEXT_ARGUMENTS else Role.TEXT


def _makes_device_option(call: ast.Call, file: PythonFile) -> bool:
    if name_called(call) not in _OPTION_MAKERS:
        return False
    texts = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    if any(is_device_name(text.lstrip("-").replace("-", "_")) for text in texts):
        return True
    holder = file.parent(call)
    if isinstance(holder, (ast.Assign, ast.AnnAssign)) and _assigned(holder, file):
        return True
    return any(
        keyword.arg == "help"
        and isinstance(keyword.value, ast.Constant)
        and _TOLD_DEVICE.search(str(keyword.value.value)) is not None
        for keyword in call.keywords
    )


def _assigned(node: ast.Assign | ast.AnnAssign | ast.NamedExpr, file: PythonFile) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if node.value is not None and _beside_cpu(node.value):
        return True
    return any(
        is_device(target, file) or _flows(target, file) or picks_device(target, file)
        for target in targets
    )


def _flows(target: ast.expr, file: PythonFile) -> bool:
    """Whether a variable is passed as a device argument later in its scope."""
    if not isinstance(target, ast.Name):
        return False
    scope = file.scope(target).node
    for node in file.names.found[ast.Name]:
        assert isinstance(node, ast.Name)
        is_read = node.id == target.id and isinstance(node.ctx, ast.Load)
        if is_read and scope in file.ancestors(node):
            parent = file.parent(node)
            if isinstance(parent, ast.Call) and node in parent.args:
                if _argument(node, parent, file) is not None:
                    return True
            elif isinstance(parent, ast.keyword) and _keyword(parent, file) is not None:
                return True
    return False


def _in_dict(node: ast.expr, holder: ast.Dict, file: PythonFile) -> Role | None:
    if is_map_location(holder, file):
        return Role.TEXT
    if node in holder.values:
        if is_device_map(holder, file):
            return Role.TEXT
        key = holder.keys[holder.values.index(node)]
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            return Role.TEXT if is_device_name(key.value) else None
    return None


def _returned(node: ast.Return, file: PythonFile) -> bool:
    if node.value is not None and _beside_cpu(node.value):
        return True
    function = file.enclosing_function(node)
    if function is None:
        return False
    others = [n.value for n in ast.walk(function) if isinstance(n, ast.Return) and n.value]
    if any(beside(PLATFORMS, other) for other in others):
        return False
    return is_device_name(function.name) or any(
        isinstance(other, ast.Constant) and other.value == "cpu" for other in others
    )


def _matched(pattern: ast.MatchValue, file: PythonFile) -> bool:
    """Whether `case "cuda"` is asked of a device; what is inside another pattern is not."""
    holder = file.parent(pattern)
    holder = file.parent(holder) if isinstance(holder, ast.MatchOr) else holder
    match = file.parent(holder) if isinstance(holder, ast.match_case) else None
    return isinstance(match, ast.Match) and _holds_device(match.subject, file)


def _compared(node: ast.expr, compare: ast.Compare | ast.MatchValue, file: PythonFile) -> bool:
    if isinstance(compare, ast.MatchValue):
        return _matched(compare, file)
    others = [o for o in (compare.left, *compare.comparators) if o is not node]
    if isinstance(compare.ops[0], (ast.In, ast.NotIn)) and node is compare.left:
        others = [part for other in others for part in _elements(other)]
    return any(_holds_device(o, file) for o in others) and not _tells_vendor(compare, file)


def _elements(node: ast.expr) -> list[ast.expr]:
    """What `"cuda" in (source, target)` compares with."""
    return node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]


def _holds_device(node: ast.expr, file: PythonFile) -> bool:
    """Whether a value is a device by its name, or a variable whose value is ported as one."""
    if is_device(node, file) or not isinstance(node, ast.Name):
        return is_device(node, file)
    if picks_device(node, file):
        return True
    bound = file.bound(node)
    return any(
        looks_up_device(value) if isinstance(value, ast.Call) else _chooses_device(value)
        for value in bound
    ) or (any(map(_names_cuda, bound)) and _flows(node, file))


def _chooses_device(value: object) -> bool:
    return isinstance(value, (ast.IfExp, ast.BoolOp)) and _beside_cpu(value)


def _names_cuda(value: object) -> bool:
    return isinstance(value, ast.Constant) and str(value.value).startswith("cuda")


def _tells_vendor(compare: ast.Compare, file: PythonFile) -> bool:
    """Whether this is `is_nvidia = device == "cuda"`."""
    holder = file.parent(compare)
    return isinstance(holder, ast.Assign) and any(
        isinstance(t, ast.Name) and _OF_A_VENDOR.search(t.id) for t in holder.targets
    )


def _listed(
    node: ast.expr, holder: ast.List | ast.Tuple | ast.Set, file: PythonFile
) -> Role | None:
    if holds_rng_devices(holder, file):
        return Role.OBJECT
    if is_joined_to_cpu(holder, file):
        return Role.TEXT
    return None if lists_activities(holder, file) else _in_sequence(node, holder, file)


def _in_sequence(
    node: ast.expr, holder: ast.List | ast.Tuple | ast.Set, file: PythonFile
) -> Role | None:
    parent = file.parent(holder)
    if isinstance(parent, ast.keyword) and parent.arg == "choices":
        call = file.parent(parent)
        is_option = isinstance(call, ast.Call) and _makes_device_option(call, file)
        return Role.CHOICE if is_option or _beside_cpu(holder) else None
    if isinstance(parent, ast.Compare):
        return Role.CHOICE if _compared(holder, parent, file) else None
    if isinstance(parent, ast.Subscript):
        is_type = (file.name(parent.value) or "").endswith("Literal")
        return (
            Role.CHOICE if is_type and _beside_cpu(holder) and _types_device(parent, file) else None
        )
    if (
        isinstance(parent, ast.Call)
        and isinstance(parent.func, ast.Attribute)
        and parent.func.attr == "startswith"
        and is_device(parent.func.value, file)
    ):
        return Role.CHOICE
    if isinstance(parent, (ast.Assign, ast.AnnAssign)) and _beside_cpu(holder):
        return _in_named_list(holder, parent)
    if isinstance(parent, (ast.List, ast.Tuple, ast.IfExp)) and _beside_cpu(parent):
        return Role.TEXT
    if makes_device_fixture(holder, file) or is_parameter_of_test(node, holder, file):
        return Role.TEXT
    if isinstance(parent, ast.Call) and len(parent.args) == 2 and parent.args[1] is holder:
        # `parametrize("device", ["cuda"])` names what the list holds.
        named = parent.args[0]
        if isinstance(named, ast.Constant) and is_device_name(str(named.value)):
            return Role.TEXT
    return Role.TEXT if _beside_cpu(holder) else None


def _in_named_list(
    holder: ast.List | ast.Tuple | ast.Set, assign: ast.Assign | ast.AnnAssign
) -> Role | None:
    """The role in a list with a name: the values that are allowed, or devices to go through."""
    targets = assign.targets if isinstance(assign, ast.Assign) else [assign.target]
    name = next((t.id if isinstance(t, ast.Name) else t.attr for t in targets
                 if isinstance(t, (ast.Name, ast.Attribute))), "")  # fmt: skip
    if not isinstance(holder, ast.Set) and not _ALLOWED.search(name):
        return Role.TEXT
    return Role.CHOICE if NAMED_DEVICE.search(name) else None


def _types_device(literal: ast.Subscript, file: PythonFile) -> bool:
    """Whether `Literal[…]` is the type of something that holds a device."""
    for around in file.ancestors(literal):
        if isinstance(around, ast.arg):
            return is_device_name(around.arg)
        if isinstance(around, (ast.Assign, ast.AnnAssign)):
            targets = around.targets if isinstance(around, ast.Assign) else [around.target]
            return any(is_device(target, file) for target in targets)
        if isinstance(around, ast.stmt):
            return False
    return False


def _beside_cpu(node: ast.expr) -> bool:
    """Whether another device, such as "cpu", is an alternative in the same expression."""
    return beside(OTHER_DEVICES, node)
