"""A made-up machine: a folder for a root and stub tools."""

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from jumar.devices import Machine, cards, inventory
from jumar.devices.npu import device_addresses, npu_cards
from jumar.launch.processes.probe import Answer, ask
from jumar.spec.devices import DeviceKind

SAMPLES = Path(__file__).parent / "samples"


def sample(name: str) -> str:
    return (SAMPLES / name).read_text("utf-8")


class Stub:
    """Answers by the last words of the command."""

    def __init__(self, answers: dict[str, str]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, command: Sequence[str], *, timeout_s: float) -> Answer:
        words = " ".join(command[1:])
        self.asked.append(words)
        return (
            Answer(0, self.answers[words]) if words in self.answers else Answer(1, "no such type")
        )


def made_up(root: Path, answers: dict[str, str] | None = None) -> tuple[Machine, Stub]:
    """A machine with npu-smi and hccn_tool when there are answers to give."""
    for tool in ("npu-smi", "hccn_tool") if answers is not None else ():
        path = root / "usr/local/bin" / tool
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    stub = Stub(answers or {})
    return Machine(root, stub, {}), stub


def make_nodes(root: Path, *names: str) -> None:
    for name in names:
        path = root / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def make_pci(root: Path, bus_id: str, **files: str) -> None:
    folder = root / "sys/bus/pci/devices" / bus_id
    folder.mkdir(parents=True)
    (folder / "class").write_text("0x120000\n")
    for name, text in files.items():
        (folder / name).write_text(text + "\n")


def test_a_bare_machine_offers_simulated_cards_and_slots_and_asks_nothing(tmp_path: Path):
    machine, stub = made_up(tmp_path)
    offered = inventory(cpu_slots=3, sim_cards=2, machine=machine)
    assert [(card.kind, card.id) for card in offered] == [
        (DeviceKind.SIM, 0),
        (DeviceKind.SIM, 1),
        (DeviceKind.CPU, 0),
        (DeviceKind.CPU, 1),
        (DeviceKind.CPU, 2),
    ]
    assert stub.asked == []


def test_slots_are_the_cores_but_at_least_four(tmp_path: Path):
    machine, _ = made_up(tmp_path)
    assert len(inventory(cpu_slots=0, sim_cards=0, machine=machine)) >= 4


def test_a_container_with_some_cards_has_physical_and_logical_ids(tmp_path: Path):
    machine, stub = made_up(tmp_path, {"info": sample("info_a2_container.txt")})
    found = npu_cards(machine)
    assert [(card.id, card.logical_id) for card in found] == [(9, 0), (10, 1)]
    assert stub.asked == ["info"]


def test_cards_know_their_address_their_cpus_and_their_numa_node(tmp_path: Path):
    text = (
        sample("info_910_21.txt")
        .replace("| 6     910A", "| 0     910A")
        .replace("| 2     910A", "| 1     910A")
    )
    machine, _ = made_up(tmp_path, {"info": text, "info -t topo": sample("topo_a2.txt")})
    make_pci(tmp_path, "0000:b2:00.0", numa_node="3")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hccn.conf").write_text("address_0=10.1.1.1\n")
    first, second = cards(machine)
    assert (first.id, first.device_ip, first.numa_node) == (0, "10.1.1.1", 3)
    assert first.cpu_affinity == "72-95"
    assert (second.id, second.device_ip, second.numa_node) == (1, None, None)
    assert second.cpu_affinity == "0-11,24-35"


def test_boards_with_several_chips_and_no_ids_are_told_apart_by_the_map(tmp_path: Path):
    table = sample("info_a3.txt").replace("Phy-ID", "      ")
    for number in ("10", "11", "12", "13"):
        table = table.replace(f"     {number}      ", "             ")
    table = table.replace("| 5 ", "| 4 ").split("| 6 ")[0]
    machine, _ = made_up(tmp_path, {"info": table, "info -m": sample("map_a3.txt")})
    assert [card.id for card in npu_cards(machine)] == [8, 9]


@pytest.mark.parametrize("answer", ["", "dcmi module initialize failed. ret is -8005", "\0|||"])
def test_a_tool_that_fails_leaves_the_device_files(tmp_path: Path, answer: str):
    make_nodes(tmp_path, "davinci0", "davinci10", "davinci9", "davinci_manager", "devmm_svm")
    make_pci(tmp_path, "0000:c1:00.0", vendor="0x19e5", device="0xd802")
    make_pci(tmp_path, "0000:7d:00.0", vendor="0x19e5", device="0xa222")
    machine, _ = made_up(tmp_path, {"info": answer})
    found = npu_cards(machine)
    assert [card.id for card in found] == [0, 9, 10]
    assert {card.generation for card in found} == {"A2"}
    assert {card.health for card in found} == {None}


def test_a_tool_that_hangs_does_not_hang_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("jumar.devices.npu.INFO_LIMIT_S", 0.3)
    make_nodes(tmp_path, "davinci3")
    tool = tmp_path / "usr/local/bin/npu-smi"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\nsleep 600\n")
    tool.chmod(0o755)
    started = time.monotonic()
    assert [card.id for card in npu_cards(Machine(tmp_path, ask, {}))] == [3]
    assert time.monotonic() - started < 300


def test_addresses_come_from_the_file_then_from_the_tool(tmp_path: Path):
    answer = "ipaddr:10.7.0.1\nnetmask:255.255.0.0\n"
    machine, _ = made_up(tmp_path, {"-i 1 -ip -g": answer})
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hccn.conf").write_text("address_0=10.7.0.9\naddress_1=bad\n")
    assert device_addresses([0, 1, 2], machine) == {0: "10.7.0.9", 1: "10.7.0.1"}


def test_gpus_without_their_driver_are_the_device_files(tmp_path: Path):
    make_nodes(tmp_path, "nvidia0", "nvidia3", "nvidiactl", "nvidia-uvm")
    machine, _ = made_up(tmp_path)
    found = inventory(cpu_slots=1, sim_cards=0, machine=machine)
    assert [(card.kind, card.id) for card in found[:-1]] == [("gpu", 0), ("gpu", 1)]


FAKE_DRIVER = """
#include <string.h>
#include <unistd.h>
int dcmi_init(void) { INIT; return 0; }
int dcmi_get_card_list(int *n, int *list, int len) { *n = 1; list[0] = 4; return 0; }
int dcmi_get_device_id_in_card(int card, int *max, int *mcu, int *cpu) { *max = 2; *mcu = 2; *cpu = -1; return 0; }
int dcmi_get_device_type(int card, int dev, int *type) { *type = 0; return 0; }
int dcmi_get_device_logic_id(int *logic, int card, int dev) { *logic = dev; return 0; }
int dcmi_get_device_phyid_from_logicid(unsigned logic, unsigned *phy) { *phy = logic + 8; return 0; }
struct chip { char type[32], name[32], ver[32]; unsigned cores; };
int dcmi_get_device_chip_info(int card, int dev, struct chip *c) { strcpy(c->name, "Ascend910"); return 0; }
int dcmi_get_device_health(int card, int dev, unsigned *h) { *h = dev; return 0; }
int dcmi_get_device_power_info(int card, int dev, int *p) { *p = 1815; return dev; }
int dcmi_get_device_temperature(int card, int dev, int *t) { *t = 40 + dev; return 0; }
int dcmi_get_device_utilization_rate(int card, int dev, int type, unsigned *u) { *u = type == 2 ? 66 : 1; return 0; }
struct hbm { unsigned long long size; unsigned freq; unsigned long long used; int temp; unsigned bw; };
int dcmi_get_device_hbm_info(int card, int dev, struct hbm *h) { h->size = 65536; h->used = 3000 + dev; return 0; }
struct pcie { unsigned v, sv, d, sd; int domain; unsigned bus, slot, fn; unsigned char r[32]; };
int dcmi_get_device_pcie_info_v2(int card, int dev, struct pcie *p) { p->domain = 0; p->bus = 0x9d + dev; p->slot = 0; p->fn = 0; return 0; }
struct proc { int pid; unsigned long mem; };
int dcmi_get_device_resource_info(int card, int dev, struct proc *p, int *n) { p[0].pid = 77; p[0].mem = 5UL << 20; *n = 1; return 0; }
"""


BuildDriver = Callable[[str], Machine]


@pytest.fixture
def build_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BuildDriver:
    # A Python is started for it, on a machine that may be busy.
    monkeypatch.setattr("jumar.devices.dcmi.LIMIT_S", 120.0)
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to build a stand-in driver with")

    def build(init: str) -> Machine:
        library = tmp_path / "usr/local/Ascend/driver/lib64/driver/libdcmi.so"
        library.parent.mkdir(parents=True)
        source = tmp_path / "dcmi.c"
        source.write_text(FAKE_DRIVER.replace("INIT", init))
        command = [compiler, "-shared", "-fPIC", "-w", "-o", str(library), str(source)]
        subprocess.run(command, check=True, timeout=180)
        return Machine(tmp_path, ask, {})

    return build


def test_the_drivers_library_is_asked_first(build_driver: BuildDriver):
    first, second = npu_cards(build_driver("(void)0"))
    assert (first.id, first.npu_id, first.chip_id, first.logical_id) == (8, 4, 0, 0)
    assert (first.name, first.generation, first.health) == ("Ascend910", "A3", "OK")
    assert (first.memory_used_mb, first.memory_total_mb) == (3000, 65536)
    assert (first.power_w, second.power_w) == (181.5, None)
    assert (first.temperature_c, first.utilisation_pct) == (40, 66)
    assert (second.bus_id, second.health) == ("0000:9E:00.0", "Warning")
    assert [(p.pid, p.memory_mb) for p in second.processes] == [(77, 5)]


@pytest.mark.parametrize("init", ["*(volatile int *)0 = 1", "return -8005", "_exit(0)"])
def test_a_driver_that_crashes_or_refuses_leaves_the_device_files(
    build_driver: BuildDriver, tmp_path: Path, init: str
):
    machine = build_driver(init)
    make_nodes(tmp_path, "davinci5")
    assert [card.id for card in npu_cards(machine)] == [5]
