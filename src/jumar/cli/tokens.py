"""`jumar tokens`: secrets with which scripts and other machines sign in."""

import click

from jumar.cli.connect import connected
from jumar.cli.output import ago, language, local, note, print_json, print_records, until, visible
from jumar.cli.seconds import whole_seconds
from jumar.client import Client
from jumar.errors import BadInput, NotFound
from jumar.spec.people import TokenRecord
from jumar.words.reasons import value_name

_USER = click.option("--user", help="Tokens of this user; for admins.  [default: you]")


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List, create and revoke tokens.

    With a token a script or another machine signs in as you (JUMAR_TOKEN, or "jumar login URL").
    Sessions are listed too; they expire after 30 days.

    \b
    Examples:
      jumar tokens
      jumar tokens create ci --expires 90d
      jumar tokens revoke ci
    """
    if ctx.invoked_subcommand is None:
        _list(None, as_json=False)


@command.command("list")
@_USER
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def list_(user: str | None, as_json: bool) -> None:
    """List tokens and sessions, without their secrets.

    \b
    Examples:
      jumar tokens list --json
      jumar tokens list --user ann
    """
    _list(user, as_json=as_json)


@command.command()
@click.argument("name")
@click.option(
    "--expires", metavar="TIME", help="How long it is valid: 30d, 12h.  [default: forever]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the token and its id as JSON.")
def create(name: str, expires: str | None, as_json: bool) -> None:
    """Create a token called NAME and print it once.

    \b
    Example:
      jumar tokens create ci --expires 90d
    """
    expires_s = None if expires is None else whole_seconds("--expires", expires)
    with connected() as client:
        made = client.create_token(name, expires_s=expires_s)
    if as_json:
        print_json(made)
        return
    print(made.token)
    note(f"save it now, it is not shown again; revoke it with: jumar tokens revoke {made.id}")


@command.command()
@click.argument("tokens", nargs=-1, required=True, metavar="TOKEN...")
@_USER
@click.option("--json", "as_json", is_flag=True, help="Print the revoked tokens as a JSON list.")
def revoke(tokens: tuple[str, ...], user: str | None, as_json: bool) -> None:
    """Revoke tokens or end sessions, by id or name.

    \b
    Examples:
      jumar tokens revoke ci
      jumar tokens revoke 3f9a0c1d7e --user ann
    """
    with connected() as client:
        known = client.tokens(user)
        # All are looked up before any is revoked: one wrong name changes nothing.
        found = {token.id: token for token in (_find(known, wanted) for wanted in tokens)}
        _revoke_all(client, list(found.values()))
    if as_json:
        print_json(list(found.values()))
    else:
        for token in found.values():
            note(f"revoked {visible(token.label)} ({token.id})")


def _revoke_all(client: Client, tokens: list[TokenRecord]) -> None:
    # The one that this command itself uses goes last.
    for token in sorted(tokens, key=lambda token: token.current):
        client.revoke_token(token.id)


def _find(known: tuple[TokenRecord, ...], wanted: str) -> TokenRecord:
    found = [t for t in known if t.id == wanted] or [t for t in known if t.label == wanted]
    if not found:
        raise NotFound(f"no token {wanted!r}", hint="list them with: jumar tokens list")
    if len(found) > 1:
        ids = ", ".join(token.id for token in found)
        raise BadInput(f"several tokens are called {wanted!r}", hint=f"choose one by its id: {ids}")
    return found[0]


def _list(user: str | None, *, as_json: bool) -> None:
    with connected() as client:
        tokens = client.tokens(user)
    print_records(
        ("ID", "NAME", "KIND", "CREATED", "LAST USED", "EXPIRES"), tokens, _row, as_json=as_json
    )


def _row(token: TokenRecord) -> tuple[str, ...]:
    name = visible(token.label) + (f" ({local('this one')})" if token.current else "")
    end = local("never") if token.expires_at is None else until(token.expires_at)
    kind = value_name("kind", token.kind, language())
    return token.id, name, kind, ago(token.created_at), ago(token.used_at), end
