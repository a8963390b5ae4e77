"""The catalogue: states by version and chip, and three ways of not being listed."""

import pytest

from jumar.port.catalogue import State, catalogue, nearest
from jumar.port.options import chip, torch_version


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("torch.nn.Linear", State.LIMITED),
        ("torch.no_grad", State.SUPPORTED),
        ("torch.std_mean", State.UNSUPPORTED),
        ("torch.Tensor.to_sparse", State.UNSUPPORTED),
        ("torch.lobpcg", State.NOT_VERIFIED),
        ("torch.no_such_function", State.NOT_TORCH),
        ("torch.nn.functional.no_such", State.NOT_TORCH),
        ("torch.float32", State.NEUTRAL),
        ("torch.nn.Parameter", State.NEUTRAL),
        ("torch.nn", State.NEUTRAL),
        ("torch._private", State.NEUTRAL),
    ],
)
def test_states(name: str, state: State) -> None:
    assert catalogue((2, 13), "a2").api(name).state is state


def test_limits_are_data() -> None:
    api = catalogue((2, 13), "a2").api("torch.Tensor.bernoulli")
    assert api.dtypes == ("fp16", "fp32")
    assert api.may_run_on_cpu


def test_chip_and_version_choose_the_row() -> None:
    assert catalogue((2, 7), "a2").api("torch.accelerator.device_count").state is State.SUPPORTED
    assert (
        catalogue((2, 7), "950").api("torch.accelerator.device_count").state is State.NOT_VERIFIED
    )
    assert catalogue((2, 13), "950").api("torch.accelerator.device_count").state is State.SUPPORTED
    assert nearest((2, 9)) == (2, 7)
    assert nearest((1, 11)) == (2, 7)
    assert nearest((3, 0)) == (2, 13)


def test_versions_and_chips_are_read_as_people_write_them() -> None:
    assert torch_version("2.7.1") == (2, 7)
    assert (chip("A2"), chip("910B"), chip("a5")) == ("a2", "a2", "950")
