"""Checkpoints for a training that is stopped and goes on later.

    from jumar_ckpt import Checkpoints

    checkpoints = Checkpoints(keep=2)
    state = checkpoints.load()
    first = 0 if state is None else state["epoch"] + 1
    for epoch in range(first, 10):
        ...
        checkpoints.save({"model": model.state_dict(), "epoch": epoch}, step=epoch)
        if checkpoints.should_stop():
            checkpoints.leave()

A checkpoint is a folder that appears whole or not at all. The random numbers of Python, numpy and torch are
part of it. Without jumar's variables it works in ./checkpoints and is never asked to stop."""

import contextlib
import os
import pickle
import re
import shutil
import sys
import time
from typing import Any, Callable, List, NoReturn, Optional

from jumar_start import manifest, randomness, whole
from jumar_start.advance import ADVANCE
from jumar_start.agreement import Agreement, group
from jumar_start.stopping import AGAIN, Stopping, rank, world

_STEP = re.compile(r"step-(\d+)")
_SOON_S = 0.02

Write = Callable[[Any, str], Any]
Read = Callable[[str], Any]


class Checkpoints:
    """Those in one folder, JUMAR_CKPT_DIR if nothing else is said.

    `write(state, path)` and `read(path)` replace what saves and loads; else torch, MindSpore or pickle does,
    by what the state is. `every_rank`: each rank saves a part of its own, and loads it again."""

    def __init__(
        self,
        folder: Optional[str] = None,
        *,
        keep: int = 2,
        write: Optional[Write] = None,
        read: Optional[Read] = None,
        every_rank: bool = False,
        patience_s: float = 600.0,
    ) -> None:
        if keep < 1:
            raise ValueError("keep must be at least 1")
        if (write is None) != (read is None):
            raise ValueError("write and read go together")
        self.folder = os.path.abspath(folder or os.environ.get("JUMAR_CKPT_DIR") or "checkpoints")
        self._name = os.path.basename(self.folder)[-80:]
        self._keep = keep
        self._write = write
        self._read = read
        self._every_rank = every_rank
        self._patience_s = patience_s
        self._rank = rank(os.environ)
        self._world = world(os.environ)
        self._stopping = Stopping()
        self._stopping.listen()
        self._agreement = Agreement()
        self._checks = 0
        os.makedirs(self.folder, exist_ok=True)
        if self._rank == 0:
            self._remove_leftovers()

    def latest(self) -> Optional[str]:
        """The folder of the newest complete checkpoint."""
        for step in sorted(self._steps(), reverse=True):
            path = self._path(step)
            if _is_complete(path):
                return path
            _say(f"{path} is not complete and is not resumed from")
        return None

    def load(self) -> Any:
        """The state in the newest complete checkpoint, None where there is none; random numbers go on
        from there."""
        path = self.latest()
        ADVANCE.resumed(self._name, 0 if path is None else _step(path))
        if path is None:
            return None
        part = self._rank if self._every_rank else 0
        found = [name for name in os.listdir(path) if name.startswith(f"rank-{part}.")]
        if not found:
            raise FileNotFoundError(
                f"{path} has no part of rank {part}: it was saved by fewer ranks\n"
                "hint: run with as many ranks as before, or begin in another folder"
            )
        state = (self._read or _read)(os.path.join(path, found[0]))
        self._restore_random(path)
        return state

    def save(self, state: Any, step: int) -> str:
        """Write it; when this returns, on whatever rank, the checkpoint is complete and on the disk.

        Without `every_rank` only rank 0 writes, and other ranks that call this wait for it."""
        final = self._path(step)
        aside = os.path.join(self.folder, f".saving-{self._run()}-{step}")
        if self._rank == 0:
            self._write_part(aside, state)
            self._await(
                lambda: self._parts(aside) >= (self._world if self._every_rank else 1), step
            )
            manifest.write(aside, {"step": step, "world": self._world})
            self._put(aside, final)
            manifest.write_text(os.path.join(self.folder, "latest"), os.path.basename(final))
            self._remove_old(step)
        elif self._every_rank:
            # One of this step may be there already: torn, which is why it is saved again.
            before = _stamp(final)
            self._await(lambda: self._added(aside, state, lambda: _stamp(final) != before), step)
        else:
            self._await(lambda: _is_complete(final), step)
        ADVANCE.stepped(self._name, step)
        return final

    def _added(self, aside: str, state: Any, is_put: Callable[[], bool]) -> bool:
        """Add this rank's part if it is missing, and say whether the checkpoint is complete by now.

        Rank 0 may begin after the others, and removes what it takes for the leftovers of an earlier run."""
        name = f"rank-{self._rank}."
        if any(one.startswith(name) for one in _listed(aside)):
            return False
        if is_put():
            return True
        with contextlib.suppress(FileNotFoundError):
            self._write_part(aside, state)
        return False

    def should_stop(self) -> bool:
        """Whether to save and leave now; the same answer on all ranks, if all ask equally often.

        With torch.distributed the ranks agree. Else rank 0 names a check that no rank has reached yet:
        ranks of one node that wait for each other at each step are never further apart."""
        self._checks += 1
        ADVANCE.passed(self._name)
        asked = self._stopping.asked()
        if self._world == 1:
            return asked
        if group() is None:
            return self._agreed_by_file(asked)
        return self._agreement.any_asked(asked)

    def leave(self) -> NoReturn:
        """End with the exit code that means: saved, run me again."""
        raise SystemExit(AGAIN)

    def _agreed_by_file(self, asked: bool) -> bool:
        path = os.path.join(self.folder, f".stop-{self._run()}")
        if self._rank == 0 and asked and not os.path.exists(path):
            manifest.write_text(path, str(self._checks + 2))
        try:
            with open(path, encoding="utf-8") as file:
                return self._checks >= int(file.read())
        except FileNotFoundError:
            return False

    def _run(self) -> str:
        """Tells what this run left unfinished from what an earlier one did."""
        names = ("JUMAR_ATTEMPT", "JUMAR_SEGMENT", "TORCHELASTIC_RESTART_COUNT")
        return "-".join(os.environ.get(name, "0") for name in names)

    def _path(self, step: int) -> str:
        return os.path.join(self.folder, f"step-{step:08d}")

    def _steps(self) -> List[int]:
        return [step for step in map(_step, os.listdir(self.folder)) if step >= 0]

    def _write_part(self, folder: str, state: Any) -> None:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"random-{self._rank}.pkl"), "wb") as file:
            pickle.dump(randomness.state(), file)
        aside = os.path.join(folder, f".rank-{self._rank}")
        if self._write is None:
            suffix, write = _writer(state)
        else:
            suffix, write = ".saved", self._write
        write(state, aside + suffix)
        os.rename(aside + suffix, os.path.join(folder, f"rank-{self._rank}{suffix}"))

    def _parts(self, folder: str) -> int:
        return sum(name.startswith("rank-") for name in _listed(folder))

    def _restore_random(self, path: str) -> None:
        for part in (self._rank, 0):
            file = os.path.join(path, f"random-{part}.pkl")
            if os.path.exists(file):
                with open(file, "rb") as source:
                    randomness.restore(pickle.load(source))
                return

    def _put(self, aside: str, final: str) -> None:
        if os.path.exists(final):
            # The same step again, after resuming from an older one.
            old = f"{aside}.old"
            os.rename(final, old)
            os.rename(aside, final)
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.rename(aside, final)
        manifest.sync(self.folder)

    def _remove_old(self, step: int) -> None:
        older = sorted(one for one in self._steps() if one <= step)
        for one in older[: -self._keep]:
            shutil.rmtree(self._path(one), ignore_errors=True)

    def _remove_leftovers(self) -> None:
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            if name.startswith(".saving-"):
                shutil.rmtree(path, ignore_errors=True)
            elif name.startswith(".stop-"):
                os.unlink(path)

    def _await(self, is_done: Callable[[], bool], step: int) -> None:
        end = time.monotonic() + self._patience_s
        while not is_done():
            if time.monotonic() > end:
                raise TimeoutError(f"not all ranks saved step {step} within {self._patience_s:g} s")
            time.sleep(_SOON_S)


def _step(path: str) -> int:
    match = _STEP.fullmatch(os.path.basename(path))
    return int(match[1]) if match else -1


def _is_complete(path: str) -> bool:
    return whole.checkpoints().judge(path).state == "complete"


def _stamp(folder: str) -> Any:
    """Of the list that is written when a checkpoint is complete."""
    try:
        status = os.stat(os.path.join(folder, manifest.NAME))
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def _listed(folder: str) -> List[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _writer(state: Any) -> "tuple[str, Write]":
    if _is_of("mindspore", state):
        import mindspore  # pyright: ignore[reportMissingImports]

        return ".ckpt", lambda value, path: mindspore.save_checkpoint(_as_list(value), path)
    torch = sys.modules.get("torch")
    return (".pt", torch.save) if torch is not None else (".pkl", _pickle)


def _is_of(library: str, state: Any) -> bool:
    values = list(state.values()) if isinstance(state, dict) else [state]
    return any(
        base.__module__.split(".")[0] == library for one in values for base in type(one).__mro__
    )


def _as_list(state: Any) -> Any:
    if not isinstance(state, dict):
        return state
    return [{"name": name, "data": value} for name, value in state.items()]


def _pickle(state: Any, path: str) -> None:
    with open(path, "wb") as file:
        pickle.dump(state, file, protocol=4)


def _read(path: str) -> Any:
    if path.endswith(".ckpt"):
        import mindspore  # pyright: ignore[reportMissingImports]

        return mindspore.load_checkpoint(path)
    if path.endswith(".pt"):
        import torch

        # The job's own file, with whatever it put there.
        return torch.load(path, map_location="cpu", weights_only=False)
    with open(path, "rb") as file:
        return pickle.load(file)


def _say(text: str) -> None:
    sys.stderr.write(f"jumar: {text}\n")
