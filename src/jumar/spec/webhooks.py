"""Webhooks: where people are told of their jobs."""

from dataclasses import dataclass

EVENTS = ("done", "failed", "preempted", "sweep", "alert")
KINDS = ("feishu", "dingtalk", "wecom", "slack", "plain")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRecord:
    """A webhook as lists show it: its address and secret are never given out."""

    id: str
    kind: str
    host: str
    events: tuple[str, ...]
    language: str
    signed: bool
    """Whether messages are signed with a secret."""
    error: str | None = None
    """Why the last message did not arrive; None if it did, or none was sent."""
