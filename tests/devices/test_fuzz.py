"""Damaged answers: every reader gives records or says that it cannot read, and nothing else."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.devices import hccn, smi_maps, smi_reports
from jumar.devices.npu import smi_to_cards
from jumar.devices.smi_info import read_info
from jumar.devices.text import CannotRead
from jumar.launch.ascend.hccn import read_conf

SAMPLES = sorted((Path(__file__).parent / "samples").iterdir())
READERS: list[Callable[[str], object]] = [
    lambda text: smi_to_cards(read_info(text)),
    smi_reports.read_reports,
    smi_reports.read_board,
    smi_reports.read_health,
    smi_maps.read_map,
    smi_maps.read_topology,
    read_conf,
    hccn.read_ip,
    hccn.read_tls,
    hccn.read_link,
]


@st.composite
def damaged(draw: st.DrawFn) -> str:
    lines = draw(st.sampled_from(SAMPLES)).read_text("utf-8").split("\n")
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, max(0, len(lines) - 1)))
        other = draw(st.integers(0, max(0, len(lines) - 1)))
        match draw(st.sampled_from(["drop", "double", "swap", "cut", "insert", "flip", "end"])):
            case "drop":
                del lines[at : at + 1]
            case "double":
                lines[at:at] = lines[at : at + 1]
            case "swap":
                lines[at], lines[other] = lines[other], lines[at]
            case "cut":
                lines[at] = lines[at][: draw(st.integers(0, 120))]
            case "insert":
                lines.insert(at, draw(st.text(max_size=40)))
            case "flip":
                where = draw(st.integers(0, 120))
                char = draw(st.sampled_from("|+-=/:. 0N\t\0９é驱"))
                lines[at] = lines[at][:where] + char + lines[at][where + 1 :]
            case _:
                lines = lines[: at + 1]
        lines = lines or [""]
    return "\n".join(lines)


@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=150, deadline=None)
@given(text=damaged() | st.text(max_size=300))
def test_damage_is_read_or_refused(reader: Callable[[str], object], text: str):
    try:
        reader(text)
    except CannotRead as error:
        assert error.message


@settings(max_examples=300, deadline=None)
@given(damaged())
def test_cards_of_damaged_tables_have_ids_of_their_own(text: str):
    try:
        cards = smi_to_cards(read_info(text))
    except CannotRead:
        return
    assert len({card.id for card in cards}) == len(cards)
    for card in cards:
        assert card.bus_id not in ("OK", "Warning", "Alarm", "Critical")
        assert card.memory_used_mb is None or card.memory_used_mb >= 0
