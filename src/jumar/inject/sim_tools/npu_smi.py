"""`npu-smi` of simulated NPUs: what scripts ask a card for, in the form of a 910B's driver.

It answers `info`, `info -l`, `info -m` and `info -t board|usages|memory|health [-i N]` for the cards of
JUMAR_SIM_DEVICES and the chip of JUMAR_SIM_CHIP. Use, power and temperature are not simulated."""

import json
import os
import sys
from typing import Dict, Iterator, List, Optional, Tuple, Union

_CHIPS = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "sim_path", "torch_npu", "data", "chips.json"
)
_VERSION = "24.1.0.sim"
_RULE = "+" + "-" * 27 + "+" + "-" * 15 + "+" + "-" * 52 + "+"
_DOUBLE = _RULE.replace("-", "=")


def cards() -> range:
    """The numbers of the simulated cards."""
    count = os.environ.get("JUMAR_SIM_DEVICES", "1")
    return range(int(count) if count.isdigit() else 1)


def chip() -> Tuple[str, int]:
    """Its name as the driver writes it, and its memory in MB."""
    with open(_CHIPS, encoding="utf-8") as file:
        known = json.load(file)
    name = os.environ.get("JUMAR_SIM_CHIP") or "a2"
    name = known["names"].get(name.lower(), name)
    if name not in known["chips"]:
        name = known["names"]["a2"]
    # The driver counts what torch is not given as well.
    gigabytes = -(-known["chips"][name]["memory"] // (1 << 33)) * 8
    return name.replace("Ascend", "", 1), gigabytes * 1024


def _row(first: str, second: str, third: str) -> str:
    return f"| {first:<26}| {second:<14}| {third:<51}|"


def info() -> Iterator[str]:
    """The table of all cards."""
    name, memory = chip()
    yield "+" + "-" * 96 + "+"
    yield f"| npu-smi {_VERSION:<24} Version: {_VERSION:<53}|"
    yield _RULE
    yield _row("NPU   Name", "Health", "Power(W)    Temp(C)           Hugepages-Usage(page)")
    yield _row("Chip", "Bus-Id", "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)")
    yield _DOUBLE
    for card in cards():
        yield _row(f"{card:<5} {name}", "OK", "0.0         0                 0    / 0")
        bus = f"0000:{card + 1:02X}:00.0"
        yield _row("0", bus, f"0           0    / 0          0    / {memory}")
        yield _DOUBLE
    yield _RULE
    yield "| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |"
    yield _DOUBLE
    for card in cards():
        yield "| {:<95}|".format(f"No running processes found in NPU {card}")
        yield _DOUBLE


def listed() -> Iterator[str]:
    """The cards, one after the other."""
    yield _field("Total Count", len(cards()))
    for card in cards():
        yield ""
        yield _field("NPU ID", card)
        yield _field("Chip Count", 1)


def mapped() -> Iterator[str]:
    """The numbers of the cards."""
    name, _ = chip()
    columns = "\t{:<30} {:<30} {:<30} {}"
    yield columns.format("NPU ID", "Chip ID", "Chip Logic ID", "Chip Name")
    for card in cards():
        yield columns.format(card, 0, card, "Ascend " + name)


def report(kind: str, card: int) -> Iterator[str]:
    """One kind of report about one card."""
    name, memory = chip()
    known: Dict[str, Dict[str, Union[str, int]]] = {
        "board": {
            "Software Version": _VERSION,
            "Firmware Version": _VERSION,
            "Compatibility": "OK",
            "PCIe Bus Info": f"0000:{card + 1:02X}:00.0",
            "Chip Name": name,
            "Chip Count": 1,
        },
        "usages": {
            "Chip Count": 1,
            "HBM Capacity(MB)": memory,
            "HBM Usage Rate(%)": 0,
            "Aicore Usage Rate(%)": 0,
        },
        "memory": {"Chip Count": 1, "HBM Capacity(MB)": memory},
        "health": {"Health Status": "OK", "Error Code": "NA", "Error Information": "NA"},
    }
    if kind not in known:
        raise SystemExit(f"npu-smi of simulated NPUs does not know -t {kind}")
    yield _field("NPU ID", card)
    for label, value in known[kind].items():
        yield _field(label, value)
    if kind == "usages":
        yield _field("Chip ID", 0)


def _field(name: str, value: Union[str, int]) -> str:
    return f"\t{name:<31}: {value}"


def _option(words: List[str], name: str) -> Optional[str]:
    return words[words.index(name) + 1] if name in words[:-1] else None


def answer(words: List[str]) -> Iterator[str]:
    """The lines of an answer; SystemExit if there is none."""
    if words[:1] != ["info"]:
        raise SystemExit("npu-smi of simulated NPUs answers: npu-smi info [-l | -m | -t KIND -i N]")
    if "-l" in words:
        return listed()
    if "-m" in words:
        return mapped()
    kind = _option(words, "-t")
    if kind is None:
        return info()
    card = _option(words, "-i") or "0"
    if not card.isdigit() or int(card) not in cards():
        raise SystemExit(f"there is no simulated NPU {card}")
    return report(kind, int(card))


if __name__ == "__main__":
    print("\n".join(answer(sys.argv[1:])))
