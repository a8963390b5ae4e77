"""Cards as the kernel shows them: on the bus, with a driver, with device files this user may open."""

from collections.abc import Iterator

from jumar.host.access import Access, access_to, may_override
from jumar.host.container import (
    SHARED_NODES,
    give_capability,
    give_devices,
    give_group,
    in_container,
)
from jumar.host.findings import Check, Finding, count, fail, ok, unknown, warn
from jumar.host.patient import Patient
from jumar.host.survey import NO_CARD, generation, has_card, nodes, pci_cards

_USUAL_GROUP = "HwHiAiUser"


def card_driver(patient: Patient) -> Iterator[Finding]:
    """Cards on the bus have a driver and a device file each."""
    on_bus, files = len(pci_cards(patient)), len(nodes(patient))
    if not on_bus and not files:
        yield unknown(f"{NO_CARD}: none on the PCI bus, no /dev/davinciN")
    elif not files and in_container(patient):
        yield fail(
            f"{count(on_bus, 'Ascend card')} on the PCI bus, none passed to this container",
            give_devices(patient, [f"/dev/{name}" for name in ("davinci0", *SHARED_NODES)]),
        )
    elif not files:
        yield fail(
            f"{count(on_bus, 'Ascend card')} on the PCI bus but no /dev/davinciN: no driver",
            "install driver and firmware as root: ./Ascend-hdk-*-npu-driver_*.run --full"
            " --install-for-all && reboot",
        )
    elif files < on_bus and not in_container(patient):
        yield warn(
            f"{on_bus - files} of {count(on_bus, 'card')} have no /dev/davinciN",
            "see why the driver skipped them: dmesg | grep -iE 'davinci|devdrv'",
        )
    else:
        yield ok(f"{count(files, 'card')} with a device file")


def device_nodes(patient: Patient) -> Iterator[Finding]:
    """The device files shared by all cards exist."""
    if not nodes(patient):
        yield unknown("no device files to check" if has_card(patient) else NO_CARD)
        return
    missing = [name for name in SHARED_NODES if not patient.has(f"/dev/{name}")]
    if missing:
        files = [f"/dev/{name}" for name in missing]
        yield fail(
            f"/dev/davinciN exists, but {', '.join(files)} does not",
            give_devices(patient, files, generation(patient))
            if in_container(patient)
            else "reload the driver as root: reboot, then: ls /dev | grep -E 'davinci|hdc|svm'",
        )
    else:
        yield ok(", ".join(f"/dev/{name}" for name in SHARED_NODES))


def device_permissions(patient: Patient) -> Iterator[Finding]:
    """This user can read and write the device files."""
    names = [f"davinci{number}" for number in nodes(patient)]
    if not names:
        yield unknown("no device files to check" if has_card(patient) else NO_CARD)
        return
    refused: dict[int, list[str]] = {}
    for name in (*names, *SHARED_NODES):
        answer = access_to(patient, patient.path(f"/dev/{name}"), write=True)
        if answer.access is Access.REFUSED:
            refused.setdefault(answer.group, []).append(f"/dev/{name}")
    for group, files in refused.items():
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        is_bound = patient.uid == 0 and not may_override(patient)
        root = ": it is root, but without CAP_DAC_OVERRIDE" if is_bound else ""
        yield fail(
            f"this user cannot read and write {files[0]}{more}{root}",
            _let_in(patient, group),
        )
    if not refused:
        yield ok(f"{count(len(names), 'card')} readable and writable")


def _let_in(patient: Patient, group: int) -> str:
    if patient.uid == 0:
        return give_capability(patient, "DAC_OVERRIDE")
    if in_container(patient):
        return give_group(patient, group)
    return f"sudo usermod -aG {_group_name(patient, group)} $USER   # then log in again"


def _group_name(patient: Patient, gid: int) -> str:
    for line in (patient.text("/etc/group") or "").splitlines():
        fields = line.split(":")
        if len(fields) > 2 and fields[2] == str(gid) and gid != 0:
            return fields[0]
    return _USUAL_GROUP


CHECKS = (
    Check("card-driver", "cards", card_driver),
    Check("device-nodes", "cards", device_nodes, needs_card=True),
    Check("device-permissions", "cards", device_permissions, needs_card=True),
)
