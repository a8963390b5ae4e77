"""The cluster's API over the official client, each call with a limit; objects are JSON as they came.

The client brings what clusters differ in: how people sign in, certificates, tokens that expire, proxies.
Its models and its own watch are not used: those know only the fields of their version, this goes on after a
410 without having listed again."""

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlencode

from jumar.engine.kubernetes.answers import (
    RIGHTS_HINT,
    Gone,
    NotThere,
    Taken,
    error_of,
    in_a_line,
)
from jumar.engine.kubernetes.options import ClusterOptions
from jumar.errors import EngineFailed

Json = dict[str, Any]
_CONNECT_S = 5.0
_ANSWER_S = 30.0
_PATIENCE_S = 15.0
"""How long a call waits where the cluster asks to come again later."""
_PAGE = 500
_MOST_LOG_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class Kind:
    """What the API calls a kind of object."""

    group: str
    plural: str

    @property
    def prefix(self) -> str:
        """The path of its group."""
        return f"/apis/{self.group}" if "/" in self.group else f"/api/{self.group}"


PODS, SERVICES, EVENTS = Kind("v1", "pods"), Kind("v1", "services"), Kind("v1", "events")
JOBS = Kind("batch/v1", "jobs")
VOLCANO_JOBS = Kind("batch.volcano.sh/v1alpha1", "jobs")


def part(body: Json, name: str) -> Json:
    """An object inside of an object; the API leaves out what is empty."""
    return cast("Json", body.get(name) or {})


@dataclass(frozen=True, slots=True)
class Listed:
    """All objects of a kind at one moment."""

    items: list[Json]
    version: str


class Api:
    """One namespace of one cluster; thread-safe."""

    def __init__(self, options: ClusterOptions, connect: Callable[[], Any] | None = None) -> None:
        """`connect`: makes the client, at the first call."""
        self.namespace = options.namespace
        self._connect = connect or (lambda: _client(options))
        self._client: Any = None
        self._lock = threading.Lock()

    def create(self, kind: Kind, body: Json) -> Json:
        """Taken: the name exists. SubmitRefused: never like this. EngineFailed: nobody knows."""
        return self._json("POST", self._path(kind), body=body)

    def get(self, kind: Kind, name: str) -> Json | None:
        """One object; None: it does not exist."""
        return self._known("GET", self._path(kind, name))

    def list(self, kind: Kind, **query: str) -> Listed:
        """All, page by page."""
        items: list[Json] = []
        more = ""
        while True:
            asked = {"limit": str(_PAGE), **query, **({"continue": more} if more else {})}
            page = self._json("GET", self._path(kind), query=asked)
            items += page.get("items") or []
            meta = part(page, "metadata")
            more = str(meta.get("continue") or "")
            if not more:
                return Listed(items, str(meta.get("resourceVersion") or ""))

    def watch(self, kind: Kind, version: str, *, selector: str, limit_s: int) -> Generator[Json]:
        """Events from there on, until the cluster ends the answer. Gone: list again."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "labelSelector": selector,
            "timeoutSeconds": str(limit_s),
        }
        with self._answer("GET", self._path(kind), query=query, read_s=limit_s + 10) as answer:
            rest = b""
            for data in answer.stream(65_536):
                *lines, rest = (rest + data).split(b"\n")
                for line in filter(None, lines):
                    yield _event(line)

    def delete(
        self, kind: Kind, name: str, *, uid: str | None = None, grace_s: int | None = None
    ) -> None:
        """Also what it owns. What no longer exists, or is another object by now, is no error."""
        body: Json = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
        }
        if uid:
            body["preconditions"] = {"uid": uid}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        try:
            self._known("DELETE", self._path(kind, name), body=body)
        except Taken:
            # The uid is another one's.
            return

    def log(self, pod: str) -> str:
        """The last lines that a pod has written."""
        query = {"tailLines": "40", "limitBytes": str(_MOST_LOG_BYTES)}
        with self._answer("GET", self._path(PODS, pod) + "/log", query=query) as answer:
            return bytes(answer.read()).decode("utf-8", "replace")

    def enter(self, pod: str, command: Sequence[str]) -> Any:
        """A websocket to a command that runs in the pod, by the protocol v4.channel.k8s.io."""
        client = self._connected()
        # Both come with the client.
        from kubernetes.stream import ws_client  # pyright: ignore[reportMissingTypeStubs]
        from websocket import WebSocketException

        streams = [(name, "true") for name in ("stdin", "stdout", "stderr")]
        query = urlencode([*(("command", word) for word in command), *streams])
        url = f"{client.configuration.host}{self._path(PODS, pod)}/exec?{query}"
        headers = {name.lower(): value for name, value in _signs(client).items()}
        headers["sec-websocket-protocol"] = "v4.channel.k8s.io"
        untyped: Any = ws_client
        try:
            return untyped.create_websocket(
                client.configuration, untyped.get_websocket_url(url), headers
            )
        except (WebSocketException, OSError) as error:
            raise EngineFailed(
                f"Kubernetes refuses access to {pod}: {in_a_line(error)}", hint=RIGHTS_HINT
            ) from error

    def has_volcano(self) -> bool:
        """Whether the cluster knows jobs of Volcano."""
        return self._known("GET", VOLCANO_JOBS.prefix) is not None

    def close(self) -> None:
        """Let go of connections."""
        if self._client is not None:
            self._client.close()

    def _path(self, kind: Kind, name: str = "") -> str:
        path = f"{kind.prefix}/namespaces/{self.namespace}/{kind.plural}"
        return f"{path}/{name}" if name else path

    def _known(self, method: str, path: str, *, body: Json | None = None) -> Json | None:
        try:
            return self._json(method, path, body=body)
        except NotThere:
            return None

    def _json(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Json | None = None,
    ) -> Json:
        with self._answer(method, path, query=query, body=body) as answer:
            data = answer.read()
        try:
            found = json.loads(data)
        except ValueError as error:
            raise EngineFailed(f"Kubernetes gave no JSON for {method} {path}") from error
        if not isinstance(found, dict):
            raise EngineFailed(f"Kubernetes gave no object for {method} {path}")
        return cast("Json", found)

    @contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Json | None = None,
        read_s: float = _ANSWER_S,
    ) -> Generator[Any]:
        """A good answer, to be read; others as errors, and so is what breaks while it is read."""
        client = self._connected()
        # Comes with the client.
        from urllib3.exceptions import HTTPError

        until = time.monotonic() + _PATIENCE_S
        try:
            while True:
                answer = _send(client, method, path, query, body, read_s)
                wait_s = _wait_s(answer)
                if wait_s is None or time.monotonic() + wait_s > until:
                    break
                answer.release_conn()
                time.sleep(wait_s)
            try:
                if answer.status >= 300:
                    raise error_of(answer.status, answer.read(), method, path)
                yield answer
            finally:
                # One that was read to its end goes back to the pool by itself.
                answer.close()
        except (HTTPError, OSError) as error:
            raise EngineFailed(f"Kubernetes does not answer: {in_a_line(error)}") from error

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client


def _send(
    client: Any,
    method: str,
    path: str,
    query: Mapping[str, str] | None,
    body: Json | None,
    read_s: float,
) -> Any:
    from urllib3.util.timeout import Timeout

    headers = _signs(client) | {"Accept": "application/json", "User-Agent": "jumar"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    return client.rest_client.pool_manager.request(
        method,
        client.configuration.host + path + (f"?{urlencode(query)}" if query else ""),
        body=None if body is None else json.dumps(body),
        headers=headers,
        preload_content=False,
        # We wait ourselves, with a limit.
        retries=False,
        timeout=Timeout(connect=_CONNECT_S, read=read_s),
    )


def _signs(client: Any) -> dict[str, str]:
    """Asked for with each call: a token may have been renewed."""
    signs: Json = client.configuration.auth_settings()
    return {one["key"]: one["value"] for one in signs.values() if one["in"] == "header"}


def _client(options: ClusterOptions) -> Any:
    try:
        from kubernetes import client, config  # pyright: ignore[reportMissingTypeStubs]
        from kubernetes.config.config_exception import (  # pyright: ignore[reportMissingTypeStubs]
            ConfigException,
        )
    except ImportError as error:
        raise EngineFailed(
            f"jobs on Kubernetes need its client: {error}",
            hint="pip install 'jumar[kubernetes]'",
        ) from error
    # The client writes requests and answers, keys included, where somebody logs everything.
    logging.getLogger("kubernetes").setLevel(logging.WARNING)
    untyped: Any = config
    settings = client.Configuration()
    try:
        if options.kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            untyped.load_incluster_config(client_configuration=settings)
        else:
            file = options.kubeconfig and os.path.expanduser(options.kubeconfig)
            untyped.load_kube_config(file, options.context, client_configuration=settings)
    except (ConfigException, OSError, ValueError) as error:
        raise EngineFailed(
            f"the cluster is not known: {in_a_line(error)}",
            hint="name a file of kubectl's with kubeconfig in [kubernetes] of config.toml",
        ) from error
    return client.ApiClient(settings)


def _wait_s(answer: Any) -> float | None:
    """How long the cluster asks to wait before the same call; None: it does not."""
    if answer.status not in (429, 503):
        return None
    told = str(answer.headers.get("Retry-After") or "1")
    return max(0.05, float(told)) if told.replace(".", "", 1).isdigit() else 1.0


def _event(line: bytes) -> Json:
    try:
        event = cast("Json", json.loads(line))
        kind, found = event["type"], event["object"]
    except (ValueError, KeyError, TypeError) as error:
        raise EngineFailed("Kubernetes gave an event that is no JSON") from error
    if kind == "ERROR":
        if found.get("code") == 410:
            raise Gone
        raise EngineFailed(f"Kubernetes ends a watch: {found.get('message')}")
    return event
