"""A command for the port: what the original was told of CUDA is told of NPUs."""

import pytest

from jumar.port.command_line import ported


@pytest.mark.parametrize(
    ("command", "for_npu"),
    [
        ("python train.py --device cuda", "python train.py --device npu"),
        ("python train.py --device=cuda:1 -v", "python train.py --device=npu:1 -v"),
        ("python train.py -d cuda --backend nccl", "python train.py -d npu --backend hccl"),
        ("python train.py trainer.device=cuda", "python train.py trainer.device=npu"),
        ("python cuda.py --cuda --data data/cuda", "python cuda.py --cuda --data data/cuda"),
        ("python train.py cuda --impl cuda_ext", "python train.py cuda --impl cuda_ext"),
    ],
)
def test_only_values_of_options_change(command: str, for_npu: str) -> None:
    assert ported(tuple(command.split())) == tuple(for_npu.split())
    assert ported(("sh", "-c", command)) == ("sh", "-c", for_npu)


def test_an_option_before_a_word_that_names_no_device_is_left_whole() -> None:
    words = ("python", "train.py", "--name", "cuda run", "--empty", "")
    assert ported(words) == words
