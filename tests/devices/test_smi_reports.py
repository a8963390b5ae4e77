from pathlib import Path

import pytest

from jumar.devices import smi_maps, smi_reports
from jumar.devices.text import CannotRead

SAMPLES = Path(__file__).parent / "samples"


def sample(name: str) -> str:
    return (SAMPLES / name).read_text("utf-8")


def test_reports_name_their_chip_and_the_microcontroller():
    first, second, mcu = smi_reports.read_reports(sample("common_a3.txt"))
    assert (first.npu_id, first.chip_id, first.text("temperature")) == (4, 0, "49")
    assert (second.npu_id, second.chip_id, second.text("temperature")) == (4, 1, "50")
    assert [report.is_mcu for report in (first, second, mcu)] == [False, False, True]


def test_board_tells_versions_and_identity():
    board = smi_reports.read_board(sample("board_910.txt"))
    assert (board.npu_id, board.chip_id, board.chip_name) == (3, None, None)
    assert (board.software_version, board.firmware_version) == ("23.0.9", "7.1.0.9.111")
    assert (board.compatibility, board.bus_id) == ("OK", "0000:62:00.0")


def test_health_tells_the_error():
    (health,) = smi_reports.read_health(sample("health_910.txt"))
    assert (health.status, health.error_code) == ("Alarm", "80E01801")
    assert "double bit ECC" in (health.error_text or "")


def test_map_drops_microcontrollers_and_keeps_names_with_blanks():
    assert [
        (c.npu_id, c.chip_id, c.logic_id, c.phy_id) for c in smi_maps.read_map(sample("map_a3.txt"))
    ] == [
        (4, 0, 0, 8),
        (4, 1, 1, 9),
    ]
    first, second = smi_maps.read_map(sample("map_910.txt"))
    assert (first.name, first.phy_id, second.npu_id, second.logic_id) == ("Ascend 910A", None, 5, 1)


def test_a_map_with_a_column_more_is_read_by_its_header():
    first, second = smi_maps.read_map(sample("map_a5.txt"))
    assert (first.npu_id, first.chip_id, first.phy_id, first.logic_id) == (2, 0, 4, None)
    assert (second.npu_id, second.phy_id, second.name) == (3, 6, "Ascend950DT")


def test_topology_of_a2_tells_the_cpus():
    topology = smi_maps.read_topology(sample("topo_a2.txt"))
    assert not topology.by_phy_id
    assert [topology.rows[n].cpu_affinity for n in range(4)] == [
        "72-95",
        "0-11,24-35",
        "72-95",
        "0-11,24-35",
    ]
    assert topology.rows[0].links == {0: "X", 1: "HCCS", 2: "HCCS", 3: "PIX"}


def test_topology_of_a3_is_by_physical_id_and_knows_no_cpus():
    topology = smi_maps.read_topology(sample("topo_a3.txt"))
    assert topology.by_phy_id
    assert topology.rows[6].links == {4: "HCCS_SW", 5: "HCCS_SW", 6: "X"}
    assert topology.rows[6].cpu_affinity is None


def test_a_header_that_lost_its_indent_is_still_the_header():
    text = sample("topo_a2.txt").replace("\t   NPU0", "NPU0")
    assert smi_maps.read_topology(text) == smi_maps.read_topology(sample("topo_a2.txt"))


@pytest.mark.parametrize("text", ["", "This device does not support querying topo.", "NPU0 NPU1"])
def test_no_topology_cannot_be_read(text: str):
    with pytest.raises(CannotRead):
        smi_maps.read_topology(text)


@pytest.mark.parametrize("text", ["", "Error parameter of -i\n"])
def test_no_report_cannot_be_read(text: str):
    for reader in (smi_reports.read_board, smi_reports.read_health):
        with pytest.raises(CannotRead):
            reader(text)
    with pytest.raises(CannotRead):
        smi_maps.read_map(text)
