"""Faults as people report them, each a machine made of files. The threads are named; the trees were
written from them, so the doctor is asked as a whole and may find the fault with any of its checks."""

from collections.abc import Callable

import pytest
from tests.host.conftest import NEEDED, FakeMachine, smi_table

from jumar.host.doctor import CHECKS, examine
from jumar.host.findings import Verdict

Tree = Callable[[FakeMachine], None]
_IMPORTS = {"torch-import", "mindspore-import"}
_KERNELS = "opp/built-in/op_impl/ai_core/tbe/kernel/config"


def python(machine: FakeMachine, **packages: str) -> None:
    site = machine.add_python(**packages)
    for name in set(NEEDED) - {"numpy"}:
        (site / f"{name.replace('-', '_')}-1.0.dist-info").mkdir()


def container(machine: FakeMachine) -> None:
    """A container that has all it needs."""
    machine.write(".dockerenv")
    machine.write("usr/local/dcmi/libdcmi.so")
    machine.write("usr/local/Ascend/driver/lib64/driver/libascend_hal.so")
    machine.write("etc/ascend_install.info", "Driver_Install_Path_Param=/usr/local/Ascend\n")


def pod(machine: FakeMachine) -> None:
    container(machine)
    machine.environ["KUBERNETES_SERVICE_HOST"] = "10.96.0.1"


def kernels_left_out(machine: FakeMachine) -> None:  # vllm-ascend 237, MindSpeed-LLM 2
    home = machine.add_cann("8.3.RC2")
    machine.source(home)
    (machine.root / home[1:] / _KERNELS / "ascend910b/binary_info_config.json").unlink()


def ops_left_out(machine: FakeMachine) -> None:  # "Parse dynamic kernel config fail" on CANN 9
    home = machine.add_cann("9.0.0")
    machine.source(home)
    (machine.root / home[1:] / _KERNELS / "ascend910b/binary_info_config.json").unlink()
    # What the toolkit itself brings.
    machine.write(f"{home[1:]}/{_KERNELS}/ascend910b/ops_oam/dump.json")


def ops_in_part(machine: FakeMachine) -> None:
    ops_left_out(machine)
    for part in ("ops_math", "ops_legacy", "ops_transformer"):
        machine.write(f"usr/local/Ascend/ascend-toolkit/9.0.0/{_KERNELS}/ascend910b/{part}/a.json")


def kernels_of_another_chip(machine: FakeMachine) -> None:  # vllm-ascend 573
    home = machine.root / machine.environ["ASCEND_HOME_PATH"][1:]
    (home / _KERNELS / "ascend910b").rename(home / _KERNELS / "ascend310p")


def old_driver(machine: FakeMachine) -> None:  # vllm-ascend 5468, cann-container-image 58
    machine.add_smi(driver="24.1.0")
    machine.write("usr/local/Ascend/driver/version.info", "Version=24.1.0\n")


def old_driver_and_newer_cann(machine: FakeMachine) -> None:  # gpustack 755, the other way round
    machine.source(machine.add_cann("8.3.RC1"))
    machine.add_smi(driver="23.0.3")


def memory_of_nobody(machine: FakeMachine) -> None:  # vllm-ascend 2698: held by another container
    machine.add_smi(smi_table(hbm={1: 58234}))


def smi_8005(machine: FakeMachine) -> None:  # vllm-ascend 2698
    container(machine)
    machine.add_tool(
        "npu-smi",
        "echo 'DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)'\n"
        "echo 'dcmi module initialize failed. ret is -8005'; exit 1",
    )


def smi_8020(machine: FakeMachine) -> None:  # cann-container-image 46
    container(machine)
    machine.add_tool(
        "npu-smi",
        "echo 'dcmi model initialized failed, because the device is used. ret is -8020'; exit 1",
    )


def smi_8005_that_exits_well(machine: FakeMachine) -> None:  # HAMi 1696
    pod(machine)
    machine.add_tool("npu-smi", "echo 'dcmi module initialize failed. ret is -8005'")


def address_of_another_node(machine: FakeMachine) -> None:
    machine.environ["HCCL_IF_IP"] = "192.168.7.12"


def loopback_name(machine: FakeMachine) -> None:
    machine.write("etc/hostname", "node-7\n")
    machine.write("etc/hosts", "127.0.0.1 localhost\n127.0.1.1 node-7.lan node-7\n")


def variables(**values: str) -> Tree:
    return lambda machine: machine.environ.update(values)


def nnal_not_sourced(machine: FakeMachine) -> None:  # vllm-ascend 152
    machine.write("usr/local/Ascend/nnal/atb/set_env.sh")
    python(machine, torch="2.9.0", torch_npu="2.9.0", vllm_ascend="0.18.0", numpy="1.26.4")


def nnal_not_installed(machine: FakeMachine) -> None:  # vllm-ascend 2727
    python(machine, torch="2.9.0", torch_npu="2.9.0", vllm_ascend="0.18.0", numpy="1.26.4")


def nnal_of_the_other_abi(machine: FakeMachine) -> None:  # vllm-ascend 591
    machine.write("usr/local/Ascend/nnal/atb/set_env.sh")
    machine.environ["ATB_HOME_PATH"] = "/usr/local/Ascend/nnal/atb/latest/atb/cxx_abi_0"
    python(machine, torch="2.9.0", torch_npu="2.9.0", numpy="1.26.4")


def netmasks_in_the_file(machine: FakeMachine) -> None:
    machine.write(
        "etc/hccn.conf",
        "address_0=10.9.0.10\nnetmask_0=255.255.255.0\naddress_1=10.9.0.11\nnetmask_1=255.255.0.0\n",
    )


def netmasks_of_the_devices(machine: FakeMachine) -> None:
    (machine.root / "etc/hccn.conf").unlink()
    machine.add_hccn(netmask_1="255.255.255.0")


def driver_moved(machine: FakeMachine) -> None:  # installed anew elsewhere, the file kept
    machine.write("etc/ascend_install.info", "Driver_Install_Path_Param=/opt/gone/Ascend\n")


def driver_user_gone(machine: FakeMachine) -> None:
    container(machine)
    (machine.root / ".dockerenv").unlink()
    machine.write("etc/passwd", "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n")
    machine.write(
        "etc/ascend_install.info",
        "UserName=HwHiAiUser\nDriver_Install_Path_Param=/usr/local/Ascend\n",
    )


def numpy_2_with_torch_1(machine: FakeMachine) -> None:  # "compiled using NumPy 1.x cannot be run"
    python(machine, torch="2.1.0", torch_npu="2.1.0.post10", numpy="2.2.6")


def numpy_2_with_old_cann(machine: FakeMachine) -> None:  # vllm-ascend 2210
    machine.source(machine.add_cann("8.2.RC1"))
    python(machine, torch="2.6.0", torch_npu="2.6.0", numpy="2.0.2")


def no_dcmi(machine: FakeMachine) -> None:  # gpustack 3284
    container(machine)
    (machine.root / "usr/local/dcmi/libdcmi.so").unlink()
    (machine.root / "usr/local/dcmi").rmdir()


def no_driver_libraries(machine: FakeMachine) -> None:
    pod(machine)
    (machine.root / "usr/local/Ascend/driver/lib64/driver/libascend_hal.so").unlink()
    (machine.root / "usr/local/Ascend/driver/lib64/driver").rmdir()
    (machine.root / "usr/local/Ascend/driver/lib64").rmdir()


def no_manager(machine: FakeMachine) -> None:
    container(machine)
    (machine.root / "dev/davinci_manager").unlink()


def pod_without_cards(machine: FakeMachine) -> None:
    pod(machine)
    for number in range(2):
        (machine.root / f"dev/davinci{number}").unlink()


def nobody_in_a_container(machine: FakeMachine) -> None:  # vllm-ascend 9490
    pod(machine)
    machine.add_cards(2, mode=0o660)
    machine.uid, machine.groups = 65534, frozenset({65534})
    machine.write("etc/passwd", "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")


def root_without_capabilities(machine: FakeMachine) -> None:  # ascend-device-plugin 139
    pod(machine)
    machine.add_cards(2, mode=0o660)
    for path in (machine.root / "dev").iterdir():
        path.chmod(0o060)
    machine.uid, machine.groups = 0, frozenset({4321})
    machine.write("proc/self/status", "Cpus_allowed_list:\t0-63\nCapEff:\t0000000000000000\n")


def uid_without_a_name(machine: FakeMachine) -> None:  # vllm-ascend 9490
    container(machine)
    machine.write("etc/passwd", "root:x:0:0:root:/root:/bin/bash\n")


def cann_for_its_owner_only(machine: FakeMachine) -> None:  # installed without --install-for-all
    home = machine.root / machine.environ["ASCEND_HOME_PATH"][1:]
    machine.uid, machine.groups = 4242, frozenset({4242})
    home.chmod(0o750)


FAULTS: list[tuple[Tree, str, str]] = [
    (kernels_left_out, "no operator kernels", "Ascend-cann-kernels-910b_8.3.RC2"),
    (ops_left_out, "no operator kernels", "Ascend-cann-910b-ops_9.0.0"),
    (ops_in_part, "ops_nn", "Ascend-cann-910b-ops_9.0.0"),
    (kernels_of_another_chip, "ascend310p", "910b-ops_8.5.0"),
    (old_driver, "driver 24.1.0 is too old for CANN 8.5.0", "npu-driver"),
    (old_driver_and_newer_cann, "23.0.3", "npu-driver"),
    (memory_of_nobody, "58234 MB", "docker"),
    (smi_8005, "-8005", "--group-add"),
    (smi_8020, "another container", "docker ps"),
    (smi_8005_that_exits_well, "-8005", "supplementalGroups"),
    (address_of_another_node, "192.168.7.12", "HCCL_IF_IP=10.1.0.7"),
    (loopback_name, "127.0.1.1", "/etc/hosts"),
    (variables(HCCL_BUFFSIZE="2G"), "HCCL_BUFFSIZE=2G", "unset HCCL_BUFFSIZE"),
    (variables(HCCL_RDMA_TIMEOUT="30"), "between 5 and 20", "unset HCCL_RDMA_TIMEOUT"),
    (variables(HCCL_RDMA_RETRY_CNT="0"), "between 1 and 7", "unset HCCL_RDMA_RETRY_CNT"),
    (variables(HCCL_OP_EXPANSION_MODE="aiv"), "AIV", "unset HCCL_OP_EXPANSION_MODE"),
    (variables(GLOO_SOCKET_IFNAME="ib9"), "GLOO_SOCKET_IFNAME=ib9", "export GLOO_SOCKET_IFNAME="),
    (variables(LD_PRELOAD="libm.so.6:/gone/libgomp.so.1"), "/gone/libgomp.so.1", "=libm.so.6"),
    (
        variables(PYTORCH_NPU_ALLOC_CONF="max_split_size_mb=128, expandable_segments:true"),
        "'max_split_size_mb=128'",
        "=max_split_size_mb:128,expandable_segments:True",
    ),
    (variables(ASCEND_GLOBAL_LOG_LEVEL="0"), "ASCEND_GLOBAL_LOG_LEVEL=0", "unset"),
    (variables(ASCEND_LAUNCH_BLOCKING="1"), "ASCEND_LAUNCH_BLOCKING=1", "unset"),
    (variables(ASCEND_SLOG_PRINT_TO_STDOUT="1"), "ASCEND_SLOG_PRINT_TO_STDOUT=1", "unset"),
    (nnal_not_sourced, "ATB", "source /usr/local/Ascend/nnal/atb/set_env.sh"),
    (nnal_not_installed, "ATB", "Ascend-cann-nnal_8.5.0"),
    (nnal_of_the_other_abi, "cxx_abi_0", "--cxx_abi=1"),
    (netmasks_in_the_file, "netmask", "hccn_tool -i 1 -ip -s address 10.9.0.11"),
    (netmasks_of_the_devices, "netmask", "hccn_tool -i 1 -ip -s address 10.9.0.1 "),
    (driver_moved, "/opt/gone/Ascend", "ascend_install.info"),
    (driver_user_gone, "HwHiAiUser", "useradd"),
    (numpy_2_with_torch_1, "numpy 2.2.6", "'numpy<2'"),
    (numpy_2_with_old_cann, "numpy 2.0.2", "'numpy<2'"),
    (no_dcmi, "/usr/local/dcmi", "-v /usr/local/dcmi:/usr/local/dcmi"),
    (no_driver_libraries, "/usr/local/Ascend/driver/lib64", "hostPath"),
    (no_manager, "/dev/davinci_manager", "--device /dev/davinci_manager"),
    (pod_without_cards, "none passed to this container", "huawei.com/Ascend910"),
    (nobody_in_a_container, "cannot read and write", "supplementalGroups"),
    (root_without_capabilities, "CAP_DAC_OVERRIDE", "DAC_OVERRIDE"),
    (uid_without_a_name, "/etc/passwd", "/etc/passwd"),
    (cann_for_its_owner_only, "cannot read", "chmod"),
]


@pytest.mark.parametrize(
    ("tree", "words", "fix"),
    FAULTS,
    ids=[f"{number}-{words}" for number, (_, words, _) in enumerate(FAULTS)],
)
def test_a_fault_of_a_public_thread_is_found_with_its_remedy(
    well: FakeMachine, tree: Tree, words: str, fix: str
):
    tree(well)
    report = examine(well.patient(), [one for one in CHECKS if one.name not in _IMPORTS])
    bad = [one for one in report.results if one.verdict in (Verdict.FAIL, Verdict.WARN)]
    assert any(words in one.seen and fix in (one.fix or "") for one in bad), bad


def test_a_container_that_has_all_it_needs_is_well(well: FakeMachine):
    container(well)
    python(well, torch="2.9.0", torch_npu="2.9.0", numpy="1.26.4")
    report = examine(well.patient(), [one for one in CHECKS if one.name not in _IMPORTS])
    assert [one for one in report.results if one.verdict in (Verdict.FAIL, Verdict.WARN)] == []
