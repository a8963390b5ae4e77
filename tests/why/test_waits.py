"""Why ranks waited for each other: what all their logs show together."""

import os
import re
from contextlib import ExitStack

import pytest
from tests.why.logs import verdict_of

from jumar.spec.verdicts import Verdict
from jumar.why.doing import doing
from jumar.why.judging import judge
from jumar.why.knowledge import LANGUAGES, rows
from jumar.why.reading import lines_of
from jumar.why.signs import Source
from jumar.why.waited import listed, words

_NAME = re.compile(r"\{\w+\}")
MAPPING = "Map (num_proc=1):  42%|████▏     | 774000/1843921 [29:58<41:23, 430.22 examples/s]\n"


def _of(logs: dict[int, str]) -> Verdict:
    """What is said of the logs of these ranks."""
    with ExitStack() as stack:
        sources: list[Source] = []
        for rank, text in logs.items():
            fd = os.memfd_create("log")
            stack.callback(os.close, fd)
            os.write(fd, text.encode())
            sources.append(Source(f"rank{rank}.log", lambda fd=fd: os.dup(fd), rank))
        return judge(sources)


def _wait(
    rank: int,
    seq: int,
    op: str = "ALLREDUCE",
    numel: int = 512,
    *,
    at: str = "10:30:00",
    group: str = "0(default_pg)",
    stack: str = "",
    completed: int | None = None,
) -> str:
    """What a watchdog writes."""
    begin = f"[rank{rank}]:[E0101 {at}.000001 ProcessGroupNCCL.cpp"
    before = seq - 1 if completed is None else completed
    return (
        f"{begin}:616] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel}, "
        f"NumelOut={numel}, Timeout(ms)=1800000) ran for 1800022 milliseconds before timing out.\n"
        f"{begin}:1785] [PG ID 0 PG GUID {group} Rank {rank}] Exception (either an error or timeout) detected by watchdog at work: {seq}, "
        f"last enqueued NCCL work: {seq}, last completed NCCL work: {before}.\n{stack}"
    )


def _heard(rank: int, enqueued: int) -> str:
    """What a rank writes that only hears of it."""
    return (
        f"[rank{rank}]:[E0101 10:30:01.000001 ProcessGroupNCCL.cpp:1552] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a dump signal "
        f"due to a collective timeout from rank 1 and we will try our best to dump the debug info. Last enqueued NCCL work: {enqueued}, "
        f"last completed NCCL work: {enqueued}.\n"
    )


STEP = "step 40 loss 2.1\n"
STACK = (
    "[rank1]:[E0101 10:30:00.1 ProcessGroupNCCL.cpp:730] Stack trace of the failed collective: \n"
    "#0 all_reduce from /opt/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:2810\n"
    "#1 log_metrics from /u/metrics.py:88\n#2 <module> from /u/fit.py:9\n\n"
)
INFO = "n1:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via {way}\nn1:7:9 [0] NCCL INFO comm 0x5 rank 0 nranks 2 cudaDev 0 commId 0x9 - Init COMPLETE\n"


@pytest.mark.parametrize(
    ("logs", "cause", "rank", "said"),
    [
        ({0: _wait(0, 88, numel=4311252), 1: _wait(1, 88, numel=1)}, "rank-mismatch", 0, "ALLREDUCE (elements: 4311252) on rank 0, ALLREDUCE (elements: 1) on rank 1"),
        ({0: _wait(0, 88, numel=512), 1: _wait(1, 88, numel=384)}, "rank-mismatch", 0, "with different sizes"),
        # What one rank was doing.
        ({0: MAPPING, 1: _wait(1, 1), 2: _wait(2, 1)}, "peer-busy", 0, "still preparing data while the others (1, 2) waited: “Map"),
        ({0: STEP + "Saving model checkpoint to /o/c-40\n", 1: _wait(1, 88)}, "peer-busy", 0, "still saving"),
        ({0: "Validating:  40%|███ | 40/99 [29:01<10:00,  1s/it]\n", 1: _wait(1, 88)}, "peer-busy", 0, "still evaluating"),
        ({0: "model.safetensors:  61%|█ | 2.9G/4.9G [29:01<06:20, 5MB/s]\n", 1: _wait(1, 1)}, "peer-busy", 0, "still downloading"),
        ({0: "Building extension module fused_adam...\n", 1: _wait(1, 1)}, "peer-busy", 0, "still compiling"),
        # A bar that stood still when the wait began is that of all ranks.
        ({0: "Validating:  40%|███ | 40/99 [01:01<01:30,  1s/it]\n", 1: _wait(1, 88)}, "peer-silent", 0, "last thing it says: “Validating"),
        # What is over is not what it does, and the training's own bar tells nothing.
        ({0: "Map: 100%|████| 99/99 [00:10<00:00,  1s/it]\n", 1: _wait(1, 1)}, "peer-silent", 0, "last thing it says: “Map: 100%"),
        ({0: "Map: 100%|████| 99/99 [29:01<00:00,  1s/it]\n", 1: _wait(1, 1)}, "peer-busy", 0, "still preparing data"),
        ({0: "Saving model checkpoint to /o\n  3%|▏ | 3/99 [29:01<10:00,  1s/it]\n", 1: _wait(1, 9)}, "peer-silent", 0, "“3% 3/99"),
        ({0: STEP + "Training completed.\n", 1: _wait(1, 9)}, "peer-finished", 0, "Rank 0 had finished"),
        # Who came long after the others, and who had not started the operation.
        ({0: MAPPING + _wait(0, 1, at="10:40:00"), 1: _wait(1, 1), 2: _wait(2, 1)}, "peer-busy", 0, "still preparing data"),
        ({0: "Saving model checkpoint to /o\n" + _heard(0, 87), 1: _wait(1, 88)}, "peer-busy", 0, "still saving"),
        # What ranks call.
        ({0: _wait(0, 88, "BROADCAST", 1), 1: _wait(1, 88), 2: _wait(2, 88)}, "rank-mismatch", 0, "BROADCAST (elements: 1) on rank 0, ALLREDUCE (elements: 512) on rank 1, 2"),
        ({0: _wait(0, 88, numel=512), 1: _wait(1, 88, numel=448)}, "rank-mismatch", 0, "512 elements on rank 0, 448 on rank 1"),
        ({0: _wait(0, 3, "BROADCAST", 998244353), 1: _wait(1, 3, "BROADCAST", 998244109)}, "rank-mismatch", 0, "have built different models"),
        ({0: _wait(0, 88), 1: _wait(1, 87, "_ALLGATHER_BASE")}, "rank-mismatch", 1, "rank 1 waits in operation number 87 (_ALLGATHER_BASE, elements: 512), rank 0 in number 88"),
        ({0: _wait(0, 88, "_ALLGATHER_BASE"), 1: _wait(1, 88, numel=1)}, "rank-mismatch", 0, "Rank 0 collects something from all ranks"),
        ({0: STEP + _wait(0, 88, "_ALLGATHER_BASE")}, "peer-late", 0, "only rank 0 says so"),
        # Pairs differ always, and numbers of two groups have nothing to do with each other.
        ({0: _wait(0, 88, "SEND"), 1: _wait(1, 88, "RECV")}, "link-stuck", None, "no rank was behind"),
        ({0: _wait(0, 88, "SEND"), 1: _wait(1, 86, "RECV")}, "peer-late", 0, "waited 30 min in SEND"),
        ({0: _wait(0, 88, group="3(mesh_tp)"), 1: _wait(1, 7, "BROADCAST", group="5(mesh_dp)")}, "peer-late", 0, "waited 30 min in ALLREDUCE"),
        # Nobody was late.
        ({0: STEP + _wait(0, 88), 1: STEP + _wait(1, 88)}, "link-stuck", None, "no rank was behind"),
        ({0: _wait(0, 1), 1: _wait(1, 1)}, "link-stuck", None, "the cards do not reach each other"),
        ({0: INFO.format(way="P2P/IPC") + _wait(0, 1)}, "link-stuck", None, "“via P2P”"),
        ({0: INFO.format(way="NET/IB/0") + _wait(0, 1), 1: _wait(1, 1)}, "link-stuck", None, "“via NET/IB”"),
        # Only its own words.
        ({1: STEP + _wait(1, 88)}, "peer-late", 1, "Operations before it had ended"),
        ({1: STEP + _wait(1, 88, numel=1, stack=STACK)}, "peer-late", 1, "called in log_metrics, /u/metrics.py:88"),
    ],
)  # fmt: skip
def test_why_ranks_waited_is_told(
    logs: dict[int, str], cause: str, rank: int | None, said: str
) -> None:
    verdict = _of(logs)
    assert (verdict.cause, verdict.rank) == (cause, rank)
    assert said in verdict.what["en"]


def test_a_bar_in_the_one_log_of_a_terminal_is_the_first_ranks() -> None:
    verdict = verdict_of(MAPPING + _wait(1, 1) + _wait(2, 1))
    assert (verdict.cause, verdict.rank) == ("peer-busy", 0)
    assert "needs about 72 min in all" in verdict.remedy["en"]
    # It waits itself.
    assert verdict_of(MAPPING + _wait(0, 1) + _wait(1, 1)).cause == "peer-late"


def test_what_another_process_of_ray_says_below_is_its_end() -> None:
    waits = "".join(
        f"(RayTrainWorker pid=7, ip=10.0.0.7) {line}\n" for line in _wait(1, 88).splitlines()
    )
    done = "(RayTrainWorker pid=9, ip=10.0.0.9) Training finished. Uploading.\n"
    assert verdict_of(waits + done).cause == "peer-finished"
    assert verdict_of(waits + done.replace("9", "7")).cause == "peer-late"


def test_ranks_of_hccl_that_come_late_are_told_with_its_limit() -> None:
    said = "[ERROR] 2024-01-01-10:00:00 (PID:77, Device:0, RankID:0) ERR02200 DIST call hccl api failed.\nEI0006: 2024-01-01-10:00:00.000.001 Getting socket times out. Reason: Remote Rank did not send the data in time.\n"
    verdict = _of(
        {0: said, 5: "Loading checkpoint shards:  20%|██ | 3/15 [02:10<08:40, 43.4s/it]\n"}
    )
    assert (verdict.cause, verdict.rank) == ("peer-busy", 5)
    assert "HCCL_CONNECT_TIMEOUT" in verdict.remedy["en"]


def test_the_rank_that_a_report_names_is_told() -> None:
    report = "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n\t   - [3] finished collective #87, but didn't join collective #88 (count from 1)\n"
    verdict = verdict_of(_wait(0, 88) + report)
    assert (verdict.cause, verdict.rank) == ("peer-silent", 3)
    lock = "[rank3]: Waiting for file lock /tmp/c.lock\n"
    verdict = verdict_of(lock + _wait(0, 88) + report.replace("[3]", "[2, 3]"))
    assert "rank 3 says: “Waiting for file lock" in verdict.what["en"]


GLOO = '[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File "/u/fit.py", line {at}, in <module>\n[rank{rank}]:     {line}\n[rank{rank}]: RuntimeError: {said}\n'
OUT = "[../gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete"
CLOSED = "[../gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.7]:5264"


def test_lines_of_the_script_at_which_ranks_stood_are_compared() -> None:
    first = GLOO.format(rank=0, at=9, line="dist.barrier()", said=OUT)
    last = GLOO.format(rank=1, at=30, line="loss.backward()", said=CLOSED)
    verdict = _of({0: first, 1: last})
    assert verdict.cause == "rank-mismatch"
    assert (
        "rank 0 at `dist.barrier()` (/u/fit.py:9), rank 1 at `loss.backward()`"
        in verdict.what["en"]
    )
    # Who lost a connection notices it anywhere.
    both = {0: first.replace(OUT, CLOSED), 1: last}
    assert _of(both).cause == "peer-lost"
    # A rank that says nothing counts more.
    assert _of({0: first, 1: last, 2: STEP}).rank == 2


def test_a_rank_whose_connection_ended_is_not_called_slow() -> None:
    verdict = _of({0: MAPPING, 1: GLOO.format(rank=1, at=9, line="dist.barrier()", said=CLOSED)})
    assert (verdict.cause, verdict.rank) == ("peer-silent", 0)
    assert "Rank 0 had ended" in verdict.what["en"]


def test_the_abort_of_a_heartbeat_monitor_is_no_crash() -> None:
    said = "[rank4]:[F0101 07:12:01.9 ProcessGroupNCCL.cpp:1557] [PG ID 0 PG GUID 0(default_pg) Rank 4] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives.\n"
    verdict = verdict_of(f"{STEP}{said}Fatal Python error: Aborted\n")
    assert (verdict.cause, verdict.rank) == ("peer-late", 4)
    assert "heartbeat monitor ended it" in verdict.what["en"]


REFUSED = "[W0101 08:00:{at} socket.cpp:752] [c10d] The client socket has failed to connect to [n1]:29500 (errno: {errno}).\n"
GAVE_UP = "[E0101 08:01:10.1 socket.cpp:1019] [c10d] The client socket has timed out after 60000ms while trying to connect to (n1, 29500).\n"


def test_a_port_that_refuses_is_one_where_nobody_listens() -> None:
    text = REFUSED.format(at="10.1", errno="111 - Connection refused") + GAVE_UP
    assert "Nobody listens at n1, port 29500" in verdict_of(text).what["en"]
    assert "on its own machine (localhost" in verdict_of(text.replace("n1", "localhost")).what["en"]
    text = REFUSED.format(at="10.1", errno="110 - Connection timed out") + GAVE_UP
    assert "cannot reach the meeting point of the ranks at n1" in verdict_of(text).what["en"]


def test_ranks_in_the_log_of_another_machine_are_missed() -> None:
    texts = (
        "".join(_wait(rank, 88) for rank in range(4)),
        "[rank4]: step 8 loss 2\n[rank5]: step 8 loss 2\n",
    )
    with ExitStack() as stack:
        sources: list[Source] = []
        for number, text in enumerate(texts):
            fd = os.memfd_create("log")
            stack.callback(os.close, fd)
            os.write(fd, text.encode())
            sources.append(Source(f"node{number}.log", lambda fd=fd: os.dup(fd)))
        verdict = judge(sources)
    assert verdict.cause == "peer-silent"
    assert "Rank 4, 5 did not come" in verdict.what["en"]


def test_the_one_rank_that_says_nothing_in_the_log_of_all_is_named() -> None:
    told = verdict_of("".join(_wait(rank, 4, "BROADCAST", 112) for rank in (1, 2, 3, 6, 5, 4, 7)))
    assert "rank 0 says nothing of it here" in told.what["en"]
    # Half of the ranks are those of another group, or of another machine.
    other = verdict_of("".join(_wait(rank, 4, "BROADCAST", 112) for rank in (1, 3, 5, 7)))
    assert "says nothing" not in other.what["en"]
    # Who is elsewhere has said so.
    apart = verdict_of("".join(_wait(rank, 4 + (rank == 3)) for rank in (1, 2, 3)))
    assert "says nothing" not in apart.what["en"]


def test_all_cards_of_a_machine_that_wait_alike_are_all_ranks() -> None:
    assert verdict_of("".join(_wait(rank, 88) for rank in range(8))).cause == "link-stuck"
    # One is missing.
    assert verdict_of("".join(_wait(rank, 88) for rank in range(7))).cause == "peer-late"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("data", "Running tokenizer on dataset (num_proc=8):  20%|██ | 2/9 [01:00<02:00, 1 examples/s]"),
        ("data", " > building shuffle index with split [0, 9) and [9, 9) ..."),
        ("data", "Generating train split: 99 examples [00:10, 9 examples/s]"),
        ("save", "Model weights saved in /o/c-9/model-00001-of-00009.safetensors"),
        ("save", "[2024-01-01 10:00:00,000] [INFO] [torch_checkpoint_engine.py:21:save] [Torch] Saving /o/global_step9/mp_rank_00_model_states.pt..."),
        ("compile", "Using /root/.cache/torch_extensions/py310_cu121 as PyTorch extensions root..."),
        ("load", "Loading checkpoint shards:  33%|███ | 5/15 [10:00<20:00, 99s/it]"),
        ("evaluate", "***** Running Evaluation *****"),
        ("done", "Early stopping triggered after 3 epochs without improvement"),
        ("", "early_stopping_patience: 3"),
        ("ask", "(Pdb) "),
        ("ask", "wandb: Enter your choice: "),
        ("done", "{'train_runtime': 912.1, 'train_loss': 0.2, 'epoch': 3.0}"),
        ("", "step 9 val loss 2.1"),
        ("", "epoch 3 done"),
        ("", "  3%|▏ | 3/99 [29:01<10:00,  1s/it]"),
    ],
)  # fmt: skip
def test_what_a_rank_does_is_told_by_its_last_line(name: str, line: str) -> None:
    found = doing(lines_of(0, f"{STEP}{line}\n".encode(), 2024))
    assert found is not None
    assert found.name == name


def test_a_file_that_is_carried_at_the_end_is_not_fetched() -> None:
    carried = "model.safetensors:  22%|██ | 1.09G/4.95G [28:31<41:02, 636kB/s]\n"
    found = doing(lines_of(0, f"{{'train_runtime': 912.1}}\n{carried}".encode(), 2024))
    assert found is not None
    assert found.name == "save"


def test_every_form_has_its_words() -> None:
    english = words("en")
    assert {f"busy-{name}" for name, *_ in rows("jumar.why", "doings.tsv")} <= set(english)
    for language in LANGUAGES:
        told = words(language)
        assert list(told) == list(english)
        for name, sentences in told.items():
            assert sentences.keys() == {"what", "remedy"}
            for key, text in sentences.items():
                assert text.strip() == text != ""
                assert set(_NAME.findall(text)) == set(_NAME.findall(english[name][key]))


def test_ranks_are_listed_shortly() -> None:
    assert listed([0, 2, 3, 4, 6, 7]) == "0, 2-4, 6, 7"
    assert listed(range(0, 4000, 2)).endswith("28, 30, …")
