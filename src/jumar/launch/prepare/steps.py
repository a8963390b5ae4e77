"""Programs that prepare an attempt (git, venv, pip): watched like ranks, with a time limit each."""

from typing import Dict, List, NamedTuple, Optional

from jumar.launch.processes.control import Control, Interrupted
from jumar.launch.processes.spawn import Program
from jumar.launch.processes.supervise import Rank, supervise
from jumar.launch.processes.tree import Tree
from jumar.launch.verdict.outcome import LogTail, SetupFailed, describe

_FAILED = {
    "code": "the code could not be brought",
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
        words, tail = failure
        reason = f"{_FAILED[cause]}: {words}"
        if "No space left on device" in tail:
            cause = "disk-full"
        raise SetupFailed(cause, reason, tail)

    def try_run(self, step: Step) -> "Optional[Failure]":
        """None when the program succeeded."""
        self.control.check()
        tail = LogTail(self.log)
        program = Program(step.argv, step.environment, step.directory, self.log)
        outcome = supervise(
            [Rank(0, program)], self.control, self.tree, grace_s=self.grace_s, limit_s=step.limit_s
        )
        if outcome.not_started is not None:
            return Failure(str(outcome.not_started[1]), "")
        if outcome.stop is not None and outcome.stop.why != "step-limit":
            raise Interrupted(outcome.stop)
        if outcome.stop is not None:
            return Failure(f"{step.what} took longer than {step.limit_s:g} s", tail.read())
        first = outcome.first_failure
        return None if first is None else Failure(f"{step.what} {describe(first)}", tail.read())


class Failure(NamedTuple):
    """Why a step did not work."""

    words: str
    tail: str
