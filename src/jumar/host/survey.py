"""What several checks need, looked up once: cards, npu-smi, the interpreter, CANN."""

import ipaddress

from jumar.devices.generation import generation_of
from jumar.devices.nodes import PciDevice, accelerators, davinci_ids
from jumar.devices.smi_info import SmiInfo, read_info
from jumar.devices.text import CannotRead
from jumar.errors import BadInput
from jumar.host.interpreter import Imported, Interpreter, inspect, resolve_python, try_imports
from jumar.host.patient import Patient
from jumar.host.software import Software, all_cann, software_here
from jumar.launch.ascend.cann import Cann

NO_CARD = "no Ascend card on this machine"
ADD_DRIVER_LIBRARIES = (
    "export LD_LIBRARY_PATH=/usr/local/Ascend/driver/lib64/driver"
    ":/usr/local/Ascend/driver/lib64/common:$LD_LIBRARY_PATH"
)


def pci_cards(patient: Patient) -> tuple[PciDevice, ...]:
    """Ascend accelerators on the PCI bus."""
    return patient.once("pci", lambda: accelerators(patient.root))


def nodes(patient: Patient) -> tuple[int, ...]:
    """N of each /dev/davinciN."""
    return patient.once("nodes", lambda: davinci_ids(patient.root))


def has_card(patient: Patient) -> bool:
    """Whether the kernel shows any Ascend card."""
    return bool(pci_cards(patient) or nodes(patient))


def smi_info(patient: Patient) -> SmiInfo | None:
    """The table of `npu-smi info`; None if there is none for whatever reason."""

    def read() -> SmiInfo | None:
        answer = patient.ask("npu-smi", "info")
        if answer is None or answer.trouble is not None:
            return None
        try:
            return read_info(answer.output)
        except CannotRead:
            return None

    return patient.once("smi", read)


def generation(patient: Patient) -> str | None:
    """The generation of the chips; None if npu-smi does not tell."""
    info = smi_info(patient)
    if info is None or not info.chips:
        return None
    return generation_of(info.chips[0].name, has_phy_ids=info.has_phy_ids)


def local_addresses(patient: Patient) -> tuple[str, ...]:
    """The addresses of this machine's interfaces, IPv4 first; empty if the kernel does not tell."""
    found: dict[str, None] = {}
    last = ""
    for line in (patient.text("/proc/net/fib_trie") or "").splitlines():
        words = line.split()
        if words[:1] == ["|--"] and len(words) > 1:
            last = words[1]
        elif words[1:] == ["host", "LOCAL"]:
            found[last] = None
    for line in (patient.text("/proc/net/if_inet6") or "").splitlines():
        digits = line.partition(" ")[0]
        if len(digits) == 32:
            found[str(ipaddress.ip_address(bytes.fromhex(digits)))] = None
    return tuple(found)


def software(patient: Patient) -> Software:
    """The CANN that a user of this machine would mean."""
    return patient.once("software", lambda: software_here(patient.root, patient.environ))


def installed_cann(patient: Patient) -> tuple[Cann, ...]:
    """Every CANN in the usual locations, newest first."""
    return patient.once("all-cann", lambda: all_cann(patient.root, patient.environ))


def interpreter(patient: Patient) -> Interpreter | BadInput:
    """The Python to check, or why it cannot be inspected."""

    def look() -> Interpreter | BadInput:
        try:
            executable = resolve_python(patient.python, patient.environ)
            return inspect(executable, patient.environ, limit_s=patient.limits.probe_s)
        except BadInput as error:
            return error

    return patient.once("interpreter", look)


def imported_torch(patient: Patient) -> Imported | None:
    """What came of importing torch, with torch_npu if installed; None if there is no torch."""

    def look() -> Imported | None:
        found = interpreter(patient)
        if isinstance(found, BadInput) or "torch" not in found.packages:
            return None
        modules = ("torch", "torch_npu") if "torch-npu" in found.packages else ("torch",)
        limit_s = patient.limits.import_s
        return try_imports(found.executable, modules, patient.environ, limit_s=limit_s)

    return patient.once("torch", look)
