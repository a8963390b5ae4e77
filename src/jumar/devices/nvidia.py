"""The NVIDIA cards, through nvidia-ml-py. Never from text.

Without the package or the driver, only the device files are left: they show that a card exists."""

import importlib
import logging
from collections.abc import Callable
from typing import Any

from jumar.devices import nodes
from jumar.devices.machine import Machine
from jumar.spec.devices import Card, CardProcess, DeviceKind

_log = logging.getLogger(__name__)

_MB = 1 << 20


def nvidia_cards(machine: Machine) -> tuple[Card, ...]:
    """One card per GPU; empty if there is none."""
    numbers = nodes.nvidia_ids(machine.root)
    if not numbers:
        return ()
    cards = _asked(machine) if machine.is_real else ()
    return cards or tuple(
        Card(DeviceKind.GPU, place, logical_id=place) for place in range(len(numbers))
    )


def _asked(machine: Machine) -> tuple[Card, ...]:
    # Optional: jumar[gpu]. The package has no types.
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        _log.info("nvidia-ml-py is not installed: GPUs are listed without their state")
        return ()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        _log.warning("the NVIDIA driver does not respond: %s", error)
        return ()
    try:
        return tuple(_card(nvml, place, machine) for place in range(nvml.nvmlDeviceGetCount()))
    except nvml.NVMLError as error:
        _log.warning("the NVIDIA driver does not respond: %s", error)
        return ()
    finally:
        nvml.nvmlShutdown()


def _card(nvml: Any, place: int, machine: Machine) -> Card:
    handle = nvml.nvmlDeviceGetHandleByIndex(place)

    def told(function: Callable[..., Any], *arguments: Any) -> Any:
        """The driver's answer; None if the card has no such sensor."""
        try:
            return function(handle, *arguments)
        except nvml.NVMLError:
            return None

    memory = told(nvml.nvmlDeviceGetMemoryInfo)
    rates = told(nvml.nvmlDeviceGetUtilizationRates)
    power_mw = told(nvml.nvmlDeviceGetPowerUsage)
    pci = told(nvml.nvmlDeviceGetPciInfo)
    bus_id = _bus_id(pci.busId) if pci else None
    folder = f"sys/bus/pci/devices/{bus_id.lower()}" if bus_id else ""
    return Card(
        DeviceKind.GPU,
        place,
        _text(told(nvml.nvmlDeviceGetName)),
        health="OK" if memory else "UNKNOWN",
        memory_used_mb=memory.used // _MB if memory else None,
        memory_total_mb=memory.total // _MB if memory else None,
        utilisation_pct=float(rates.gpu) if rates else None,
        power_w=power_mw / 1000 if power_mw is not None else None,
        temperature_c=told(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
        bus_id=bus_id,
        cpu_affinity=(machine.text(f"{folder}/local_cpulist") or "").strip() or None,
        numa_node=nodes.numa_node(bus_id, machine.root) if bus_id else None,
        processes=tuple(
            CardProcess(
                process.pid,
                memory_mb=process.usedGpuMemory // _MB if process.usedGpuMemory else None,
            )
            for process in told(nvml.nvmlDeviceGetComputeRunningProcesses) or ()
        ),
        logical_id=place,
    )


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def _bus_id(value: Any) -> str:
    """`00000000:3B:00.0` as the kernel writes it: four digits of domain."""
    domain, _, rest = _text(value).partition(":")
    return f"{domain[-4:]}:{rest}".upper()
