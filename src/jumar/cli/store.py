"""`jumar store`: the built-in store: its layout, what is public, its two forms."""

import click

from jumar.cli.output import note, print_json
from jumar.settings import load
from jumar.spec.amounts import bytes_text


@click.group(no_args_is_help=True)
def command() -> None:
    """Lay out buckets, open them to readers, move the built-in store.

    \b
    Example:
      jumar store layout obs://lab
    """


@command.command()
@click.argument("url")
def layout(url: str) -> None:
    """Make a bucket with the folders that the usual recipes expect.

    \b
    Example:
      jumar store layout obs://lab
    """
    from jumar.store.accounts import load_config
    from jumar.store.layout import make_layout
    from jumar.store.url import parse_url

    place = parse_url(url)
    for folder in make_layout(place, load_config(load().home)):
        print(f"{place.scheme}://{place.bucket}/{folder}")


@command.command()
@click.argument("url")
def publish(url: str) -> None:
    """Let everybody read what is under a prefix.

    \b
    Example:
      jumar store publish obs://lab/dataset/
    """
    from jumar.store.accounts import load_config
    from jumar.store.layout import publish as publish_place
    from jumar.store.places import open_place

    config = load_config(load().home)
    publish_place(open_place(url, config), config)
    note(f"everybody may read what is under {url}")


@command.command()
@click.option("--to", "form", type=click.Choice(["s3", "folder"]), required=True)
@click.option("--port", type=click.IntRange(1, 65535), help="The door's port. [default: 7480]")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def migrate(form: str, port: int | None, as_json: bool) -> None:
    """Move the built-in store behind the S3 door, or back into a folder.

    All is copied and compared, then obs:// means the new form; the old one stays until you remove it.
    The door is used as it runs (jumar up --s3 PORT), or started for the move.

    \b
    Example:
      jumar store migrate --to s3
    """
    from jumar.store.accounts import load_config
    from jumar.store.door import Door
    from jumar.store.migrate import migrate_to_door, migrate_to_folder

    home = load().home
    known = load_config(home, {}).obs
    stored = int(known.endpoint.rpartition(":")[2]) if known and form == "folder" else 7480
    door = Door(home, port or stored)
    runs = door.healthy()
    if not runs:
        door.start()
    try:
        report = migrate_to_door(home, door.account) if form == "s3" else migrate_to_folder(home)
    finally:
        if not runs:
            door.stop()
    if as_json:
        print_json(report)
        return
    note(
        f"moved {report.buckets} buckets: copied {report.copied} ({bytes_text(report.bytes)}), "
        f"left {report.skipped} that were there"
    )
    if form == "s3":
        note(f"obs:// now needs the door: jumar up --s3 {door.port}")
