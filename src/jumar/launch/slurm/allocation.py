"""What Slurm has given to a job, from what its own programs print: nodes, addresses, cards."""

import re
from typing import Dict, List, NamedTuple, Optional, Tuple

_PART = re.compile(r"([^\[\],]*)(?:\[([^\]]*)\])?")
_GIVEN = re.compile(r"(?:^|\s)Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S*)")
_INDICES = re.compile(r"([\w.-]+)(?::([\w.-]+))?:(\d+)\(IDX:([\d,-]+)\)")
_COUNT = re.compile(r"([\w.-]+)(?::[A-Za-z_][\w.-]*)?:(\d+)")
_MOST_NODES = 65536


class Malformed(ValueError):
    """Text that Slurm does not write."""


class Node(NamedTuple):
    """One node of the allocation."""

    name: str
    address: str
    cards: Tuple[int, ...] = ()
    """Positions in the node's list of cards of the kind asked for."""
    card_count: int = 0
    """How many cards of that kind the node has, as Slurm knows it."""


def host_names(text: str) -> List[str]:
    """`n[1-2,05],m` and `r[1-2]n[1-2]` as names, in the order of Slurm."""
    names: List[str] = []
    for word in _words(text):
        names += _expanded(word)
        if len(names) > _MOST_NODES:
            raise Malformed(f"too many nodes: {text[:80]}")
    return names


def _words(text: str) -> List[str]:
    """Parted at commas outside of brackets."""
    return [word for word in re.split(r",(?![^\[]*\])", text) if word]


def _expanded(word: str) -> List[str]:
    made = [""]
    for match in _PART.finditer(word):
        plain, inner = match.group(1), match.group(2)
        endings = [""] if inner is None else _numbers(inner)
        if len(made) * len(endings) > _MOST_NODES:
            raise Malformed(f"too many nodes: {word[:80]}")
        made = [name + plain + ending for name in made for ending in endings]
    return made


def _numbers(text: str) -> List[str]:
    """`1-3,07` with the zeros in front kept."""
    made: List[str] = []
    for span in text.split(","):
        first, is_span, last = span.partition("-")
        if not first.isdigit() or (is_span and not last.isdigit()):
            raise Malformed(f"{text[:80]!r} is not a list of numbers")
        end = int(last) if is_span else int(first)
        if end - int(first) > _MOST_NODES:
            raise Malformed(f"too many nodes: {text[:80]}")
        made += [str(number).zfill(len(first)) for number in range(int(first), end + 1)]
    return made


def given_cards(job: str, gres: str) -> Dict[str, Tuple[int, ...]]:
    """The positions of each node's cards, from `scontrol show job -d -o`; nodes without are left out.

    `gres` is the name of the resource, such as `npu`."""
    found: Dict[str, Tuple[int, ...]] = {}
    for nodes, text in _GIVEN.findall(job):
        positions: List[int] = []
        for name, _, _, indices in _INDICES.findall(text):
            if name == gres:
                positions += map(int, _numbers(indices))
        if positions:
            for node in host_names(nodes):
                found[node] = tuple(sorted(positions))
    return found


def addresses_and_counts(nodes: str, gres: str) -> Dict[str, Tuple[str, int]]:
    """Address and number of cards of each node, from `scontrol show node -o`."""
    found: Dict[str, Tuple[str, int]] = {}
    for line in nodes.splitlines():
        values = dict(word.split("=", 1) for word in line.split() if "=" in word)
        name = values.get("NodeName")
        if name is None:
            continue
        counts = [int(n) for kind, n in _COUNT.findall(values.get("Gres", "")) if kind == gres]
        found[name] = (values.get("NodeAddr", name), sum(counts))
    return found


def value_of(job: str, name: str) -> Optional[str]:
    """A field of `scontrol show job -o`; None where Slurm has none."""
    match = re.search(rf"(?:^|\s){re.escape(name)}=(\S*)", job)
    if match is None or match.group(1) in ("None", "N/A", "(null)", "Unknown", ""):
        return None
    return match.group(1)
