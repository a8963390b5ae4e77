"""Lightning's Trainer: saves when the platform asks, leaves with the code that means "run me again", and
resumes from its newest complete checkpoint, with a script that knows nothing of it.

Every checkpoint, also those that the script asks for, gets the random numbers of each rank. A list in
JUMAR_CKPT_DIR says which were written; it is the job's own, so checkpoints of others are never taken."""

import functools
import importlib
import json
import os
import sys
from typing import Any, Dict, Iterator, List, Optional

from jumar_start import manifest, randomness, whole
from jumar_start.advance import ADVANCE
from jumar_start.agreement import Agreement, group
from jumar_start.leaving import leave
from jumar_start.stopping import Stopping

_KEY = "jumar"


class _Fit:
    """One call of `fit`."""

    calls = 0
    current: Optional["_Fit"] = None

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self.folder = os.path.join(os.environ["JUMAR_CKPT_DIR"], "lightning", str(_Fit.calls))
        self.agreement = Agreement()
        self.name = f"lightning#{_Fit.calls}"
        self.begin: Optional[Dict[str, Any]] = None
        self.resumed: Optional[Dict[str, Any]] = None
        self.is_begun = False
        _Fit.calls += 1

    def newest(self) -> Optional[str]:
        """The last of the list that is still as it was written."""
        for line in reversed(self._written()):
            path = line.get("path", "")
            try:
                status = os.stat(path)
            except (OSError, TypeError):
                continue
            is_same = (status.st_size, status.st_mtime_ns) == (line.get("size"), line.get("at"))
            if is_same and whole.checkpoints().judge(path).state == "complete":
                return path
        return None

    def note(self, path: str) -> None:
        """Add a checkpoint that has been written to the list."""
        if not os.path.isfile(path):
            # A folder of shards: which files belong to it only the strategy knows.
            return
        progress = self.trainer.fit_loop.epoch_loop.batch_progress
        if progress.is_last_batch and progress.current.completed < progress.current.ready:
            # Written inside of an epoch's last batch: Lightning would not go on from there as it was.
            return
        os.makedirs(self.folder, exist_ok=True)
        manifest.sync(path)
        path = self._kept(path)
        status = os.stat(path)
        line = {"path": os.path.abspath(path), "size": status.st_size, "at": status.st_mtime_ns}
        lines = [one for one in self._written() if one.get("path") != line["path"]] + [line]
        text = "".join(json.dumps(one) + "\n" for one in lines[-100:])
        manifest.write_text(os.path.join(self.folder, "written.jsonl"), text)

    def _kept(self, path: str) -> str:
        """A second name of the file, for the script may remove it before there is another to resume from."""
        kept = os.path.join(self.folder, "newest.ckpt")
        aside = f"{kept}.{os.urandom(4).hex()}"
        try:
            os.link(path, aside)
        except OSError:
            # Another file system.
            return path
        os.replace(aside, kept)
        return kept

    def _written(self) -> List[Dict[str, Any]]:
        return list(_lines(os.path.join(self.folder, "written.jsonl")))

    def taken(self) -> Dict[str, Any]:
        """What a checkpoint needs, of every rank."""
        own = {"begin": self.begin, "now": randomness.state()}
        distributed = group()
        if distributed is None:
            return {"ranks": [own]}
        ranks: List[Any] = [None] * distributed.get_world_size()
        distributed.all_gather_object(ranks, own)
        return {"ranks": ranks}

    def save_and_leave(self) -> None:
        """As the platform asked."""
        trainer = self.trainer
        path = os.path.join(self.folder, f"step-{trainer.global_step}.ckpt")
        trainer.save_checkpoint(path)
        trainer.strategy.barrier()
        if trainer.is_global_zero:
            _remove_others(path)
            sys.stderr.write(f"jumar: saved {path} and left, as the platform asked\n")
        leave()


def install(trainer_module: Any) -> None:
    """Hook into the module that has just been imported."""
    package = trainer_module.__name__.rsplit(".trainer.trainer", 1)[0]
    stopping = Stopping()
    _hook_fit(trainer_module.Trainer, stopping)
    _hook_checkpoints(trainer_module.Trainer, package)
    _hook_loops(package, stopping)
    connector = importlib.import_module(f"{package}.trainer.connectors.signal_connector")
    # It talks to the other ranks in a signal handler, where they may be in the middle of something else.
    connector._SignalConnector._sigterm_notifier_fn = lambda self, number, frame: None


def _hook_fit(trainer_class: Any, stopping: Stopping) -> None:
    fit = trainer_class.fit

    @functools.wraps(fit)
    def fit_on(self: Any, *args: Any, **options: Any) -> Any:
        stopping.listen()
        current = _Fit.current = _Fit(self)
        found = current.newest()
        if found is not None:
            options["ckpt_path"] = found
            # The job's own file, with whatever it put there.
            if "weights_only" in fit.__code__.co_varnames:
                options["weights_only"] = False
            args = args[:4]
            if self.is_global_zero:
                sys.stderr.write(f"jumar: resumed from {found}\n")
        try:
            return fit(self, *args, **options)
        finally:
            _Fit.current = None

    trainer_class.fit = fit_on


def _hook_checkpoints(trainer_class: Any, package: str) -> None:
    connector = importlib.import_module(f"{package}.trainer.connectors.checkpoint_connector")
    connector_class = connector._CheckpointConnector
    dump = connector_class.dump_checkpoint
    restore = connector_class.restore_training_state
    save = trainer_class.save_checkpoint

    @functools.wraps(dump)
    def dump_noted(self: Any, *args: Any, **options: Any) -> Any:
        made = dump(self, *args, **options)
        if _Fit.current is not None:
            made[_KEY] = _Fit.current.taken()
        return made

    @functools.wraps(restore)
    def restore_noted(self: Any) -> Any:
        loaded: Any = getattr(self, "_loaded_checkpoint", None) or {}
        if _Fit.current is not None:
            _Fit.current.resumed = _of_rank(loaded.get(_KEY), self.trainer.global_rank)
        return restore(self)

    @functools.wraps(save)
    def save_noted(self: Any, filepath: Any, *args: Any, **options: Any) -> Any:
        done = save(self, filepath, *args, **options)
        if _Fit.current is not None and self.is_global_zero:
            _Fit.current.note(os.fspath(filepath))
        return done

    connector_class.dump_checkpoint = dump_noted
    connector_class.restore_training_state = restore_noted
    trainer_class.save_checkpoint = save_noted


def _hook_loops(package: str, stopping: Stopping) -> None:
    loop_class = importlib.import_module(f"{package}.loops.training_epoch_loop")._TrainingEpochLoop
    fetcher_class = importlib.import_module(f"{package}.loops.fetchers")._DataFetcher
    start, end, iterate = loop_class.on_run_start, loop_class.on_advance_end, fetcher_class.__iter__

    @functools.wraps(iterate)
    def iterate_noted(self: Any) -> Any:
        current = _Fit.current
        if current is not None and current.trainer.fit_loop._data_fetcher is self:
            current.begin = randomness.state()
        return iterate(self)

    @functools.wraps(start)
    def start_on(self: Any, data_fetcher: Any) -> None:
        start(self, data_fetcher)
        current = _Fit.current
        if current is not None and not current.is_begun:
            # Each epoch starts here, the resumed one first.
            current.is_begun = True
            ADVANCE.resumed(current.name, current.trainer.global_step)
        if current is not None and current.resumed is not None:
            resumed, current.resumed = current.resumed, None
            _go_on(resumed, data_fetcher, self.batch_progress.current.ready)

    @functools.wraps(end)
    def end_asked(self: Any, data_fetcher: Any) -> None:
        end(self, data_fetcher)
        current = _Fit.current
        if current is not None:
            ADVANCE.stepped(current.name, current.trainer.global_step)
        if current is None or not current.agreement.any_asked(stopping.asked()):
            return
        # Resumed from behind an epoch's last batch Lightning would do steps too many.
        if not self.batch_progress.is_last_batch:
            current.save_and_leave()

    loop_class.on_run_start = start_on
    loop_class.on_advance_end = end_asked
    fetcher_class.__iter__ = iterate_noted


def _go_on(resumed: Dict[str, Any], data_fetcher: Any, done: int) -> None:
    """The batches of the epoch again, without those that are done."""
    if done and resumed["begin"] is not None:
        randomness.restore(resumed["begin"])
        iter(data_fetcher)
        for _ in range(done):
            next(data_fetcher)
        randomness.restore(resumed["now"])
    else:
        randomness.restore(resumed["now"])
        iter(data_fetcher)


def _of_rank(taken: Any, rank: int) -> Optional[Dict[str, Any]]:
    ranks = taken.get("ranks", []) if isinstance(taken, dict) else []
    return ranks[rank] if rank < len(ranks) else None


def _lines(path: str) -> Iterator[Dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                try:
                    value: Any = json.loads(line)
                except ValueError:
                    continue
                if isinstance(value, dict):
                    yield value
    except OSError:
        return


def _remove_others(path: str) -> None:
    """Those of earlier stops: the newest, which is complete, is enough."""
    folder, name = os.path.split(path)
    for other in os.listdir(folder):
        if other.startswith("step-") and other != name:
            os.unlink(os.path.join(folder, other))
