"""What everybody has used, as the database keeps it: card-seconds by user, kind and day.

Written in the transaction that ends an attempt, so nothing is counted twice or lost."""

from sqlalchemy import Connection, delete, insert, select, update

from jumar.database.access import Database
from jumar.database.tables import card_use
from jumar.jobs.scheduling.use import Owner, PastUse, by_day


def record(connection: Connection, owner: Owner, cards: int, since: float, until: float) -> None:
    """An attempt has ended."""
    kind, user = owner
    for day, card_s in by_day(cards, since, until):
        values = {"user": user, "kind": kind, "day": day}
        match = (card_use.c[name] == value for name, value in values.items())
        more = update(card_use).where(*match).values(card_s=card_use.c.card_s + card_s)
        if connection.execute(more).rowcount == 0:
            connection.execute(insert(card_use).values(**values, card_s=card_s))


def load(database: Database, half_life_s: float, now: float) -> PastUse:
    """All that still matters; what no longer does is forgotten."""
    past = PastUse(half_life_s)
    too_old = card_use.c.day < past.oldest_day(now)
    database.write(lambda connection: connection.execute(delete(card_use).where(too_old)))
    with database.read() as connection:
        for row in connection.execute(select(card_use)):
            past.add_day((row.kind, row.user), row.day, row.card_s)
    return past
