"""All that is looked at in a cluster: jobs, pods, and what it warns of."""

import time
from collections.abc import Callable

from jumar.engine.kubernetes.answers import Gone
from jumar.engine.kubernetes.asking import EVENTS, PODS, Api, Json, Kind, part
from jumar.engine.kubernetes.watching import Key, Mirror
from jumar.errors import EngineFailed, SubmitRefused

_WARNINGS_S = 30.0


class Watch:
    """What is looked at all the time, begun with the first job."""

    def __init__(
        self, api: Api, kind: Kind, selector: str, on_change: Callable[[Key], None]
    ) -> None:
        self.kind, self._api = kind, api
        self.jobs = Mirror(api, kind, selector, on_change)
        self.pods = Mirror(api, PODS, selector, on_change)
        self._warned: dict[str, str] = {}
        self._asked_at = -_WARNINGS_S
        self.jobs.start()
        self.pods.start()

    def warnings(self) -> dict[str, str]:
        """The newest of the namespace, by object; one question for all jobs, and not often."""
        now = time.monotonic()
        if now - self._asked_at >= _WARNINGS_S:
            self._asked_at = now
            try:
                listed = self._api.list(EVENTS, fieldSelector="type=Warning")
            except (EngineFailed, SubmitRefused, Gone):
                return self._warned
            found = sorted(listed.items, key=_heard_at)
            self._warned = {_about(one): _warning(one) for one in found}
        return self._warned

    def close(self) -> None:
        """Jobs go on."""
        self.jobs.close()
        self.pods.close()


def _about(event: Json) -> str:
    return str(part(event, "involvedObject").get("name") or "")


def _heard_at(event: Json) -> str:
    """When it was last; those who write events do not agree on where that stands."""
    series = part(event, "series")
    found = event.get("lastTimestamp") or series.get("lastObservedTime") or event.get("eventTime")
    return str(found or part(event, "metadata").get("creationTimestamp") or "")


def _warning(event: Json) -> str:
    message = " ".join(str(event.get("message") or "").split())[:300]
    return f"{event.get('reason') or 'Warning'}, {message}"
