"""Which CPUs each rank runs on. The CPUs follow the card, not the rank's number.

`plan_binding` is pure. A card with known near CPUs (A2, or an NVIDIA card's NUMA node) shares them
with all cards that name the same ones, those of other jobs too; CPUs that are near no card are then
shared by all. A3 does not tell: the allowed CPUs are sliced evenly over all cards. Without cards the ranks share the allowed CPUs evenly.
Binding itself is done in the child (`spawn`); when it cannot, the rank goes on unbound."""

import os
from typing import Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from jumar.launch.ascend.facts import CardFacts, generation_of
from jumar.launch.processes.probe import ask
from jumar.launch.ranks.topology import (
    format_cpus,
    gpu_numa_nodes,
    numa_cpus,
    parse_cpus,
    read_topology,
    runs,
)

TOPOLOGY_LIMIT_S = 10.0


class NearCard(NamedTuple):
    """A card of this machine, of any job, and the CPUs near it where they are known."""

    id: int
    near: Optional[FrozenSet[int]] = None


class RankBinding(NamedTuple):
    """One rank's CPUs; None means: leave it where it is."""

    local_rank: int
    card: Optional[int]
    cpus: Optional[FrozenSet[int]]
    why: str


class BindingPlan(NamedTuple):
    """All ranks of a node, and what could not be done."""

    ranks: Tuple[RankBinding, ...]
    warnings: Tuple[str, ...] = ()

    def lines(self) -> List[str]:
        """The plan for a person to read."""
        shown = [
            "rank {}{}: {} ({})".format(
                rank.local_rank,
                "" if rank.card is None else f" on card {rank.card}",
                "not bound" if rank.cpus is None else "CPUs " + format_cpus(rank.cpus),
                rank.why,
            )
            for rank in self.ranks
        ]
        return shown + ["warning: " + warning for warning in self.warnings]


def cores_near(kind: str, cards: Sequence[CardFacts], environ: Mapping[str, str]) -> BindingPlan:
    """The binding of ranks to cores near their cards, one rank per card; asks npu-smi."""
    return plan_binding(
        ranks=[card.id for card in cards],
        cards=near_cards(kind),
        allowed=frozenset(os.sched_getaffinity(0)),
        generation=generation_of(cards),
        environ=environ,
    )


def plan_binding(
    *,
    ranks: Sequence[Optional[int]],
    cards: Sequence[NearCard],
    allowed: FrozenSet[int],
    generation: Optional[str] = None,
    environ: Optional[Mapping[str, str]] = None,
) -> BindingPlan:
    """The CPUs of each local rank. `ranks[i]` is the card of local rank i, None without cards."""
    if _binds_itself((environ or {}).get("CPU_AFFINITY_CONF", "")):
        # torch_npu binds by itself, and silently gives up when it finds itself bound.
        return _unbound(ranks, "CPU_AFFINITY_CONF is set: torch_npu binds")
    if len(allowed) < max(1, len(ranks)):
        return _unbound(ranks, f"{len(allowed)} CPUs for {len(ranks)} ranks")
    known = {card.id: card for card in cards}
    if not ranks or any(card is None or card not in known for card in ranks):
        return BindingPlan(tuple(_by_rank(ranks, allowed)))
    return _by_card([card for card in ranks if card is not None], known, allowed, generation)


def _binds_itself(wish: str) -> bool:
    """What torch_npu makes of CPU_AFFINITY_CONF: `1`, `mode:2,npu0:0-3`; 0 is off."""
    mode = wish.split(",")[0].strip()
    return (mode[len("mode:") :] if mode.startswith("mode:") else mode) not in ("", "0")


def near_cards(kind: str, *, root: str = "/", npu_smi: str = "npu-smi") -> List[NearCard]:
    """The cards of this machine with the CPUs near them; `kind` is npu or gpu."""
    if kind == "gpu":
        cpus = numa_cpus(root)
        return [NearCard(card, cpus.get(node)) for card, node in gpu_numa_nodes(root).items()]
    if kind != "npu":
        return []
    answer = ask([npu_smi, "info", "-t", "topo"], timeout_s=TOPOLOGY_LIMIT_S)
    topology = read_topology(answer.output)
    if topology is None:
        return []
    return [
        NearCard(number, parse_cpus(row.cpu_affinity) if row.cpu_affinity else None)
        for number, row in sorted(topology.rows.items())
    ]


def _unbound(ranks: Sequence[Optional[int]], why: str) -> BindingPlan:
    return BindingPlan(
        tuple(RankBinding(rank, card, None, why) for rank, card in enumerate(ranks)),
        ("ranks are not bound: " + why,),
    )


def _by_rank(ranks: Sequence[Optional[int]], allowed: FrozenSet[int]) -> List[RankBinding]:
    shares = _split(allowed, len(ranks))
    return [
        RankBinding(rank, card, shares[rank], "an even share of the allowed CPUs")
        for rank, card in enumerate(ranks)
    ]


def _by_card(
    ranks: Sequence[int],
    known: Mapping[int, NearCard],
    allowed: FrozenSet[int],
    generation: Optional[str],
) -> BindingPlan:
    shares: Dict[int, Tuple[Optional[FrozenSet[int]], str]] = {}
    warnings: List[str] = []
    for card in sorted(set(ranks)):
        shares[card] = _share(card, known, allowed, generation)
        if shares[card][0] is None:
            warnings.append(f"card {card}: {shares[card][1]}")
    bound: List[RankBinding] = []
    for rank, card in enumerate(ranks):
        cpus, why = shares[card]
        peers = [other for other, its_card in enumerate(ranks) if its_card == card]
        if cpus is not None and len(cpus) >= len(peers):
            cpus = _split_each_run(cpus, len(peers))[peers.index(rank)]
        bound.append(RankBinding(rank, card, cpus, why))
    return BindingPlan(tuple(bound), tuple(warnings))


def _share(
    card: int,
    known: Mapping[int, NearCard],
    allowed: FrozenSet[int],
    generation: Optional[str],
) -> Tuple[Optional[FrozenSet[int]], str]:
    near = None if generation == "A3" else known[card].near
    if near is None:
        everyone = sorted(known)
        cpus = allowed
        if len(allowed) >= len(everyone):
            cpus = _split(allowed, len(everyone))[everyone.index(card)]
        return cpus, f"slice {everyone.index(card) + 1} of {len(everyone)} of the allowed CPUs"
    here = near & allowed
    if not here:
        return None, f"none of its CPUs {format_cpus(near)} is allowed"
    sharers = sorted(other for other in known if known[other].near == near)
    # Too few for everyone: better all on the near ones than some on far ones.
    cpus = here
    if len(here) >= len(sharers):
        cpus = _split_each_run(here, len(sharers))[sharers.index(card)]
    others = ", ".join(str(other) for other in sharers if other != card)
    why = f"near the card, shared with {others}" if others else "near the card"
    far = _far_share(card, known, allowed)
    return cpus | far, f"{why}; {format_cpus(far)} are near none" if far else why


def _far_share(card: int, known: Mapping[int, NearCard], allowed: FrozenSet[int]) -> FrozenSet[int]:
    """Of the CPUs that are near no card, those whose numbers are close to the near ones."""
    sets = [other.near for other in known.values() if other.near is not None]
    far = allowed - frozenset().union(*sets)
    in_order = sorted(known, key=lambda other: (min(known[other].near or {0}), other))
    # Several runs of numbers near one card are the first and the second threads of its cores.
    split = _split_each_run if any(len(runs(near)) > 1 for near in sets) else _split
    return split(far, len(known))[in_order.index(card)]


def _split_each_run(cpus: FrozenSet[int], parts: int) -> List[FrozenSet[int]]:
    """Even shares, with a part of each run of numbers: `0-3,8-11` in two is `0-1,8-9` and `2-3,10-11`.

    The runs of one NUMA node are the first and the second threads of the same cores, which two
    ranks must not fight for."""
    shares: List[FrozenSet[int]] = [frozenset()] * parts
    for run in runs(cpus):
        # The larger pieces go where little has gone so far.
        fewest_first = sorted(range(parts), key=lambda place: len(shares[place]))
        for place, piece in zip(fewest_first, _split(frozenset(run), parts)):
            shares[place] |= piece
    return shares


def _split(cpus: FrozenSet[int], parts: int) -> List[FrozenSet[int]]:
    """Even contiguous shares, the first ones larger by one where it does not divide."""
    ordered = sorted(cpus)
    size, larger = divmod(len(ordered), parts)
    shares: List[FrozenSet[int]] = []
    at = 0
    for place in range(parts):
        end = at + size + (1 if place < larger else 0)
        shares.append(frozenset(ordered[at:end]))
        at = end
    return shares
