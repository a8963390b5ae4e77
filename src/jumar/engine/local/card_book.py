"""What the launcher is told of an attempt's cards. It cannot ask the machine's tools itself, and
what is told here (numbers, generation, addresses) does not change, so each card is asked once."""

import logging
import threading
from collections.abc import Iterable

from jumar.devices.machine import Machine
from jumar.devices.rank_part import rank_facts
from jumar.engine.shared.files import CardFacts
from jumar.errors import JumarError
from jumar.spec.devices import Card, DeviceKind

logger = logging.getLogger(__name__)


class CardBook:
    """Remembers; thread-safe."""

    def __init__(self, machine: Machine | None = None) -> None:
        self._machine = machine
        self._lock = threading.Lock()
        self._known: dict[int, CardFacts] = {}

    def facts(
        self, kind: DeviceKind, ids: Iterable[int], cards: Iterable[Card]
    ) -> tuple[CardFacts, ...]:
        """One for each of the cards that the machine has; CPU slots have none."""
        wanted = set(ids)
        held = [card for card in cards if card.kind == kind and card.id in wanted]
        if kind == DeviceKind.CPU:
            return ()
        if kind != DeviceKind.NPU:
            return tuple({"id": card.id, "logical_id": card.logical_id} for card in held)
        with self._lock:
            new = [card for card in held if card.id not in self._known]
            self._known.update((fact["id"], fact) for fact in self._ask(new))
            return tuple(self._known[card.id] for card in held)

    def _ask(self, cards: list[Card]) -> list[CardFacts]:
        if not cards:
            return []
        try:
            return rank_facts(cards, self._machine)
        except JumarError as error:
            logger.warning("addresses will be missing in the rank table: %s", error)
            return [
                {"id": card.id, "logical_id": card.logical_id, "generation": card.generation}
                for card in cards
            ]
