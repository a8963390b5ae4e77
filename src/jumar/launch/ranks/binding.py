"""Which CPUs each rank runs on. The CPUs follow the card, not the rank's number.

`plan_binding` is pure. A card with known near CPUs (A2, or an NVIDIA card's NUMA node) shares them
with all cards that name the same ones, those of other jobs too; CPUs that are near no card are then
shared by all. A3 does not tell: the allowed CPUs are sliced evenly over all cards. Without cards the ranks share the allowed CPUs evenly.
Binding itself is done in the child (`spawn`); when it cannot, the rank goes on unbound.
Which CPUs there are and which lie near which card is read from /sys and asked of npu-smi."""

import os
import re
from typing import Dict, FrozenSet, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from jumar.launch.ascend.facts import CardFacts, generation_of
from jumar.launch.processes.probe import ask

TOPOLOGY_LIMIT_S = 10.0
_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")
_LABEL = re.compile(r"(NPU|Phy-?ID)\s?(\d{1,6})", re.IGNORECASE)
_CPUS = re.compile(r"\d+(?:-\d+)?(?:\s*,\s*\d+(?:-\d+)?)*")
_NODE = re.compile(r"node(\d{1,6})")
_MOST_CPUS = 65536
_NVIDIA = "0x10de"


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


class Neighbour(NamedTuple):
    """One row of the NPU topology."""

    links: Mapping[int, str]
    """By the other chip's number: X, HCCS, SIO, PIX, …"""
    cpu_affinity: Optional[str]


class Topology(NamedTuple):
    """The matrix of `npu-smi info -t topo`. Its numbers are NPU ids, or physical ids on A3."""

    by_phy_id: bool
    rows: Mapping[int, Neighbour]


def parse_cpus(text: str) -> FrozenSet[int]:
    """`0-2,8` is {0, 1, 2, 8}; what is no range is passed over."""
    cpus: List[int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match and len(cpus) < _MOST_CPUS:
            first = int(match[1])
            cpus += range(first, min(int(match[2] or first), first + _MOST_CPUS) + 1)
    return frozenset(cpus)


def format_cpus(cpus: Iterable[int]) -> str:
    """{0, 1, 2, 8} is `0-2,8`."""
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs(cpus))


def runs(cpus: Iterable[int]) -> List[range]:
    """{0, 1, 2, 8} is 0 to 2 and 8."""
    found: List[range] = []
    for cpu in sorted(cpus):
        if found and cpu == found[-1].stop:
            found[-1] = range(found[-1].start, cpu + 1)
        else:
            found.append(range(cpu, cpu + 1))
    return found


def numa_cpus(root: str = "/") -> Dict[int, FrozenSet[int]]:
    """The CPUs of each NUMA node."""
    folder = os.path.join(root, "sys/devices/system/node")
    nodes: Dict[int, FrozenSet[int]] = {}
    for name in _names(folder):
        match = _NODE.fullmatch(name)
        if match:
            nodes[int(match[1])] = parse_cpus(_line(os.path.join(folder, name, "cpulist")))
    return nodes


def gpu_numa_nodes(root: str = "/") -> Dict[int, int]:
    """The NUMA node of each NVIDIA card, numbered by bus address as the driver does."""
    folder = os.path.join(root, "sys/bus/pci/devices")
    cards = [
        name
        for name in _names(folder)
        if _line(os.path.join(folder, name, "vendor")).lower() == _NVIDIA
        and _line(os.path.join(folder, name, "class")).lower().startswith("0x03")
    ]
    found: Dict[int, int] = {}
    for number, name in enumerate(cards):
        node = _line(os.path.join(folder, name, "numa_node"))
        if node.isdigit():
            found[number] = int(node)
    return found


def read_topology(text: str) -> Optional[Topology]:
    """The matrix in an answer of `npu-smi info -t topo`; None when there is none."""
    columns: List[int] = []
    by_phy_id = has_affinity = False
    rows: Dict[int, Neighbour] = {}
    for line in text.expandtabs().splitlines():
        labels = list(_LABEL.finditer(line))
        rest = _LABEL.sub("", line).split()
        if labels and (not rest or rest[:2] == ["CPU", "Affinity"]):
            columns = [int(label[2]) for label in labels]
            by_phy_id = labels[0][1].lower().startswith("phy")
            has_affinity = rest[:2] == ["CPU", "Affinity"]
        elif columns and len(labels) == 1 and line.lstrip().startswith(labels[0][0]):
            row = _neighbour(columns, rest, has_affinity)
            if row is not None:
                rows[int(labels[0][2])] = row
    return Topology(by_phy_id, rows) if rows else None


def _neighbour(columns: List[int], cells: List[str], has_affinity: bool) -> Optional[Neighbour]:
    if len(cells) < len(columns):
        return None
    links = dict(zip(columns, cells))
    if not has_affinity:
        return Neighbour(links, None)
    match = _CPUS.match(" ".join(cells[len(columns) :]))
    return Neighbour(links, match[0].replace(" ", "") if match else None)


def _names(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _line(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.readline(65536).strip()
    except OSError:
        return ""
