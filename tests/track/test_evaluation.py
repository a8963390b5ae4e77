"""Own runs and their evaluation: hostile notes, ranges, what is best."""

import math

from hypothesis import given, settings
from hypothesis import strategies as some

from jumar.track.evaluation import Range, best_of, order_of, parameters_of, range_of, varying
from jumar.track.lines import WORDS
from jumar.track.runs import MOST_PARAMETERS, RunReader

HOSTILE = [
    b"[]", b"3", b"{", b'{"metric": 1}', b'{"metric": "x", "value": "1"}', b"\xff" * 50, b"[" * 4000,
    b'{"metric": "x", "value": 1, "step": NaN, "epoch": Infinity, "context": [1]}',
    b'{"metric": "x", "value": 1' + b"0" * 3000 + b"}", b'{"parameter": null}', b'{"experiment": {}}',
    b'{"parameter": "deep", "value": {"a": {"b": {"c": {"d": {"e": {"f": 1}}}}}}}',
]  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(some.lists(some.sampled_from(HOSTILE) | some.binary(max_size=60), max_size=30))
def test_notes_may_hold_anything(lines: list[bytes]) -> None:
    reader = RunReader()
    many = b"".join(b'{"parameter": "p%d", "value": true}\n' % number for number in range(200))
    reader.feed(b"\n".join(lines) + b"\n" + many)
    reader.feed(b'{"metric": "loss", "value": NaN, "step": 1, "context": {"subset": "val"}}\n')
    assert math.isnan(reader.curves.series["val/loss"].y[0])
    assert len(reader.parameters) <= MOST_PARAMETERS


def test_ranges() -> None:
    assert range_of("lr=0.001..0.1") == Range("lr", 0.001, 0.1)
    assert range_of("lr=..1e-3") == Range("lr", -math.inf, 1e-3)
    assert range_of("lr=.5..") == Range("lr", 0.5, math.inf)
    assert range_of("lr=0.01") == Range("lr", 0.01, 0.01)
    for wrong in ("lr", "lr=", "lr=..", "=1..2", "lr=a..b", "lr=2..1", "lr=1..nan", "lr=1...2.3."):
        assert range_of(wrong) is None, wrong
    assert not Range("lr").has({"lr": "0.1"})
    assert not Range("lr").has({})


def test_the_best_depends_on_the_metric() -> None:
    points = [(1.0, 0.5), (2.0, 0.9), (3.0, None), (4.0, math.nan), (5.0, 0.1)]
    assert best_of("val/Accuracy", points) == (2.0, 0.9)
    assert best_of("train_loss", points) == (5.0, 0.1)
    assert best_of("lr", points) is None
    assert best_of("loss", [(1.0, None)]) is None
    values = [0.5, None, 0.9]
    assert sorted(values, key=lambda one: order_of("acc", one)) == [0.9, 0.5, None]
    assert sorted(values, key=lambda one: order_of("loss", one)) == [0.5, 0.9, None]
    assert not WORDS.higher & WORDS.lower
    assert WORDS.higher | WORDS.lower <= WORDS.metrics


def test_parameters_of_a_command() -> None:
    command = [
        "python",
        "train.py",
        "--lr",
        "0.1",
        "--epochs=3",
        "--flag",
        "--shift",
        "-1",
        "--name",
        "a b",
    ]
    assert parameters_of(command) == {"lr": 0.1, "epochs": 3, "shift": -1, "name": "a b"}
    assert varying([{"lr": 0.1, "n": 1.0, "s": "a"}, {"lr": 0.2, "n": 1.0, "s": "b"}, {}]) == (
        "lr",
    )
