"""The objects of a real cluster, as somebody who may do everything: what the double's kubelets ask of a store."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import urllib3
from tests.cluster_double.store import Json

_LIMIT = urllib3.Timeout(connect=5, read=30)
_CLUSTER_WIDE = frozenset(
    (
        "v1/namespaces",
        "v1/nodes",
        "v1/persistentvolumes",
        "apiextensions.k8s.io/v1/customresourcedefinitions",
    )
)


class Refused(Exception):
    """What the API server did not do, and why."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(f"{code}: {words[:1000]}")
        self.code = code


class Remote:
    """One namespace, and what belongs to none. Thread-safe."""

    def __init__(self, url: str, trust: Path, token: str, namespace: str) -> None:
        self._url, self._namespace = url, namespace
        self._trust, self._token = trust, token
        self._made: urllib3.PoolManager | None = None

    @property
    def _pool(self) -> urllib3.PoolManager:
        if self._made is None:
            self._made = urllib3.PoolManager(ca_certs=str(self._trust), maxsize=8)
        return self._made

    def ask(
        self, method: str, path: str, body: Json | None = None, kind: str = "application/json"
    ) -> Json:
        """Fields that the server does not know are refused."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        if method in ("POST", "PUT") and "?" not in path:
            path += "?fieldValidation=Strict"
        data = None if body is None else json.dumps(body)
        answer: Any = self._pool.request(
            method, self._url + path, headers=headers, body=data, timeout=_LIMIT, retries=False
        )
        if answer.status >= 300:
            raise Refused(answer.status, answer.data.decode("utf-8", "replace"))
        return cast("Json", json.loads(answer.data))

    def is_ready(self) -> bool:
        try:
            headers = {"Authorization": f"Bearer {self._token}"}
            path = f"{self._url}/readyz"
            answer: Any = self._pool.request(
                "GET", path, headers=headers, timeout=_LIMIT, retries=False
            )
        except (urllib3.exceptions.HTTPError, OSError):
            return False
        return bool(answer.status == 200)

    def path(self, kind: str, name: str = "") -> str:
        group, _, plural = kind.rpartition("/")
        prefix = f"/apis/{group}" if "/" in group else f"/api/{group}"
        middle = "" if kind in _CLUSTER_WIDE else f"/namespaces/{self._namespace}"
        return f"{prefix}{middle}/{plural}" + (f"/{name}" if name else "")

    def create(self, kind: str, body: Json) -> Json:
        return self.ask("POST", self.path(kind), body)

    def get(self, kind: str, name: str) -> Json | None:
        try:
            return self.ask("GET", self.path(kind, name))
        except Refused as error:
            if error.code == 404:
                return None
            raise

    def all(self, kind: str) -> list[Json]:
        return list(self.ask("GET", self.path(kind)).get("items") or ())

    def update(self, kind: str, name: str, change: Callable[[Json], None]) -> None:
        """The status; of what has none, the object."""
        while (found := self.get(kind, name)) is not None:
            before = copy.deepcopy(found)
            change(found)
            if found == before:
                return
            below = "/status" if found.get("status") != before.get("status") else ""
            try:
                self.ask("PUT", self.path(kind, name) + below, found)
                return
            except Refused as error:
                if error.code not in (404, 409):
                    raise

    def ask_delete(self, kind: str, found: Json, grace_s: int | None) -> None:
        body: Json = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
        }
        meta: Json = found["metadata"]
        if "uid" in meta:
            body["preconditions"] = {"uid": meta["uid"]}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        try:
            self.ask("DELETE", self.path(kind, str(meta["name"])), body)
        except Refused as error:
            if error.code not in (404, 409):
                raise

    def remove(self, kind: str, name: str) -> None:
        self.ask_delete(kind, {"metadata": {"name": name}}, 0)
