"""`jumar store`: the built-in store's layout, public prefixes, keys, and two forms."""

from pathlib import Path

import click

from jumar.cli.output import file_count, note, print_json
from jumar.cli.s3_keys import TOOLS, modelarts_variables, shown_for
from jumar.cli.transfers import drawn, my_stores
from jumar.settings import home_of
from jumar.spec.amounts import bytes_text
from jumar.wholefile import write_whole


@click.group(no_args_is_help=True)
def command() -> None:
    """Lay out buckets, publish them, print keys, migrate the built-in store.

    \b
    Example:
      jumar store layout obs://lab
    """


@command.command()
@click.argument("url")
def layout(url: str) -> None:
    """Create a bucket with the folders that common recipes expect.

    \b
    Example:
      jumar store layout obs://lab
    """
    from jumar.store.layout import make_layout
    from jumar.store.places import parse_url

    place = parse_url(url)
    for folder in make_layout(place, my_stores()):
        print(f"{place.scheme}://{place.bucket}/{folder}")


@command.command()
@click.argument("url")
def publish(url: str) -> None:
    """Let anyone read what is under a prefix.

    \b
    Example:
      jumar store publish obs://lab/dataset/
    """
    from jumar.store.places import open_place
    from jumar.store.public import publish as publish_place

    config = my_stores()
    place = open_place(url, config)
    publish_place(place, config)
    note(f"anyone can read what is under {url}")


@command.command()
@click.argument("url")
def unpublish(url: str) -> None:
    """Stop letting anyone read what is under a prefix.

    \b
    Example:
      jumar store unpublish obs://lab/dataset/
    """
    from jumar.store.places import open_place
    from jumar.store.public import unpublish as unpublish_place

    config = my_stores()
    unpublish_place(open_place(url, config), config)
    note(f"only users can read what is under {url}")


@command.command()
@click.option(
    "--for",
    "tool",
    type=click.Choice(["env", *TOOLS, "modelarts"]),
    default="env",
    show_default=True,
    help="Output format: shell variables, or a program's configuration.",
)
@click.option("--renew", is_flag=True, help="Generate new keys; old keys stop working.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def keys(tool: str, renew: bool, as_json: bool) -> None:
    """Print your own keys (AK and SK) for the S3 door.

    env: shell variables for boto3, s5cmd, the AWS tools and s3fs. rclone: a section of its
    configuration. obsutil: a configuration file. modelarts: AK, SK, project and endpoint for clients of
    ModelArts, as shell variables. Keep them secret: whoever has them can act as you.

    \b
    Examples:
      eval "$(jumar store keys)"
      jumar store keys --for rclone >> ~/.config/rclone/rclone.conf
      jumar store keys --for modelarts --json
    """
    from jumar.cli.connect import connected

    with connected() as client:
        if tool == "modelarts":
            pair = client.modelarts_keys(renew=renew)
            print_json(pair) if as_json else print(modelarts_variables(pair), end="")
            return
        found = client.s3_keys(renew=renew)
    if as_json:
        print_json(found)
    else:
        print(shown_for(tool, found, _kept(found.certificate)), end="")


def _kept(certificate: str | None) -> Path | None:
    """Where the door's certificate is for S3 clients to read, if they have to be told of it."""
    if certificate is None:
        return None
    path = home_of() / "s3-certificate.pem"
    write_whole(path, certificate)
    return path


@command.command()
@click.option("--to", "form", type=click.Choice(["s3", "folder"]), required=True)
@click.option("--port", type=click.IntRange(1, 65535), help="The door's port.  [default: 7480]")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def migrate(form: str, port: int | None, as_json: bool) -> None:
    """Move the built-in store behind the S3 door, or back into a folder.

    Everything is copied and compared, then obs:// switches to the new form; the old one stays until you
    remove it. If interrupted, nothing has changed; run it again to continue. The server must be down.

    \b
    Example:
      jumar store migrate --to s3
    """
    from jumar.server.home import locked, prepare_home
    from jumar.store.door import USUAL_PORT, Door, end_left_behind
    from jumar.store.migrate import migrate_to_door, migrate_to_folder
    from jumar.store.transfer.records import Progress

    home = home_of()
    prepare_home(home)
    move = migrate_to_door if form == "s3" else migrate_to_folder
    progress = Progress()
    # The server, and with it the jobs it would start, must not write to the old form.
    with locked(home), drawn(progress):
        end_left_behind(home)
        report = move(home, Door(home, port or USUAL_PORT), progress)
    if as_json:
        print_json(report)
        return
    note(
        f"moved {report.buckets} buckets: copied {file_count(report.copied)} "
        f"({bytes_text(report.bytes)}), skipped {report.skipped} unchanged"
    )
    note(f"the old data is still in {report.old}; remove it when you are sure")
    if form == "s3":
        note("obs:// now needs the S3 door, which starts with the server: jumar up")
