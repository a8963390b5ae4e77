from pathlib import Path

import pytest

from jumar.devices import hccn
from jumar.devices.text import CannotRead
from jumar.launch.ascend.hccn import read_conf

SAMPLES = Path(__file__).parent / "samples"


def test_conf_is_by_physical_id_and_bad_addresses_are_none():
    ports = read_conf((SAMPLES / "hccn.conf").read_text())
    assert sorted(ports) == [0, 11, 12]
    assert ports[0].address == "10.20.0.11"
    assert (ports[11].address, ports[11].netmask) == ("10.20.0.22", None)
    assert ports[12].address is None


def test_the_tools_answers():
    assert hccn.read_ip("ipaddr:10.9.8.7\nnetmask:255.255.0.0\n") == ("10.9.8.7", "255.255.0.0")
    assert hccn.read_link("link status: DOWN\n") == "DOWN"
    assert hccn.read_net_health("net health status: Init\n") == "Init"
    tls = "dev_id:4, tls switch[1](0:disable, 1:enable), tls alarm time threshold[45]days"
    assert hccn.read_tls(tls) is True
    assert (
        hccn.read_fields("optical info:\npresent  : present\nVcc      : 3301.1 mV\n")["vcc"]
        == "3301.1 mV"
    )


@pytest.mark.parametrize("text", ["", "hccn_tool is busy, please try again.\n", "link status:\n"])
def test_a_refusal_cannot_be_read(text: str):
    for reader in (hccn.read_ip, hccn.read_link, hccn.read_tls):
        with pytest.raises(CannotRead):
            reader(text)
