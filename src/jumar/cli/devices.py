"""`jumar devices`: the cards of this machine."""

import click

from jumar.cli.output import card_name, local, note, print_records
from jumar.spec.devices import Card

HEADER = (
    "CARD",
    "NAME",
    "CHIP",
    "HEALTH",
    "MEMORY",
    "USE",
    "POWER",
    "TEMP",
    "BUS",
    "ADDRESS",
    "PIDS",
)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list with one entry per chip.")
def command(as_json: bool) -> None:
    """List the cards of this machine.

    NPUs, GPUs and simulated cards, whether or not a server is running.

    \b
    Example:
      jumar devices --json
    """
    from jumar.devices import cards, simulated_cards
    from jumar.devices.nodes import accelerators, davinci_ids
    from jumar.settings import load

    found = (*cards(), *simulated_cards(load().sim_cards))
    print_records(HEADER, found, _row, as_json=as_json)
    silent = len(accelerators())
    if silent and not davinci_ids():
        note(f"{silent} Ascend cards on the PCI bus have no driver (see: jumar doctor)")


def _row(card: Card) -> tuple[str, ...]:
    return (
        f"{card.kind}:{card.id}",
        card_name(card.kind, card.name or ""),
        card.generation or "-",
        local(card.health or "-"),
        memory_text(card.memory_used_mb, card.memory_total_mb),
        _with_unit(card.utilisation_pct, "%"),
        _with_unit(card.power_w, " W"),
        _with_unit(card.temperature_c, " C"),
        card.bus_id or "-",
        card.device_ip or "-",
        ",".join(str(process.pid) for process in card.processes) or "-",
    )


def memory_text(used_mb: int | None, total_mb: int | None) -> str:
    """`3402 / 65536 MB`."""
    if total_mb is None:
        return "-"
    return f"{'?' if used_mb is None else used_mb} / {total_mb} MB"


def _with_unit(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:g}{unit}"
