"""Faults of cards, driver and network: each is found, with the line that fixes it."""

import os
import pwd

import pytest
from tests.host.conftest import FakeMachine, board, smi_table

from jumar.host.findings import Verdict

FAIL, WARN, OK, UNKNOWN = Verdict.FAIL, Verdict.WARN, Verdict.OK, Verdict.UNKNOWN


def test_cards_without_a_driver(bare: FakeMachine):
    bare.add_cards(8, nodes=False)
    seen, fix = bare.found("card-driver", FAIL)
    assert seen == "8 Ascend cards on the PCI bus but no /dev/davinciN: no driver"
    assert "npu-driver" in fix


def test_network_chips_of_the_same_vendor_are_no_cards(bare: FakeMachine):
    bare.add_cards(1, nodes=False)
    bare.write("sys/bus/pci/devices/0000:c0:00.0/class", "0x020000\n")
    assert bare.verdicts("card-driver") == {UNKNOWN}


def test_cards_that_a_container_was_not_given(bare: FakeMachine):
    bare.add_cards(2, nodes=False)
    bare.write(".dockerenv")
    seen, fix = bare.found("card-driver", FAIL)
    assert "none passed to this container" in seen
    assert "--device /dev/davinci0" in fix


def test_a_card_that_the_driver_left_out(well: FakeMachine):
    (well.root / "dev/davinci1").unlink()
    seen, fix = well.found("card-driver", WARN)
    assert seen == "1 of 2 cards have no /dev/davinciN"
    assert "dmesg" in fix


def test_a_shared_device_file_is_missing(well: FakeMachine):
    (well.root / "dev/hisi_hdc").unlink()
    seen, fix = well.found("device-nodes", FAIL)
    assert "/dev/hisi_hdc does not" in seen
    assert "/dev" in fix
    well.write(".dockerenv")
    assert "docker run --device /dev/hisi_hdc" in well.found("device-nodes", FAIL)[1]


def test_a_user_outside_the_group_of_the_devices(bare: FakeMachine):
    bare.add_cards(2, mode=0o660)
    gid = (bare.root / "dev/davinci0").stat().st_gid
    bare.uid, bare.groups = 4242, frozenset({4242})
    seen, fix = bare.found("device-permissions", FAIL)
    assert seen == "this user cannot read and write /dev/davinci0 and 4 more"
    assert "usermod -aG HwHiAiUser $USER" in fix
    bare.groups = frozenset({4242, gid})
    assert bare.verdicts("device-permissions") == {OK}


def test_the_group_of_the_devices_is_named(bare: FakeMachine):
    if os.getuid() != 0:
        pytest.skip("only root can give files away")
    bare.add_cards(1, mode=0o640)
    for place in (bare.root / "dev").iterdir():
        os.chown(place, 0, 1777)
    bare.write("etc/group", "wheel:x:10:\nnpuusers:x:1777:ann\n")
    assert "usermod -aG npuusers" in bare.found("device-permissions", FAIL)[1]
    bare.groups = frozenset({1777})
    seen, _ = bare.found("device-permissions", FAIL)
    assert "cannot read and write /dev/davinci0" in seen


def test_no_npu_smi_beside_device_files(well: FakeMachine):
    (well.root / "usr/local/bin/npu-smi").unlink()
    assert "PATH" in well.found("npu-smi", FAIL)[1]
    well.write(".dockerenv")
    assert "docker run -v" in well.found("npu-smi", FAIL)[1]


def test_a_driver_that_npu_smi_cannot_reach(well: FakeMachine):
    well.add_tool("npu-smi", "echo 'dcmi module initialize failed. ret is -8005'; exit 1")
    seen, fix = well.found("npu-smi", FAIL)
    assert "refused: dcmi module initialize failed" in seen
    assert "lsmod" in fix


def test_npu_smi_without_the_libraries_of_the_driver(well: FakeMachine):
    message = "npu-smi: error while loading shared libraries: libdrvdsmi_host.so: cannot open"
    well.add_tool("npu-smi", f"echo '{message}' >&2; exit 127")
    assert "LD_LIBRARY_PATH=/usr/local/Ascend/driver" in well.found("npu-smi", FAIL)[1]


def test_a_table_without_a_chip(well: FakeMachine):
    well.add_smi(table=smi_table(0))
    assert well.found("npu-smi", FAIL)[0] == "npu-smi responds but shows no chip"


def test_firmware_that_does_not_go_with_the_driver(well: FakeMachine):
    well.add_smi(boards={1: board(1, compatibility="Incompatible")})
    seen, fix = well.found("firmware", FAIL)
    assert seen == "driver and firmware do not fit together on card 1: Incompatible"
    assert "npu-firmware" in fix


def test_cards_with_different_firmware(well: FakeMachine):
    well.add_smi(boards={1: board(1, firmware="7.1.0.9.220")})
    seen, fix = well.found("firmware", WARN)
    assert "7.1.0.9.220, 7.3.0.1.231" in seen
    assert "firmware" in fix


def test_an_installed_driver_that_is_not_running_yet(well: FakeMachine):
    well.write("usr/local/Ascend/driver/version.info", "Version=25.2.0\nascendhal_version=7\n")
    seen, fix = well.found("driver", WARN)
    assert seen == "driver 25.2.0 is installed but 25.5.0 is running"
    assert "reboot" in fix


@pytest.mark.parametrize(
    ("state", "verdict"), [("Alarm", FAIL), ("Critical", FAIL), ("Warning", WARN)]
)
def test_a_card_that_is_not_well(well: FakeMachine, state: str, verdict: Verdict):
    well.add_smi(table=smi_table(health={1: state}))
    seen, fix = well.found("health", verdict)
    assert seen == f"NPU 1 says {state}: 80E01801"
    assert "npu-smi info -t health -i 1 -c 0" in fix


def test_a_foreign_process_on_a_card(well: FakeMachine):
    well.add_smi(table=smi_table(processes=[(1, 31337, "python")]))
    well.write("proc/31337/comm", "python\n")
    seen, fix = well.found("occupancy", WARN)
    user = pwd.getpwuid(os.getuid()).pw_name
    assert (
        f"card 1 is used by process 31337 (python), 20480 MB, owned by {user} and not part" in seen
    )
    assert fix == f"ask {user}, or end it: kill 31337"


def test_a_process_outside_this_container_is_unknown(well: FakeMachine):
    well.add_smi(table=smi_table(processes=[(1, 31337, "python")]))
    seen, fix = well.found("occupancy", UNKNOWN)
    assert "is not visible from here" in seen
    assert fix == "on the host: ps -fp 31337"


def test_a_process_of_a_job_is_not_foreign(well: FakeMachine):
    well.add_smi(table=smi_table(processes=[(1, 31337, "python")]))
    well.write("proc/31337/comm", "python\n")
    well.write("proc/31337/environ", "HOME=/\0JUMAR_JOB_ID=k7x2m9q4tb\0")
    assert well.found("occupancy", OK)[0] == "no foreign processes; processes of jobs: 1"


def test_no_address_is_a_failure_on_910_and_a_warning_later(well: FakeMachine):
    well.write("etc/hccn.conf", "address_0=10.9.0.10\n")
    well.add_tool("hccn_tool", "exit 1")
    seen, fix = well.found("device-ip", WARN)
    assert "has an address for device 1" in seen
    assert "hccn_tool -i 1 -ip -s address" in fix
    well.add_smi(table=smi_table(name="910A"))
    assert well.verdicts("device-ip") == {FAIL}


def test_an_address_missing_from_the_file_is_asked_of_the_tool(well: FakeMachine):
    (well.root / "etc/hccn.conf").unlink()
    assert well.found("device-ip", OK)[0] == "2 devices with an address"


def test_two_devices_with_one_address(well: FakeMachine):
    well.write("etc/hccn.conf", "address_0=10.9.0.10\naddress_1=10.9.0.10\n")
    seen, fix = well.found("device-ip", FAIL)
    assert "10.9.0.10" in seen
    assert "hccn_tool -i N -ip -s" in fix


def test_a_link_that_is_down(well: FakeMachine):
    well.add_hccn(link_1="DOWN")
    seen, fix = well.found("link", WARN)
    assert "no link on device 1:" in seen
    assert "hccn_tool -i 1 -optical -g" in fix


def test_a_device_that_does_not_reach_its_gateway(well: FakeMachine):
    well.add_hccn(net_health_0="Socket failed")
    seen, fix = well.found("net-health", WARN)
    assert "0: Socket failed" in seen
    assert "-netdetect -g" in fix


def test_init_is_not_a_failure(well: FakeMachine):
    well.add_hccn(net_health="Init")
    assert "2 without a detection address" in well.found("net-health", OK)[0]


def test_tls_on_some_devices_only(well: FakeMachine):
    well.add_hccn(tls_1="1")
    seen, fix = well.found("tls", FAIL)
    assert seen == "TLS is on for device 1 and off for the others"
    assert "for i in 1; do hccn_tool -i $i -tls -s enable 0; done" in fix


def test_tls_on_all_devices_is_fine(well: FakeMachine):
    well.add_hccn(tls="1")
    assert well.found("tls", OK)[0] == "TLS is on on all 2 devices"


def test_a_device_that_gives_no_answer_is_named(well: FakeMachine):
    well.add_hccn(link_1='"; exit 1; echo "')
    report = well.examine("link")
    assert [one.verdict for one in report.results] == [UNKNOWN, OK]
    assert "no answer for device 1" in report.results[0].seen


def test_inference_cards_have_no_network(well: FakeMachine):
    well.add_smi(table=smi_table(name="310P3"))
    assert all(one.verdict is OK for one in well.examine("network").results)
