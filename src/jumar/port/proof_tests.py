"""A proof by the repository's own tests: what passes with the original must pass with the port."""

from collections.abc import Sequence
from dataclasses import replace

from jumar.port.patterns import lazy_pattern
from jumar.port.proof import Certificate, TestCounts, Verdict, compare
from jumar.port.proof_runs import RunResult

MOST_RUNS = 3
"""Of each side, before a test counts as broken: some fail now and then."""
_PYTEST = lazy_pattern(r"(^|[\s/])(pytest|py\.test)(\s|$)")


def are_tests(words: Sequence[str]) -> bool:
    """Whether a command runs pytest."""
    return any(_PYTEST.search(word) for word in words)


def compare_tests(originals: Sequence[RunResult], ports: Sequence[RunResult]) -> Certificate:
    """Compare which tests passed: in every run of the original, in any run of the port."""
    passing = frozenset[str].intersection(*(run.passed_tests for run in originals))
    kept = frozenset[str].union(*(run.passed_tests for run in ports))
    broken = passing - kept
    if any(run.cut for run in ports):
        # Time ended it before it got to the others.
        broken &= {name for run in ports for name in run.tests}
    total = len({name for run in originals for name in run.tests})
    counts = TestCounts(len(passing & kept), len(passing), total, tuple(sorted(broken)))
    plain = compare(originals[0], ports[0])
    return replace(plain, verdict=_verdict(counts, ports), tests=counts, runs=len(ports))


def _verdict(counts: TestCounts, ports: Sequence[RunResult]) -> Verdict:
    if not counts.original:
        return Verdict.NO_TESTS
    if counts.broken:
        return Verdict.TESTS_FAIL
    return Verdict.PROVEN if any(run.used for run in ports) else Verdict.NO_DEVICE
