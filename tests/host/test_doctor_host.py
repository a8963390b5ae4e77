"""Faults of the shell's variables and of the host: each is found, with the line that fixes it."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.host.conftest import GIB, FakeMachine, Space, smi_table

from jumar.host.findings import Verdict

FAIL, WARN, OK, UNKNOWN = Verdict.FAIL, Verdict.WARN, Verdict.OK, Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("value", "words", "fix"),
    [
        ("0, 1", "a space ends the list, so it means 0 only", "=0,1"),
        ("1,0", "must ascend", "=0,1"),
        ("0,0", "listed twice", "=0"),
        ("0,7", "there are 2 cards", "=0"),
        ("0-1", "only numbers separated by commas", "unset"),
        ("0,,1", "only numbers separated by commas", "=0,1"),
        ("", "set but empty", "unset"),
    ],
)
def test_a_list_of_visible_devices_that_means_something_else(
    well: FakeMachine, value: str, words: str, fix: str
):
    well.environ["ASCEND_RT_VISIBLE_DEVICES"] = value
    seen, told = well.found("visible-devices", FAIL)
    assert words in seen
    assert fix in told


def test_a_good_list_of_visible_devices(well: FakeMachine):
    well.environ["ASCEND_RT_VISIBLE_DEVICES"] = "1"
    assert well.found("visible-devices", OK)[0].endswith("(1 card of 2)")


@given(value=st.text("0123, ;-x", max_size=12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_the_list_is_the_fix_makes_it_good(well: FakeMachine, value: str):
    well.environ["ASCEND_RT_VISIBLE_DEVICES"] = value
    (result,) = well.examine("visible-devices").results
    if result.verdict is OK:
        numbers = [int(word) for word in value.split(",")]
        assert numbers == sorted(set(numbers))
        assert numbers[-1] < 2
        return
    assert result.verdict is FAIL
    _, _, fixed = (result.fix or "").partition("ASCEND_RT_VISIBLE_DEVICES=")
    del well.environ["ASCEND_RT_VISIBLE_DEVICES"]
    if fixed:
        well.environ["ASCEND_RT_VISIBLE_DEVICES"] = fixed
    assert well.verdicts("visible-devices") == {OK}


def test_a_list_for_cuda_chooses_no_npu(well: FakeMachine):
    well.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
    assert well.found("visible-devices", WARN)[1] == "export ASCEND_RT_VISIBLE_DEVICES=0,1"


@pytest.mark.parametrize(
    ("variables", "words", "fix"),
    [
        ({"HCCL_CONNECT_TIMEOUT": "30"}, "between 120 and 7200", "unset HCCL_CONNECT_TIMEOUT"),
        ({"HCCL_IF_BASE_PORT": "many"}, "between", "unset HCCL_IF_BASE_PORT"),
        ({"HCCL_IF_IP": "10.0.0"}, "not an IP address", "unset HCCL_IF_IP"),
        ({"HCCL_SOCKET_IFNAME": "eth9"}, "is not a network interface", "=enp1"),
        ({"RANK_TABLE_FILE": "/tmp/no.json"}, "which does not exist", "unset RANK_TABLE_FILE"),
        (
            {"RANK_TABLE_FILE": "/tmp/no.json", "CM_CHIEF_IP": "10.0.0.1"},
            "both set",
            "unset RANK_TABLE_FILE",
        ),
    ],
)
def test_variables_that_hccl_cannot_use(
    bare: FakeMachine, variables: dict[str, str], words: str, fix: str
):
    bare.environ |= variables
    seen, told = bare.found("hccl-variables", FAIL)
    assert words in seen
    assert fix in told


def test_interface_names_may_be_prefixes(well: FakeMachine):
    well.environ["HCCL_SOCKET_IFNAME"] = "enp,eth"
    assert well.verdicts("hccl-variables") == {OK}


def port_line(port: int, state: str = "0A") -> str:
    return f"   0: 00000000:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 0\n"


def test_a_port_of_hccl_that_somebody_listens_on(well: FakeMachine):
    well.write("proc/net/tcp6", port_line(60003) + port_line(50010))
    seen, fix = well.found("hccl-ports", FAIL)
    assert seen == "HCCL's ports 60003 are in use"
    assert "export HCCL_IF_BASE_PORT=50100" in fix


def test_ports_taken_while_jobs_run_may_be_their_own(well: FakeMachine):
    well.add_smi(table=smi_table(processes=[(0, 4711, "python")]))
    well.write("proc/net/tcp", port_line(60003))
    assert well.verdicts("hccl-ports") == {WARN}


def test_a_port_that_is_only_waiting_is_free(well: FakeMachine):
    well.write("proc/net/tcp", port_line(60003, state="06"))
    assert well.verdicts("hccl-ports") == {OK}


def test_another_base_port_is_respected(well: FakeMachine):
    well.environ["HCCL_IF_BASE_PORT"] = "61000"
    well.write("proc/net/tcp", port_line(60003))
    assert well.found("hccl-ports", OK)[0] == "ports 61000 to 61031 are free"


def test_ports_that_the_system_may_give_away(well: FakeMachine):
    well.write("proc/sys/net/ipv4/ip_local_reserved_ports", "\n")
    seen, fix = well.found("hccl-ports", WARN)
    assert "the system may assign them to any process" in seen
    assert fix == "sudo sysctl -w net.ipv4.ip_local_reserved_ports=60000-60031"


def test_too_few_processors_for_the_cards(well: FakeMachine):
    well.write("proc/self/status", "Cpus_allowed_list:\t0-1,32\n")
    seen, fix = well.found("cpus", WARN)
    assert "3 CPUs for 2 cards" in seen
    assert "at least 8" in fix


def test_processors_far_from_a_card(well: FakeMachine):
    well.write("proc/self/status", "Cpus_allowed_list:\t0-15\n")
    seen, fix = well.found("cpus", WARN)
    assert "near card 0000:C1:00.0" in seen
    assert "NUMA" in fix


def test_little_memory(bare: FakeMachine):
    bare.write("proc/meminfo", "MemAvailable: 1048576 kB\n")
    assert bare.found("memory", WARN)[0] == "1.0 GiB of memory left"


def test_a_small_control_group(bare: FakeMachine):
    bare.write("sys/fs/cgroup/memory.max", str(9 * GIB))
    bare.write("sys/fs/cgroup/memory.current", str(7 * GIB))
    seen, fix = bare.found("memory", WARN)
    assert seen == "2.0 GiB of memory left"
    assert "--memory" in fix


def test_the_small_shm_of_a_container(bare: FakeMachine):
    bare.space["dev/shm"] = Space(total=64 << 20)
    bare.write(".dockerenv")
    seen, fix = bare.found("shm", WARN)
    assert "64 MiB" in seen
    assert "--shm-size" in fix


@pytest.mark.parametrize(("left", "verdict"), [(GIB // 2, FAIL), (5 * GIB, WARN)])
def test_a_full_disk(bare: FakeMachine, left: int, verdict: Verdict):
    bare.space["tmp"] = Space(free=left)
    seen, fix = bare.found("disk", verdict)
    assert seen.endswith("/tmp")
    assert "du -xh" in fix


def test_few_open_files(bare: FakeMachine):
    bare.write(
        "proc/self/limits", "Max open files            1024                 4096      files\n"
    )
    assert bare.found("limits", WARN)[1] == "ulimit -n 65536"


@pytest.mark.parametrize("check", ["hccl-ports", "cpus", "memory", "limits"])
def test_a_proc_that_cannot_be_read_leaves_it_unknown(bare: FakeMachine, check: str):
    for place in ("net/tcp", "self/status", "meminfo", "self/limits"):
        (bare.root / "proc" / place).unlink()
    assert bare.verdicts(check) == {UNKNOWN}
