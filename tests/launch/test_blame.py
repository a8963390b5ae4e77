"""Whoever's fault came first is named, with its node; who only lost a peer is not."""

import math
from pathlib import Path

import pytest
from tests.launch import blame
from tests.launch.conftest import Launcher

from jumar.launch.faults import LogTail, is_disk_full, is_fault, lost_peer_sign, stuck_in
from jumar.launch.judge import judge
from jumar.launch.verdict import Summary, Verdict


def test_the_first_fault_is_blamed_on_all_nodes(tmp_path: Path) -> None:
    """All kinds of failures at once, each over two nodes with two ranks each."""
    under_way: list[blame.Failure] = []
    launchers: list[Launcher] = []
    try:
        for number, kind in enumerate(blame.KINDS):
            folder = tmp_path / kind
            folder.mkdir()
            launchers.append(Launcher(folder))
            made = blame.Failure(launchers[-1], blame.BY_RING, kind, (number * 3 + 1) % 4)
            under_way.append(made)
        assert [fault for one in under_way for fault in one.faults()] == []
    finally:
        for launcher in launchers:
            launcher.close()


OWN = [
    "Traceback (most recent call last):\n  File x\nValueError: bad\n"
    "[rank1]:[W1116 10:00:00] recvValue failed: Connection reset by peer",
    "Traceback (most recent call last):\n  File x\nKeyError: 3\n\n"
    "During handling of the above exception, another exception occurred:\n\n"
    "Traceback (most recent call last):\n  File x\nRuntimeError: Connection closed by peer [::1]:3",
    "[rank0]: Traceback (most recent call last):\n[rank0]:   File x\n[rank0]: OSError: disk",
    "step 3\n[ERROR] EZ9999: Inner Error!\nThe error from device: aicore exception",
    "terminate called after throwing an instance of 'std::bad_alloc'\n  what(): std::bad_alloc",
]
LOST = [
    "[rank2]: Traceback (most recent call last):\n[rank2]:   File x\n"
    "[rank2]: RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:5",
    "Traceback (most recent call last):\n  File x\ntorch.distributed.DistBackendError: NCCL error\n"
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting",
    "Traceback (most recent call last):\n  File x\nConnectionResetError: Connection reset by peer\n\n"
    "The above exception was the direct cause of the following exception:\n\n"
    "Traceback (most recent call last):\n  File x\nTrainingFailed: step 7",
    "RuntimeError: HCCL error\n[ERROR] 2024-01-01 ERR02200 DIST call hccl api failed.\n"
    "[PID: 7] Communication_Error_Connect(EI0006): Getting socket times out.",
    "terminate called after throwing an instance of 'c10::DistBackendError'\n"
    "  what(): [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)",
]


def test_words_of_a_lost_peer_are_told_from_a_fault_of_ones_own(tmp_path: Path) -> None:
    for number, text in enumerate((*OWN, *LOST)):
        log = tmp_path / f"rank{number}.log"
        tail = LogTail(str(log))
        log.write_text("epoch 1\n" * 50 + text + "\n")
        tail.look()
        assert tail.fault_at is not None
        assert (is_fault(tail.read()), lost_peer_sign(tail.read()) is None) == (
            (True, True) if text in OWN else (False, False)
        ), text
    asked = "Traceback (most recent call last):\n  File x\nKeyboardInterrupt"
    assert not is_fault(asked)


def failure(rank: int, text: str, at: float = 0.0) -> Verdict:
    tail = f'Traceback (most recent call last):\n  File "t.py", line {rank}\n{text}'
    return Verdict("failed", "exit-code", f"rank {rank} failed", 1, rank=rank, tail=tail, at=at)


def quiet(rank: int) -> Verdict:
    return failure(rank, "")._replace(tail="step 3")


def silent(rank: int, at: float) -> Verdict:
    return quiet(rank)._replace(at=at, exit_code=3)


def killed(rank: int, at: float) -> Verdict:
    return silent(rank, at)._replace(signal="SIGKILL", exit_code=None)


def done(rank: int, at: float) -> Verdict:
    return quiet(rank)._replace(at=at, exit_code=0, cause="no-answer")


PEER = "RuntimeError: Connection closed by peer"
UNLIKE = "RuntimeError: params[0] appears not to match sizes of the same param in process 0."
MIXED = "RuntimeError: Rank 9 is running collective: X, but Rank {} is running collective: Y"


@pytest.mark.parametrize(
    ("failures", "others", "blamed"),
    [
        # By time, not in the order in which nodes tell of it.
        ([failure(0, "ValueError", 2), failure(1, "ValueError", 1)], [], 1),
        ([failure(0, PEER, 1), failure(1, "ValueError", 2)], [], 1),
        # That a process was killed is seen later than it was; its peers' lines are not.
        ([failure(0, "ValueError", 1), killed(1, 1.5)], [], 1),
        ([failure(0, "ValueError", 1), killed(1, 9)], [], 0),
        ([silent(1, 1.5)], [failure(0, "ValueError", 1)], 1),
        ([failure(0, "ValueError", 1), silent(1, 1.5)], [], 0),
        # Who is unlike the others is told from who finds another unlike itself.
        ([failure(1, UNLIKE, 1), failure(2, UNLIKE, 2), failure(0, PEER, 3)], [], 0),
        ([failure(2, UNLIKE, 1), failure(0, PEER, 2), failure(1, PEER, 2)], [], 2),
        (
            [
                failure(0, MIXED.format(2), 1),
                failure(1, MIXED.format(2), 2),
                failure(2, MIXED.format(0), 0),
            ],
            [],
            2,
        ),
        ([failure(2, UNLIKE, 1), failure(0, "ValueError: step 3", 2)], [], 2),
        ([failure(2, UNLIKE, 2), failure(0, "ValueError: step 3", 1)], [], 0),
        # One that was asked to end had its fault before.
        ([failure(0, "ValueError", 2)], [failure(1, "KeyError", 1)], 1),
        ([failure(0, "ValueError\n[W1116 10:00:00 s] reset", 1.5)], [failure(1, "KeyError", 1)], 0),
        ([failure(0, "ValueError\n[W1116 10:00:00 s] reset", 9)], [failure(1, "KeyError", 1)], 1),
        ([failure(0, PEER, 1), failure(2, PEER, 2)], [quiet(1)], 1),
        # Who was done too early, where all others fail in one line; one alone has its own fault.
        ([failure(7, "ValueError", 2)], [failure(7, "ValueError", 2), done(1, 1)], 1),
        ([failure(7, "ValueError", 2)], [done(1, 1)], 7),
        ([failure(7, "ValueError", 2), failure(8, "ValueError", 3)], [done(1, 1)], 7),
        ([failure(7, "ValueError", 2), failure(7, "ValueError", 2)], [done(1, 1), done(2, 1)], 7),
        # Nobody knows: the first who says so.
        ([failure(0, PEER, 2), failure(2, PEER, 1)], [quiet(1), quiet(3)], 2),
    ],
)
def test_the_cause_is_the_first_fault_or_whom_all_others_miss(
    failures: list[Verdict], others: list[Verdict], blamed: int
) -> None:
    summaries = [Summary(0, [], others=others)]
    verdict = judge(failures, summaries, {}, restarts_left=0, nodes=1)
    assert verdict.rank == blamed


def test_torch_does_not_pass_on_that_a_disk_is_full() -> None:
    text = "Traceback (most recent call last):\n  File x\nRuntimeError: basic_ios::clear: iostream error"
    assert is_disk_full(text)
    assert not is_disk_full(PEER)


def test_who_was_at_another_place_than_all_others_is_blamed() -> None:
    same = [failure(0, PEER)._replace(rank=rank, at=float(rank)) for rank in (0, 1, 3)]
    odd = failure(9, PEER, math.inf)
    verdict = judge([*same, odd], [Summary(0, [])], {}, restarts_left=0, nodes=1)
    assert verdict.rank == 9


def test_where_a_rank_was_is_told_only_by_the_stacks_of_its_end() -> None:
    own, waits = (
        '  File "/x/train.py", line 3 in step',
        '  File "/x/torch/d.py", line 9 in all_reduce',
    )
    aborted = "Fatal Python error: Aborted"
    assert stuck_in([aborted, waits, own]) == "all_reduce"
    # Those that it writes down every few minutes are no longer true.
    assert stuck_in([waits, own, aborted, own]) == "/x/train.py:3"
    raised = ["Traceback (most recent call last):", '  File "/x/train.py", line 3, in step']
    assert stuck_in([*raised, "ValueError: step 5 failed"]) == "an unknown place"


@pytest.mark.parametrize(
    ("places", "named"),
    [
        (("all_reduce", "x.py:7"), 1),
        (("x.py:7", "all_reduce"), 0),
        (("all_reduce", "broadcast"), None),
        (("all_reduce", "an unknown place"), None),
        (("x.py:7", "an unknown place"), None),
        (("x.py:7", "x.py:9", "all_reduce", "all_reduce"), None),
        (("x.py:7", "x.py:9", "x.py:9"), 0),
    ],
)
def test_who_is_alone_outside_a_collective_is_whom_the_others_wait_for(
    places: tuple[str, ...], named: int | None
) -> None:
    summary = Summary(0, [])._replace(hung=list(enumerate(places)), limit_s=3)
    assert judge([], [summary], {}, restarts_left=0, nodes=1).rank == named


def test_a_rank_of_whom_nothing_is_known_is_not_whom_the_others_wait_for() -> None:
    hung = [(0, "all_reduce"), (1, "an unknown place"), (2, "broadcast"), (3, "all_reduce")]
    summary = Summary(0, [])._replace(hung=hung, limit_s=3)
    verdict = judge([], [summary], {}, restarts_left=0, nodes=1)
    assert verdict.rank == 2
    assert verdict.reason.endswith(
        ": rank 2 in broadcast; ranks 0, 3 in all_reduce; rank 1 in an unknown place"
    )
