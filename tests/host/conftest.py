"""A machine made of files: device nodes, a PCI bus, stub tools, CANN folders, a Python."""

import os
import sys
import venv
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from jumar.host.doctor import Report, choose, examine
from jumar.host.findings import Verdict
from jumar.host.patient import Limits, Patient

GIB = 1 << 30
DRIVER = "25.5.0"
SHARED_NODES = ("davinci_manager", "devmm_svm", "hisi_hdc")
_RULE = "+" + "-" * 27 + "+" + "-" * 15 + "+" + "-" * 52 + "+"
_DOUBLE = _RULE.replace("-", "=")
NEEDED = [
    "absl-py",
    "attrs",
    "cffi",
    "decorator",
    "numpy",
    "protobuf",
    "psutil",
    "pyyaml",
    "requests",
    "scipy",
    "sympy",
]


@dataclass(frozen=True)
class Space:
    total: int = 100 * GIB
    free: int = 50 * GIB


def smi_table(
    cards: int = 2,
    *,
    name: str = "910B3",
    health: dict[int, str] | None = None,
    hbm: dict[int, int] | None = None,
    driver: str = DRIVER,
    processes: Iterable[tuple[int, int, str]] = (),
) -> str:
    """`npu-smi info` as drivers print it since 24."""
    lines = [_RULE, _row(f"npu-smi {driver}", f"Version: {driver}", "")]
    lines += [
        _RULE,
        _row("NPU   Name", "Health", "Power(W)    Temp(C)           Hugepages-Usage(page)"),
        _row("Chip", "Bus-Id", "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)"),
        _DOUBLE,
    ]
    for card in range(cards):
        state = (health or {}).get(card, "OK")
        used = (hbm or {}).get(card, 3201)
        lines += [
            _row(f"{card}     {name}", state, "93.4        41                0    / 0"),
            _row("0", f"0000:C{card}:00.0", f"0           0    / 0          {used} / 65536"),
            _DOUBLE,
        ]
    lines += [
        _RULE,
        "| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |",
    ]
    lines += [_DOUBLE]
    for card, pid, program in processes:
        lines += [
            f"| {card}       0                 | {pid:<13} | {program:<24} | 20480                   |",
            _DOUBLE,
        ]
    return "\n".join(lines) + "\n"


def _row(first: str, second: str, third: str) -> str:
    return f"| {first:<26}| {second:<14}| {third:<51}|"


def board(
    card: int,
    *,
    firmware: str = "7.3.0.1.231",
    compatibility: str = "OK",
    driver: str = DRIVER,
) -> str:
    fields = {
        "NPU ID": card,
        "Software Version": driver,
        "Firmware Version": firmware,
        "Compatibility": compatibility,
        "Chip Count": 1,
    }
    return "".join(f"\t{name:<31}: {value}\n" for name, value in fields.items())


@dataclass
class FakeMachine:
    """Builds a root folder step by step and lets the doctor see it."""

    root: Path
    environ: dict[str, str] = field(default_factory=dict[str, str])
    uid: int = 1000
    groups: frozenset[int] = frozenset({1000})
    python: str | None = None
    space: dict[str, Space] = field(default_factory=dict[str, Space])
    # Of stubs that answer at once, on a machine that may be busy with other tests.
    limits: Limits = field(
        default_factory=lambda: Limits(probe_s=60.0, import_s=120.0, all_s=300.0)
    )

    def write(self, path: str, text: str = "", mode: int | None = None) -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        if mode is not None:
            place.chmod(mode)
        return place

    def add_cards(self, count: int = 2, *, nodes: bool = True, mode: int = 0o666) -> None:
        for number in range(count):
            pci = f"sys/bus/pci/devices/0000:c{number}:00.0"
            self.write(f"{pci}/vendor", "0x19e5\n")
            self.write(f"{pci}/class", "0x120000\n")
            self.write(f"{pci}/device", "0xd802\n")
            self.write(f"{pci}/numa_node", f"{number % 2}\n")
        if nodes:
            for name in (*(f"davinci{number}" for number in range(count)), *SHARED_NODES):
                self.write(f"dev/{name}", mode=mode)

    def add_tool(self, name: str, script: str) -> None:
        self.write(f"usr/local/bin/{name}", f"#!/bin/sh\n{script}\n", mode=0o755)

    def add_smi(
        self,
        table: str | None = None,
        boards: dict[int, str] | None = None,
        driver: str = DRIVER,
    ) -> None:
        """A stub that answers `info`, `info -t board -i N` and `info -t health …`."""
        answers = {card: board(card, driver=driver) for card in range(2)} | (boards or {})
        self.write("stub/info", smi_table(driver=driver) if table is None else table)
        for card, text in answers.items():
            self.write(f"stub/board{card}", text)
        self.write("stub/health", "\tHealth Status : Alarm\n\tError Code : 80E01801\n")
        self.add_tool(
            "npu-smi",
            f'cd {self.root}/stub\ncase "$*" in\n  info) cat info;;\n'
            '  "info -t board -i "*) cat board$5;;\n'
            '  "info -t health"*) cat health;;\n  *) exit 2;;\nesac',
        )

    def add_hccn(self, **answers: str) -> None:
        """A stub; `link="DOWN"` for all devices, `tls_1="1"` for device 1 only."""
        told = {"link": "UP", "net_health": "Success", "tls": "0", "ip": "10.9.0.$2"}
        told |= answers
        masks = {key[-1]: value for key, value in answers.items() if key.startswith("netmask_")}
        lines = ["mask=255.255.0.0"]
        lines += [f'[ "$2" = {number} ] && mask={mask}' for number, mask in masks.items()]
        lines += ['case "$2$3" in']
        forms = {
            "link": 'echo "link status: {}"',
            "net_health": 'echo "net health status: {}"',
            "tls": 'echo "dev_id:$2, tls switch[{}](0:disable, 1:enable), tls alarm time '
            'threshold[60]days"',
            "ip": 'echo "ipaddr:{}"; echo "netmask:$mask"',
        }
        for name, form in forms.items():
            for key, value in sorted(told.items(), reverse=True):
                plain, _, number = key.rpartition("_") if key[-1].isdigit() else (key, "", "")
                if plain == name:
                    lines.append(f"{number or '*'}-{name}) {form.format(value)};;")
        self.add_tool("hccn_tool", "\n".join([*lines, "*) exit 1;;", "esac"]))

    def add_cann(self, version: str = "8.5.0", *, latest: bool = True) -> str:
        """A toolkit as the installer lays it out; gives its home."""
        home = f"usr/local/Ascend/ascend-toolkit/{version}"
        for folder in ("opp", "compiler", "runtime", "lib64", "python/site-packages/tbe"):
            (self.root / home / folder).mkdir(parents=True, exist_ok=True)
        self.write(
            f"{home}/{os.uname().machine}-linux/ascend_toolkit_install.info", f"version={version}\n"
        )
        kernels = f"{home}/opp/built-in/op_impl/ai_core/tbe/kernel/config/ascend910b"
        self.write(f"{kernels}/binary_info_config.json", "{}")
        self.write("usr/local/Ascend/ascend-toolkit/set_env.sh", "# as the installer writes it\n")
        link = self.root / "usr/local/Ascend/ascend-toolkit/latest"
        if latest:
            link.unlink(missing_ok=True)
            link.symlink_to(version)
        return f"/{home}"

    def source(self, home: str) -> None:
        """What sourcing set_env.sh leaves behind."""
        self.environ |= {
            "ASCEND_HOME_PATH": home,
            "ASCEND_OPP_PATH": f"{home}/opp",
            "PYTHONPATH": f"{home}/python/site-packages/tbe",
            "LD_LIBRARY_PATH": f"{home}/lib64",
        }

    def add_python(self, **packages: str) -> Path:
        """A real environment with metadata of packages in it; gives its site-packages."""
        folder = self.root / "venv"
        venv.create(folder, with_pip=False, symlinks=True)
        self.python = str(folder / "bin" / "python")
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        site = folder / "lib" / version / "site-packages"
        for name, number in packages.items():
            info = site / f"{name}-{number}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n"
            )
        return site

    def add_needed(self) -> None:
        site = next((self.root / "venv/lib").glob("*/site-packages"))
        for name in NEEDED:
            (site / f"{name.replace('-', '_')}-1.0.dist-info").mkdir()

    def patient(self) -> Patient:
        def usage(place: Path) -> Space:
            inside = (
                place.relative_to(self.root).as_posix() if place.is_relative_to(self.root) else ""
            )
            return self.space.get(inside, Space())

        return Patient(
            root=self.root,
            environ={"PATH": os.defpath, "HOME": "/home/ann"} | self.environ,
            uid=self.uid,
            groups=self.groups,
            python=self.python or sys.executable,
            home=self.root / "home/ann/.jumar",
            limits=self.limits,
            disk_usage=usage,
        )

    def examine(self, *only: str) -> Report:
        return examine(self.patient(), choose(only))

    def found(self, check: str, verdict: Verdict) -> tuple[str, str]:
        """What the check saw and its fix; fails unless there is just one such result."""
        report = self.examine(check)
        results = [one for one in report.results if one.verdict is verdict]
        assert len(results) == 1, report
        return results[0].seen, results[0].fix or ""

    def verdicts(self, check: str) -> set[Verdict]:
        return {one.verdict for one in self.examine(check).results}

    def shorter(self, **limits: float) -> None:
        self.limits = replace(self.limits, **limits)


@pytest.fixture
def bare(tmp_path: Path) -> FakeMachine:
    """A machine with no card."""
    machine = FakeMachine(tmp_path / "root")
    machine.write("proc/net/tcp", "  sl  local_address rem_address   st\n")
    machine.write("proc/self/status", "Name:\tsh\nCpus_allowed_list:\t0-63\n")
    machine.write(
        "proc/self/limits", "Max open files            65536                65536      files\n"
    )
    machine.write("proc/meminfo", "MemTotal: 99999999 kB\nMemAvailable: 88888888 kB\n")
    machine.write("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n")
    machine.write("proc/sys/net/ipv4/ip_local_reserved_ports", "60000-60031\n")
    for node, cpus in enumerate(("0-31", "32-63")):
        machine.write(f"sys/devices/system/node/node{node}/cpulist", f"{cpus}\n")
    machine.write("etc/passwd", "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n")
    machine.write("etc/hostname", "node-7\n")
    machine.write("etc/hosts", "127.0.0.1 localhost\n10.1.0.7 node-7\n")
    machine.write(
        "proc/net/fib_trie",
        "Local:\n  +-- 10.1.0.0/24 2 0 2\n     |-- 10.1.0.0\n        /24 link UNICAST\n"
        "     |-- 10.1.0.7\n        /32 host LOCAL\n"
        "  +-- 127.0.0.0/8 2 0 2\n     |-- 127.0.0.1\n        /32 host LOCAL\n",
    )
    machine.write("sys/class/net/enp1/address")
    machine.write("sys/class/net/lo/address")
    return machine


@pytest.fixture
def well(bare: FakeMachine) -> FakeMachine:
    """A machine with two cards, where all is well."""
    bare.add_cards(2)
    bare.add_smi()
    bare.add_hccn()
    bare.source(bare.add_cann("8.5.0"))
    bare.write("etc/hccn.conf", "address_0=10.9.0.10\naddress_1=10.9.0.11\n")
    return bare
