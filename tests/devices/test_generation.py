import pytest

from jumar.devices.generation import generation_of


@pytest.mark.parametrize(
    ("name", "has_phy_ids", "generation"),
    [
        ("910", False, "910"),
        ("910A", False, "910"),
        ("910B", False, "910"),
        ("910ProB", False, "910"),
        ("Ascend 910A", False, "910"),
        ("910B1", False, "A2"),
        ("910B2C", False, "A2"),
        ("910B4-1", False, "A2"),
        ("Ascend910B3", False, "A2"),
        ("Ascend910", True, "A3"),
        ("Ascend910", False, "910"),
        ("Ascend910_9382", False, "A3"),
        ("Ascend950PR", False, "A5"),
        ("310", False, "310"),
        ("310P3", False, "310P"),
        ("310B4", False, "310B"),
        ("Ascend310P3", False, "310P"),
        ("xxx", True, None),
        ("", False, None),
    ],
)
def test_generation(name: str, has_phy_ids: bool, generation: str | None):
    assert generation_of(name, has_phy_ids=has_phy_ids) == generation
