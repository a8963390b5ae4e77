"""`jumar store`: the built-in store: its layout, what is public, keys for it, its two forms."""

import sys

import click

from jumar.cli.data import drawn_when
from jumar.cli.output import note, print_json
from jumar.cli.s3_keys import TOOLS, shown_for
from jumar.settings import load
from jumar.spec.amounts import bytes_text


@click.group(no_args_is_help=True)
def command() -> None:
    """Lay out buckets, open them to readers, give keys, move the built-in store.

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
    from jumar.store.credentials import load_config
    from jumar.store.layout import make_layout
    from jumar.store.places import parse_url

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
    from jumar.store.credentials import load_config
    from jumar.store.places import open_place
    from jumar.store.public import publish as publish_place

    config = load_config(load().home)
    publish_place(open_place(url, config), config)
    note(f"everybody may read what is under {url}")


@command.command()
@click.argument("url")
def unpublish(url: str) -> None:
    """Take back that everybody may read what is under a prefix.

    \b
    Example:
      jumar store unpublish obs://lab/dataset/
    """
    from jumar.store.credentials import load_config
    from jumar.store.places import open_place
    from jumar.store.public import unpublish as unpublish_place

    config = load_config(load().home)
    unpublish_place(open_place(url, config), config)
    note(f"only users may read what is under {url}")


@command.command()
@click.option(
    "--for",
    "tool",
    type=click.Choice(["env", *TOOLS]),
    default="env",
    show_default=True,
    help="In the form that this program takes.",
)
@click.option("--renew", is_flag=True, help="Make new keys; the old ones count no more.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def keys(tool: str, renew: bool, as_json: bool) -> None:
    """Print your own keys (AK and SK) for the S3 door.

    env: lines for a shell, which boto3, s5cmd, the AWS tools and s3fs read. rclone: a section of its
    configuration. obsutil: a configuration file. Whoever has the keys can do what you can: keep them.

    \b
    Examples:
      eval "$(jumar store keys)"
      jumar store keys --for rclone >> ~/.config/rclone/rclone.conf
    """
    from jumar.cli.connect import connected

    with connected() as client:
        found = client.s3_keys(renew=renew)
    if as_json:
        print_json(found)
    else:
        print(shown_for(tool, found), end="")


@command.command()
@click.option("--to", "form", type=click.Choice(["s3", "folder"]), required=True)
@click.option("--port", type=click.IntRange(1, 65535), help="The door's port.  [default: 7480]")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def migrate(form: str, port: int | None, as_json: bool) -> None:
    """Move the built-in store behind the S3 door, or back into a folder.

    All is copied and compared, then obs:// means the new form; the old one stays until you remove it.
    Cut off in the middle, nothing has changed; run it again and it goes on. The server must be down.

    \b
    Example:
      jumar store migrate --to s3
    """
    from jumar.server.home import locked, prepare_home
    from jumar.store.door import USUAL_PORT, Door, end_left_behind
    from jumar.store.migrate import migrate_to_door, migrate_to_folder
    from jumar.store.transfer.records import Progress

    home = load().home
    prepare_home(home)
    move = migrate_to_door if form == "s3" else migrate_to_folder
    progress = Progress()
    # The server, and with it the jobs it would start, must not write to the form that is left.
    with locked(home), drawn_when(progress, shown=sys.stderr.isatty()):
        end_left_behind(home)
        report = move(home, Door(home, port or USUAL_PORT), progress)
    if as_json:
        print_json(report)
        return
    note(
        f"moved {report.buckets} buckets: copied {report.copied} ({bytes_text(report.bytes)}), "
        f"left {report.skipped} that were there"
    )
    note(f"the old form stays in {report.old}; when you are sure, remove it")
    if form == "s3":
        note("obs:// now needs the door, which opens with the server: jumar up")
