"""Programs that prepare an attempt (git, venv, pip): watched like ranks, with a time limit each."""

from typing import Dict, List, NamedTuple, Optional

from jumar.launch.control import Control, Interrupted
from jumar.launch.outcome import LogTail, SetupFailed, describe
from jumar.launch.spawn import Program
from jumar.launch.supervise import Rank, supervise
from jumar.launch.tree import Tree


class Steps(NamedTuple):
    """Where preparations run and what may interrupt them."""

    control: Control
    tree: Tree
    log: str
    grace_s: float

    def run(
        self,
        cause: str,
        argv: List[str],
        environment: Dict[str, str],
        directory: str,
        limit_s: float,
    ) -> None:
        """Run one program to its end; raises SetupFailed with the tail of what it wrote."""
        failure = self.try_run(argv, environment, directory, limit_s)
        if failure is None:
            return
        words, tail = failure
        if "No space left on device" in tail:
            cause = "disk-full"
        raise SetupFailed(cause, words, tail)

    def try_run(
        self, argv: List[str], environment: Dict[str, str], directory: str, limit_s: float
    ) -> "Optional[Failure]":
        """None when the program succeeded."""
        self.control.check()
        tail = LogTail(self.log)
        program = Program(argv, environment, directory, self.log)
        outcome = supervise(
            [Rank(0, program)], self.control, self.tree, grace_s=self.grace_s, limit_s=limit_s
        )
        if outcome.not_started is not None:
            return Failure(str(outcome.not_started[1]), "")
        if outcome.stop is not None and outcome.stop.why != "step-limit":
            raise Interrupted(outcome.stop)
        what = " ".join(argv[:4])
        if outcome.stop is not None:
            return Failure(f"{what} took longer than {limit_s:g} s", tail.read())
        first = outcome.first_failure
        return None if first is None else Failure(f"{what} {describe(first)}", tail.read())


class Failure(NamedTuple):
    """Why a step did not work."""

    words: str
    tail: str
