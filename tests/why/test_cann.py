"""What CANN reports beside the numbers of torch_npu and MindSpore: which of it is a fact, and what is told of it."""

import os

import pytest
from tests.why.logs import verdict_of

from jumar.spec.verdicts import Verdict
from jumar.why.cann import before_report, report_in
from jumar.why.judging import judge
from jumar.why.reading import lines_of
from jumar.why.signs import Source

_WAITS = (
    "RuntimeError: NPU function error: AclrtSynchronizeDeviceWithTimeout, error code is 507048\n"
    "EI0002: [PID: 1] 2026-03-01-10:31:1{rank}.000.001 The wait execution of the Notify register times out. Reason: The Notify register"
    " has not received the Notify record from remote rank [{peer}].base information: [taskID[5], tag[AllReduce_1]]\n"
)
_TIMES_OUT = (
    "EI0006: [PID: 7] 2026-03-01-10:00:00.000.001 Getting socket times out. Reason: The remote does not connect\n"
    "        Solution: 1. Check the rank service processes with other errors.2. See the time.\n"
)


def _of(logs: dict[int, str]) -> Verdict:
    files = {rank: os.memfd_create("log") for rank in logs}
    try:
        for rank, fd in files.items():
            os.write(fd, logs[rank].encode())
        return judge(
            [
                Source(f"rank{rank}.log", lambda fd=fd: os.dup(fd), rank)
                for rank, fd in files.items()
            ]
        )
    finally:
        for fd in files.values():
            os.close(fd)


def _waiting(**peers: int) -> dict[int, str]:
    return {int(name[1:]): _WAITS.format(rank=name[1:], peer=peer) for name, peer in peers.items()}


def test_of_ranks_that_wait_for_each_other_the_last_is_named() -> None:
    verdict = _of(_waiting(r0=1, r1=2, r2=9))
    assert verdict.rank == 9
    assert "for rank 9, which did not take part" in verdict.what["en"]
    assert "names rank 1" in verdict.what["en"]
    assert "These ranks say so" not in verdict.what["en"]
    assert verdict.remedy["en"].startswith("Look at rank 9 first")


def test_of_ranks_that_wait_in_a_ring_none_is_named_as_the_last() -> None:
    verdict = _of(_waiting(r0=1, r1=2, r2=0))
    assert "names rank" not in verdict.what["en"]
    assert "These ranks say so: 0, 1, 2" in verdict.what["en"]


def test_two_that_wait_for_each_other_in_different_operations_are_told_so_first() -> None:
    logs = _waiting(r0=1, r1=0)
    same = _of(logs)
    assert "different operations (rank" not in same.what["en"]
    verdict = _of({**logs, 1: logs[1].replace("AllReduce", "AllGather")})
    assert "0: AllReduce, 1: AllGather" in verdict.what["en"]
    assert verdict.remedy["en"].startswith("They do not call the same collectives")


def test_the_log_of_the_rank_that_is_waited_for_is_shown_as_it_ends() -> None:
    logs = {**_waiting(r0=1, r1=2), 2: "step 99\nsaving to /mnt/nas\n"}
    verdict = _of(logs)
    assert verdict.rank == 2
    assert "The last thing it says: “saving to /mnt/nas”" in verdict.what["en"]
    assert "saving to /mnt/nas" in verdict.what["zh"]


def test_a_bar_of_a_rank_that_still_prepares_is_told_first() -> None:
    verdict = verdict_of(
        "Running tokenizer on dataset (num_proc=16):  41%|####      | 412000/1000000 [29:50<42:10]\n"
        "[rank1]: RuntimeError: HCCL function error: HcclCommInitRootInfo(), error code is 9\n"
        f"[rank1]: {_TIMES_OUT}"
    )
    assert "still preparing data while the others (1) waited" in verdict.what["en"]
    assert verdict.remedy["en"].startswith("Prepare the data before the training")
    assert "HCCL_CONNECT_TIMEOUT" in verdict.remedy["en"]


def test_a_bar_of_a_rank_that_still_loads_is_told_first() -> None:
    verdict = verdict_of(
        "Loading checkpoint shards:  13%|#3        | 4/30 [02:00<13:00, 30.0s/it]\n"
        "[rank2]: RuntimeError: HCCL function error: HcclBroadcast, error code is 9\n"
        f"[rank2]: {_TIMES_OUT}"
    )
    assert "still loading while the others (2) waited" in verdict.what["en"]
    done = verdict_of(
        "Loading checkpoint shards:  13%|#3  | 4/30 [02:00<13:00]\rLoading checkpoint shards: 100%|####| 30/30 [15:00<00:00]\n"
        f"[rank2]: RuntimeError: HCCL function error: HcclBroadcast, error code is 9\n[rank2]: {_TIMES_OUT}"
    )
    assert "still loading" not in done.what["en"]
    assert verdict.remedy["en"].startswith("Put the checkpoint on a local disk")


def test_what_may_be_is_no_fact_and_is_not_quoted_as_advice() -> None:
    verdict = verdict_of(f"RuntimeError: HCCL function error: x(), error code is 9\n{_TIMES_OUT}")
    assert "The message itself says" not in verdict.remedy["en"]
    lines = lines_of(0, f"RuntimeError: x\n{_TIMES_OUT}".encode(), 2026)
    report = report_in(lines)
    assert report is not None
    assert "service processes" not in report.facts
    assert report.said.startswith("Getting socket times out")
    assert report.advised.startswith("1. Check the rank")
    assert list(before_report(lines)) == ["RuntimeError: x", ""]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # What states a rule, not what each layer says when it hands the error on.
        (
            "EZ9999: Inner Error!\n"
            "EZ9999: [PID: 7] 2026-03-01-10:00:00.000.001 tiling of this kernel was not done[FUNC:Tiling]\n"
            "        TraceBack (most recent call last):\n"
            "        head num of query(28) is not equal to head_num attr(32)[FUNC:CheckParams]\n"
            "        Kernel Run failed. opType: 12, FlashAttentionScore\n",
            "head num of query(28) is not equal to head_num attr(32)",
        ),
        # The title of a code of its own before the inner ones.
        (
            "EE9999: Inner Error!\n"
            "EE9999: [PID: 7] rtSetDevice execute failed, reason=[device retain error]\n"
            "[PID: 7] 2026-03-01-10:00:00.000.001 Some_Error(EL0009): The device is in a bad state.\n",
            "The device is in a bad state",
        ),
        (
            "E39999: [PID: 7] Aicpu kernel execute failed, device_id=0, msg_info:no room left for it\n",
            "no room left for it",
        ),
    ],
)
def test_the_line_that_tells_most_is_quoted(text: str, said: str) -> None:
    report = report_in(lines_of(0, text.encode(), 2026))
    assert report is not None
    assert report.said == said
    assert f"CANN says: “{said}”" in verdict_of(f"RuntimeError: ERR00100 x\n{text}").what["en"]


def test_a_refused_input_is_to_be_printed_first() -> None:
    verdict = verdict_of(
        'Traceback (most recent call last):\n  File "/u/t.py", line 3, in f\n    torch.cat([a, b])\n'
        "RuntimeError: call aclnnCat failed, detail:[PID: 7] AclNN_Parameter_Error(EZ1001): dim 1 of tensor 1 is [32], "
        "should be equal to tensor 0 [64].\n"
    )
    assert verdict.cause == "kernel-arguments"
    assert verdict.remedy["en"].startswith("Print the shapes and dtypes")
    assert "The message is" not in verdict.what["en"]


def test_versions_that_do_not_fit_are_mended_first() -> None:
    verdict = verdict_of(
        "[WARNING] ME(22,MainProcess): MindSpore version 2.5.0 and Ascend AI software package (Data Center Solution)version 7.3 does not match\n"
        "RuntimeError: Call aclnnInplaceOne failed, detail:EZ9999: Inner Error!\n"
    )
    assert verdict.remedy["en"].startswith("Mend that first")


def test_what_an_operator_refuses_is_its_inputs_fault_though_the_error_is_called_inner() -> None:
    verdict = verdict_of(
        "RuntimeError: call aclnnIndex failed, detail:EZ9999: Inner Error!\n"
        "EZ9999: [PID: 7] indices[0] shape [4,77] can not be broadcast with indices[1] shape [4,78][FUNC:Infer]\n"
    )
    assert verdict.cause == "kernel-arguments"


def test_another_rank_on_the_first_card_is_told_first() -> None:
    full = (
        "RuntimeError: NPU out of memory. Tried to allocate 270.00 MiB (NPU 0; 29.50 GiB total capacity; 3.64 GiB already allocated; "
        "3.64 GiB current active; 21.00 MiB free; 3.65 GiB reserved in total by PyTorch)\n"
    )
    assert verdict_of(f"[rank3]: {full}").remedy["en"].startswith("This is rank 3, but")
    assert "This is rank" not in verdict_of(f"[rank0]: {full}").remedy["en"]


def test_no_flash_attention_on_npus() -> None:
    missing = "ImportError: FlashAttention2 has been toggled on, but it cannot be used: the package flash_attn seems to be not installed.\n"
    mark = "[ERROR] 2026-03-01-10:02:01 (PID:7, Device:3, RankID:-1) ERR99999 UNKNOWN applicaiton exception\n"
    assert verdict_of(missing + mark).remedy["en"].startswith("On NPUs there is no flash-attn")
    assert "On NPUs there is no flash-attn" not in verdict_of(missing).remedy["en"]


def test_on_npus_the_backend_is_hccl() -> None:
    asked = "ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!\n"
    mark = "[ERROR] 2026-03-01-10:02:01 (PID:7, Device:3, RankID:-1) ERR99999 UNKNOWN applicaiton exception\n"
    assert verdict_of(asked + mark).remedy["en"].startswith("On NPUs the backend is hccl")
    assert "the backend is hccl" not in verdict_of(asked).remedy["en"]


def test_a_report_in_the_json_of_a_server_is_read_as_its_lines() -> None:
    text = (
        'AssertionError: {"message":"NPU function error: call aclnnInplaceCopy failed, error code is 161002\\n'
        "[ERROR] 2026-03-01-09:41:06 (PID:9, Device:0, RankID:-1) ERR00100 PTA call acl api failed.\\n"
        "[PID: 9] 2026-03-01-09:41:06.204.551 AclNN_Parameter_Error(EZ1001): The self tensor cannot be larger"
        ' than 8 dimensions.\\n","code":500}'
    )
    report = report_in(lines_of(0, text.encode(), 2026))
    assert report is not None
    assert report.said == "The self tensor cannot be larger than 8 dimensions"
