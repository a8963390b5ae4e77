"""The cores of each rank of this node, near its card; none where there are no cards.

Ranks without cards are left to the kernel's scheduler: other jobs run beside them, and each would
claim the first cores."""

import os
from typing import List, Mapping, NamedTuple, Optional, Sequence, Tuple

from jumar.launch.ascend.facts import CardFacts, generation_of


class Cores(NamedTuple):
    """Of each local rank, and in words."""

    cpus: List[Optional[Tuple[int, ...]]]
    words: List[str]


def cores_for(kind: str, cards: Sequence[CardFacts], environ: Mapping[str, str]) -> Cores:
    """The binding of ranks to cores, one rank a card."""
    if kind not in ("npu", "gpu"):
        return Cores([None for _ in cards], [])
    # Late: it asks npu-smi, with a time limit.
    from jumar.launch.ranks.binding import near_cards, plan_binding

    plan = plan_binding(
        ranks=[card.id for card in cards],
        cards=near_cards(kind),
        allowed=frozenset(os.sched_getaffinity(0)),
        generation=generation_of(cards),
        environ=environ,
    )
    cpus = [None if rank.cpus is None else tuple(sorted(rank.cpus)) for rank in plan.ranks]
    return Cores(cpus, plan.lines())
