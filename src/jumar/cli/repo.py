"""`jumar repo`: repositories of projects, models and data sets on the server's hub."""

import os
import subprocess
import sys
from pathlib import Path
from socket import gethostname
from urllib.parse import quote, urlsplit, urlunsplit

import click

from jumar.cli import repo_files
from jumar.cli.connect import connected
from jumar.cli.output import ago, labelled, local, note, print_json, print_records, say, visible
from jumar.cli.repo_options import AS_JSON, KIND, KINDS, named
from jumar.client import Client
from jumar.client.config import find
from jumar.errors import BadInput
from jumar.settings import load
from jumar.spec import wire
from jumar.spec.repos import RepoRecord

_TOKEN_S = 3600


@click.group()
def command() -> None:
    """Create, fill, clone and delete repositories of code, models and data sets.

    A repository is used with git and git-lfs, and with the Hugging Face libraries when HF_ENDPOINT is
    the server's address followed by /hf. In job files, hub://model/OWNER/NAME@REVISION refers to it.

    \b
    Examples:
      jumar repo create project lenet
      jumar repo clone project lenet
      jumar repo upload dataset mnist ./mnist
      jumar repo list --search mnist
    """


for _one in (repo_files.upload, repo_files.import_, repo_files.publish, repo_files.gc):
    command.add_command(_one)


@command.command()
@KIND
@click.argument("name")
@click.option("--private", is_flag=True, help="Only you, or your group, can see it.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the repository as JSON, with an address that holds a new token.",
)
def create(kind: str, name: str, private: bool, as_json: bool) -> None:
    """Create a repository, yours or GROUP/NAME.

    \b
    Examples:
      jumar repo create project lenet
      jumar repo create model vision/resnet50 --private
    """
    owner, _, short = name.rpartition("/")
    with connected() as client:
        made = client.create_repo(kind, short, owner=owner, private=private)
        if as_json:
            label = f"git {made.owner}/{made.name}"
            token = client.create_token(label).token
            print_json(
                {**wire.encode(made), "clone_url_with_token": _with_token(client, made, token)}
            )
            return
    print(made.clone_url)
    note(f"clone it with: jumar repo clone {kind} {made.owner}/{made.name}")


@command.command("list")
@click.option("--kind", type=click.Choice(KINDS), help="Only of this kind.")
@click.option(
    "--search", default="", metavar="WORDS", help="Only with these words in name or card."
)
@click.option("--owner", default="", help="Only of this user or group.")
@AS_JSON
def list_(kind: str | None, search: str, owner: str, as_json: bool) -> None:
    """List repositories: yours, your group's and public ones of others.

    \b
    Examples:
      jumar repo list --kind dataset
      jumar repo list --search "mnist mit" --json
    """
    with connected() as client:
        found = client.repos(kind=kind, search=search, owner=owner)
    print_records(("KIND", "NAME", "VISIBLE", "LICENCE", "CHANGED"), found, _row, as_json=as_json)


def _row(repo: RepoRecord) -> tuple[str, ...]:
    licence, changed = visible(repo.licence) or "-", ago(repo.changed_at)
    return repo.kind, f"{repo.owner}/{repo.name}", _visibility(repo), licence, changed


def _visibility(repo: RepoRecord) -> str:
    return local("private") if repo.private else local("public")


@command.command()
@KIND
@click.argument("name")
@AS_JSON
def show(kind: str, name: str, as_json: bool) -> None:
    """Show a repository.

    \b
    Example:
      jumar repo show model ann/lenet
    """
    with connected() as client:
        repo = named(client, kind, name)
    if as_json:
        print_json(repo)
        return
    print(f"{repo.kind} {repo.owner}/{repo.name}")
    for word, value in (
        ("visible", _visibility(repo)),
        ("licence", visible(repo.licence) or "-"),
        ("tags", ", ".join(map(visible, repo.tags)) or "-"),
        ("changed", ago(repo.changed_at)),
        ("clone", repo.clone_url),
    ):
        say(labelled(word, str(value)))


@command.command()
@KIND
@click.argument("name")
@click.option("--private/--public", default=None, required=True, help="Who can see it.")
def visibility(kind: str, name: str, private: bool) -> None:
    """Make a repository public or private.

    \b
    Example:
      jumar repo visibility dataset mnist --public
    """
    with connected() as client:
        repo = named(client, kind, name)
        client.set_repo_private(repo.kind, repo.owner, repo.name, private)


@command.command()
@KIND
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(kind: str, name: str, yes: bool) -> None:
    """Delete a repository with all its history.

    \b
    Example:
      jumar repo delete model ann/old-lenet --yes
    """
    with connected() as client:
        repo = named(client, kind, name)
        if not yes and not sys.stdin.isatty():
            raise BadInput("deleting a repository cannot be undone", hint="say so with --yes")
        if not yes:
            click.confirm(f"Delete {repo.kind} {repo.owner}/{repo.name} for good?", abort=True)
        client.delete_repo(repo.kind, repo.owner, repo.name)
    note(f"deleted {repo.kind} {repo.owner}/{repo.name}")


@command.command()
@KIND
@click.argument("name")
@click.argument("folder", required=False, type=click.Path(path_type=Path))
def clone(kind: str, name: str, folder: Path | None) -> None:
    """Clone a repository; git asks jumar for the token, none is stored in the clone.

    \b
    Example:
      jumar repo clone model ann/lenet
    """
    with connected() as client:
        repo = named(client, kind, name)
        address = _reached_at(client, repo)
    program = Path(sys.argv[0]).absolute()
    helper = f"credential.{_origin(address)}.helper=!'{program}' repo credential"
    words = ["git", "-c", helper, "clone", "--config", helper, address]
    try:
        done = subprocess.run(
            [*words, *([] if folder is None else [os.fspath(folder)])], check=False
        )
    except FileNotFoundError:
        raise BadInput("git is not installed", hint="install git and git-lfs") from None
    sys.exit(done.returncode)


@command.command(hidden=True)
@click.argument("action")
def credential(action: str) -> None:
    """Tell git the user name and the token: a helper as git's documentation describes it.

    \b
    Example:
      git config credential.helper "!jumar repo credential"
    """
    if action != "get":
        return
    with connected() as client:
        address = find(load())
        token = "" if address is None else address.token
        # Over a socket or ssh there is none to hand on.
        token = token or client.create_token(f"git on {gethostname()}", expires_s=_TOKEN_S).token
        print(f"username={client.me().name}\npassword={token}")


def _reached_at(client: Client, repo: RepoRecord) -> str:
    """Where the repository is seen from here: through the address that this client uses."""
    mine, told = urlsplit(client.url), urlsplit(repo.clone_url)
    if mine.scheme not in ("http", "https"):
        return repo.clone_url
    return urlunsplit((mine.scheme, mine.netloc, told.path, "", ""))


def _origin(address: str) -> str:
    place = urlsplit(address)
    return f"{place.scheme}://{place.netloc}"


def _with_token(client: Client, repo: RepoRecord, token: str) -> str:
    place = urlsplit(_reached_at(client, repo))
    user = quote(client.me().name, safe="")
    return urlunsplit(place._replace(netloc=f"{user}:{token}@{place.netloc}"))
