"""Cards and their holders: what the machine shows and what the platform has assigned."""

from collections.abc import Sequence
from dataclasses import dataclass

from jumar.spec.devices import Card, CardHold, CardProcess
from jumar.spec.records import CardUse


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenProcess:
    """One process on a card."""

    pid: int
    name: str
    user: str | None
    memory_mb: int | None
    job_id: str | None
    foreign: bool
    """Whether the platform did not start it, as far as we can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardView:
    """One card: its state, who holds it and who uses it."""

    kind: str
    id: int
    name: str
    generation: str | None = None
    health: str | None = None
    memory_used_mb: int | None = None
    memory_total_mb: int | None = None
    utilisation_pct: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    job_id: str | None = None
    job_name: str | None = None
    user: str | None = None
    since: float | None = None
    processes: tuple[SeenProcess, ...] = ()
    hold: CardHold | None = None
    """An administrator keeps it from being given out."""

    @property
    def is_taken(self) -> bool:
        """Whether a job holds it or somebody else uses it."""
        return self.job_id is not None or bool(self.processes)


def overview(cards: Sequence[Card], uses: Sequence[CardUse]) -> tuple[CardView, ...]:
    """Every card in either list; `uses` is empty if no server was asked."""
    used = {(use.kind, use.id): use for use in uses}
    seen = {(str(card.kind), card.id): card for card in cards}
    keys = list(dict.fromkeys([*seen, *used]))
    return tuple(_view(seen.get(key), used.get(key), key) for key in keys)


def _view(card: Card | None, use: CardUse | None, key: tuple[str, int]) -> CardView:
    kind, number = key
    name = (card.name if card else "") or (use.name if use else "")
    holder = use.job_id if use else None
    return CardView(
        kind=kind,
        id=number,
        name=name,
        generation=card.generation if card else None,
        health=card.health if card else None,
        memory_used_mb=card.memory_used_mb if card else None,
        memory_total_mb=card.memory_total_mb if card else None,
        utilisation_pct=card.utilisation_pct if card else None,
        power_w=card.power_w if card else None,
        temperature_c=card.temperature_c if card else None,
        job_id=holder,
        job_name=use.job_name if use else None,
        user=use.user if use else None,
        since=use.since if use else None,
        processes=tuple(_seen(process, holder) for process in _processes(card, use)),
        hold=use.hold if use else None,
    )


def _processes(card: Card | None, use: CardUse | None) -> tuple[CardProcess, ...]:
    """As this machine shows them; of another machine, those that its server tells of."""
    if card is not None:
        return card.processes
    return () if use is None else use.foreign


def _seen(process: CardProcess, holder: str | None) -> SeenProcess:
    # A process without a user could not be inspected: on a held card it is most likely the job's.
    unseen = process.user is None and holder is not None
    return SeenProcess(
        pid=process.pid,
        name=process.name,
        user=process.user,
        memory_mb=process.memory_mb,
        job_id=process.job_id,
        foreign=process.job_id is None and not unseen,
    )
