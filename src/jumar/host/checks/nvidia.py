"""Machines with NVIDIA cards: driver, CUDA, torch's build, NCCL, P2P, persistence.

nvidia-smi is asked for CSV only, which is made for programs. A machine without such cards is not
mentioned."""

from collections.abc import Iterator
from dataclasses import dataclass

from jumar.devices.nodes import nvidia_ids, nvidia_on_bus
from jumar.devices.text import first_words, lines_of, whole
from jumar.errors import BadInput
from jumar.host.container import give_gpus, in_container
from jumar.host.findings import Check, Finding, count, fail, ok, unknown, warn
from jumar.host.patient import Patient
from jumar.host.survey import imported_torch, interpreter
from jumar.host.versions import parse_or_none

_FIELDS = "index,name,driver_version,persistence_mode,memory.used,memory.total,ecc.errors.uncorrected.volatile.total"
_NODES = ("nvidiactl", "nvidia-uvm")
_IDLE_MB = 2000
# The first digits of the oldest driver for each CUDA: "Minor Version Compatibility" of NVIDIA's
# CUDA compatibility guide, read 2026-11-16.
_OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}
_SMI_RULES = (
    (
        "version mismatch",
        "the driver was updated and the old one is still loaded: reboot, or with no job running:"
        " sudo rmmod nvidia_drm nvidia_modeset nvidia_uvm nvidia && sudo modprobe -a nvidia nvidia_uvm",
    ),
    (
        "communicate with the NVIDIA driver",
        "sudo modprobe nvidia; after a new kernel: reboot or dkms",
    ),
    ("No devices were found", "see what the driver says: dmesg | grep -iE 'nvrm|xid'"),
    ("Insufficient Permissions", "this user may not open /dev/nvidiactl: ls -l /dev/nvidia*"),
)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One line of nvidia-smi."""

    index: int
    name: str
    driver: str
    persistence: str
    used_mb: int | None
    total_mb: int | None
    bad_memory: int | None


def has_gpu(patient: Patient) -> bool:
    """Whether the kernel shows any NVIDIA card."""
    return patient.once(
        "has-gpu", lambda: bool(nvidia_ids(patient.root) or nvidia_on_bus(patient.root))
    )


def gpus(patient: Patient) -> tuple[Gpu, ...]:
    """The cards as nvidia-smi lists them; empty if it does not."""
    answer = patient.ask("nvidia-smi", f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits")
    if answer is None or not answer.ok:
        return ()
    found: list[Gpu] = []
    for line in answer.output.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) == _FIELDS.count(",") + 1 and words[0].isdecimal():
            used, total, bad = (whole(word) for word in words[4:])
            found.append(Gpu(int(words[0]), words[1], words[2], words[3], used, total, bad))
    return tuple(found)


def gpu_driver(patient: Patient) -> Iterator[Finding]:
    """The cards have a driver that answers."""
    if not has_gpu(patient):
        return
    on_bus, files = len(nvidia_on_bus(patient.root)), len(nvidia_ids(patient.root))
    if not files:
        seen = f"{count(on_bus, 'NVIDIA card')} on the PCI bus, but no /dev/nvidiaN"
        install = "install NVIDIA's driver, then: sudo modprobe nvidia && nvidia-smi"
        yield fail(seen, give_gpus(patient) if in_container(patient) else install)
        return
    answer = patient.ask("nvidia-smi", f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits")
    found = gpus(patient)
    if found:
        yield ok(f"driver {found[0].driver}, {count(len(found), found[0].name)}")
    elif answer is None:
        fix = (
            f"{give_gpus(patient)} -e NVIDIA_DRIVER_CAPABILITIES=all"
            if in_container(patient)
            else ""
        )
        yield unknown(
            "nvidia-smi is not installed", fix or "install NVIDIA's driver with its tools"
        )
    else:
        words = answer.trouble or first_words(answer.output) or "no output"
        fixes = (fix for part, fix in _SMI_RULES if part in answer.output)
        yield fail(f"nvidia-smi: {words}", next(fixes, "see: dmesg | grep -iE 'nvrm|xid'"))


def gpu_nodes(patient: Patient) -> Iterator[Finding]:
    """The device files that all cards share exist: without nvidia-uvm, CUDA fails with error 999."""
    if not nvidia_ids(patient.root):
        return
    missing = [f"/dev/{name}" for name in _NODES if not patient.has(f"/dev/{name}")]
    if missing:
        yield fail(
            f"/dev/nvidiaN exists, but {', '.join(missing)} does not",
            give_gpus(patient) if in_container(patient) else "sudo nvidia-modprobe -u -c=0",
        )


def gpu_torch(patient: Patient) -> Iterator[Finding]:
    """torch is built for CUDA, for one that this driver runs, and sees the cards."""
    found = interpreter(patient)
    if not has_gpu(patient) or isinstance(found, BadInput) or "torch" not in found.packages:
        return
    came = imported_torch(patient)
    version = found.packages["torch"]
    if came is None or came.error is not None:
        return
    if came.cuda is None:
        yield fail(
            f"torch {version} is built without CUDA: it cannot use the GPUs",
            f"{found.executable} -m pip install torch=={version.partition('+')[0]} from the index"
            " of CUDA builds",
        )
        return
    yield from _old_driver(patient, came.cuda)
    if came.gpus:
        yield ok(f"torch {version}, built for CUDA {came.cuda}, sees {count(came.gpus, 'GPU')}")
    else:
        yield fail(
            f"torch {version} sees no GPU: {came.gpu_error or 'torch.cuda.is_available() is False'}",
            _no_gpu_fix(patient, came.gpu_error or ""),
        )


def _old_driver(patient: Patient, cuda: str) -> Iterator[Finding]:
    wanted, built = _OLDEST_DRIVER, parse_or_none(cuda)
    drivers = [parse_or_none(gpu.driver) for gpu in gpus(patient)]
    for driver in drivers[:1]:
        if driver is None or built is None:
            continue
        oldest = wanted.get(built.numbers[0])
        if oldest is not None and driver.numbers[0] < oldest:
            yield fail(
                f"driver {driver} is too old for CUDA {cuda}, for which torch is built",
                f"install driver {oldest} or later, or a torch for an older CUDA",
            )


def _no_gpu_fix(patient: Patient, error: str) -> str:
    if "802" in error:
        return "sudo systemctl enable --now nvidia-fabricmanager   # of the driver's version"
    if patient.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return "unset CUDA_VISIBLE_DEVICES"
    if in_container(patient):
        return give_gpus(patient)
    return "check that the driver answers: nvidia-smi"


def nccl(patient: Patient) -> Iterator[Finding]:
    """torch has NCCL."""
    came = imported_torch(patient) if has_gpu(patient) else None
    if came is None or came.cuda is None:
        return
    if came.nccl:
        yield ok(f"NCCL {came.nccl}")
    else:
        yield warn(
            "this torch has no NCCL: several GPUs cannot train together",
            "use gloo, or another build",
        )


def gpu_p2p(patient: Patient) -> Iterator[Finding]:
    """The cards reach each other's memory directly."""
    if len(gpus(patient)) < 2:
        return
    answer = patient.ask("nvidia-smi", "topo", "-p2p", "r")
    if answer is None or not answer.ok:
        yield unknown("nvidia-smi topo does not tell whether the GPUs reach each other")
        return
    states = [
        word
        for line in lines_of(answer.output)
        if (words := line.split()) and words[0].startswith("GPU")
        for word in words[1:]
        if not word.startswith("GPU") and word != "X"
    ]
    bad = sorted({state for state in states if state != "OK"})
    if bad:
        yield warn(
            f"{sum(state != 'OK' for state in states) // 2} pairs of GPUs have no P2P"
            f" ({', '.join(bad)}): NCCL copies through main memory",
            "turn off ACS and IOMMU in the firmware or with iommu=pt; in a VM ask its host:"
            " nvidia-smi topo -p2p r",
        )
    elif states:
        yield ok(f"P2P between all {len(gpus(patient))} GPUs")


def gpu_persistence(patient: Patient) -> Iterator[Finding]:
    """The driver stays loaded between jobs."""
    off = [str(gpu.index) for gpu in gpus(patient) if gpu.persistence == "Disabled"]
    if off:
        yield warn(
            f"persistence mode is off on GPU {', '.join(off)}: each job waits for the card to start,"
            " and settings are lost in between",
            "sudo systemctl enable --now nvidia-persistenced   # or: sudo nvidia-smi -pm 1",
        )
    elif gpus(patient):
        yield ok("persistence mode is on")


def gpu_memory(patient: Patient) -> Iterator[Finding]:
    """The cards' memory is sound, and nobody unseen holds it."""
    found = gpus(patient)
    bad = [gpu for gpu in found if gpu.bad_memory]
    held = [gpu for gpu in found if (gpu.used_mb or 0) > _IDLE_MB] if found else []
    for gpu in bad:
        yield fail(
            f"GPU {gpu.index} counts {gpu.bad_memory} memory errors that it could not correct",
            f"with no job on it, as root: nvidia-smi -r -i {gpu.index}; if they return, replace it",
        )
    if held and not _has_processes(patient):
        cards = ", ".join(f"GPU {gpu.index}: {gpu.used_mb} MB" for gpu in held)
        yield warn(
            f"memory is in use, but no process is shown ({cards}): it belongs to another container,"
            " or to a process that died",
            "on the host: nvidia-smi; docker ps; sudo fuser -v /dev/nvidia*",
        )
    elif found and not bad:
        yield ok(f"{count(len(found), 'GPU')}, memory sound")


def _has_processes(patient: Patient) -> bool:
    answer = patient.ask("nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader")
    return answer is None or not answer.ok or any(map(str.strip, answer.output.splitlines()))


CHECKS = (
    Check("gpu-driver", "NVIDIA", gpu_driver),
    Check("gpu-nodes", "NVIDIA", gpu_nodes),
    Check("gpu-memory", "NVIDIA", gpu_memory),
    Check("gpu-persistence", "NVIDIA", gpu_persistence),
    Check("gpu-p2p", "NVIDIA", gpu_p2p),
    Check("gpu-torch", "NVIDIA", gpu_torch),
    Check("nccl", "NVIDIA", nccl),
)
