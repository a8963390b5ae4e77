"""`jumar groups`: who shares what part of the site."""

import click

from jumar.cli.connect import connected
from jumar.cli.output import note, print_json, print_table, visible
from jumar.spec.records import GroupMember, GroupRecord

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the group as JSON.")


@click.group()
def command() -> None:
    """Make groups and give them shares.

    Groups share the cards, users share what is their group's. Everybody is in
    one group, at first in "default". Everyone may list them; changes are for
    admins.

    \b
    Examples:
      jumar groups create vision --share 2
      jumar groups add vision ann
      jumar groups list
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def list_groups(as_json: bool) -> None:
    """List groups, their shares and who is in them.

    \b
    Example:
      jumar groups list --json
    """
    with connected() as client:
        groups = client.groups()
    if as_json:
        print_json(groups)
        return
    rows = [
        (group.name, f"{group.share:g}", ", ".join(map(_member, group.members)) or "-")
        for group in groups
    ]
    print_table(("NAME", "SHARE", "MEMBERS"), rows)


@command.command()
@click.argument("name")
@click.option(
    "--share", type=float, default=1.0, help="Of the site, as a proportion.  [default: 1]"
)
@_AS_JSON
def create(name: str, share: float, as_json: bool) -> None:
    """Make a group.

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
    """Give a group another share of the site.

    \b
    Example:
      jumar groups set-share vision 3
    """
    with connected() as client:
        _tell(client.set_group_share(name, share), as_json)


@command.command()
@click.argument("group")
@click.argument("user")
@click.option("--share", type=float, help="Of the group, as a proportion.  [default: 1]")
@_AS_JSON
def add(group: str, user: str, share: float | None, as_json: bool) -> None:
    """Move a user into a group, or change their share of it.

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
    """Move a user back into "default".

    \b
    Example:
      jumar groups remove vision ann
    """
    with connected() as client:
        _tell(client.remove_from_group(group, user), as_json)


@command.command()
@click.argument("name")
def delete(name: str) -> None:
    """Remove a group; its members go back into "default".

    \b
    Example:
      jumar groups delete vision
    """
    with connected() as client:
        client.delete_group(name)
    note(f"group {visible(name)} is removed")


def _member(member: GroupMember) -> str:
    return visible(member.user) + ("" if member.share == 1 else f" ({member.share:g})")


def _tell(group: GroupRecord, as_json: bool) -> None:
    if as_json:
        print_json(group)
        return
    members = ", ".join(map(_member, group.members)) or "nobody"
    note(f"group {group.name} has a share of {group.share:g}; in it: {members}")
