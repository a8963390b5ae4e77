"""transformers' Trainer: saves when the platform asks, leaves with the code that means "run me again", and
resumes from its newest complete checkpoint, with a script that knows nothing of it."""

import functools
import os
import pickle
import sys
from typing import Any, Dict, Optional

from jumar_start import exact_data, manifest
from jumar_start.advance import ADVANCE
from jumar_start.agreement import Agreement
from jumar_start.leaving import leave
from jumar_start.own_runs import Run
from jumar_start.stopping import Stopping

_PATTERN = r"checkpoint-(\d+)"


def install(trainer_module: Any) -> None:
    """Hook into the module that has just been imported."""
    from transformers import TrainerCallback  # pyright: ignore[reportMissingImports]

    trainer_class = trainer_module.Trainer
    notes = exact_data.Notes()
    exact_data.install(notes)
    _skip_exactly(trainer_module, notes)
    _follow_loader(trainer_class, notes)
    saver_class: Any = type("JumarSaver", (_Saving, TrainerCallback), {})
    train = trainer_class.train
    stopping = Stopping()

    @functools.wraps(train)
    def train_on(self: Any, resume_from_checkpoint: Any = None, *args: Any, **options: Any) -> Any:
        stopping.listen()
        run = Run(self.args.output_dir, _PATTERN)
        found = run.begin(self.is_world_process_zero())
        self.accelerator.wait_for_everyone()
        notes.resume(None)
        if found is not None:
            _say(self, f"resumed from {found}")
            resume_from_checkpoint = found
            notes.resume(_data_notes(found, self.args.process_index))
        ADVANCE.resumed(run.name, 0 if found is None else run.step(found))
        saver = saver_class(self, notes, stopping, run)
        self.add_callback(saver)
        try:
            return train(self, resume_from_checkpoint, *args, **options)
        finally:
            self.remove_callback(saver)

    trainer_class.train = train_on


class _Saving:
    """What is done at steps and at saves; becomes a callback of the Trainer."""

    def __init__(self, trainer: Any, notes: exact_data.Notes, stopping: Stopping, run: Run) -> None:
        self._trainer = trainer
        self._notes = notes
        self._stopping = stopping
        self._run = run
        self._agreement = Agreement()
        self._leaves = False

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Have it saved if the platform asks."""
        ADVANCE.stepped(self._run.name, state.global_step)
        if not self._leaves and self._agreement.any_asked(self._stopping.asked()):
            self._leaves = True
        if self._leaves:
            # What is to be resumed needs more than the model.
            args.save_only_model = False
            control.should_save = True
        return control

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The checkpoint is complete when all ranks have written; then leave, if asked: what follows in
        `train` might remove it."""
        folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        if not os.path.isdir(folder):
            # A search over hyperparameters has folders of its own, and is not resumed.
            return
        with open(os.path.join(folder, _data_name(args.process_index)), "wb") as file:
            pickle.dump(self._notes.taken(), file)
        self._trainer.accelerator.wait_for_everyone()
        if args.should_save and not args.save_only_model:
            facts = {"step": state.global_step, "world": args.world_size, "call": self._run.number}
            manifest.write(folder, facts)
        if self._leaves:
            self._trainer.accelerator.wait_for_everyone()
            _say(self._trainer, f"saved {folder} and left, as the platform asked")
            leave()


def _skip_exactly(trainer_module: Any, notes: exact_data.Notes) -> None:
    skip = trainer_module.skip_first_batches
    load = trainer_module.Trainer._load_rng_state

    @functools.wraps(skip)
    def skip_first_batches(dataloader: Any, num_batches: int = 0) -> Any:
        later = notes.skipping(dataloader, num_batches)
        return skip(dataloader, num_batches) if later is None else later

    @functools.wraps(load)
    def load_rng_state(self: Any, checkpoint: Any) -> None:
        if notes.is_exact:
            # Set around the first fetch already, which is later than when the library sets them.
            notes.is_exact = False
        else:
            load(self, checkpoint)

    trainer_module.skip_first_batches = skip_first_batches
    trainer_module.Trainer._load_rng_state = load_rng_state


def _follow_loader(trainer_class: Any, notes: exact_data.Notes) -> None:
    get = trainer_class.get_train_dataloader

    @functools.wraps(get)
    def get_train_dataloader(self: Any) -> Any:
        loader = get(self)
        notes.dataset = getattr(loader, "dataset", None)
        return loader

    evaluate = trainer_class.evaluation_loop

    @functools.wraps(evaluate)
    def evaluation_loop(self: Any, *args: Any, **options: Any) -> Any:
        # Evaluation may go over the very same data set.
        dataset, notes.dataset = notes.dataset, None
        try:
            return evaluate(self, *args, **options)
        finally:
            notes.dataset = dataset

    trainer_class.get_train_dataloader = get_train_dataloader
    trainer_class.evaluation_loop = evaluation_loop


def _data_name(rank: int) -> str:
    return f"jumar_data_{rank}.pkl"


def _data_notes(folder: str, rank: int) -> Optional[Dict[str, Any]]:
    try:
        with open(os.path.join(folder, _data_name(rank)), "rb") as file:
            return pickle.load(file)
    except FileNotFoundError:
        return None


def _say(trainer: Any, text: str) -> None:
    if trainer.is_world_process_zero():
        sys.stderr.write(f"jumar: {text}\n")
