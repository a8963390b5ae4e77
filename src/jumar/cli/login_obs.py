"""`jumar login obs`: keep the key of an object store, after asking the server whether it is valid."""

import click

from jumar.cli.output import note
from jumar.settings import load


@click.command()
@click.option("--region", default="", help="Huawei Cloud region, such as cn-north-4.")
@click.option("--endpoint", default="", metavar="URL", help="Another S3 server instead.")
@click.option("--s3", "for_s3", is_flag=True, help="For s3:// URLs only, not for obs://.")
@click.option("--forget", is_flag=True, help="Forget the key; obs:// is the built-in store again.")
def command(region: str, endpoint: str, for_s3: bool, forget: bool) -> None:
    """Keep the key of OBS or of another S3 server.

    The keys are asked for, or read from stdin, one a line; never taken from the command line, where
    others could see them. They are kept in store.json in the home, for you only.

    \b
    Examples:
      jumar login obs --region cn-north-4
      jumar login obs --endpoint http://trainer:7480
    """
    from jumar.errors import BadInput
    from jumar.store.accounts import accounts_path, obs_account, save_account, validate

    kind = "s3" if for_s3 else "obs"
    path = accounts_path(load().home)
    if forget:
        save_account(path, kind, None)
        note(f"forgot the key for {kind}://")
        return
    if not region and not endpoint:
        raise BadInput("which region?", hint="jumar login obs --region cn-north-4")
    access = str(click.prompt("Access Key ID (AK)", err=True)).strip()
    secret = str(click.prompt("Secret Access Key (SK)", hide_input=True, err=True)).strip()
    account = obs_account(region, access, secret, endpoint)
    found = validate(account)
    save_account(path, kind, account)
    note("the credential is valid")
    note(f"kept for {kind}:// in {path}; buckets: {', '.join(found) or 'none that it may list'}")
