"""Records what a training script computes, for the proof of a port: every loss, the parameters after
every step, what each module returned, and the error that ended it. The script is not changed.

Variables: JUMAR_PROOF (a folder for the notes, one file per process), JUMAR_PROOF_ROOT (where the
script's own source is), JUMAR_PROOF_SOURCE (where that was copied from), JUMAR_PROOF_STEPS and JUMAR_PROOF_TIME_S (end with success after so many
optimizer steps or seconds), JUMAR_PROOF_CPU (cuda means the CPU), JUMAR_PROOF_TESTS (record only how tests
went)."""

import atexit
import contextlib
import ctypes
import functools
import hashlib
import json
import os
import random
import sys
import time
import weakref
from typing import Any, Dict, Generator, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from jumar_start.after_import import after_import

SEED = 0
_OWN = os.path.dirname(os.path.abspath(__file__))
_MOST_OUTPUTS = 20000


class Wanted(NamedTuple):
    """What this process should do."""

    folder: str
    root: str
    steps: int
    time_s: float
    on_cpu: bool
    tests: bool


def wanted(environ: Mapping[str, str]) -> Wanted:
    """Read the variables."""
    return Wanted(
        folder=environ["JUMAR_PROOF"],
        root=os.path.join(os.path.abspath(environ["JUMAR_PROOF_ROOT"]), ""),
        steps=int(environ.get("JUMAR_PROOF_STEPS", "0")),
        time_s=float(environ.get("JUMAR_PROOF_TIME_S", "0")),
        on_cpu=environ.get("JUMAR_PROOF_CPU") == "1",
        tests=environ.get("JUMAR_PROOF_TESTS") == "1",
    )


def install(environ: Mapping[str, str]) -> None:
    """Start as soon as torch is imported."""
    notes = Notes(wanted(environ))
    _import_from_copy(environ["JUMAR_PROOF_SOURCE"], notes.wanted.root)
    notes.watch_errors()
    after_import("torch", lambda: _begin(notes))


def _begin(notes: "Notes") -> None:
    if notes.wanted.on_cpu:
        from jumar_start import cuda_on_cpu

        cuda_on_cpu.install()
    _seed()
    if not notes.wanted.tests:
        Recorder(notes).install()


def _import_from_copy(source: str, copy: str) -> None:
    """A source that is installed in place, or on PYTHONPATH, would be run instead of its copy."""

    def moved(path: str) -> str:
        real = os.path.realpath(path) if path else ""
        # The environment of the source may be inside it; that stays where it is.
        if not _is_in(real, source) or _is_in(real, os.path.realpath(sys.prefix)):
            return path
        there = os.path.normpath(os.path.join(copy, os.path.relpath(real, source)))
        return there if os.path.exists(there) else path

    sys.path[:] = [moved(path) for path in sys.path]
    for name, module in list(sys.modules.items()):
        packages = getattr(module, "MAPPING", None)
        if name.startswith("__editable__") and isinstance(packages, dict):
            packages.update({package: moved(path) for package, path in packages.items()})


def _seed() -> None:
    """Give scripts that set no seed the same random numbers in every run."""
    import torch

    torch.manual_seed(SEED)
    random.seed(SEED)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(SEED)


def _is_in(path: str, folder: str) -> bool:
    return os.path.join(path, "").startswith(os.path.join(folder, ""))


class Notes:
    """The file of this process: one JSON object per line, complete after every line."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self._pid = 0
        self._file: Any = None

    def add(self, kind: str, what: str, where: str, **more: Any) -> None:
        """Write one line."""
        if _loads_data():
            return
        if self._pid != os.getpid():
            # A forked child has notes of its own.
            self._pid = os.getpid()
            # By the time: numbers of processes begin anew at some point.
            path = os.path.join(self.wanted.folder, f"{time.time_ns()}-{self._pid}.jsonl")
            self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115 - open until the end
        line = {"rank": _rank(), "kind": kind, "what": what, "where": where, **more}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def place(self, frames: Iterator[Tuple[str, int]]) -> str:
        """The innermost line of the script's own source, as `file:line`."""
        for name, line in frames:
            path = os.path.abspath(name)
            if path.startswith(self.wanted.root):
                return f"{path[len(self.wanted.root) :]}:{line}"
        return ""

    def here(self) -> str:
        """The line of the script that is being run."""
        return self.place(_frames(sys._getframe(1)))

    def watch_errors(self) -> None:
        """Record the exception that ends the process."""
        before = sys.excepthook

        def hook(kind: Any, value: Any, trace: Any) -> None:
            if not issubclass(kind, KeyboardInterrupt):
                frames: List[Tuple[str, int]] = []
                while trace is not None:
                    frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
                    trace = trace.tb_next
                where = self.place(reversed(frames))
                self.add("error", kind.__name__, where, message=str(value)[:2000])
            before(kind, value, value.__traceback__)

        sys.excepthook = hook


def _frames(frame: Any) -> Iterator[Tuple[str, int]]:
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_OWN):
            yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def _loads_data() -> bool:
    """Whether this is a DataLoader worker: it makes batches, and nothing that is compared."""
    worker = sys.modules.get("torch.utils.data._utils.worker")
    return worker is not None and worker.get_worker_info() is not None


def _rank() -> int:
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    return int(os.environ.get("RANK", "0"))


class Recorder:
    """Hooks into torch; reads numbers bypassing every plug-in, and draws no random ones."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._started = time.time()
        self._steps = 0
        self._outputs = 0
        self._depth = 0
        self._in_backward = False
        self._ended = False
        self._has_optimizer = False
        self._passes = 0
        self._roots: Any = weakref.WeakSet()
        self._names: Dict[int, str] = {}

    def install(self) -> None:
        """Install the hooks."""
        import torch
        from torch.nn.modules import module
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self._watch_backward(torch)
        self._watch_optimizers(torch.optim.Optimizer)
        register_optimizer_step_post_hook(self._after_step)
        module.register_module_forward_pre_hook(self._before_forward)
        # Called also when forward raises, so that the depth stays right.
        module.register_module_forward_hook(self._after_forward, always_call=True)

    def _watch_backward(self, torch: Any) -> None:
        run = torch.autograd.backward

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            # A pass inside a pass (checkpointing, a plug-in's internals) is not a new loss.
            if self._in_backward:
                return run(tensors, *args, **kwargs)
            if not self._has_optimizer:
                self._after_own_update()
            for root in tensors if isinstance(tensors, (list, tuple)) else [tensors]:
                if isinstance(root, torch.Tensor):
                    values, device = _figures(torch, root)[:1], str(root.device)
                    where = self._notes.here()
                    self._notes.add("loss", "loss", where, values=values, device=device)
            self._in_backward = True
            try:
                return run(tensors, *args, **kwargs)
            finally:
                self._in_backward = False

        torch.autograd.backward = backward

    def _watch_optimizers(self, optimizer: Any) -> None:
        begin = optimizer.__init__

        @functools.wraps(begin)
        def init(made: Any, *args: Any, **kwargs: Any) -> None:
            self._has_optimizer = True
            begin(made, *args, **kwargs)

        optimizer.__init__ = init

    def _after_own_update(self) -> None:
        """A script that updates parameters itself has done so when the next pass begins."""
        import torch

        self._passes += 1
        if self._passes == 1:
            return
        found = [
            (name, _digest(torch, own), _figures(torch, own), str(own.device))
            for root in self._roots
            for name, own in root.named_parameters()
        ]
        if not found:
            return
        where = self._notes.here()
        # The order of a set is not that of the other run.
        for name, digest, values, _ in sorted(found):
            self._notes.add("parameter", name, where, values=values, digest=digest)
        self._steps += 1
        self._notes.add("step", "own update", where, device=found[0][3])
        self._end_if_enough()

    def _before_forward(self, module: Any, inputs: Any) -> None:
        is_new = self._depth == 0 and module not in self._roots
        if is_new and next(module.parameters(), None) is not None:
            self._roots.add(module)
            self._names.clear()
        self._depth += 1

    def _after_forward(self, module: Any, inputs: Any, output: Any) -> None:
        import torch

        self._depth = max(0, self._depth - 1)
        # Evaluation is not compared, so nothing in it needs to be located.
        if self._outputs >= _MOST_OUTPUTS or self._in_backward or not torch.is_grad_enabled():
            return
        # What is read during a trace becomes part of its graph, with values that never repeat.
        if torch.jit.is_tracing():
            return
        found = _first_floats(torch, output)
        if found is None:
            return
        self._outputs += 1
        values = _figures(torch, found)
        self._notes.add("output", type(module).__name__, self._notes.here(), values=values)

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        import torch

        self._steps += 1
        where = self._notes.here()
        number, device = 0, ""
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                number += 1
                device = str(parameter.device)
                name = self._name(parameter) or f"number {number}"
                values, digest = _figures(torch, parameter), _digest(torch, parameter)
                self._notes.add("parameter", name, where, values=values, digest=digest)
        self._notes.add("step", type(optimizer).__name__, where, device=device)
        self._end_if_enough()

    def _name(self, parameter: Any) -> Optional[str]:
        if not self._names:
            for root in self._roots:
                for name, own in root.named_parameters():
                    # Of several roots the outermost, whatever the order of the set.
                    longest = (self._names.get(id(own), ""), name)
                    self._names[id(own)] = max(longest, key=lambda each: (len(each), each))
        return self._names.get(id(parameter))

    def _end_if_enough(self) -> None:
        limits = self._notes.wanted
        is_late = limits.time_s and time.time() - self._started >= limits.time_s
        if is_late:
            self._notes.add("time", "time", "")
        if is_late or (limits.steps and self._steps >= limits.steps):
            # The script caught the first one and continues; or the process is in a group, whose
            # threads, unless they are ended, sometimes abort the process while Python shuts down.
            if self._ended or _is_in_group():
                _leave()
            self._ended = True
            raise SystemExit(0)


def _is_in_group() -> bool:
    dist = sys.modules.get("torch.distributed")
    return dist is not None and dist.is_available() and dist.is_initialized()


def _leave() -> None:
    """End this process successfully, after its exit handlers."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _first_floats(torch: Any, output: Any) -> Any:
    if isinstance(output, torch.Tensor):
        return output if output.is_floating_point() else None
    if isinstance(output, Mapping):
        output = list(output.values())
    if isinstance(output, (list, tuple)):
        for item in output:
            found = _first_floats(torch, item)
            if found is not None:
                return found
    return None


@contextlib.contextmanager
def _unseen(torch: Any) -> Generator[None, None, None]:
    """Read without side effects: bypasses modes, gradients and simulated devices."""
    modes = torch.utils._python_dispatch._disable_current_modes
    with torch._C.DisableTorchFunctionSubclass(), torch.no_grad(), modes():
        yield


def _plain(torch: Any, tensor: Any) -> Any:
    """The numbers of a tensor on the CPU; for a distributed tensor, the local part."""
    local = getattr(tensor, "to_local", None)
    tensor = (local() if callable(local) else tensor).detach()
    return tensor if tensor.device.type == "cpu" else tensor.cpu()


def _figures(torch: Any, tensor: Any) -> List[float]:
    with _unseen(torch):
        wide = _plain(torch, tensor).to(torch.float64)
        if wide.is_sparse:
            wide = wide.to_dense()
        if not wide.numel():
            return [0.0, 0.0, 0.0]
        # The sum of one half, too: the other two stay the same when numbers change places.
        half = wide.flatten()[: wide.numel() // 2]
        return [float(wide.sum()), float(wide.norm()), float(half.sum())]


def _digest(torch: Any, tensor: Any) -> str:
    with _unseen(torch):
        plain = _plain(torch, tensor).contiguous()
        size = plain.numel() * plain.element_size()
        data = ctypes.string_at(plain.data_ptr(), size) if size else b""
        return hashlib.blake2b(data, digest_size=16).hexdigest()
