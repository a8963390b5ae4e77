"""The cards of this machine and who uses them: NPU, GPU, simulated, CPU slots."""

from jumar.devices.cards import cards, inventory, simulated_cards
from jumar.devices.machine import Machine

__all__ = ["Machine", "cards", "inventory", "simulated_cards"]
