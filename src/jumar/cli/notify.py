"""`jumar notify`: be told of jobs in a chat."""

import click

from jumar.cli.asking import ask
from jumar.cli.connect import connected
from jumar.cli.output import note, print_json, print_records, say, translated, visible
from jumar.spec.webhooks import EVENTS, KINDS, WebhookRecord


@click.group()
def command() -> None:
    """Get a chat message when your jobs end.

    Webhooks of Feishu, DingTalk, WeCom and Slack; "plain" posts {"text": …}
    to any program. The address is a secret: it is prompted for or read from
    stdin, and never shown again.

    \b
    Examples:
      jumar notify add feishu --events failed,preempted
      jumar notify test 1a2b3c4d
      jumar notify list
    """


@command.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.option(
    "--events",
    default=",".join(EVENTS),
    metavar="LIST",
    help="done, failed, preempted, sweep (what the nightly sweep will end), alert (what is wrong with a training).  [default: all]",
)
@click.option(
    "--language",
    type=click.Choice(("en", "zh")),
    help="Language of the messages.  [default: zh for feishu, dingtalk and wecom, en for the others]",
)
@click.option("--secret", "signed", is_flag=True, help="Messages are signed: ask for the secret.")
@click.option("--json", "as_json", is_flag=True, help="Print the webhook as JSON.")
def add(kind: str, events: str, language: str | None, signed: bool, as_json: bool) -> None:
    """Add a webhook.

    \b
    Examples:
      jumar notify add dingtalk --secret
      jumar notify add slack < address.txt
    """
    url = ask("Address of the webhook", hidden=True).strip()
    secret = ask("Secret", hidden=True).strip() if signed else ""
    wanted = [event.strip() for event in events.split(",") if event.strip()]
    with connected() as client:
        made = client.add_webhook(kind, url, secret=secret, events=wanted, language=language or "")
    if as_json:
        print_json(made)
        return
    say(made.id)
    note(f"try it: jumar notify test {made.id}")


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def list_webhooks(as_json: bool) -> None:
    """List your webhooks, without their addresses.

    \b
    Example:
      jumar notify list
    """
    with connected() as client:
        hooks = client.webhooks()
    print_records(("ID", "KIND", "HOST", "EVENTS", "LAST ERROR"), hooks, _row, as_json=as_json)


def _row(hook: WebhookRecord) -> tuple[str, ...]:
    events, error = ",".join(hook.events), visible(translated(hook.error or "-"))
    return hook.id, hook.kind, visible(hook.host), events, error


@command.command("rm")
@click.argument("webhook")
def remove(webhook: str) -> None:
    """Remove a webhook.

    \b
    Example:
      jumar notify rm 1a2b3c4d
    """
    with connected() as client:
        client.remove_webhook(webhook)


@command.command("test")
@click.argument("webhook")
def try_out(webhook: str) -> None:
    """Send a message now.

    \b
    Example:
      jumar notify test 1a2b3c4d
    """
    with connected() as client:
        client.try_webhook(webhook)
    note("the message was accepted")
