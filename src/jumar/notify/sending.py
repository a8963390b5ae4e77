"""Messages on their way. Chats take few of them per minute, so what waits for one webhook goes as one."""

import logging
import threading
import time
from dataclasses import dataclass, field

from jumar.notify.messages import refusal, request
from jumar.notify.post import NotSent, post
from jumar.notify.webhooks import Webhook
from jumar.words.reasons import phrase

log = logging.getLogger(__name__)
_WORKERS = 2
_GATHER_S = 1.0
_PAUSE_S = 5.0
"""Between two messages to one webhook: chats take twenty per minute."""
_AGAIN_S = (10.0, 60.0)
_MOST_LINES = 20
_MOST_WAITING = 1000
_CLOSE_LIMIT_S = 5.0


@dataclass(slots=True)
class _Message:
    hook: Webhook
    due: float
    lines: list[str] = field(default_factory=list[str])
    more: int = 0
    tries: int = 0

    @property
    def text(self) -> str:
        said = "\n".join(self.lines)
        if not self.more:
            return said
        return f"{said}\n{phrase(self.hook.language, 'notice', 'more', count=self.more)}"


class Sender:
    """Owns its threads. What is on its way when the server ends is lost: messages are a courtesy."""

    def __init__(self, *, gather_s: float = _GATHER_S, pause_s: float = _PAUSE_S) -> None:
        self._gather_s = gather_s
        self._pause_s = pause_s
        self._changed = threading.Condition()
        self._waiting: dict[str, _Message] = {}
        self._sent_at: dict[str, float] = {}
        self._busy: set[str] = set()
        """Whose messages are being sent: an address that hangs holds up no other user's."""
        self._closing = False
        self.errors: dict[str, str] = {}
        """By webhook: why the last message did not arrive."""
        self._threads = [
            threading.Thread(target=self._run, name="notify", daemon=True) for _ in range(_WORKERS)
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Send no more."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=_CLOSE_LIMIT_S)

    def add(self, hook: Webhook, line: str) -> None:
        """Say this there soon."""
        now = time.monotonic()
        with self._changed:
            message = self._waiting.get(hook.id)
            if message is None:
                if len(self._waiting) >= _MOST_WAITING:
                    log.warning("too many messages wait; %r is not told", hook)
                    return
                after = self._sent_at.get(hook.id, now - self._pause_s) + self._pause_s
                message = _Message(hook, max(now + self._gather_s, after))
                self._waiting[hook.id] = message
            if len(message.lines) < _MOST_LINES:
                message.lines.append(line)
            else:
                message.more += 1
            self._changed.notify()

    def send_now(self, hook: Webhook, line: str) -> str | None:
        """Why it did not arrive; None if it did."""
        return self._try(_Message(hook, 0.0, [line]))

    def _run(self) -> None:
        while True:
            message = self._next()
            if message is None:
                return
            try:
                error = self._try(message)
            except Exception as trouble:  # nobody would be told of anything any more
                log.exception("%r is not told", message.hook)
                error = type(trouble).__name__
            with self._changed:
                self._busy.discard(message.hook.user)
                self._changed.notify()
            if error is not None:
                self._again(message, error)

    def _next(self) -> _Message | None:
        with self._changed:
            while not self._closing:
                now = time.monotonic()
                free = (one for one in self._waiting.values() if one.hook.user not in self._busy)
                first = min(free, key=lambda one: one.due, default=None)
                if first is not None and first.due <= now:
                    self._busy.add(first.hook.user)
                    return self._waiting.pop(first.hook.id)
                self._changed.wait(None if first is None else first.due - now)
            return None

    def _try(self, message: _Message) -> str | None:
        hook = message.hook
        url, body = request(hook.kind, hook.url, hook.secret, message.text, time.time())
        try:
            error = refusal(hook.kind, *post(url, body, anywhere=hook.anywhere))
        except NotSent as failure:
            error = str(failure)
        with self._changed:
            self._sent_at[hook.id] = time.monotonic()
            if error is None:
                self.errors.pop(hook.id, None)
            else:
                self.errors[hook.id] = error
        return error

    def _again(self, message: _Message, error: str) -> None:
        if message.tries >= len(_AGAIN_S):
            log.warning("%r is not told: %s", message.hook, error)
            return
        message.due = time.monotonic() + _AGAIN_S[message.tries]
        message.tries += 1
        with self._changed:
            newer = self._waiting.get(message.hook.id)
            if newer is not None:
                message.lines = (message.lines + newer.lines)[:_MOST_LINES]
                message.more += newer.more
            self._waiting[message.hook.id] = message
            self._changed.notify()
