"""`jumar groups`: how the site is shared."""

import click

from jumar.cli.connect import connected
from jumar.cli.output import note, print_json, print_records, visible
from jumar.spec.shares import GroupMember, GroupRecord

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the group as JSON.")


@click.group()
def command() -> None:
    """Create groups and set their shares.

    Groups share the cards; users share what their group gets. Every user is in
    one group, initially "default". Anyone can list groups; only admins can
    change them.

    \b
    Examples:
      jumar groups create vision --share 2
      jumar groups add vision ann
      jumar groups list
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def list_groups(as_json: bool) -> None:
    """List groups with their shares and members.

    \b
    Example:
      jumar groups list --json
    """
    with connected() as client:
        groups = client.groups()
    print_records(("NAME", "SHARE", "MEMBERS"), groups, _row, as_json=as_json)


def _row(group: GroupRecord) -> tuple[str, ...]:
    return group.name, f"{group.share:g}", ", ".join(map(_member, group.members)) or "-"


@command.command()
@click.argument("name")
@click.option(
    "--share",
    type=float,
    default=1.0,
    help="Share of the site, relative to other groups.  [default: 1]",
)
@_AS_JSON
def create(name: str, share: float, as_json: bool) -> None:
    """Create a group.

    \b
    Example:
      jumar groups create vision --share 2
    """
    with connected() as client:
        _tell(client.create_group(name, share=share), as_json)


@command.command("set-share")
@click.argument("name")
@click.argument("share", type=float)
@_AS_JSON
def set_share(name: str, share: float, as_json: bool) -> None:
    """Change a group's share of the site.

    \b
    Example:
      jumar groups set-share vision 3
    """
    with connected() as client:
        _tell(client.set_group_share(name, share), as_json)


@command.command()
@click.argument("group")
@click.argument("user")
@click.option(
    "--share", type=float, help="Share of the group, relative to its other members.  [default: 1]"
)
@_AS_JSON
def add(group: str, user: str, share: float | None, as_json: bool) -> None:
    """Move a user to a group, or change their share of it.

    \b
    Examples:
      jumar groups add vision ann
      jumar groups add vision ann --share 2
    """
    with connected() as client:
        _tell(client.add_to_group(group, user, share=share), as_json)


@command.command()
@click.argument("group")
@click.argument("user")
@_AS_JSON
def remove(group: str, user: str, as_json: bool) -> None:
    """Move a user back to "default".

    \b
    Example:
      jumar groups remove vision ann
    """
    with connected() as client:
        _tell(client.remove_from_group(group, user), as_json)


@command.command()
@click.argument("name")
def delete(name: str) -> None:
    """Delete a group; its members move back to "default".

    \b
    Example:
      jumar groups delete vision
    """
    with connected() as client:
        client.delete_group(name)
    note(f"deleted group {visible(name)}")


def _member(member: GroupMember) -> str:
    return visible(member.user) + ("" if member.share == 1 else f" ({member.share:g})")


def _tell(group: GroupRecord, as_json: bool) -> None:
    if as_json:
        print_json(group)
        return
    members = ", ".join(map(_member, group.members)) or "none"
    note(f"group {group.name}: share {group.share:g}, members: {members}")
