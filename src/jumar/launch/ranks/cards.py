"""Which cards of this machine the ranks shall use: free ones, of the kind asked for.

Looks at device nodes only. A better list (who uses what, health) may come as a file in the form
of `jumar devices --json`; a visible-devices variable that is set limits the choice."""

import glob
import json
import os
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Set, cast

from jumar.launch.ascend.facts import CardFacts, facts_of
from jumar.launch.ranks.frameworks import SIM_DEVICES, VISIBLE

_NODE = {
    "npu": ("/dev/davinci[0-9]*", r"/dev/davinci(\d+)"),
    "gpu": ("/dev/nvidia[0-9]*", r"/dev/nvidia(\d+)"),
}
_UUID = re.compile(r"(?:GPU|MIG)-[\w/-]+")


class BadUsage(Exception):
    """An argument that cannot be used."""

    def __init__(self, message: str, hint: str = "jumar launch --help") -> None:
        super().__init__(message)
        self.hint = hint


class Choice(NamedTuple):
    """The devices of this node's ranks."""

    kind: str
    cards: List[int]
    """Empty for cpu, where ranks are only processes, and for GPUs that are named by UUID."""
    size: int
    facts: List[CardFacts]
    """What is known of the chosen cards."""


def choose(
    kind: Optional[str], count: Optional[int], cards_file: Optional[str], environ: Mapping[str, str]
) -> Choice:
    """Pick cards; raises BadUsage when there are not enough."""
    listed = _read_list(cards_file) if cards_file else None
    kind = kind or _kind_here(listed, environ)
    if kind == "cpu":
        return Choice(kind, [], count or len(os.sched_getaffinity(0)), [])
    if kind == "sim":
        return _simulated(count, environ)
    uuids = _uuids(kind, environ)
    if uuids:
        return _by_uuid(uuids, count)
    known = _known(kind, listed)
    allowed = _limited(kind, known, environ)
    if not known and not allowed:
        raise BadUsage(f"this machine has no {kind.upper()}", "see its cards with: jumar devices")
    busy = _busy_in(kind, listed) if listed is not None else _held_open(kind)
    free = [card for card in allowed if card not in busy]
    wanted = len(free) if count is None else count
    if wanted > len(free) or not free:
        held = f", {len(allowed) - len(free)} in use" if len(free) < len(allowed) else ""
        raise BadUsage(
            f"{wanted or 1} {kind} wanted, {len(free)} free (of {len(allowed)} visible{held})",
            "see who uses them with: jumar top --once",
        )
    cards = sorted(free[:wanted])
    return Choice(kind, cards, wanted, facts_of(cards, known))


def _simulated(count: Optional[int], environ: Mapping[str, str]) -> Choice:
    text = environ.get(SIM_DEVICES, "").strip()
    if text and not text.isdigit():
        raise BadUsage(f"{SIM_DEVICES}={text!r} is not a number", "write how many there are")
    there = int(text) if text else count or 1
    wanted = there if count is None else count
    if wanted > there:
        raise BadUsage(f"{wanted} sim wanted, {there} there", f"{SIM_DEVICES} says how many")
    cards = list(range(wanted))
    return Choice("sim", cards, wanted, [CardFacts(card) for card in cards])


def _uuids(kind: str, environ: Mapping[str, str]) -> List[str]:
    """How CUDA may name GPUs, and must name slices of them; numbers are told apart elsewhere."""
    words = [word.strip() for word in environ.get(VISIBLE["gpu"], "").split(",")]
    return words if kind == "gpu" and all(map(_UUID.fullmatch, words)) else []


def _by_uuid(uuids: List[str], count: Optional[int]) -> Choice:
    """Which cards these are only the driver knows: they are taken as the user names them."""
    wanted = len(uuids) if count is None else count
    if wanted > len(uuids):
        raise BadUsage(f"{wanted} gpu wanted, {VISIBLE['gpu']} names {len(uuids)}", "name more")
    facts = [CardFacts(place, uuid=uuid) for place, uuid in enumerate(uuids[:wanted])]
    return Choice("gpu", [], wanted, facts)


def _kind_here(listed: Optional[List[Dict[str, Any]]], environ: Mapping[str, str]) -> str:
    if environ.get(SIM_DEVICES):
        return "sim"
    for kind in ("npu", "gpu"):
        known = _known(kind, listed)
        if known and (_uuids(kind, environ) or _limited(kind, known, environ)):
            return kind
    return "cpu"


def _known(kind: str, listed: Optional[List[Dict[str, Any]]]) -> List[CardFacts]:
    if listed is not None:
        own = (CardFacts.from_json(card) for card in listed if card.get("kind") == kind)
        return sorted(own, key=lambda card: card.id)
    if kind not in _NODE:
        return []
    pattern, name = _NODE[kind]
    matches = (re.fullmatch(name, path) for path in glob.glob(pattern))
    numbers = sorted(int(match[1]) for match in matches if match)
    return [CardFacts(number, logical_id=place) for place, number in enumerate(numbers)]


def _limited(kind: str, known: List[CardFacts], environ: Mapping[str, str]) -> List[int]:
    text = environ.get(VISIBLE.get(kind, ""))
    if text is None:
        return [card.id for card in known]
    if text.strip() in ("", "-1"):
        # How people run on the processors of a machine that has cards.
        return []
    numbers = [part.strip() for part in text.split(",")]
    if not all(number.isdigit() for number in numbers):
        raise BadUsage(f"{VISIBLE[kind]}={text!r} is not a list of cards", "write 0,1,2")
    visible = [int(number) for number in numbers]
    # Where nothing is known of the cards, the variable is all there is to go by.
    return [card.id for card in known if card.visible_as in visible] if known else visible


def _busy_in(kind: str, listed: List[Dict[str, Any]]) -> Set[int]:
    return {
        int(card["id"])
        for card in listed
        if card.get("kind") == kind and (card.get("processes") or card.get("job_id"))
    }


def _held_open(kind: str) -> Set[int]:
    """NPUs whose device node some process has open; CUDA opens all nodes, so it tells nothing."""
    if kind != "npu":
        return set()
    held: Set[int] = set()
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            match = re.fullmatch(r"/dev/davinci(\d+)", os.readlink(path))
        except OSError:
            continue
        if match:
            held.add(int(match[1]))
    return held


def _read_list(path: str) -> List[Dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            value: object = json.load(file)
    except (OSError, ValueError) as error:
        raise BadUsage(f"{path} cannot be read: {error}") from error
    try:
        for card in cast("List[Dict[str, Any]]", value):
            CardFacts.from_json(card)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise BadUsage(
            f"{path} is not a list of cards", "make it with: jumar devices --json"
        ) from None
    return cast("List[Dict[str, Any]]", value)
