"""Tables among the settings."""

from pathlib import Path

import pytest

from jumar.errors import BadInput
from jumar.settings import load


def test_mounts_come_from_a_variable_or_a_table(tmp_path: Path) -> None:
    home = {"JUMAR_HOME": str(tmp_path)}
    words = " /data/ = /srv/nfs , /dlwsdata/storage=/srv/a=b"
    assert load({**home, "JUMAR_MOUNTS": words}).mounts == {
        "/data": "/srv/nfs",
        "/dlwsdata/storage": "/srv/a=b",
    }
    (tmp_path / "config.toml").write_text(
        '[mounts]\n"/data" = "/srv"\n[kubernetes]\nchip = "910"\n'
    )
    found = load(home)
    assert (found.mounts, found.kubernetes) == ({"/data": "/srv"}, {"chip": "910"})
    assert load({**home, "JUMAR_KUBERNETES": '{"chip": "950"}'}).kubernetes == {"chip": "950"}


@pytest.mark.parametrize(
    "variables",
    [
        {"JUMAR_MOUNTS": "/data"},
        {"JUMAR_MOUNTS": "data=/srv"},
        {"JUMAR_MOUNTS": "/=/srv"},
        {"JUMAR_MOUNTS": "/proc/x=/srv"},
        {"JUMAR_KUBERNETES": "[1]"},
        {"JUMAR_KUBERNETES": "{"},
    ],
)
def test_tables_that_mean_nothing_are_refused(variables: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=next(iter(variables))):
        load({"JUMAR_HOME": str(tmp_path), **variables})
