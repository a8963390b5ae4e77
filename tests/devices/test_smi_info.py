"""Layouts of `npu-smi info`: hand-made tables, then tables of any shape."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.devices.npu import smi_to_cards
from jumar.devices.smi_info import SmiInfo, read_info
from jumar.devices.text import CannotRead
from jumar.spec.devices import Card

SAMPLES = Path(__file__).parent / "samples"


def info(name: str) -> SmiInfo:
    return read_info((SAMPLES / name).read_text("utf-8"))


def cards(name: str) -> tuple[Card, ...]:
    return smi_to_cards(info(name))


def folded(text: str) -> str:
    """As a terminal of 80 columns shows it and gives it to the clipboard."""
    return _folded_at(80, text)


def folded_twice(text: str) -> str:
    return _folded_at(45, text)


def _folded_at(width: int, text: str) -> str:
    lines = text.splitlines()
    return "\n".join(line[at : at + width] for line in lines for at in range(0, len(line), width))


def with_single_blanks(text: str) -> str:
    """As a web page shows it."""
    return re.sub(" +", " ", text)


def shown_twice(text: str) -> str:
    return text + text


def without_borders(text: str) -> str:
    """As filters of lines and test data of other tools leave it."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("+"))


def behind_remarks(text: str) -> str:
    """As programs quote it."""
    return "\n".join(f"    line {at % 2} ==> {line}" for at, line in enumerate(text.splitlines()))


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.glob("info_[!q]*.txt")))
@pytest.mark.parametrize(
    "passed_on",
    [folded, folded_twice, with_single_blanks, shown_twice, without_borders, behind_remarks],
)
def test_a_table_means_the_same_after_a_trip_through_a_clipboard(
    name: str, passed_on: Callable[[str], str]
):
    text = (SAMPLES / name).read_text("utf-8")
    assert read_info(passed_on(text)) == read_info(text)


def test_memory_in_other_units_is_told_in_mb():
    table = """\
| NPU   Name    | Health        | Power(W)    Temp(C)                          |
| Chip          | Bus-Id        | AICore(%)   Memory-Usage(GB)  HBM-Usage(GB)  |
+===============+===============+==============================================+
| 0     910B2   | OK            | 88.4        46                               |
| 0             | 0000:C1:00.0  | 0           0    / 0          4.5 / 64       |
"""
    (card,) = smi_to_cards(read_info(table))
    assert (card.memory_used_mb, card.memory_total_mb) == (4608, 65536)


def test_hbm_that_is_not_told_is_not_nothing():
    table = """\
| NPU   Name    | Health        | Power(W)    Temp(C)                          |
| Chip          | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)  |
+===============+===============+==============================================+
| 4     910B3   | Alarm         | 71.9        NA                               |
| 0             | 0000:C1:00.0  | NA          0    / 0          NA             |
+===============+===============+==============================================+
| 5     910B3   | Critical      | NA          NA                               |
| 0             | NA            | NA          NA   / NA         NA   / NA      |
"""
    for card in smi_to_cards(read_info(table)):
        assert (card.memory_used_mb, card.memory_total_mb, card.utilisation_pct) == (None,) * 3


def test_the_memory_of_a_910_of_21_is_hbm():
    first, second = cards("info_910_21.txt")
    assert (first.id, first.name, first.generation, first.health) == (2, "910A", "910", "OK")
    assert (first.power_w, first.temperature_c, first.utilisation_pct) == (71.5, 44, 37)
    assert (first.memory_used_mb, first.memory_total_mb) == (11204, 32768)
    assert first.bus_id == "0000:5A:00.0"
    assert (second.id, second.health, second.temperature_c) == (6, "Warning", 91)
    assert info("info_910_21.txt").driver_version == "21.0.9"


def test_a2_in_a_container_keeps_its_ids_and_says_what_it_does_not_know():
    first, second = cards("info_a2_container.txt")
    assert (first.id, first.npu_id, first.generation) == (9, 9, "A2")
    assert [(p.pid, p.name, p.memory_mb) for p in first.processes] == [
        (41005, "python3.10", 28113),
        (41006, "", 28001),
    ]
    assert (second.health, second.power_w, second.temperature_c) == ("Critical", None, None)
    assert second.bus_id is None
    assert second.processes == ()


def test_a3_is_one_card_a_die_named_by_its_physical_id():
    found = cards("info_a3.txt")
    assert [card.id for card in found] == [10, 11, 12, 13]
    assert [(card.npu_id, card.chip_id) for card in found] == [(5, 0), (5, 1), (6, 0), (6, 1)]
    assert {card.generation for card in found} == {"A3"}
    assert [card.power_w for card in found] == [401.9, None, 180.0, None]
    assert [card.health for card in found] == ["OK", "OK", "Alarm", "UNKNOWN"]
    process = found[1].processes[0]
    assert (process.pid, process.container_pid, process.memory_mb) == (700101, 312, 57300)


def test_310p_is_named_by_device_and_has_plain_memory():
    found = cards("info_310p_duo.txt")
    assert [card.id for card in found] == [0, 1, 2]
    assert [card.npu_id for card in found] == [2560, 2560, 3072]
    assert [card.memory_total_mb for card in found] == [44280, 43693, 44280]
    assert {card.generation for card in found} == {"310P"}
    assert [p.name for p in found[0].processes] == ["serve|http"]
    assert found[1].processes == ()


def test_a5_has_its_name_in_a_cell_of_its_own():
    first, second = cards("info_a5.txt")
    assert (first.id, first.name, first.generation) == (3, "Ascend950DT", "A5")
    assert (first.utilisation_pct, first.memory_used_mb) == (88, 70001)
    assert [p.pid for p in first.processes] == [90210]
    assert (second.health, second.bus_id) == ("Alarm", "0000:42:00.0")


def test_a_quoted_table_cut_in_the_middle_of_a_chip():
    first, last = cards("info_quoted.txt")
    assert (first.id, first.generation, first.memory_used_mb) == (0, "910", 17)
    assert (last.id, last.power_w, last.memory_total_mb) == (7, 73.3, None)


def test_two_rows_with_one_physical_id_are_one_card():
    assert len(info("info_soft_share.txt").chips) == 2
    assert [card.id for card in cards("info_soft_share.txt")] == [4]


@pytest.mark.parametrize("ends", ["\r\n", "\n"])
def test_line_ends_colours_and_noise_between_the_rows_do_not_matter(ends: str):
    text = (SAMPLES / "info_a3.txt").read_text()
    noisy = ends.join(
        part
        for line in text.splitlines()
        for part in (f"\x1b[1m{line}\x1b[0m", "驱动警告: retry 3", "2025-01-01 INFO up")
    )
    assert read_info(noisy) == read_info(text)


def test_a_table_shown_twice_is_read_once_and_the_later_wins():
    text = (SAMPLES / "info_a5.txt").read_text()
    twice = read_info(text + text.replace("310.5", "311.5"))
    assert [chip.power_w for chip in twice.chips] == [311.5, 199.9]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\ndcmi model initialized failed\n",
        "usage: npu-smi info [-t type] | [-h]",
        "+-----+\n| npu-smi 24 Version: 24 |\n+-----+\n",
        "\0\0\0",
    ],
)
def test_what_is_no_table_cannot_be_read(text: str):
    with pytest.raises(CannotRead):
        read_info(text)


# Tables of any shape -----------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    npu: int
    chip: int
    other_id: int
    name: str
    health: str
    power: float | None
    temperature: int
    aicore: int
    memory: tuple[int, int]
    hbm: tuple[int, int]


rows = st.builds(
    Row,
    npu=st.integers(0, 4096),
    chip=st.integers(0, 3),
    other_id=st.integers(0, 63),
    name=st.sampled_from(
        ["910A", "910B", "910B4", "Ascend910", "310P3", "Ascend950PR", "Ascend 910"]
    ),
    health=st.sampled_from(["OK", "Warning", "Alarm", "Critical", "UNKNOWN"]),
    power=st.none() | st.integers(0, 9999).map(lambda n: n / 10),
    temperature=st.integers(-9, 120),
    aicore=st.integers(0, 100),
    memory=st.tuples(st.integers(0, 99999), st.integers(0, 99999)),
    hbm=st.tuples(st.integers(0, 99999), st.integers(1, 131072)),
)


@dataclass(frozen=True)
class Layout:
    other_id: str | None
    has_hbm: bool
    has_bus: bool
    extra: bool
    swapped: bool
    widths: tuple[int, int, int]
    gap: int


layouts = st.builds(
    Layout,
    other_id=st.sampled_from([None, "Device", "Phy-ID"]),
    has_hbm=st.booleans(),
    has_bus=st.booleans(),
    extra=st.booleans(),
    swapped=st.booleans(),
    widths=st.tuples(st.integers(24, 40), st.integers(14, 22), st.integers(60, 90)),
    gap=st.integers(2, 8),
)


def draw(found: list[Row], layout: Layout) -> str:
    def line(*cells: str) -> str:
        return "|" + "|".join(f" {c:<{w}}" for c, w in zip(cells, layout.widths, strict=True)) + "|"

    def cell(*parts: str) -> str:
        return (" " * layout.gap).join(f"{part:<9}" for part in parts).rstrip()

    def pair(usage: tuple[int, int]) -> str:
        return f"{usage[0]:<5}/ {usage[1]}"

    def last(*parts: str) -> str:
        return cell(*(parts[::-1] if layout.swapped else parts))

    ids = ["Chip"] + ([layout.other_id] if layout.other_id else [])
    head = [
        line(cell("NPU", "Name"), "Health", last("Power(W)", "Temp(C)")),
        line(
            cell(*ids),
            "Bus-Id" if layout.has_bus else "",
            last(
                "AICore(%)",
                *(["Fan(rpm)"] if layout.extra else []),
                "Memory-Usage(MB)",
                *(["HBM-Usage(MB)"] if layout.has_hbm else []),
            ),
        ),
    ]
    border = "+" + "+".join("=" * (w + 1) for w in layout.widths) + "+"
    lines = [border.replace("=", "-"), "| npu-smi 99.1  Version: 99.2 |", *head, border]
    for row in found:
        power = "NA" if row.power is None else str(row.power)
        numbers = [str(row.chip)] + ([str(row.other_id)] if layout.other_id else [])
        lines += [
            line(cell(str(row.npu), row.name), row.health, last(power, str(row.temperature))),
            line(
                cell(*numbers),
                "0000:C1:00.0" if layout.has_bus else "",
                last(
                    str(row.aicore),
                    *(["1200"] if layout.extra else []),
                    pair(row.memory),
                    *([pair(row.hbm)] if layout.has_hbm else []),
                ),
            ),
            border,
        ]
    return "\n".join(lines)


@settings(max_examples=300, deadline=None)
@given(st.lists(rows, min_size=1, max_size=4, unique_by=lambda r: (r.npu, r.chip)), layouts)
def test_columns_of_any_width_order_and_number_are_read_right(found: list[Row], layout: Layout):
    read = read_info(draw(found, layout))
    assert (read.tool_version, read.driver_version) == ("99.1", "99.2")
    assert read.has_phy_ids == (layout.other_id == "Phy-ID")
    assert len(read.chips) == len(found)
    for row, chip in zip(found, read.chips, strict=True):
        assert (chip.npu_id, chip.chip_id) == (row.npu, row.chip)
        assert (chip.name, chip.health) == (row.name, row.health)
        assert (chip.power_w, chip.temperature_c) == (row.power, row.temperature)
        assert chip.utilisation_pct == row.aicore
        assert chip.phy_id == (row.other_id if layout.other_id == "Phy-ID" else None)
        assert chip.device_id == (row.other_id if layout.other_id == "Device" else None)
        assert chip.memory is not None
        assert (chip.memory.used, chip.memory.total) == row.memory
        assert (chip.hbm is not None) == layout.has_hbm
        if chip.hbm is not None:
            assert (chip.hbm.used, chip.hbm.total) == row.hbm
        assert chip.bus_id == ("0000:C1:00.0" if layout.has_bus else None)
