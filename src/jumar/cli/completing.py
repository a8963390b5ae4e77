"""What the shell offers behind TAB: job names and ids, kinds of devices. A server that is down is not
started for it, and one that does not answer is not waited for."""

from collections import Counter
from collections.abc import Callable, Iterator

import click
from click.shell_completion import CompletionItem

from jumar.client import Client
from jumar.client.config import find
from jumar.errors import JumarError
from jumar.settings import load
from jumar.spec.devices import DeviceKind

_PATIENCE_S = 0.5
_MOST_JOBS = 200


def jobs(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    """Ids and names, newest first; a name that several jobs have is offered once."""

    def ask(client: Client) -> Iterator[CompletionItem]:
        for job in client.page(limit=_MOST_JOBS).jobs:
            yield CompletionItem(job.name, help="name")
            if typed:
                # Without a beginning there would be nothing but ids.
                yield CompletionItem(job.id, help=f"{job.name}, {job.state}")
                yield CompletionItem(job.array_id or job.id, help=f"array {job.name}")

    return _offered(typed, ask)


def devices(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
    """Kinds, and how many of each the server has."""

    def ask(client: Client) -> Iterator[CompletionItem]:
        for kind, count in Counter(card.kind for card in client.cards()).items():
            yield from (CompletionItem(f"{kind}:{n}") for n in _usual(count))

    offered = _offered(typed, ask)
    plain = [CompletionItem(kind) for kind in DeviceKind if kind.startswith(typed)]
    return offered or plain


def _usual(count: int) -> list[int]:
    """Powers of two up to all of them."""
    return sorted({count, *(1 << n for n in range(count.bit_length()))} - {0})


def _offered(typed: str, ask: Callable[[Client], Iterator[CompletionItem]]) -> list[CompletionItem]:
    try:
        address = find(load())
        if address is None:
            return []
        with Client(address, patience_s=_PATIENCE_S) as client:
            found = {item.value: item for item in ask(client) if item.value.startswith(typed)}
    except JumarError:
        # A shell has no place for what went wrong.
        return []
    return list(found.values())
