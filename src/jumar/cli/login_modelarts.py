"""`jumar login modelarts`: save an account at ModelArts after trying it."""

import click

from jumar.cli.asking import ask
from jumar.cli.output import note
from jumar.errors import BadInput
from jumar.settings import load


@click.command()
@click.option("--region", default="", help="Huawei Cloud region, for example cn-north-4.")
@click.option("--endpoint", default="", metavar="URL", help="Address of another ModelArts server.")
@click.option("--obs-endpoint", default="", metavar="URL", help="Address of its OBS.")
@click.option("--project", default="", metavar="ID", help="Project id.")
@click.option("--bucket", default="", help="Bucket for the code and the results of jobs.")
@click.option(
    "--fingerprint", metavar="SHA256", help="Trust the certificate with this fingerprint."
)
@click.option("--forget", is_flag=True, help="Remove the account.")
def command(
    region: str,
    endpoint: str,
    obs_endpoint: str,
    project: str,
    bucket: str,
    fingerprint: str | None,
    forget: bool,
) -> None:
    """Save an account at ModelArts: AK, SK and project id.

    AK and SK are prompted for or read from stdin, one line each; never from the command line, where
    others could see them. They are tried at once, with ModelArts and with OBS, and saved in
    modelarts.json in the home, readable only by you.

    A jumar server can stand in for ModelArts: its `jumar store keys --for modelarts --json` prints
    everything that is asked for here.

    \b
    Examples:
      jumar login modelarts --region cn-north-4 --project 0a1b2c3d --bucket lab
      jumar login modelarts --endpoint https://trainer:7420 --obs-endpoint https://trainer:7480 \\
        --project default --bucket lab
    """
    from dataclasses import replace

    from jumar.cli.trusting import trusted
    from jumar.modelarts.account import new_account, save_account
    from jumar.modelarts.service import Service
    from jumar.store.places import open_bucket

    settings = load()
    home = settings.home
    if forget:
        save_account(home, None)
        note("removed the account at ModelArts")
        return
    for name, value in (("--project", project), ("--bucket", bucket)):
        if not value:
            raise BadInput(f"{name} is missing", hint="see: jumar login modelarts --help")
    account = new_account(
        region=region,
        endpoint=endpoint,
        obs_endpoint=obs_endpoint,
        project_id=project,
        bucket=bucket,
    )
    account = replace(
        account,
        trust=trusted(settings, account.endpoint, fingerprint, "jumar login modelarts --endpoint"),
        access_key=ask("Access Key ID (AK)").strip(),
        secret_key=ask("Secret Access Key (SK)", hidden=True).strip(),
    )
    for name, value in (("AK", account.access_key), ("SK", account.secret_key)):
        if not value or not value.isascii() or not value.isprintable():
            raise BadInput(f"the {name} is empty, or has characters that no key can have")
    flavors = Service(account).read("GET", "/training-job-flavors").get("flavors", [])
    if not open_bucket("obs", bucket, account.stores(home)).has_folder():
        raise BadInput(
            f"the bucket {bucket!r} does not exist in OBS", hint="create it, or name another one"
        )
    path = save_account(home, account)
    note("the credential is valid")
    note(f"saved in {path}; {len(flavors)} flavors, project {project}, bucket {bucket}")
