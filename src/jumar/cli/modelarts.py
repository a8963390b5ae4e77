"""`jumar modelarts`: the training jobs of the account, and the entry script of the tutorials."""

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from jumar.cli.output import note, print_json, print_table
from jumar.errors import BadInput
from jumar.settings import home_of
from jumar.wholefile import write_whole


@click.group()
def command() -> None:
    """Look at training jobs on ModelArts; write an entry script for it.

    \b
    Example:
      jumar modelarts jobs
    """


@command.command()
@click.option("-n", "limit", type=click.IntRange(1, 50), default=20, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def jobs(limit: int, as_json: bool) -> None:
    """List the training jobs of the account given with `jumar login modelarts`, newest first.

    \b
    Example:
      jumar modelarts jobs
    """
    from jumar.modelarts.account import load_account
    from jumar.modelarts.service import Service, dig

    asked = {"offset": 0, "limit": limit, "sort_by": "create_time", "order": "desc"}
    found = Service(load_account(home_of()), patience_s=30).read(
        "POST", "/training-job-searches", asked
    )
    items: list[Any] = dig(found, "items") or []
    rows = [_row(one) for one in items]
    if as_json:
        print_json(rows)
        return
    _print(rows, ("name", "phase", "flavor", "created", "minutes"))


def _row(job: Any) -> dict[str, Any]:
    from jumar.modelarts.service import dig

    created = datetime.fromtimestamp((dig(job, "metadata", "create_time") or 0) / 1000)
    return {
        "id": dig(job, "metadata", "id") or "",
        "name": dig(job, "metadata", "name") or "",
        "phase": dig(job, "status", "phase") or "",
        "flavor": dig(job, "spec", "resource", "flavor_id") or "",
        "created": created.astimezone().isoformat(" ", "minutes"),
        "minutes": int(dig(job, "status", "duration") or 0) // 60_000,
    }


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def flavors(as_json: bool) -> None:
    """List what jobs of the account can run on.

    \b
    Example:
      jumar modelarts flavors
    """
    from jumar.modelarts.account import load_account
    from jumar.modelarts.service import Service, dig

    service = Service(load_account(home_of()), patience_s=30)
    found: list[Any] = dig(service.read("GET", "/training-job-flavors"), "flavors") or []
    rows = [
        {"flavor": dig(one, "flavor_id"), "type": dig(one, "flavor_type"), **_cards(one)}
        for one in found
    ]
    if as_json:
        print_json(rows)
        return
    _print(rows, ("flavor", "type", "cards"))


def _print(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    header = [name.upper() for name in columns]
    print_table(header, [[str(row[name]) for name in columns] for row in rows])


def _cards(flavor: Any) -> dict[str, int]:
    from jumar.modelarts.service import dig

    units = [dig(flavor, "flavor_info", kind, "unit_num") for kind in ("gpu", "npu")]
    return {"cards": next((int(one) for one in units if one), 0)}


@command.command()
@click.argument("script")
@click.option("--pip", "packages", multiple=True, metavar="PACKAGE", help="Install this first.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Default: modelarts_entry_SCRIPT."
)
@click.option("--force", is_flag=True, help="Overwrite the file.")
def entry(script: str, packages: tuple[str, ...], output: Path | None, force: bool) -> None:
    """Write an entry script for ModelArts, or for jumar, that runs a training script.

    It installs packages, shows code, data and cards, runs the script with --data_url and whatever else it
    is given, shows what the script prints as it comes, and copies the code folder to train_url even when
    the training fails. Its exit code is that of the training.

    \b
    Example:
      jumar modelarts entry train.py --pip easydict
    """
    from jumar.modelarts.entry import entry_script

    if Path(script).is_absolute() or ".." in Path(script).parts or not script.endswith(".py"):
        raise BadInput(f"{script!r} is not a script in this folder", hint="for example: train.py")
    path = output or Path(f"modelarts_entry_{Path(script).name}")
    if path.exists() and not force:
        raise BadInput(f"{path} exists", hint="overwrite it with --force")
    write_whole(path, entry_script(script, packages))
    note(f"wrote {path}; run it with: python {path} --data_url DATA --train_url RESULTS")
