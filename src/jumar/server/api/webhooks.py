"""The users' webhooks over REST: given, tried, taken back; never read."""

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.errors import WebhookFailed
from jumar.server.edge.auth import Member
from jumar.server.edge.exchange import Body, answer
from jumar.server.edge.site import SiteOf
from jumar.spec.webhooks import EVENTS, WebhookRecord

router = APIRouter(tags=["webhooks"])


class NewWebhook(Body):
    """Where to tell me, and of what."""

    kind: str
    url: Annotated[str, Field(max_length=2048)]
    secret: Annotated[str, Field(max_length=512)] = ""
    events: Annotated[list[str], Field(min_length=1, max_length=16)] = Field(
        default_factory=lambda: list(EVENTS)
    )
    language: Literal["", "en", "zh"] = ""


@router.get("/webhooks", response_model=list[WebhookRecord], summary="My webhooks")
async def list_webhooks(site: SiteOf, user: Member) -> Response:
    """Without their addresses and secrets."""
    notices = site.notices
    errors = notices.sender.errors
    return answer([hook.record(errors.get(hook.id)) for hook in notices.webhooks.of(user.name)])


@router.post("/webhooks", status_code=201, response_model=WebhookRecord, summary="Add a webhook")
async def add_webhook(site: SiteOf, user: Member, wanted: NewWebhook) -> Response:
    """From now on I am told there. Only administrators may use http:// and private addresses."""

    def add() -> WebhookRecord:
        made = site.notices.webhooks.add(
            user.name,
            kind=wanted.kind,
            url=wanted.url,
            secret=wanted.secret,
            events=tuple(wanted.events),
            language=wanted.language,
            anywhere=user.role == "admin",
        )
        return made.record(None)

    return answer(await run_in_threadpool(add), 201)


@router.delete("/webhooks/{webhook}", status_code=204, summary="Remove a webhook")
async def remove_webhook(site: SiteOf, user: Member, webhook: str) -> Response:
    """I am told there no more."""
    await run_in_threadpool(site.notices.webhooks.remove, user.name, webhook)
    return Response(status_code=204)


@router.post("/webhooks/{webhook}/test", status_code=204, summary="Send a test message")
async def try_webhook(site: SiteOf, user: Member, webhook: str) -> Response:
    """Now; an error says why it did not arrive."""
    hook = site.notices.webhooks.find(user.name, webhook)
    error = await run_in_threadpool(site.notices.try_out, hook)
    if error is not None:
        raise WebhookFailed(f"the message was not delivered: {error}")
    return Response(status_code=204)
