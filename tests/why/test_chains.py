"""Which exception of a chain is told, what a program outlived, and what was said above an exception that follows from it."""

import json
import os
from pathlib import Path

import pytest
from tests.why.logs import verdict_of

from jumar.why.gather import from_paths
from jumar.why.judging import judge

STACK = "Traceback (most recent call last):\n"
OWN = '  File "/u/fit.py", line {at}, in {name}\n    {source}\n'
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"
DIRECT = "\nThe above exception was the direct cause of the following exception:\n\n"


def raised(said: str, source: str = "go()", name: str = "main", at: int = 4) -> str:
    return f"{STACK}{OWN.format(at=at, name=name, source=source)}{said}\n"


GONE = raised("FileNotFoundError: [Errno 2] No such file or directory: 'rows.bin'", at=7)
FULL = raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", at=7)


@pytest.mark.parametrize(
    "late",
    [
        # What is called on the way out.
        raised(
            "ValueError: Default process group has not been initialized, please make sure to call init_process_group.",
            "dist.barrier()",
        ),
        raised("AssertionError", "dist.destroy_process_group()"),
        raised("KeyError: 'best'", "self.names[k]", "on_exception"),
        raised("TypeError: Object of type Tensor is not JSON serializable", "log.close()"),
        # Slips of the code that was to handle it.
        raised('TypeError: can only concatenate str (not "FileNotFoundError") to str', "print(a + e)"),
        raised("AttributeError: 'FileNotFoundError' object has no attribute 'message'", "e.message"),
        raised("AttributeError: 'Logger' object has no attribute 'eror'", "log.eror(e)"),
    ],
)  # fmt: skip
def test_what_fails_on_the_way_out_or_in_a_handler_is_not_why(late: str) -> None:
    verdict = verdict_of(GONE + DURING + late)
    assert (verdict.cause, verdict.place) == ("file-missing", "/u/fit.py:7")


def test_no_way_around_a_full_card_says_more() -> None:
    late = "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    assert verdict_of(FULL + DURING + raised(late)).cause == "device-memory"


def test_another_attempt_may_say_more() -> None:
    first = raised("ModuleNotFoundError: No module named 'tomllib'")
    last = raised("ModuleNotFoundError: No module named 'tomli'")
    assert "tomli " in verdict_of(first + DURING + last).what["en"]


def test_what_an_unknown_refusal_was_raised_for_is_shown() -> None:
    late = raised("ValueError: bad plan", "raise ValueError('bad plan')")
    told = verdict_of(raised("KeyError: 'rate'") + DURING + late).what
    assert "“KeyError: 'rate'”" in told["en"]
    assert "“KeyError: 'rate'”" in told["zh"]
    assert "KeyError" not in verdict_of(late).what["en"]


def test_of_two_that_say_the_same_in_one_file_the_later_has_the_names() -> None:
    file = '  File "/x/site-packages/transformers/tokenization_utils_base.py", line 9, in convert\n    go()\n'
    short = f"{STACK}{file}ValueError: expected sequence of length 7 at dim 1 (got 9)\n"
    names = f"{STACK}{file}ValueError: Unable to create tensor, you should probably activate truncation and/or padding with 'padding=True' 'truncation=True' to have batched tensors with the same length. Perhaps your features (`labels` in this case) have excessive nesting (inputs type `list` where type `int` is expected).\n"
    assert "labels" in verdict_of(short + DIRECT + names).what["en"]


STEPS = "".join(f"Epoch [1][{50 * at}/900]  loss: 0.{at}\n" for at in range(1, 8))
BARS = "".join(f" 4{at}%|###  | 4{at}/100 [00:1{at}<00:09,  5.1it/s]\n" for at in range(1, 8))
LATE = raised("KeyError: 'accuracy'", at=19)


@pytest.mark.parametrize("steps", [STEPS, BARS])
@pytest.mark.parametrize(
    "survived",
    [
        GONE,
        f"Exception in thread Watch:\n{raised('IndexError: list index out of range')}",
        "WARNING: CUDA out of memory. Tried to allocate 2.00 GiB; skipping this batch\n",
    ],
)
def test_what_a_training_went_on_after_is_not_why_it_ended(survived: str, steps: str) -> None:
    verdict = verdict_of(survived + steps + LATE)
    assert (verdict.cause, verdict.place) == (verdict_of(LATE).cause, "/u/fit.py:19")
    # Alone it may be why.
    assert verdict_of(survived + steps).cause == verdict_of(survived).cause


def test_a_kill_after_what_was_survived_is_told() -> None:
    assert verdict_of(f"{GONE}{STEPS}Killed\n").cause == "killed"


@pytest.mark.parametrize(
    "between",
    [
        # The same step again and again, as bars are drawn when ranks end.
        " 41%|###  | 41/100 [00:10<00:09,  5.1it/s]\n" * 8,
        "".join(f"[rank0]: step {at} loss 0.1\n" for at in range(8)),
        "".join(f"read /data/0{at}/900 rows\n" for at in range(8)),
    ],
)
def test_late_output_and_other_ranks_do_not_outlive_a_fault(between: str) -> None:
    assert verdict_of(f"{GONE}{between}{LATE}").place == "/u/fit.py:7"


def test_a_rank_that_lost_its_peer_did_not_outlive_it() -> None:
    lost = raised("RuntimeError: Connection closed by peer [10.0.0.7]:51234", at=30)
    assert verdict_of(GONE + STEPS + lost).place == "/u/fit.py:7"


def test_a_line_that_could_not_be_logged_is_aside() -> None:
    aside = raised("TypeError: not all arguments converted during string formatting")
    assert verdict_of(f"--- Logging error ---\n{aside}{GONE}").cause == "file-missing"
    assert verdict_of(f"--- Logging error ---\n{aside}").cause is not None


@pytest.mark.parametrize(
    "alone",
    [
        f'{STACK}  File "/x/site-packages/torch/distributed/rendezvous.py", line 3, in _create\n    go()\n'
        "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 1/2 clients joined.\n",
        f'{STACK}  File "/x/site-packages/torch/distributed/rendezvous.py", line 3, in _create\n    go()\n'
        "torch.distributed.DistNetworkError: The client socket has failed to connect to any network address of (n0, 29500). The client socket has failed to connect to 10.0.0.1:29500 (errno: 111 - Connection refused).\n",
        "[W socket.cpp:663] [c10d] The client socket has failed to connect to [n0]:29500 (errno: 111 - Connection refused).\n",
        f'{STACK}  File "/usr/lib/python3.11/multiprocessing/spawn.py", line 3, in _main\n    go()\n'
        "EOFError: Ran out of input\n",
    ],
)
def test_who_was_left_alone_loses_to_why(alone: str) -> None:
    assert verdict_of(alone + GONE).cause == "file-missing"
    assert verdict_of(alone).cause not in (None, "file-missing")


@pytest.mark.parametrize(
    "announced",
    [
        "ERROR: training failed",
        "ERROR: Error in stage 'fit'",
        "[ERROR] An unexpected error occurred",
        "Error executing job with overrides: ['lr=1']",
    ],
)
def test_what_only_announces_loses_to_what_says_it(announced: str) -> None:
    said = "ERROR: no rows have a label in the table toys"
    assert verdict_of(f"{announced}\n{said}\n").evidence[0].text == said
    assert verdict_of(f"{announced}\n").evidence[0].text == announced


LACKING = [
    ("[ WARN:0] findDecoder imread_('/data/7.png'): can't open/read file", "AttributeError: 'NoneType' object has no attribute 'shape'", "h = img.shape"),
    ("=> no checkpoint found at 'best.pth'", "UnboundLocalError: local variable 'state' referenced before assignment", "use(state)"),
    ("WARNING: folder /data/toys not found, taking an empty list", "IndexError: list index out of range", "rows[0]"),
    ("kept 0 of 120 rows after the filter", "ZeroDivisionError: division by zero", "total / len(rows)"),
]  # fmt: skip


@pytest.mark.parametrize(("above", "said", "source"), LACKING)
def test_what_is_lacking_is_told_with_what_was_said_above(
    above: str, said: str, source: str
) -> None:
    verdict = verdict_of(f"starting\n{above}\n{raised(said, source)}")
    quoted = f"“{above}”"
    assert quoted in verdict.what["en"]
    assert quoted in verdict.what["zh"]
    assert verdict.remedy["en"].startswith("If the exception follows from that line")
    # Not of what has nothing to do with it: another exception's, too far, of no concern.
    between = "reading on\n" * 20
    far = f"{above}\n{between}{raised(said, source)}"
    assert quoted not in verdict_of(far).what["en"]
    assert quoted not in verdict_of(f"{above}\n{raised('ValueError: no')}").what["en"]
    minor = verdict_of(f"Could not find TensorRT\n{raised(said, source)}")
    assert "TensorRT" not in minor.what["en"]


@pytest.mark.parametrize(
    ("above", "said", "cause"),
    [
        ("/x/torch/cuda/__init__.py:8: UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).", "AssertionError: a GPU is needed", "driver-old"),
        ("Unable to import flash_attn: No module named 'flash_attn'", "NameError: name 'flash_attn_func' is not defined", "module-missing"),
    ],
)  # fmt: skip
def test_what_is_known_and_names_the_same_is_the_cause(above: str, said: str, cause: str) -> None:
    verdict = verdict_of(f"{above}\n{raised(said)}")
    assert (verdict.cause, verdict.evidence[0].line) == (cause, 1)
    assert f"“{said}”" in verdict.remedy["en"]


def test_a_library_that_is_done_without_is_not_why() -> None:
    lacks = "Error loading ops: /x/ops.so: undefined symbol: _ZN3c10; continuing without it\n"
    assert verdict_of(lacks + GONE).cause == "file-missing"
    assert verdict_of(lacks).cause == "library-mismatch"


def test_records_of_loggers_and_containers_are_read() -> None:
    docker = "".join(
        json.dumps({"log": f"{line}\n", "stream": "stderr"}) + "\n" for line in GONE.splitlines()
    )
    verdict = verdict_of(docker)
    assert (verdict.cause, verdict.place, verdict.evidence[0].line) == ("file-missing", "/u/fit.py:7", 4)  # fmt: skip
    record = {"levelname": "ERROR", "message": "the fit ended", "exc_info": GONE}
    assert verdict_of(json.dumps(record) + "\n").place == "/u/fit.py:7"
    told = verdict_of(json.dumps({"level": "error", "msg": "no rows have a label"}) + "\n")
    assert "no rows have a label" in told.what["en"]
    # What is no record, and what says nothing.
    assert verdict_of('{"loss": "0.1", "nothing": [\n{"loss": "0.2"}\n').cause is None


@pytest.mark.parametrize(
    "below",
    [
        "NCCL error in: ../NCCLUtils.hpp:5, unhandled system error\n",
        "df: /data: No space left on device\n",
    ],
)
def test_what_others_say_below_an_exception_is_not_its_message(below: str) -> None:
    assert verdict_of(LATE + below).cause == verdict_of(LATE).cause


@pytest.mark.parametrize(
    "below",
    [
        "[ERROR] DEVICE(246,ffff,python):2025-01-01-10:00:00.1 [a/b.cc:136] Wait] SyncStream failed, exception:The pointer[stream] is null.\n",
        "[ 9981.1] Out of memory: Killed process 402 (python) total-vm:91000000kB, anon-rss:88000000kB\n",
    ],
)
def test_a_message_ends_where_mindspore_or_the_kernel_speaks(below: str) -> None:
    assert verdict_of(GONE + below).cause == "file-missing"


@pytest.mark.parametrize(
    ("above", "said"),
    [
        ("apex not installed, taking torch's layer norm", "NameError: name 'trianer' is not defined"),
        ("Generating train split: 0 examples [00:00, ? examples/s]", "IndexError: list index out of range"),
        ("CUDA_VISIBLE_DEVICES=0,1", "AssertionError: a GPU is needed"),
        ("NVIDIA driver 535.54 is loaded", "AssertionError: a GPU is needed"),
    ],
)  # fmt: skip
def test_what_has_nothing_to_do_with_a_lack_is_not_quoted(above: str, said: str) -> None:
    verdict = verdict_of(f"{above}\n{raised(said)}")
    assert above not in verdict.what["en"] + verdict.remedy["en"]


def test_what_the_authors_say_of_a_value_that_was_tried_is_told_with_it() -> None:
    tried = raised("ValueError: invalid literal for int() with base 10: 'old'")
    said = raised("ValueError: row 7 has a bad age", "raise ValueError(f'row {at} has a bad age')")
    verdict = verdict_of(tried + DURING + said)
    assert verdict.evidence[0].text == "ValueError: row 7 has a bad age"
    assert "base 10: 'old'" in verdict.what["en"]


def test_what_is_missing_while_a_disk_is_full_follows_from_that(tmp_path: Path) -> None:
    full = "OSError: [Errno 28] No space left on device: '/ck/1.pt'"
    gone = "FileNotFoundError: [Errno 2] No such file or directory: '/ck/1.pt'"
    # The log that ended first is that of the reader.
    for at, (name, said) in enumerate((("rank0", gone), ("rank1", full))):
        log = tmp_path / f"{name}.log"
        log.write_text(raised(said))
        os.utime(log, (at, at))
    verdict = judge(from_paths([str(tmp_path)]))
    assert (verdict.cause, verdict.rank) == ("disk-full", 1)
    assert gone in verdict.remedy["en"]
    # What was there no more before has another reason.
    assert verdict_of(raised(gone) + raised(full)).cause == "file-missing"


@pytest.mark.parametrize(
    ("above", "is_told"),
    [
        ("trainable params: 0 || all params: 124 || trainable%: 0.0", True),
        ("trainable params: 12 || all params: 1,500 || trainable%: 0.8000", False),
        ("UserWarning: None of the inputs have requires_grad=True. Gradients will be None", True),
    ],
)
def test_what_is_trained_is_told_only_where_it_is_nothing(above: str, is_told: bool) -> None:
    said = "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn"
    verdict = verdict_of(f"{above}\n{raised(said, 'loss.backward()')}")
    assert (f"“{above}”" in verdict.what["en"]) == is_told
