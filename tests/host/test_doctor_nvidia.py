"""Machines with NVIDIA cards: faults as people report them, and silence about Ascend."""

from collections.abc import Callable
from functools import partial

import pytest
from tests.host.conftest import FakeMachine

from jumar.host.findings import Verdict

ROW = "{index}, NVIDIA H200, {driver}, {persistence}, {used}, 143771, {bad}"
TORCH = """
class version:
    cuda = {cuda!r}
class cuda:
    is_available = staticmethod(lambda: {gpus} > 0)
    device_count = staticmethod(lambda: {gpus})
    class nccl:
        version = staticmethod(lambda: (2, 27, 5))
    @staticmethod
    def init():
        if {error!r}:
            raise RuntimeError({error!r})
"""


def add_gpus(
    machine: FakeMachine,
    count: int = 2,
    *,
    driver: str = "570.86.15",
    persistence: str = "Enabled",
    used: int = 4,
    bad: str = "0",
    p2p: str = "OK",
    nodes: bool = True,
) -> None:
    for number in range(count):
        pci = f"sys/bus/pci/devices/0000:1{number}:00.0"
        machine.write(f"{pci}/vendor", "0x10de\n")
        machine.write(f"{pci}/class", "0x030200\n")
        if nodes:
            machine.write(f"dev/nvidia{number}")
    if not nodes:
        return
    machine.write("dev/nvidiactl")
    machine.write("dev/nvidia-uvm")
    rows = [
        ROW.format(index=number, driver=driver, persistence=persistence, used=used, bad=bad)
        for number in range(count)
    ]
    machine.write("stub/gpus", "\n".join(rows) + "\n")
    machine.write(
        "stub/p2p",
        f"\t\x1b[4mGPU0\tGPU1\x1b[0m\n GPU0\tX\t{p2p}\n GPU1\t{p2p}\tX\nLegend:\n  X = Self\n",
    )
    machine.add_tool(
        "nvidia-smi",
        f'cd {machine.root}/stub\ncase "$*" in\n  --query-gpu*) cat gpus;;\n'
        '  --query-compute-apps*) ;;\n  "topo -p2p r") cat p2p;;\n  *) exit 2;;\nesac',
    )


def add_torch(
    machine: FakeMachine, *, cuda: str | None = "12.8", gpus: int = 2, error: str = ""
) -> None:
    site = machine.add_python(torch="2.9.1", numpy="2.3.5")
    (site / "torch.py").write_text(TORCH.format(cuda=cuda, gpus=gpus, error=error))


def test_a_well_machine_says_nothing_of_ascend_but_that_there_is_no_card(bare: FakeMachine):
    add_gpus(bare)
    add_torch(bare)
    report = bare.examine()
    assert report.is_well
    assert [one for one in report.results if one.verdict is Verdict.WARN] == []
    unseen = [one.check for one in report.results if one.verdict is Verdict.UNKNOWN]
    assert unseen == ["card-driver"]
    told = " ".join(one.seen for one in report.results)
    for words in ("driver 570.86.15", "CUDA 12.8, sees 2 GPUs", "NCCL 2.27.5", "P2P between all 2"):
        assert words in told
    for words in ("CANN", "npu-smi", "torch_npu", "HCCL"):
        assert words not in told


def broken_smi(words: str) -> Callable[[FakeMachine], None]:
    def make(machine: FakeMachine) -> None:
        add_gpus(machine)
        machine.add_tool("nvidia-smi", f"echo '{words}'; exit 9")

    return make


def no_uvm(machine: FakeMachine) -> None:
    add_gpus(machine)
    (machine.root / "dev/nvidia-uvm").unlink()


def bare_container(machine: FakeMachine) -> None:
    add_gpus(machine, nodes=False)
    machine.write(".dockerenv")


def numpy_2_with_torch_1(machine: FakeMachine) -> None:
    add_gpus(machine)
    machine.add_python(torch="2.1.2", numpy="2.2.6")


def no_p2p_asked(machine: FakeMachine) -> None:
    machine.environ["NCCL_P2P_DISABLE"] = "1"


def torch_with(
    *, cuda: str | None = "12.8", gpus: int = 2, error: str = ""
) -> Callable[[FakeMachine], None]:
    def make(machine: FakeMachine) -> None:
        add_gpus(machine)
        add_torch(machine, cuda=cuda, gpus=gpus, error=error)

    return make


@pytest.mark.parametrize(
    ("make", "words", "fix"),
    [
        (broken_smi("Failed to initialize NVML: Driver/library version mismatch"), "mismatch", "reboot"),
        (broken_smi("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver".replace("'", "")), "communicate", "modprobe"),
        (partial(add_gpus, nodes=False), "no /dev/nvidiaN", "driver"),
        (bare_container, "no /dev/nvidiaN", "--gpus all"),
        (no_uvm, "/dev/nvidia-uvm", "nvidia-modprobe"),
        (partial(add_gpus, persistence="Disabled"), "persistence mode is off on GPU 0, 1", "nvidia-persistenced"),
        (partial(add_gpus, bad="3"), "3 memory errors", "nvidia-smi -r -i"),
        (partial(add_gpus, used=90000), "no process is shown", "docker ps"),
        (partial(add_gpus, p2p="CNS"), "1 pairs of GPUs have no P2P (CNS)", "ACS"),
        (torch_with(cuda=None), "built without CUDA", "index of CUDA builds"),
        (torch_with(cuda="13.0"), "driver 570.86.15 is too old for CUDA 13.0", "580"),
        (torch_with(gpus=0, error="Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized"), "sees no GPU", "fabricmanager"),
        (numpy_2_with_torch_1, "numpy 2.2.6 is too new", "'numpy<2'"),
        (no_p2p_asked, "NCCL_P2P_DISABLE=1", "unset"),
    ],
)  # fmt: skip
def test_a_fault_is_found_with_its_remedy(
    bare: FakeMachine, make: Callable[[FakeMachine], None], words: str, fix: str
):
    bare.python = "/bin/false"  # No Python, unless the fault is one of Python: imports are slow.
    make(bare)
    report = bare.examine("NVIDIA", "variables", "python-packages")
    bad = [one for one in report.results if one.verdict in (Verdict.FAIL, Verdict.WARN)]
    assert any(words in one.seen and fix in (one.fix or "") for one in bad), report
