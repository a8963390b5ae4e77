import re
import subprocess
from collections.abc import Callable

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_torchs_own_samples_give_the_same_bits(simulated: Run) -> None:
    """A twentieth of torch's operators; the whole table: tests/inject/opinfo_table.py."""
    done = simulated(
        "../opinfo_table.py",
        "--dtypes",
        "float32,bfloat16,int64",
        "--part",
        "1/20",
        "--want",
        "0.98",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (passed, of) = re.findall(r"all dtypes: (\d+) of (\d+) operators", done.stdout)[0]
    assert int(of) > 30
    assert int(passed) / int(of) >= 0.98


def test_fused_operators_agree_with_plain_arithmetic(simulated: Run) -> None:
    """Each of them, values and gradients, one by one in the script."""
    done = simulated("fused.py")
    assert done.stdout == "all agree\nnot tried: []\n", done.stdout + done.stderr


def test_products_joined_with_collectives_are_those_of_the_whole(ranks: Run) -> None:
    done = ranks(2, "fused_collectives.py", "npu")
    assert done.returncode == 0, done.stdout + done.stderr
    # Two processes write to one pipe: lines may stand in each other.
    assert all(f"rank {rank} agrees" in done.stdout for rank in (0, 1)), done.stdout


ABSENT = """
import torch, torch_npu
print(hasattr(torch_npu, "npu_quant_matmul"), hasattr(torch_npu, "no_such_thing"))
torch_npu.npu_quant_matmul(torch.ones(2).npu())
"""


def test_an_operator_that_is_not_simulated_says_so_and_what_to_do(simulated: Run) -> None:
    done = simulated(ABSENT)
    assert done.stdout == "False False\n"
    assert "AttributeError: torch_npu.npu_quant_matmul is not simulated" in done.stderr
    assert 'hasattr(torch_npu, "npu_quant_matmul")' in done.stderr
