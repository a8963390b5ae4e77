"""The webhooks of all users, in one file of the home that only the server can read."""

import json
import secrets
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from jumar.errors import BadInput, Conflict, HomeUnusable, NotAllowed, NotFound
from jumar.notify.messages import takes_secret, templates
from jumar.spec.webhooks import EVENTS, KINDS, WebhookRecord
from jumar.wholefile import write_whole

_MOST_EACH = 10
_FORMAT = 2
"""Of the file. The first was a plain list, from before there was `alert`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One address, with its secrets: never shown, never logged."""

    id: str
    user: str
    kind: str
    url: str
    secret: str
    events: Sequence[str]
    language: str
    anywhere: bool
    """Whether it may be inside the site's own network: an administrator gave it."""

    def __repr__(self) -> str:
        return f"<webhook {self.id} of {self.user}>"

    @property
    def host(self) -> str:
        """All of the address that is no secret."""
        return urlsplit(self.url).hostname or ""

    def record(self, error: str | None) -> WebhookRecord:
        """As lists show it."""
        return WebhookRecord(
            id=self.id,
            kind=self.kind,
            host=self.host,
            events=tuple(self.events),
            language=self.language,
            signed=bool(self.secret),
            error=error,
        )


class Webhooks:
    """Thread-safe."""

    def __init__(self, home: Path) -> None:
        self._path = home / "webhooks.json"
        self._lock = threading.Lock()
        self.all = _read(self._path)
        """Everybody's; replaced, never changed."""

    def of(self, user: str) -> tuple[Webhook, ...]:
        """A user's webhooks."""
        return tuple(hook for hook in self.all if hook.user == user)

    def find(self, user: str, webhook_id: str) -> Webhook:
        """One of a user's own; NotFound."""
        for hook in self.of(user):
            if hook.id == webhook_id:
                return hook
        raise NotFound(f"there is no webhook {webhook_id!r}", hint="see: jumar notify list")

    def add(
        self,
        user: str,
        *,
        kind: str,
        url: str,
        secret: str = "",
        events: tuple[str, ...] = EVENTS,
        language: str = "",
        anywhere: bool = False,
    ) -> Webhook:
        """Tell the user there from now on."""
        _check(kind, url, secret, events, anywhere=anywhere)
        made = Webhook(
            id=secrets.token_hex(4),
            user=user,
            kind=kind,
            url=url,
            secret=secret,
            events=tuple(event for event in EVENTS if event in events),
            language=language or templates()[kind]["language"],
            anywhere=anywhere,
        )
        with self._lock:
            if len(self.of(user)) >= _MOST_EACH:
                raise Conflict(f"{user} has {_MOST_EACH} webhooks", hint="see: jumar notify list")
            self._write((*self.all, made))
        return made

    def remove(self, user: str, webhook_id: str) -> None:
        """Tell the user there no more; NotFound."""
        with self._lock:
            gone = self.find(user, webhook_id)
            self._write(tuple(hook for hook in self.all if hook is not gone))

    def _write(self, hooks: tuple[Webhook, ...]) -> None:
        text = json.dumps({"format": _FORMAT, "webhooks": [asdict(hook) for hook in hooks]})
        write_whole(self._path, text, private=True, durable=True)
        self.all = hooks


def _check(kind: str, url: str, secret: str, events: tuple[str, ...], *, anywhere: bool) -> None:
    if kind not in KINDS:
        raise BadInput(f"{kind!r} is no kind of webhook", hint=f"known: {', '.join(KINDS)}")
    if unknown := [event for event in events if event not in EVENTS]:
        raise BadInput(f"{unknown[0]!r} is no event", hint=f"known: {', '.join(EVENTS)}")
    if secret and not takes_secret(kind):
        raise BadInput(f"{kind} takes no secret; its address is the secret")
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and parts.scheme in ("http", "https")
        _ = parts.port
        # What names of hosts are looked up as: parts of them may be too long, or missing.
        _ = (parts.hostname or "").encode("idna")
    except ValueError:
        parts, is_address = urlsplit(""), False
    # An address is a secret: no message repeats it.
    if not is_address or any(ord(sign) <= 32 or ord(sign) > 126 for sign in url):
        raise BadInput(
            "the address of a webhook must begin with https:// (an administrator's may begin with "
            "http://) and have no spaces"
        )
    if parts.scheme == "http" and not anywhere:
        raise NotAllowed("only administrators may use a webhook without https")


def _read(path: Path) -> tuple[Webhook, ...]:
    try:
        said = json.loads(path.read_text("utf-8"))
        if isinstance(said, list):
            first = cast("list[dict[str, Any]]", said)
            return tuple(_with_alerts(Webhook(**value)) for value in first)
        return tuple(Webhook(**value) for value in cast("dict[str, Any]", said)["webhooks"])
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise HomeUnusable(
            f"cannot read {path}: {type(error).__name__}", hint="move it away, then try again"
        ) from error


def _with_alerts(hook: Webhook) -> Webhook:
    """Who wanted to be told of everything there was is told of what came later, too."""
    earlier = tuple(event for event in EVENTS if event != "alert")
    return replace(hook, events=EVENTS) if tuple(hook.events) == earlier else hook
