"""The HTTP side of the double: paths, verbs, pages, watches and errors as a kube-apiserver has them.

Rights come from the Role that is shipped in deploy/: what that does not allow is answered with 403."""

import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

import yaml
from tests.cluster_double.bodies import Invalid, check
from tests.cluster_double.kubelet import Kubelets
from tests.cluster_double.store import Conflict, Json, Store, matches

from jumar.engine.kubernetes.asking import part

NAMESPACE = "lab"
TOKEN = "a-token-of-the-double"
VOLCANO = "/apis/batch.volcano.sh/v1alpha1"
_DEPLOY = Path(__file__).parents[2] / "deploy"
Rule = tuple[str, str, str]
"""Group, resource, verb."""


def shipped_rules() -> set[Rule]:
    """What the Role in deploy/ allows."""
    documents = yaml.safe_load_all((_DEPLOY / "role.yaml").read_text("utf-8"))
    (role,) = [one for one in documents if one["kind"] == "Role"]
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


class Fault:
    """What goes wrong with the next request of a kind."""

    def __init__(self, verb: str, resource: str, what: str, **values: Any) -> None:
        self.verb, self.resource, self.what, self.values = verb, resource, what, values


class Api:
    """The server of one cluster."""

    def __init__(self, store: Store, *, volcano: bool, kubelets: Kubelets, page: int = 500) -> None:
        self.store, self.volcano, self.kubelets, self.page = store, volcano, kubelets, page
        self.rules = shipped_rules()
        self.asked: list[Rule] = []
        self.faults: list[Fault] = []
        self.watchers: list[socket.socket] = []
        self.is_silent = False
        """Whether watches are kept open and told nothing."""
        self.is_short = False
        """Whether every watch ends as soon as it has begun."""
        self.most_jobs: int | None = None
        """A quota on the namespace."""
        handler = type("BoundHandler", (_Handler,), {"api": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )
        self._thread.start()
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True
        self.cut_watches()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def cut_watches(self) -> int:
        """Every watch loses its connection, in the middle of a line perhaps."""
        with self.store.changed:
            found, self.watchers = self.watchers, []
        for one in found:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        return len(found)

    def fault_for(self, rule: Rule) -> Fault | None:
        for fault in self.faults:
            if (fault.resource, fault.verb) == rule[1:]:
                self.faults.remove(fault)
                return fault
        return None

    def kubeconfig(self, path: Path) -> Path:
        """For the official client."""
        name = {"name": "double"}
        value = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "double",
            "clusters": [{**name, "cluster": {"server": self.url}}],
            "users": [{**name, "user": {"token": TOKEN}}],
            "contexts": [{**name, "context": {"cluster": "double", "user": "double"}}],
        }
        path.write_text(yaml.safe_dump(value))
        return path


class _Refused(Exception):
    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


class _Handler(BaseHTTPRequestHandler):
    api: ClassVar[Api]
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        return

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def _serve(self, method: str) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body: Json = json.loads(self.rfile.read(length) or b"{}")
        place = urlsplit(self.path)
        query = dict(parse_qsl(place.query))
        try:
            self._answer(method, place.path, query, body)
        except _Refused as error:
            self._status(error.code, error.reason, str(error))
        except Conflict as error:
            self._status(409, "AlreadyExists" if method == "POST" else "Conflict", str(error))
        except Invalid as error:
            self._status(422, "Invalid", str(error))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _answer(self, method: str, path: str, query: dict[str, str], body: Json) -> None:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise _Refused(401, "Unauthorized", "Unauthorized")
        if path == VOLCANO:
            if not self.api.volcano:
                # Of a group that is not served there is no object either.
                return self._text("404 page not found\n", 404)
            return self._json({"kind": "APIResourceList", "groupVersion": VOLCANO[6:]})
        kind, resource, name = _split(path)
        verb = _verb(method, name, query)
        group = kind.partition("/")[0] if kind.count("/") > 1 else ""
        rule = (group, resource, verb)
        self._allow(rule)
        fault = self.api.fault_for(rule)
        if fault is not None and self._broken(fault):
            return None
        self._do(verb, kind, resource, name, query, body, is_cut=bool(fault))
        return None

    def _allow(self, rule: Rule) -> None:
        self.api.asked.append(rule)
        if rule not in self.api.rules:
            words = f'{rule[1]} is forbidden: User "system:serviceaccount:lab:jumar" '
            words += f'cannot {rule[2]} resource "{rule[1]}" in API group "{rule[0]}"'
            raise _Refused(403, "Forbidden", words)

    def _broken(self, fault: Fault) -> bool:
        """Whether the request ends here; an answer that is lost is one whose deed is done."""
        if fault.what == "status":
            code = int(fault.values["code"])
            headers = {"Retry-After": str(fault.values["after"])} if "after" in fault.values else {}
            reason = str(fault.values.get("reason", "TooManyRequests"))
            self._status(code, reason, str(fault.values.get("said", "come again later")), headers)
            return True
        if fault.what == "cut":
            self._hang_up()
            return True
        return False

    def _do(
        self,
        verb: str,
        kind: str,
        resource: str,
        name: str,
        query: dict[str, str],
        body: Json,
        *,
        is_cut: bool,
    ) -> None:
        store = self.api.store
        if kind.startswith("batch.volcano.sh") and not self.api.volcano:
            raise _Refused(404, "NotFound", "the server could not find the requested resource")
        if verb == "watch":
            return self._watch(kind, query)
        if verb == "list":
            return self._list(kind, query)
        if resource == "pods/log":
            return self._text(self.api.kubelets.log_of(name))
        if resource == "pods/exec":
            # Clusters from 1.35 on ask for the right to create as well.
            self._allow(("", resource, "create"))
            words = [
                value for key, value in parse_qsl(urlsplit(self.path).query) if key == "command"
            ]
            self.close_connection = True
            return self.api.kubelets.enter(name, words, self.connection, self.headers)
        if verb == "create":
            check(body)
            self._admit(resource, kind, body)
            made = store.create(kind, body)
            return self._hang_up() if is_cut else self._json(made, 201)
        found = store.get(kind, name)
        if found is None:
            raise _Refused(404, "NotFound", f'{resource} "{name}" not found')
        if verb == "delete":
            self._delete(kind, found, body)
        return self._hang_up() if is_cut else self._json(found)

    def _admit(self, resource: str, kind: str, body: Json) -> None:
        """Asked before anybody looks whether the name is taken."""
        most, have = self.api.most_jobs, len(self.api.store.all(kind))
        if resource == "jobs" and most is not None and have >= most:
            counted = f"count/jobs.batch={{}}, used: count/jobs.batch={have}"
            words = f"exceeded quota: few, requested: {counted.format(1)}"
            words += f", limited: count/jobs.batch={most}"
            name = body["metadata"]["name"]
            raise _Refused(403, "Forbidden", f'jobs.batch "{name}" is forbidden: {words}')

    def _delete(self, kind: str, found: Json, options: Json) -> None:
        wanted = part(options, "preconditions").get("uid")
        if wanted and wanted != found["metadata"]["uid"]:
            raise Conflict("the UID in the precondition does not match")
        self.api.store.ask_delete(kind, found, options.get("gracePeriodSeconds"))

    def _list(self, kind: str, query: dict[str, str]) -> None:
        store = self.api.store
        with store.changed:
            wanted = query.get("labelSelector", "")
            found = [body for body in store.all(kind) if matches(body, wanted)]
            version = store.version
        first = int(query.get("continue") or 0)
        limit = min(int(query.get("limit") or self.api.page), self.api.page)
        meta = {"resourceVersion": str(version)}
        if first + limit < len(found):
            meta["continue"] = str(first + limit)
        self._json({"kind": "List", "metadata": meta, "items": found[first : first + limit]})

    def _watch(self, kind: str, query: dict[str, str]) -> None:
        store = self.api.store
        version = int(query["resourceVersion"])
        until = time.monotonic() + float(query.get("timeoutSeconds") or 60)
        selector = query.get("labelSelector", "")
        if store.since(kind, version) is None:
            raise _Refused(410, "Expired", f"too old resource version: {version}")
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with store.changed:
            self.api.watchers.append(self.connection)
        while time.monotonic() < until and not self.api.is_closed and not self.api.is_short:
            with store.changed:
                events = store.since(kind, version)
                if not events:
                    store.changed.wait(0.2)
                    events = store.since(kind, version)
            if events is None:
                gone = {"kind": "Status", "code": 410, "message": "too old resource version"}
                self._chunk({"type": "ERROR", "object": gone})
                break
            if self.api.is_silent:
                continue
            for number, event, body in events:
                version = number
                if matches(body, selector):
                    self._chunk({"type": event, "object": body})
            if not events and query.get("allowWatchBookmarks") == "true":
                version = max(version, store.version)
                meta = {"resourceVersion": str(version)}
                self._chunk({"type": "BOOKMARK", "object": {"metadata": meta}})
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, event: Json) -> None:
        data = json.dumps(event).encode() + b"\n"
        # In two parts: readers must not take an answer's pieces for lines.
        for piece in (data[: len(data) // 2], data[len(data) // 2 :]):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()

    def _json(self, value: Json, code: int = 200, headers: dict[str, str] | None = None) -> None:
        self._send(json.dumps(value).encode(), "application/json", code, headers)

    def _text(self, words: str, code: int = 200) -> None:
        self._send(words.encode(), "text/plain", code)

    def _status(
        self, code: int, reason: str, message: str, headers: dict[str, str] | None = None
    ) -> None:
        value = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
        self._json({**value, "code": code, "reason": reason, "message": message}, code, headers)

    def _send(
        self, data: bytes, kind: str, code: int, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


def _split(path: str) -> tuple[str, str, str]:
    """The kind as the store calls it, the resource as a Role does, and the name."""
    words = path.strip("/").split("/")
    place = words.index("namespaces")
    if words[place + 1] != NAMESPACE:
        raise _Refused(404, "NotFound", f'namespaces "{words[place + 1]}" not found')
    plural, *rest = words[place + 2 :]
    group = "/".join(words[1:place])
    return f"{group}/{plural}", "/".join([plural, *rest[1:]]), rest[0] if rest else ""


def _verb(method: str, name: str, query: dict[str, str]) -> str:
    if method == "POST":
        return "create"
    if method == "DELETE":
        return "delete"
    if name:
        return "get"
    return "watch" if query.get("watch") == "true" else "list"
