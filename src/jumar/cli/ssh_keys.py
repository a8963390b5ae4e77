"""`jumar ssh-key`: public keys with which you come into your jobs by SSH."""

import sys
from pathlib import Path

import click

from jumar.cli.connect import connected
from jumar.cli.output import ago, note, print_json, print_records, visible
from jumar.errors import BadInput, NotFound
from jumar.spec.people import SshKeyRecord

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_LARGEST = 16_384
_MAKE_ONE = "make one with: ssh-keygen -t ed25519, and give the file that ends in .pub"


@click.group()
def command() -> None:
    """Add, list and remove public keys for SSH.

    Where the server has an SSH port (jumar up --ssh PORT), `ssh -p PORT JOB@HOST` opens a shell in your
    running job, with the variables, folder and cards of its first process.

    \b
    Example:
      jumar ssh-key add ~/.ssh/id_ed25519.pub
    """


@command.command()
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--name", default="", help="What to call it.  [default: its comment]")
@_JSON
def add(file: str, name: str, as_json: bool) -> None:
    """Add the public key in FILE.

    \b
    Example:
      jumar ssh-key add ~/.ssh/id_ed25519.pub --name laptop
    """
    line = _read(file)
    with connected() as client:
        made = client.add_ssh_key(line, label=name)
        server = client.server()
    if as_json:
        print_json(made)
        return
    note(f"added {visible(made.label)} ({made.fingerprint})")
    if server.ssh_port:
        note(f"ssh -p {server.ssh_port} JOB@HOST; the server shows {server.ssh_fingerprint}")
    else:
        note("the server has no SSH port yet; an admin opens one with: jumar up --ssh PORT")


@command.command("list")
@_JSON
def list_(as_json: bool) -> None:
    """List your public keys.

    \b
    Example:
      jumar ssh-key list --json
    """
    with connected() as client:
        keys = client.ssh_keys()
    print_records(("FINGERPRINT", "NAME", "CREATED"), keys, _row, as_json=as_json)


def _row(key: SshKeyRecord) -> tuple[str, ...]:
    return key.fingerprint, visible(key.label), ago(key.created_at)


@command.command()
@click.argument("key")
def remove(key: str) -> None:
    """Remove a public key, by fingerprint or name.

    \b
    Example:
      jumar ssh-key remove laptop
    """
    with connected() as client:
        found = [one for one in client.ssh_keys() if key in (one.fingerprint, one.label)]
        if not found:
            raise NotFound(f"no key {key!r}", hint="list them with: jumar ssh-key list")
        if len(found) > 1:
            names = ", ".join(one.fingerprint for one in found)
            raise BadInput(f"several keys are called {key!r}", hint=f"choose one: {names}")
        client.remove_ssh_key(found[0].fingerprint)
    note(f"removed {visible(found[0].label)} ({found[0].fingerprint})")


def _read(file: str) -> str:
    if file == "-":
        return sys.stdin.read(_LARGEST)
    try:
        with Path(file).expanduser().open(encoding="utf-8") as opened:
            return opened.read(_LARGEST)
    except OSError as error:
        raise BadInput(f"cannot read {file}: {error.strerror}", hint=_MAKE_ONE) from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{file} is not text", hint=_MAKE_ONE) from error
