"""The cards of this machine and who uses them: NPU, GPU, simulated, CPU slots."""

from jumar.devices.machine import inventory

__all__ = ["inventory"]
