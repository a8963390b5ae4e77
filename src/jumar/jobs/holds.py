"""Cards that an administrator keeps from being given out: a card that needs a look, or is lent.

They are in a file of the home, as a drain is. A job that runs on such a card runs to its end."""

import json
import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from jumar.errors import NotFound
from jumar.jobs.roster import Roster
from jumar.spec.devices import Card, CardHold, CardRef
from jumar.spec.text import storable
from jumar.wholefile import write_whole

log = logging.getLogger(__name__)
Held = dict[tuple[str, CardRef], CardHold]


class Holds:
    """Thread-safe."""

    def __init__(self, path: Path, roster: Roster, cards: Iterable[Card]) -> None:
        self._path = path
        self._roster = roster
        self._cards = {(str(card.kind), card.ref) for card in cards}
        self._lock = threading.Lock()
        # A card that is away comes back as it was.
        roster.hold(_read(path))

    def put(self, kind: str, card: CardRef, *, by: str, why: str = "") -> CardHold:
        """Give the card to nobody from now on; NotFound."""
        if (kind, card) not in self._cards:
            raise NotFound(
                f"there is no card {kind} {card.id} on {card.node}", hint="see: jumar top"
            )
        hold = CardHold(by=by, why=storable(why), since=time.time())
        with self._lock:
            self._change({**self._roster.holds, (kind, card): hold})
        log.info("%s %d of %s is on hold, by %s", kind, card.id, card.node, by)
        return hold

    def lift(self, kind: str, card: CardRef) -> None:
        """Give it out again; NotFound where it was not held."""
        with self._lock:
            left = dict(self._roster.holds)
            if left.pop((kind, card), None) is None:
                raise NotFound(f"card {kind} {card.id} of {card.node} is not on hold")
            self._change(left)

    def _change(self, held: Held) -> None:
        rows = [
            {"kind": kind, "node": card.node, "id": card.id, **asdict(hold)}
            for (kind, card), hold in held.items()
        ]
        write_whole(self._path, json.dumps(rows) + "\n", private=True, durable=True)
        self._roster.hold(held)


def _read(path: Path) -> Held:
    try:
        rows = cast("list[dict[str, Any]]", json.loads(path.read_text("utf-8")))
        return {
            (str(row["kind"]), CardRef(str(row["node"]), int(row["id"]))): CardHold(
                by=str(row["by"]), why=str(row["why"]), since=float(row["since"])
            )
            for row in rows
        }
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError) as error:
        # Not as with a drain: which cards were meant is what is lost.
        log.warning("%s is damaged (%s); no card is on hold", path, error)
        return {}
