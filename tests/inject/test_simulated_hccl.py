"""Collectives as ProcessGroupHCCL has them, in two processes."""

import json

from tests.inject.conftest import Run

_HOST = "RuntimeError: No backend type associated with device type cpu"
_BYTE = "Unsupported data type at::kByte/at::kBool"
_DOUBLE = "RuntimeError: HCCL allreduce: Unsupported data type at::kDouble"
_TURNED = "RuntimeError: Tensors must be contiguous"
REFUSED = {
    "all_reduce float64": _DOUBLE,
    "all_reduce complex128": _DOUBLE,
    "reduce_scatter bool": f"RuntimeError: HCCL _reduce_scatter_base: {_BYTE}",
    "all_reduce BAND": "RuntimeError: Cannot use ReduceOp.BAND with HCCL",
    "reduce BOR": "RuntimeError: Cannot use ReduceOp.BOR with HCCL",
    "reduce_scatter BXOR": "RuntimeError: Cannot use ReduceOp.BXOR with HCCL",
    "product bfloat16": "RuntimeError: HCCL allreduce: the device does not support the data type[bfloat16] for Op[prod]",
    "factor int32": "RuntimeError: PreMulSum Data type must be half, float, bfloat16 or double",
    "functional float64": _DOUBLE,
    "functional BOR": "RuntimeError: Cannot use ReduceOp.BOR with HCCL",
    "all_reduce turned": _TURNED,
    "broadcast turned": _TURNED,
    "all_gather turned": _TURNED,
    "all_to_all turned": _TURNED,
    "all_gather gaps": "RuntimeError: Tensors must be non-overlapping and dense",
    "all_gather host input": "RuntimeError: Tensors must be NPU and dense",
    "recv from anyone": "RuntimeError: ProcessGroupHCCL does not support recv",
    **dict.fromkeys(
        (
            "all_reduce host",
            "broadcast host",
            "reduce host",
            "all_gather host",
            "into_tensor host",
            "reduce_scatter host",
            "reduce_scatter_tensor host",
            "all_to_all host",
            "all_to_all_single host",
            "scatter host",
            "gather host",
            "send host",
        ),
        _HOST,
    ),
}


def test_strict_refuses_what_hccl_refuses_and_runs_the_rest(ranks: Run) -> None:
    done = ranks(2, "hccl.py", "npu", "all", mode="strict")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) > len(REFUSED)
    for name, result in found.items():
        assert result == REFUSED.get(name), name


def test_a_chip_of_the_950_generation_sums_doubles(ranks: Run) -> None:
    done = ranks(
        2, "hccl.py", "npu", "all_reduce float64", mode="strict", JUMAR_SIM_CHIP="Ascend950PR"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"all_reduce float64": None}


def test_mode_fast_runs_what_gloo_does_not_know(ranks: Run) -> None:
    for case in ("sums with a factor", "uneven", "functional"):
        done = ranks(2, "hccl.py", "npu", case, mode="fast")
        assert json.loads(done.stdout) == {case: None}, done.stderr


def test_warn_runs_it_and_lists_it(ranks: Run) -> None:
    done = ranks(2, "hccl.py", "npu", "reduce_scatter bool")
    assert json.loads(done.stdout) == {"reduce_scatter bool": None}, done.stderr
    assert "_reduce_scatter_base of bool over hccl" in done.stderr
