"""A plain single-card training script, adapted to train on many cards.

Local rank and process group (destroyed when the script ends, however it ends), the device of the
rank, a sampler, DistributedDataParallel, the loader, `set_epoch`, and saving by rank 0 only.
Everything must be in one function (or at the top level) and be the only one of its kind; otherwise
nothing is changed and the reason is reported."""

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace

from jumar.port.adapt import wrapped
from jumar.port.adapt.script import Adapted, Script, has_import, imports
from jumar.port.records import Words
from jumar.port.rules.jp404_data_parallel import CODE as DATA_PARALLEL
from jumar.port.source import sound

CODE = "JP901"
Adaptation = Callable[[Script], Adapted]
_LOADERS = ("DataLoader", "torch.utils.data.DataLoader", "data.DataLoader", "utils.data.DataLoader")
_SHUFFLE = 2
"""Position of `shuffle` in a loader's arguments; a sampler follows it."""


class _NotPlain(Exception):
    def __init__(self, line: int, en: str, zh: str) -> None:
        super().__init__(en)
        self.line = line
        self.words = Words(en, zh)


@dataclass(frozen=True, slots=True)
class _Loop:
    """The parts of a training script, all in one body of statements."""

    body: list[ast.stmt]
    device: ast.Assign | None
    model: str
    wrap_after: ast.stmt
    optimizer: ast.Assign
    loader: ast.Call
    loader_statement: ast.stmt
    epochs: ast.For

    @property
    def after(self) -> list[ast.stmt]:
        """The statements that see the wrapped model."""
        return self.body[self.body.index(self.wrap_after) + 1 :]


def adapt(script: Script) -> Adapted:
    """Make the edits, or say why not."""
    tree = script.parsed()
    if tree is None:
        return script.refused(CODE, Words("The script does not parse.", "脚本无法解析。"), _BY_HAND)
    if "init_process_group" in script.source.text:
        return script.done()
    try:
        loop = _find(tree, script)
    except _NotPlain as reason:
        return script.refused(CODE, reason.words, _BY_HAND, reason.line)
    _edit(script, tree, loop)
    adapted = script.done(((_launch_path(script.path), _launch_script(script.path).encode()),))
    if not sound(adapted.text):
        return script.refused(CODE, _SHARED_LINES, _BY_HAND, loop.epochs.lineno)
    return replace(adapted, settles=DATA_PARALLEL)


_SHARED_LINES = Words(
    "Several statements share a line where new lines must be inserted.",
    "需要插入代码的位置有多条语句写在同一行。",
)
_BY_HAND = Words(
    "make the change by hand: process group, sampler, DistributedDataParallel, saving by rank 0",
    "请手工修改：进程组、采样器、DistributedDataParallel、仅 0 号进程保存",
)


def _find(tree: ast.Module, script: Script) -> _Loop:
    for body in _bodies(tree):
        epochs = [s for s in body if isinstance(s, ast.For) and _is_epochs(s)]
        optimizers = [s for s in body if isinstance(s, ast.Assign) and _optimized(s)]
        if epochs and optimizers:
            return _parts(body, epochs, optimizers, script)
    raise _NotPlain(
        1,
        "No block both creates an optimizer and loops over epochs.",
        "没有找到同时创建优化器并循环 epoch 的代码块。",
    )


def _bodies(tree: ast.Module) -> list[list[ast.stmt]]:
    bodies = [tree.body]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) or (isinstance(node, ast.If) and node in tree.body):
            bodies.append(node.body)
    return bodies


def _is_epochs(loop: ast.For) -> bool:
    return isinstance(loop.target, ast.Name) and "epoch" in loop.target.id.lower()


def _optimized(statement: ast.Assign) -> str:
    """Name of the model whose parameters an optimizer gets; empty if it is not an optimizer."""
    if not isinstance(statement.value, ast.Call):
        return ""
    for argument in (*statement.value.args, *(k.value for k in statement.value.keywords)):
        if (
            isinstance(argument, ast.Call)
            and isinstance(argument.func, ast.Attribute)
            and argument.func.attr == "parameters"
            and isinstance(argument.func.value, ast.Name)
        ):
            return argument.func.value.id
    return ""


def _parts(
    body: list[ast.stmt], epochs: list[ast.For], optimizers: list[ast.Assign], script: Script
) -> _Loop:
    if len(epochs) > 1:
        raise _NotPlain(
            epochs[1].lineno, "There are two loops over epochs.", "存在两个 epoch 循环。"
        )
    models = {_optimized(o) for o in optimizers}
    if len(models) > 1:
        raise _NotPlain(
            optimizers[1].lineno,
            "There are several models, each with its own optimizer.",
            "存在多个模型及优化器。",
        )
    model = models.pop()
    made = [s for s in body if _touches(s, model) and s.lineno < epochs[0].lineno]
    if not made or made[0].lineno > optimizers[0].lineno:
        raise _NotPlain(
            optimizers[0].lineno,
            f"The model {model!r} is not created in the same block as its optimizer.",
            f"模型 {model!r} 不在优化器所在的代码块中创建。",
        )
    parsed = script.parsed()
    _refuse_nested_wrappers(made, script)
    statement, loader = _train_loader(body, epochs[0], script)
    device = next((s for s in body if isinstance(s, ast.Assign) and _assigns(s, "device")), None)
    loop = _Loop(body, device, model, made[-1], optimizers[0], loader, statement, epochs[0])
    own = wrapped.own_method(parsed, loop.after, model) if parsed is not None else None
    if own is not None:
        raise _NotPlain(
            own.lineno,
            f"{model}.{own.attr} is not forwarded by DistributedDataParallel.",
            f"DistributedDataParallel 不转发 {model}.{own.attr}。",
        )
    return loop


def _refuse_nested_wrappers(made: list[ast.stmt], script: Script) -> None:
    """`DataParallel` can be replaced if it is a separate statement, not inside a condition."""
    tree = script.parsed()
    plain = {s.lineno for s in made if _wrapping(s, script) is not None}
    for node in ast.walk(tree) if tree is not None else ():
        if (
            isinstance(node, ast.Call)
            and _is_data_parallel(node, script)
            and node.lineno not in plain
        ):
            raise _NotPlain(
                node.lineno,
                "DataParallel is used inside a condition or an expression.",
                "DataParallel 位于条件或表达式中。",
            )


def _is_data_parallel(call: ast.Call, script: Script) -> bool:
    return script.text_of(call.func).rpartition(".")[2] == "DataParallel"


def _wrapping(statement: ast.stmt, script: Script) -> ast.Call | None:
    """The call of DataParallel that a statement is all about."""
    call = statement.value if isinstance(statement, ast.Assign) else None
    return call if isinstance(call, ast.Call) and _is_data_parallel(call, script) else None


def _assigns(statement: ast.AST, name: str) -> bool:
    return isinstance(statement, ast.Assign) and any(
        isinstance(t, ast.Name) and t.id == name for t in statement.targets
    )


def _touches(statement: ast.stmt, name: str) -> bool:
    """Whether a statement creates a model, moves it, or loads its parameters."""
    return any(_assigns(n, name) or _moves(n, name) for n in ast.walk(statement))


def _moves(node: ast.AST, name: str) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("to", "npu", "cuda", "load_state_dict")
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == name
    )


def _train_loader(
    body: list[ast.stmt], epochs: ast.For, script: Script
) -> tuple[ast.stmt, ast.Call]:
    used = {n.id for n in ast.walk(epochs) if isinstance(n, ast.Name)}
    found: list[tuple[ast.stmt, ast.Call]] = []
    for statement in body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        call = statement.value
        if isinstance(call, ast.Call) and script.text_of(call.func).endswith(_LOADERS):
            name = statement.targets[0].id
            if name in used and not any(w in name.lower() for w in ("test", "val", "eval")):
                found.append((statement, call))
    if len(found) != 1:
        raise _NotPlain(
            epochs.lineno,
            f"{len(found) or 'No'} training loaders are created in the same block as the loop over epochs.",
            f"在 epoch 循环所在代码块中找到 {len(found)} 个训练 DataLoader。",
        )
    _, call = found[0]
    named = {k.arg for k in call.keywords}
    has_sampler = named & {"sampler", "batch_sampler", None} or len(call.args) > _SHUFFLE + 1
    if (not call.args and "dataset" not in named) or has_sampler:
        raise _NotPlain(
            call.lineno,
            "The training loader already has a sampler.",
            "训练 DataLoader 已有自己的采样器。",
        )
    return found[0]


def _edit(script: Script, tree: ast.Module, loop: _Loop) -> None:
    npu_only = script.tree.options.npu_only
    first = next(
        s for s in loop.body if s in (loop.device, loop.loader_statement) or _touches(s, loop.model)
    )
    if "__main__" not in script.source.text or loop.body is not tree.body:
        first = min((first, loop.loader_statement), key=lambda s: s.lineno)
    backend = (
        '"hccl"'
        if npu_only
        else (
            "torch.distributed.get_default_backend_for_device(torch.accelerator.current_accelerator())"
        )
    )
    device = (
        "torch.device('npu', local_rank)"
        if npu_only
        else "torch.device(torch.accelerator.current_accelerator().type, local_rank)"
    )
    set_device = (
        "torch.npu.set_device(device)"
        if npu_only
        else "torch.accelerator.set_device_index(local_rank)"
    )
    setup = [
        'local_rank = int(os.environ["LOCAL_RANK"])',
        'world_size = int(os.environ["WORLD_SIZE"])',
        f"device = {device}",
        f"torch.distributed.init_process_group(backend={backend})",
        # Threads of a group that is never destroyed sometimes abort the process after its last line.
        "atexit.register(torch.distributed.destroy_process_group)",
        set_device,
    ]
    if loop.device is not None:
        script.replace(CODE, loop.device.value, device)
        script.insert_before(CODE, loop.device, setup[:2])
        script.insert_after(CODE, loop.device, setup[3:])
    else:
        script.insert_before(CODE, first, setup)
    _edit_loader(script, loop)
    _edit_model(script, loop)
    assert isinstance(loop.epochs.target, ast.Name)
    script.insert_before(
        CODE, loop.epochs.body[0], [f"train_sampler.set_epoch({loop.epochs.target.id})"]
    )
    wrapped.edit_uses(CODE, script, loop.epochs, loop.after, loop.model)
    _add_imports(script, tree)


def _edit_model(script: Script, loop: _Loop) -> None:
    wrapper = (
        f"torch.nn.parallel.DistributedDataParallel("
        f"{loop.model}, device_ids=[local_rank], output_device=local_rank)"
    )
    for statement in loop.body:
        call = _wrapping(statement, script)
        if call is None or statement is loop.wrap_after:
            continue
        inner = script.text_of(call.args[0]) if call.args else ""
        if inner == loop.model:
            script.remove(CODE, statement)
        else:
            script.replace(CODE, call, inner)
    last = _wrapping(loop.wrap_after, script)
    if last is not None:
        script.replace(CODE, last, wrapper)
    else:
        script.insert_after(CODE, loop.wrap_after, [f"{loop.model} = {wrapper}"])


def _edit_loader(script: Script, loop: _Loop) -> None:
    call = loop.loader
    data = next((k.value for k in call.keywords if k.arg == "dataset"), None) or call.args[0]
    name, made = script.text_of(data), []
    if not isinstance(data, (ast.Name, ast.Attribute)):
        # Created in the call itself; the sampler must not create it a second time.
        name, made = "sampled_data", [f"sampled_data = {name}"]
        script.replace(CODE, data, name)
    sampler = f"train_sampler = torch.utils.data.distributed.DistributedSampler({name})"
    script.insert_before(CODE, loop.loader_statement, [*made, sampler])
    shuffle = next((k for k in call.keywords if k.arg == "shuffle"), None)
    if len(call.args) > _SHUFFLE:
        script.replace(CODE, call.args[_SHUFFLE], "False, sampler=train_sampler")
    elif shuffle is not None:
        script.replace(CODE, shuffle, "sampler=train_sampler")
    else:
        last = [*call.args, *call.keywords][-1]
        script.replace(CODE, last, f"{script.text_of(last)}, sampler=train_sampler")


def _add_imports(script: Script, tree: ast.Module) -> None:
    wanted = [
        f"import {name}"
        for name in ("atexit", "os", "torch", "torch.utils.data.distributed")
        if not has_import(tree, name)
    ]
    last = list(imports(tree))
    if wanted and last:
        script.insert_after(CODE, last[-1], wanted)
    elif wanted:
        script.insert_before(CODE, tree.body[0], wanted)


def _launch_path(path: str) -> str:
    folder = path.rpartition("/")[0]
    return f"{folder}/run_distributed_npu.sh" if folder else "run_distributed_npu.sh"


def _launch_script(path: str) -> str:
    name = path.rpartition("/")[2]
    return (
        "#!/bin/sh\n"
        "# Train on all cards of this machine, or on $CARDS of them.\n"
        "set -e\n"
        'cd "$(dirname "$0")"\n'
        "CARDS=\"${CARDS:-$(npu-smi info -l 2>/dev/null | sed -n 's/.*Total Count *: *//p')}\"\n"
        'export HCCL_CONNECT_TIMEOUT="${HCCL_CONNECT_TIMEOUT:-1200}"\n'
        'exec python3 -m torch.distributed.run --nnodes=1 --nproc_per_node="${CARDS:-8}" '
        f'--master_port="${{MASTER_PORT:-29500}}" {name} "$@"\n'
    )
