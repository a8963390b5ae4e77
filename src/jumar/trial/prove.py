"""The proof of a port: the original on the CPU and the port on simulated NPUs.

Each runs in its own copy, with the same seeds, for some steps. The original's text is not changed:
in its process, cuda means the CPU (`inject/start_path`)."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from jumar.errors import BadInput
from jumar.inject.simulated import environment
from jumar.inject.starting import Limits, cuda_on_cpu, noted, with_test_results
from jumar.port import trial_report
from jumar.port.command_line import ported as ported_command
from jumar.port.proof import Certificate, Verdict, compare
from jumar.port.proof_noise import MOST_RUNS, judge
from jumar.port.proof_runs import RunResult
from jumar.port.proof_tests import MOST_RUNS as MOST_TEST_RUNS
from jumar.port.proof_tests import are_tests, compare_tests
from jumar.port.report.summary import Evidence
from jumar.port.repository import beyond_proof
from jumar.port.tree import TreeResult
from jumar.trial.notes import events_so_far, read_run
from jumar.trial.process import Command, leaving_on_term, resolved, run, with_own_python
from jumar.trial.scratch import check_room, make_copy, placed

Tell = Callable[[str], None]
_ORIGINAL = "CPU"
_PORTED = "simulated NPU"
# Whole, so that they are found in the table of sentences.
_FIRST_RUN = {"original": "proof: original on the CPU", "port": "proof: port on the simulated NPU"}
_REPEAT_S = 30 * 60
"""No repeat is started later than this after the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What to run, and for how long."""

    words: tuple[str, ...]
    limits: Limits
    devices: int
    tolerance: float


def prove(result: TreeResult, wish: Wish, tell: Tell) -> Evidence:
    """Run the original and the port, and compare."""
    environ = with_own_python(os.environ)
    words = resolved(wish.words, environ, result.root)
    _check_script(words, result.root)
    with leaving_on_term(), tempfile.TemporaryDirectory(prefix="jumar-proof-") as place:
        scratch = Path(place).resolve()
        check_room(result, scratch, copies=3)
        stage = _Stage(result, wish, words, environ, scratch, tell)
        # The command as the user wrote it, not as it ran in the scratch folder.
        not_run = beyond_proof(result.results)
        certificate = replace(_certificate(stage), command=wish.words, not_run=not_run)
        return Evidence(certificate, stage.trial())


def _certificate(stage: "_Stage") -> Certificate:
    """Compare one run of each side, or, if these differ, as many as it takes to be sure."""
    tolerance = stage.wish.tolerance
    originals, ports = [stage.run("original")], [stage.run("port")]
    if stage.are_tests:
        return _certificate_of_tests(stage, originals, ports)
    certificate = compare(originals[0], ports[0], tolerance=tolerance)
    if certificate.verdict is not Verdict.DIFFERS:
        return certificate
    stage.tell("proof: the runs differ; each side runs again, to tell noise from a difference")
    started = time.monotonic()
    while True:
        originals.append(stage.run("original", len(originals) + 1))
        ports.append(stage.run("port", len(ports) + 1))
        is_late = time.monotonic() - started > _REPEAT_S
        is_last = is_late or len(ports) == MOST_RUNS
        judged = judge(originals, ports, tolerance, is_last=is_last)
        if judged is not None:
            return judged


def _certificate_of_tests(
    stage: "_Stage", originals: list[RunResult], ports: list[RunResult]
) -> Certificate:
    certificate = compare_tests(originals, ports)
    while certificate.verdict is Verdict.TESTS_FAIL and len(ports) < MOST_TEST_RUNS:
        stage.tell("proof: tests fail with the port only; each side runs again")
        originals.append(stage.run("original", len(originals) + 1))
        ports.append(stage.run("port", len(ports) + 1))
        certificate = compare_tests(originals, ports)
    return certificate


def _told_for_npu(words: tuple[str, ...], tell: Tell) -> tuple[str, ...]:
    on_npu = ported_command(words)
    for asked, given in zip(words, on_npu, strict=True):
        if asked != given:
            tell(f"proof: the port gets {given!r} instead of {asked!r}")
    return on_npu


def _check_script(words: tuple[str, ...], root: Path) -> None:
    """A script that is not in the source is a mistake that would affect both runs."""
    for word in words[1:]:
        if word in ("-m", "-c"):
            return
        if word.endswith((".py", ".sh")) and not word.startswith("-"):
            if not (root / word).exists():
                raise BadInput(
                    f"{word} does not exist in {root}", hint="the command runs inside SRC"
                )
            return


@dataclass(frozen=True, slots=True)
class _Stage:
    result: TreeResult
    wish: Wish
    words: tuple[str, ...]
    environ: dict[str, str]
    scratch: Path
    tell: Tell

    @property
    def are_tests(self) -> bool:
        """Whether the command runs the repository's tests."""
        return are_tests(self.wish.words)

    def run(self, side: str, number: int = 1) -> RunResult:
        """One run in its own copy, which is removed unless it is the first."""
        name = side if number == 1 else f"{side}-{number}"
        folder, notes, output = (self.scratch / f"{name}{end}" for end in ("", ".notes", ".log"))
        is_port = side == "port"
        device = _PORTED if is_port else _ORIGINAL
        make_copy(self.result, folder, ported=is_port)
        notes.mkdir()
        words = placed(self.words, self.result.root, folder)
        if is_port:
            words = _told_for_npu(words, self.tell)
        said = side if number == 1 else f"{side}, run {number},"
        begins = _FIRST_RUN[side] if number == 1 else f"proof: {said} on the {device}"
        self.tell(f"{begins}, at most {self._limits()}")
        source = self.result.root.resolve()
        environ = noted(
            self.environ, notes=notes, source=source, root=folder, limits=self.wish.limits
        )
        if self.are_tests:
            environ = with_test_results(environ)
        with output.open("wb") as file:
            ended = run(
                Command(
                    words=words,
                    environ=self._simulated(environ, name)
                    if is_port
                    else cuda_on_cpu(environ, devices=self.wish.devices),
                    folder=folder,
                    time_s=self.wish.limits.time_s,
                    output=file,
                    tick=lambda seconds: self._tell_progress(said, notes, seconds),
                )
            )
        found = read_run(notes, folder, ended, device=device, command=words, output=output)
        if self.are_tests and is_port and (self.scratch / f"{name}.json").exists():
            found = replace(found, used=frozenset({"npu"}))
        how = "failed" if found.failure and not found.tests else "done"
        self.tell(f"proof: {said} {how}: {self._done(found)}, {found.seconds:.1f} s")
        if number > 1:
            shutil.rmtree(folder, ignore_errors=True)
        return found

    def _tell_progress(self, said: str, notes: Path, seconds: float) -> None:
        done = (
            f"{events_so_far(notes, 'test')} tests"
            if self.are_tests
            else (f"{events_so_far(notes, 'step')} of {self.wish.limits.steps} steps")
        )
        self.tell(f"proof: {said} {done} after {seconds:.0f} s")

    def _limits(self) -> str:
        time_s = f"{self.wish.limits.time_s} s"
        return time_s if self.are_tests else f"{self.wish.limits.steps} steps or {time_s}"

    def _done(self, found: RunResult) -> str:
        if self.are_tests:
            return f"{len(found.passed_tests)} of {len(found.tests)} tests pass"
        return f"{found.steps} steps"

    def _simulated(self, environ: dict[str, str], name: str) -> dict[str, str]:
        # Both sides use the arithmetic of the CPU.
        environ = {**environ, "JUMAR_SIM_BACKEND": "cpu"}
        report = self.scratch / f"{name}.json"
        return environment(environ, devices=self.wish.devices, mode="warn", report=report)

    def trial(self) -> trial_report.TrialReport | None:
        """The report of the simulation, if the port got far enough to use it."""
        try:
            document = json.loads((self.scratch / "port.json").read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return trial_report.read(document, self.scratch / "port")
