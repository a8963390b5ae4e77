"""What is known of the cards that ranks use. It comes as JSON from whoever could ask the machine:
the engine's request.json, or a file in the form of `jumar devices --json`.

A card has two numbers. Rank tables, hccn.conf and device files use the physical one, `id`; the
runtime counts only the cards it can see, and visible-devices variables want that `logical_id`: in
a container with the cards 12 to 15 they are 0 to 3."""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple


class CardFacts(NamedTuple):
    """One card; None means: not told."""

    id: int
    logical_id: Optional[int] = None
    generation: Optional[str] = None
    device_ip: Optional[str] = None
    super_device_id: Optional[str] = None
    super_pod_id: Optional[str] = None
    levels: Tuple[Mapping[str, Any], ...] = ()
    """A5: the card's addresses in each layer of the network, as the driver wrote them down."""
    uuid: Optional[str] = None
    """Of a GPU, or a slice of one, that the user named so: its numbers are not known then."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "CardFacts":
        """Fields that are not known here are left out; raises KeyError, TypeError, ValueError."""
        logical = value.get("logical_id")
        return cls(
            id=int(value["id"]),
            logical_id=None if logical is None else int(logical),
            generation=value.get("generation"),
            device_ip=value.get("device_ip"),
            super_device_id=value.get("super_device_id"),
            super_pod_id=value.get("super_pod_id"),
            levels=tuple(dict(level) for level in value.get("levels") or ()),
        )

    @property
    def visible_as(self) -> int:
        """Its number in a visible-devices variable."""
        return self.id if self.logical_id is None else self.logical_id


def facts_of(cards: Sequence[int], known: Sequence[CardFacts]) -> List[CardFacts]:
    """One record a card, in the order given."""
    told: Dict[int, CardFacts] = {card.id: card for card in known}
    return [told.get(number, CardFacts(number)) for number in cards]


def generation_of(cards: Sequence[CardFacts]) -> Optional[str]:
    """Of the first card that tells; a machine has cards of one generation."""
    return next((card.generation for card in cards if card.generation), None)


def simulated(node: int, cards: Sequence[CardFacts]) -> List[CardFacts]:
    """Simulated cards with what real ones have; their addresses are of the net for benchmarks."""
    return [
        card._replace(generation="A2", device_ip=f"198.18.{node % 256}.{card.id % 254 + 1}")
        for card in cards
    ]
