"""Metrics out of logs: each dialect by its own lines, nothing out of prose, and never an error."""

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from jumar.track.lines import Reading, read_line
from jumar.track.reading import LogReader
from jumar.track.series import MOST_POINTS, Series, thinned

DIALECTS = [
    (
        "【Epoch:】 1 【Step:】 1875 【loss:】 0.11 【test_acc:】 0.98",
        {"loss": 0.11, "test_acc": 0.98},
        1875,
        1,
    ),
    ("epoch: 1 step: 100, loss is 2.3010", {"loss": 2.301}, 100, 1),
    (
        "Epoch: [  1 /  10], Train Loss: [1.672], Accuracy:  0.813",
        {"train_loss": 1.672, "accuracy": 0.813},
        None,
        1,
    ),
    ("epoch 3 step 100 loss 0.12 acc 97.1%", {"loss": 0.12, "acc": 97.1}, 100, 3),
    ("Epoch [2/10], Step [200/600], Loss: 0.2345", {"loss": 0.2345}, 200, 2),
    ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.300", {"loss": 2.3}, 640, 1),
    ("Test set: Average loss: 0.05, Accuracy: 98/100 (98%)", {"average_loss": 0.05, "accuracy": 0.98}, None, None),
    (
        "{'loss': '0.8762', 'grad_norm': '1.2', 'learning_rate': '5e-05', 'epoch': '0.1'}",
        {"loss": 0.8762, "grad_norm": 1.2, "learning_rate": 5e-05},
        None,
        0.1,
    ),
    ("{'eval_loss': 0.5, 'eval_runtime': 1.5, 'epoch': 3.0}", {"eval_loss": 0.5, "eval_runtime": 1.5}, None, 3),
    ('{"step": 3, "loss": 0.5, "mode": "train", "ok": true}', {"loss": 0.5}, 3, None),
    (
        "Epoch 0:  45%|████▌     | 45/100 [00:01<00:01, 30.0it/s, v_num=0, train_loss=0.123]",
        {"train_loss": 0.123},
        45,
        0,
    ),
    ("100%|███| 60/60 [00:10<00:00,  5.71it/s, loss=0.25]", {"loss": 0.25}, 60, None),
    (" 45/100 [===>....] - ETA: 1s - loss: 0.31 - accuracy: 0.91", {"loss": 0.31, "accuracy": 0.91}, 45, None),
    (
        " iteration    100/  5000 | elapsed time per iteration (ms): 123.4 | learning rate: 1.0E-04 | "
        "lm loss: 2.5E+00 | grad norm: 1.25 |",
        {"learning_rate": 1e-4, "lm_loss": 2.5, "grad_norm": 1.25},
        100,
        None,
    ),
    ("step:1 - actor/entropy_loss:0.5 - critic/score/mean:0.2", {"actor/entropy_loss": 0.5, "critic/score/mean": 0.2}, 1, None),
    ("[npu id: 0 ] epoch: 3, FPS: 1234.5", {"fps": 1234.5}, None, 3),
    ("2026-01-01 12:00:01,123 INFO trainer: loss: 0.5", {"loss": 0.5}, None, None),
    ("\x1b[32mstep=20\x1b[0m val_loss=0.3 val_acc=.9", {"val_loss": 0.3, "val_acc": 0.9}, 20, None),
    # Shapes of lines that people have shown in public: verl, mindyolo, mmengine, fairseq, nanoGPT, ModelZoo.
    (
        "\x1b[36m(TaskRunner pid=87031)\x1b[0m step:83 - actor/pg_loss:0.0424 - perf/mfu/actor:0.298 - training/global_step:83 "
        "- training/epoch:2 - val-core/openai/gsm8k/acc/mean@1:0.508 - timing_s/step:96.551",
        {
            "actor/pg_loss": 0.0424, "perf/mfu/actor": 0.298, "val-core/openai/gsm8k/acc/mean@1": 0.508,
            "timing_s/step": 96.551,
        },
        83,
        2,
    ),
    (
        "2024-10-18 10:01:24,917 [INFO] Epoch 1/500, Step 250/1516, imgsize (640, 640), loss: 10.06, lbox: 4.75, cur_lr: 0.09",
        {"loss": 10.06, "lbox": 4.75, "cur_lr": 0.09},
        250,
        1,
    ),
    (
        "04/20 10:10:10 - mmengine - INFO - Iter(train) [   50/80000]  lr: 9.9e-03  eta: 10:00:00  loss: 2.1",
        {"lr": 9.9e-3, "loss": 2.1},
        50,
        None,
    ),
    ("mmengine - INFO - Epoch(train)   [1][ 50/469]  lr: 1e-02  loss: 0.5", {"lr": 0.01, "loss": 0.5}, 50, 1),
    ("2020-08-10 | INFO | train_inner | {\"epoch\": 1, \"loss\": \"17.5\", \"num_updates\": \"100\"}", {"loss": 17.5}, 100, 1),
    ("train | inner iter: 7/ 8 | global iter: 13/ 5000| tot_loss: 2.35", {"tot_loss": 2.35}, 13, None),
    ("iter 100: loss 2.4567, time 123.45ms, mfu 34.56%", {"loss": 2.4567, "mfu": 34.56}, 100, None),
    ("Epoch: [0][ 100/5005]\tTime  0.350 ( 0.420)\tLoss 6.9e+00 (6.95e+00)\tAcc@1   0.39 (  0.20)", {"loss": 6.9, "acc@1": 0.39}, 100, 0),
    (" * Acc@1 76.130 Acc@5 92.862", {"acc@1": 76.13, "acc@5": 92.862}, None, None),
    ("[gpuid: 0] * FPS@all 1234.5, TIME@all 0.8", {"fps@all": 1234.5}, None, None),
    ("I0101 12:00:00.123456 12345 trainer.py:10] step 10 loss 0.5", {"loss": 0.5}, 10, None),
    ("轮次: 3 步数: 100 损失: 0.25 准确率：97.1%", {"损失": 0.25, "准确率": 97.1}, 100, 3),
]  # fmt: skip
PROSE = [
    "args: lr=0.1 epochs=10 batch_size=32 seed=1",
    "precision: 16",
    "2024-12-25 09:58:34,125 [WARNING] overflow, still update, loss scale adjust to 1024.0",
    "Epoch 3: val_loss improved from 0.51 to 0.48, saving model to best.h5",
    "saving checkpoint at iteration    1000 to /ckpt/loss_0.5",
    "wandb:             train/loss 0.123",
    "we had a loss of 3 people in 2026",
    "error 404 while loading page 12",
    "listening on 127.0.0.1:8080",
    "Downloading: 45%|███ | 45/100 [00:01<00:01]",
    '{"level": "info", "port": 8080}',
    "Train epoch time: 1234.5 ms, per step time: 12.3 ms",
    "version 2.1.0 of lossless-1.2.3",
    "accuracy " + "9" * 5000,
    "loss: " + "1" * 40,
    '{"loss": ' + "[" * 3000,
]


@pytest.mark.parametrize(("line", "values", "step", "epoch"), DIALECTS, ids=lambda v: str(v)[:24])
def test_each_dialect_is_read(
    line: str, values: dict[str, float], step: float | None, epoch: float | None
) -> None:
    assert read_line(line) == Reading(values, step, epoch)


@pytest.mark.parametrize("line", PROSE, ids=lambda line: line[:24])
def test_prose_tells_nothing(line: str) -> None:
    assert read_line(line) is None


def test_not_a_number_is_told() -> None:
    for line in ("step 7 loss nan", "step: 7 loss: -inf", '{"step": 7, "loss": NaN}'):
        found = read_line(line)
        assert found is not None
        assert not math.isfinite(found.values["loss"])


def read(log: bytes, *cuts: int) -> LogReader:
    reader = LogReader()
    places = sorted({0, len(log), *(cut % (len(log) + 1) for cut in cuts)})
    for start, end in pairwise(places):
        reader.feed(log[start:end])
    return reader


def curves(reader: LogReader) -> dict[str, tuple[list[float], list[float]]]:
    return {name: (list(one.x), list(one.y)) for name, one in reader.curves.series.items()}


lines = some.one_of(
    some.builds("step {} loss {:.3f} lr: {:g}".format, some.integers(0, 99), some.floats(0, 9), some.floats(0, 1)),
    some.builds("epoch: {} step: {}, loss is {}".format, some.integers(0, 3), some.integers(0, 9), some.floats(-9, 9)),
    some.sampled_from([line for line, *_ in DIALECTS] + PROSE[:6]),
    some.text(max_size=40),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(some.lists(lines, max_size=30), some.lists(some.integers(0, 4000), max_size=6))
def test_how_a_log_is_cut_changes_nothing_and_shapes_read_as_the_rules_do(
    told: list[str], cuts: list[int]
) -> None:
    log = ("\n".join(told) + "\n").encode("utf-8", "replace")
    whole = curves(read(log))
    assert repr(curves(read(log, *cuts))) == repr(whole)
    one_by_one = LogReader()
    for line in log.split(b"\n"):
        # A reader that knows no shapes.
        one_by_one._shapes.clear()  # pyright: ignore[reportPrivateUsage]
        one_by_one._silent.clear()  # pyright: ignore[reportPrivateUsage]
        one_by_one.feed(line + b"\n")
    assert repr(curves(one_by_one)) == repr(whole)


@settings(max_examples=100, deadline=None)
@given(some.binary(max_size=300))
def test_any_bytes_are_read_without_an_error(log: bytes) -> None:
    read(log + b"\nstep 1 loss 2\n")


def test_steps_that_begin_anew_with_each_epoch_go_on() -> None:
    log = "".join(f"epoch: {e} step: {s}, loss is {e}\n" for e in (1, 2, 3) for s in (1, 2, 3))
    assert list(read(log.encode()).curves.series["loss"].x) == list(range(1, 10))


def test_a_training_that_goes_on_from_a_checkpoint_overwrites_what_it_repeats() -> None:
    log = b"".join(b"step %d loss %d\n" % (step, step) for step in (1, 2, 3, 4))
    again = b"".join(b"step %d loss %d\n" % (step, 10 * step) for step in (3, 4, 5))
    loss = read(log + again).curves.series["loss"]
    assert (list(loss.x), list(loss.y)) == ([1, 2, 3, 4, 5], [1, 2, 30, 40, 50])


def test_an_epoch_on_a_line_of_its_own_is_that_of_the_steps_below() -> None:
    log = "".join(
        f"Epoch {e}/3\n" + "".join(f" {s}/2 [==>...] - loss: {e}.{s}\n" for s in (1, 2))
        for e in (1, 2, 3)
    )
    loss = read(log.encode()).curves.series["loss"]
    assert (list(loss.x), list(loss.y)) == ([1, 2, 3, 4, 5, 6], [1.1, 1.2, 2.1, 2.2, 3.1, 3.2])
    # Steps that are counted over all epochs stay as they are.
    log = "".join(
        f"Epoch {e}\n" + "".join(f"step {3 * e + s} loss 1\n" for s in range(3)) for e in (0, 1)
    )
    assert list(read(log.encode()).curves.series["loss"].x) == list(range(6))


def test_the_bar_above_a_dict_tells_its_step() -> None:
    log = "\r".join([" 10%|█ | 6/60 [00:01<00:09]", "{'loss': '0.5', 'epoch': '0.1'}\n"])
    assert list(read(log.encode()).curves.series["loss"].x) == [6]


def test_a_long_curve_is_thinned_evenly_and_keeps_its_spikes() -> None:
    spikes = {977: 100.0, 20_001: -100.0}
    source = random.Random(1)
    values = [spikes.get(step, source.random()) for step in range(50_000)]
    one_by_one, at_once = Series("loss", "step"), Series("loss", "step")
    for step, value in enumerate(values):
        one_by_one.add(step, value)
    for start in range(0, 50_000, 1777):
        part = range(start, min(start + 1777, 50_000))
        at_once.extend([float(x) for x in part], [values[x] for x in part], [math.nan] * len(part))
    for series in (one_by_one, at_once):
        assert len(series.x) <= 2 * MOST_POINTS
        assert list(series.x) == sorted(series.x)
        assert (series.count, series.last) == (50_000, values[-1])
        for step, value in spikes.items():
            assert series.y[series.x.index(step)] == value
        halves = [sum(low <= x < low + 25_000 for x in series.x) for low in (0, 25_000)]
        assert min(halves) > max(halves) / 2
    places = thinned(one_by_one.y, 100)
    assert len(places) <= 100
    assert set(spikes.values()) <= {one_by_one.y[place] for place in places}


def test_what_is_repeated_or_not_finite_is_the_same_one_by_one_and_at_once() -> None:
    x = [1.0, 2, 3, 4, 2, 3, 5, 6]
    y = [1.0, 2, math.nan, 4, 20, math.inf, 50, 60]
    one_by_one, at_once = Series("loss", "step"), Series("loss", "step")
    for place, value in zip(x, y, strict=True):
        one_by_one.add(place, value)
    at_once.extend(x, y, [math.nan] * len(x))
    for series in (one_by_one, at_once):
        assert list(series.x) == [1, 2, 3, 5, 6]
        assert list(series.y) == [1, 20, math.inf, 50, 60]
        assert (series.not_finite, series.first_not_finite) == (2, 3)
