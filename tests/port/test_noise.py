"""Both sides run several times: noise is told from a difference, with planted sums that vary."""

import math
import random
from dataclasses import replace

import pytest

from jumar.port.proof import Certificate, Verdict
from jumar.port.proof_noise import MOST_RUNS, judge
from jumar.port.proof_runs import Kind, Mark, RunResult
from jumar.port.report import proof_text

NAMES = [f"layer.{number}" for number in range(30)]
STEPS = 4


def run(
    chance: random.Random,
    noise: float,
    *,
    often: float = 1.0,
    difference: float = 0.0,
    from_step: int = 0,
    port: bool = False,
) -> RunResult:
    """A run whose figures vary by `noise` and, in the port, are off by `difference`."""
    is_noisy = chance.random() < often
    marks: list[Mark] = []

    def figure(kind: Kind, what: str, value: float, step: int) -> None:
        moved = value * (1 + (chance.gauss(0, noise * (step + 1)) if is_noisy else 0.0))
        if port and step >= from_step:
            moved *= 1 + difference
        marks.append(Mark(kind, what, (moved,), where="train.py:9", source="loss.backward()"))

    for step in range(STEPS):
        figure(Kind.LOSS, "loss", 2.0 / (step + 1), step)
        for number, name in enumerate(NAMES):
            figure(Kind.PARAMETER, name, number + 1.0, step)
        marks.append(Mark(Kind.STEP, "SGD"))
    used = frozenset({"npu"} if port else {"cpu"})
    return RunResult("NPU" if port else "CPU", ("python",), (tuple(marks),), used)


def proof(seed: int, noise: float, **how: float) -> Certificate:
    """As the proof goes: both sides again until it is decided."""
    chance = random.Random(seed)
    often = how.pop("often", 1.0)
    originals: list[RunResult] = []
    ports: list[RunResult] = []
    for count in range(1, MOST_RUNS + 1):
        originals.append(run(chance, noise, often=often))
        port_noise = how.get("port_noise", noise)
        ports.append(
            run(
                chance,
                port_noise,
                often=often,
                difference=how.get("difference", 0.0),
                from_step=int(how.get("from_step", 0)),
                port=True,
            )
        )
        judged = judge(originals, ports, 1e-5, is_last=count == MOST_RUNS)
        if judged is not None:
            return judged
    raise AssertionError("the last round must decide")


@pytest.mark.parametrize(("noise", "often"), [(1e-4, 1.0), (4e-4, 1.0), (1e-4, 0.2), (1e-4, 0.5)])
def test_noise_alone_is_never_taken_for_the_port(noise: float, often: float) -> None:
    for seed in range(20):
        found = proof(seed, noise, often=often)
        assert found.verdict is Verdict.PROVEN, (seed, found.difference)
        assert found.difference is None


@pytest.mark.parametrize("from_step", [0, STEPS - 1])
def test_a_difference_beyond_the_noise_is_found(from_step: int) -> None:
    for seed in range(8):
        found = proof(seed, 1e-4, difference=2e-2, from_step=from_step)
        assert found.verdict is Verdict.DIFFERS, seed
        assert found.difference is not None
        assert found.difference.where == "train.py:9"
    last = proof(0, 1e-4, difference=2e-2, from_step=STEPS - 1).difference
    assert last is not None
    assert last.what == f"loss {STEPS}"


def test_a_difference_without_noise_needs_three_runs_of_each_side() -> None:
    found = proof(0, 0.0, difference=1e-3)
    assert (found.verdict, found.runs) == (Verdict.DIFFERS, 3)
    assert "Each side was run 3 times." in [words.en for words in proof_text.details(found)]


def test_what_lies_within_the_noise_is_said_so() -> None:
    found = proof(1, 4e-4)
    assert found.noise is not None
    assert 1e-4 < found.noise < 1e-2
    head = proof_text.headline(found)
    assert head.en.endswith("equal within the original's own run-to-run noise")
    assert "波动" in head.zh
    # A run that came out equal is said to be equal, and that others did not.
    rare = next(f for f in (proof(seed, 1e-4, often=0.3) for seed in range(60)) if f.noise)
    assert proof_text.headline(rare).en.endswith("equal to the last bit")
    assert any("does not repeat" in words.en for words in proof_text.details(rare))


def test_an_original_that_is_all_noise_says_nothing() -> None:
    for seed in range(5):
        assert proof(seed, 0.2).verdict is Verdict.NOT_DETERMINISTIC


def test_a_port_that_alone_is_noisy_is_not_excused() -> None:
    for seed in range(5):
        assert proof(seed, 0.0, port_noise=1e-3).verdict is Verdict.DIFFERS
        assert proof(seed, 1e-5, port_noise=1e-2).verdict is Verdict.DIFFERS


def test_a_port_that_is_right_only_now_and_then_is_not_excused() -> None:
    chance = random.Random(0)
    right = run(chance, 0.0, port=True)
    wrong = run(chance, 0.0, difference=0.1, port=True)
    original = run(chance, 0.0)
    found = judge([original] * 3, [wrong, right, wrong], 1e-5, is_last=False)
    assert found is not None
    assert found.verdict is Verdict.DIFFERS


def test_runs_that_time_ended_are_compared_as_far_as_all_go() -> None:
    chance = random.Random(3)
    originals = [run(chance, 1e-4) for _ in range(MOST_RUNS)]
    ports = [run(chance, 1e-4, port=True) for _ in range(MOST_RUNS)]
    ports[2] = replace(ports[2], cut=True, ranks=(ports[2].ranks[0][:40],))
    found = judge(originals, ports, 1e-5, is_last=True)
    assert found is not None
    assert found.verdict is Verdict.PROVEN


def test_an_original_that_does_something_else_each_time_is_not_compared() -> None:
    chance = random.Random(4)
    originals = [run(chance, 1e-4) for _ in range(MOST_RUNS)]
    originals[3] = replace(originals[3], ranks=(originals[3].ranks[0][:40],))
    ports = [run(chance, 1e-4, port=True) for _ in range(MOST_RUNS)]
    found = judge(originals, ports, 1e-5, is_last=True)
    assert found is not None
    assert found.verdict is Verdict.NOT_DETERMINISTIC


def test_a_repeat_that_fails_is_told_with_its_error() -> None:
    from jumar.port.proof_runs import Failure

    chance = random.Random(5)
    original, port = run(chance, 0.0), run(chance, 0.0, difference=math.pi, port=True)
    broken = replace(port, failure=Failure("RuntimeError: boom"))
    found = judge([original, original], [port, broken], 1e-5, is_last=False)
    assert found is not None
    assert found.verdict is Verdict.PORT_FAILED
