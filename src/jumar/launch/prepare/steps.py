"""Programs that prepare an attempt (git, venv, pip): watched like ranks, with a time limit each."""

from typing import Dict, List, NamedTuple, Optional

from jumar.launch.faults import LogTail
from jumar.launch.jobdir.news import Values
from jumar.launch.processes.control import Control, Interrupted
from jumar.launch.processes.spawn import Program
from jumar.launch.processes.supervise import Exit, Rank, supervise
from jumar.launch.processes.tree import Tree
from jumar.launch.verdict import SetupFailed, describe, signal_name

_FAILED = {
    "code": "the code could not be fetched",
    "image": "the image could not be used",
    "activate": "the environment could not be activated",
    "requirements": "the requirements could not be installed",
}


class Step(NamedTuple):
    """One program, and what people call it."""

    what: str
    argv: List[str]
    environment: Dict[str, str]
    directory: str
    limit_s: float


class Steps(NamedTuple):
    """Where preparations run and what may interrupt them."""

    control: Control
    tree: Tree
    log: str
    grace_s: float

    def run(self, cause: str, step: Step) -> None:
        """Run one program to its end; raises SetupFailed with the tail of what it wrote."""
        failure = self.try_run(step)
        if failure is None:
            return
        if "No space left on device" in failure.tail:
            raise SetupFailed("disk-full", "no space left on the disk", failure.tail)
        if failure.cause is not None:
            raise SetupFailed(failure.cause, failure.words, failure.tail, failure.values)
        reason = f"{_FAILED[cause]}: {failure.words}"
        raise SetupFailed(cause, reason, failure.tail, failure.values)

    def try_run(self, step: Step) -> "Optional[Failure]":
        """None when the program succeeded."""
        self.control.check()
        tail = LogTail(self.log)
        program = Program(step.argv, step.environment, step.directory, self.log)
        outcome = supervise(
            [Rank(0, program)], self.control, self.tree, grace_s=self.grace_s, limit_s=step.limit_s
        )
        if outcome.not_started is not None:
            words = str(outcome.not_started[1])
            return Failure(words, "", {"error": words})
        if outcome.stop is not None and outcome.stop.why != "step-limit":
            raise Interrupted(outcome.stop)
        if outcome.stop is not None:
            words = f"{step.what} took longer than {step.limit_s:g} s"
            limit: Values = {"step": step.what, "limit_s": f"{step.limit_s:g}"}
            return Failure(words, tail.read(), limit)
        first = outcome.first_failure
        return None if first is None else _failure(step.what, first, tail.read())


class Failure(NamedTuple):
    """Why a step did not work."""

    words: str
    tail: str
    values: Values
    cause: Optional[str] = None
    """Where it says more than what the step was for."""


def _failure(what: str, exit_: Exit, tail: str) -> Failure:
    words = f"{what} {describe(exit_)}"
    values: Values = {"step": what}
    if exit_.out_of_memory:
        return Failure(words, tail, values, "out-of-memory")
    if exit_.signal is not None:
        values["signal"] = signal_name(exit_.signal)
    else:
        values["code"] = int(exit_.code or 0)
    return Failure(words, tail, values)
