"""The shipped tables and what they say of a CANN or a Python."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.host.matrix import Basis, TorchRow, minor_of, names_cann, shipped
from jumar.host.versions import Version

V = Version.parse
torch_rows = st.sampled_from(shipped().torch)


def test_every_row_names_its_source_and_each_release_is_there_once():
    matrix = shipped()
    assert all(row.source for row in matrix.torch + matrix.mindspore)
    assert len({row.torch_npu for row in matrix.torch}) == len(matrix.torch)
    assert len({row.mindspore for row in matrix.mindspore}) == len(matrix.mindspore)


@given(torch_rows)
def test_a_row_without_a_cann_never_claims_the_vendors_word(row: TorchRow):
    assert (row.cann is None) == (row.basis is Basis.INDEX)
    assert all(row.takes_python(python) for python in row.pythons)


def test_every_torch_in_the_table_has_its_torchvision():
    matrix = shipped()
    assert {row.torch for row in matrix.torch} <= set(matrix.torchvision)


@pytest.mark.parametrize("minor", range(1, 15))
def test_torchvision_counts_fifteen_ahead_of_torch_2(minor: int):
    assert shipped().torchvision[V(f"2.{minor}.0")][0] == V(f"0.{minor + 15}.0")


@pytest.mark.parametrize(
    ("listed", "cann", "named"),
    [
        ("8.0.RC3", "8.0.RC3", True),
        ("7.0.RC1", "7.0.RC1.alpha003", True),
        ("8.1.RC1.beta1", "8.1.RC1", True),
        ("9.1.X", "9.1.3", True),
        ("9.1.X", "9.10.0", False),
        ("8.0.0", "8.0.RC3", False),
        ("6.3.RC3", "6.3.RC3.1", False),
    ],
)
def test_which_cann_a_table_means(listed: str, cann: str, named: bool):
    assert names_cann(listed, V(cann)) is named


def test_a_python_with_no_wheel_is_not_taken_though_the_range_has_it():
    row = shipped().torch_row(V("2.8.0.post2"))
    assert row is not None
    assert row.takes_python(V("3.12.4")) is True
    assert row.takes_python(V("3.13.1")) is False
    assert minor_of(V("3.13.1")) == V("3.13")


@pytest.mark.parametrize(
    ("mindspore", "cann", "compiler", "takes"),
    [
        ("2.6.0", "8.1.RC1", None, True),
        ("2.6.0rc1", "8.1.RC1.beta1", None, True),
        ("2.10.0", "9.1.0", None, True),
        ("2.7.0", None, "7.7.0.1.238", True),
        ("2.2.14", "7.1.0", None, False),
        ("2.7.2", "8.3.RC1", None, False),
    ],
)
def test_mindspore_by_release_list_and_by_compiler(
    mindspore: str, cann: str | None, compiler: str | None, takes: bool
):
    row = shipped().mindspore_row(V(mindspore))
    assert row is not None
    assert row.takes_cann(V(cann) if cann else None, V(compiler) if compiler else None) is takes
