"""`jumar login`: use a server other than the home's own."""

import sys

import click

from jumar.cli.asking import ask
from jumar.cli.output import note, print_json
from jumar.cli.trusting import trusted
from jumar.client import Client
from jumar.client.config import forget_login, store_login
from jumar.errors import BadInput, NotSignedIn
from jumar.settings import load


@click.command()
@click.argument("url", required=False)
@click.option("--user", help="Sign in as this user; asks for the password.")
@click.option("--register", is_flag=True, help="Register this user first.")
@click.option("--forget", is_flag=True, help="Go back to this machine's own server.")
@click.option(
    "--fingerprint", metavar="SHA256", help="Trust the certificate with this fingerprint."
)
@click.option("--json", "as_json", is_flag=True, help="Print url, name and role.")
def command(
    url: str | None,
    user: str | None,
    register: bool,
    forget: bool,
    fingerprint: str | None,
    as_json: bool,
) -> None:
    """Use another server.

    Its address and token are stored in login.json in the home, readable only by you. Without --user
    it asks for a token. Secrets are never taken from the command line, where others could see them.

    If no authority that this machine trusts has signed the certificate of an https:// server, you are
    shown its fingerprint and asked; from then on that certificate is trusted and no other. JUMAR_TRUST
    names a file with the certificates of your own authority.

    ssh://USER@HOST[:PORT] uses the server that you use there, through ssh: no open port, no token, and
    whatever your ssh client is set up for. If jumar is not on the PATH there, add its path:
    ssh://ann@trainer/opt/jumar/bin/jumar.

    \b
    Examples:
      jumar login ssh://ann@trainer
      jumar login https://trainer:7420 --user ann
      jumar login --forget
    """
    settings = load()
    if forget:
        forgot = forget_login(settings)
        if as_json:
            print_json({"forgot": forgot})
        else:
            note("forgot the login" if forgot else "there was no login")
        return
    if url is None:
        raise BadInput("the server's address is missing", hint="jumar login https://HOST:7420")
    if url.startswith("ssh://"):
        if user is not None or register:
            raise BadInput("over ssh you are who you are there", hint="jumar login ssh://USER@HOST")
        token = trust = ""
    else:
        trust = trusted(settings, url, fingerprint)
        with Client(url, trust=trust) as stranger:
            token = _sign_in(stranger, user, register)
    with Client(url, token, trust=trust) as client:
        try:
            me = client.me()
        except NotSignedIn as error:
            raise NotSignedIn(
                f"{url} does not accept this token",
                hint="create one on its account page, or sign in with --user NAME",
            ) from error
        path = store_login(settings, client.url, token, trust)
    if as_json:
        print_json({"url": client.url, "name": me.name, "role": me.role})
    else:
        note(f"signed in to {url} as {me.name} ({me.role}); stored in {path}")
        if me.role == "pending":
            note(f"waiting for approval; an admin approves you with: jumar users approve {me.name}")


def _sign_in(client: Client, user: str | None, register: bool) -> str:
    if user is None:
        return ask("Token", hidden=True).strip()
    password = ask(f"Password for {user}", hidden=True)
    if register:
        if sys.stdin.isatty() and ask("Password again", hidden=True) != password:
            raise BadInput("the passwords do not match")
        client.register(user, password)
    return client.sign_in(user, password)
