"""Checkpoints of which every rank holds other parts: none is taken for what is left of another."""

import os
from pathlib import Path

import pytest

from jumar.launch.complete import set_aside_torn


def _parameters(path: Path, *names: str) -> None:
    """As MindSpore saves them."""

    def field(number: int, value: bytes) -> bytes:
        return bytes([number << 3 | 2, len(value)]) + value

    tensor = bytes([1 << 3, 2]) + field(2, b"Float32") + field(3, bytes(8))
    path.parent.mkdir(parents=True, exist_ok=True)
    records = (field(1, field(1, name.encode()) + field(2, tensor)) for name in names)
    path.write_bytes(b"".join(records))


@pytest.mark.parametrize(
    "names",
    [
        ("rank0.ckpt", "rank1.ckpt"),
        ("net_rank_0-3.ckpt", "net_rank_1-3.ckpt"),
        ("net-00001-of-00002.ckpt", "net-00002-of-00002.ckpt"),
        ("rank_0/net-1.ckpt", "rank_1/net-1.ckpt"),
        ("stage1.ckpt", "stage2.ckpt"),
    ],
)
def test_parts_of_a_model_that_ranks_hold_are_not_what_one_of_them_has_lost(
    names: tuple[str, str], tmp_path: Path
) -> None:
    for at, (name, stage) in enumerate(zip(names, (["embed", "l0"], ["l1", "head"]), strict=True)):
        _parameters(tmp_path / name, *stage)
        os.utime(tmp_path / name, (at + 1, at + 1))
    assert set_aside_torn(str(tmp_path)) == []


def test_a_rank_that_has_removed_an_old_one_before_another_did_has_lost_none(
    tmp_path: Path,
) -> None:
    """Each keeps its last two, and one was killed before it saved the third."""
    for rank, numbers in ((1, (1, 2)), (0, (2, 3))):
        for number in numbers:
            path = tmp_path / f"rank_{rank}" / f"net-{number}.ckpt"
            _parameters(path, "embed", "l0")
            os.utime(path, (number, number))
    assert set_aside_torn(str(tmp_path)) == []


def test_what_has_lost_parts_and_has_no_others_is_still_torn(tmp_path: Path) -> None:
    for number, names in enumerate((["a", "b", "c"], ["a", "b"]), start=1):
        _parameters(tmp_path / f"net_rank_0-{number}.ckpt", *names)
        os.utime(tmp_path / f"net_rank_0-{number}.ckpt", (number, number))
    (torn,) = set_aside_torn(str(tmp_path))
    assert torn.path == str(tmp_path / "net_rank_0-2.ckpt")
