"""A real cluster with nodes that are none, and an engine on it. Pods run as processes of this machine."""

import os
import shutil
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import urllib3
from tests.cluster_double.cluster import options_for
from tests.cluster_double.kubelet import PODS, Kubelets
from tests.cluster_double.store import Json, stamp
from tests.real_cluster.control_plane import ControlPlane, is_wanted
from tests.real_cluster.remote import Refused, Remote

from jumar.engine.kubernetes.engine import KubernetesEngine

CARDS = "huawei.com/Ascend910"
_ROLE = Path(__file__).parents[2] / "deploy" / "role.yaml"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_BEAT_S = 2.0


class Nodes(Kubelets):
    """Four, with eight cards each, that beat and run what is bound to them."""

    def __init__(self, admin: Remote, folder: Path) -> None:
        super().__init__(admin)
        self._admin = admin
        self.names = [f"node{number}" for number in range(4)]
        self._served = _Kubelet(self, folder)
        self._beat_at = 0.0
        for name in self.names:
            self._join(name)
        self._beat()
        self.begin()

    def _join(self, name: str) -> None:
        self._admin.create("v1/nodes", {"metadata": {"name": name, "labels": _host(name)}})
        self._admin.update("v1/nodes", name, lambda body: body.update(status=self._status()))

    @contextmanager
    def without(self, name: str) -> Generator[None]:
        """Somebody deletes a node that nobody hears of any more; afterwards it comes back."""
        self.silent.add(name)
        self._admin.remove("v1/nodes", name)
        try:
            yield
        finally:
            self._join(name)
            self.silent.discard(name)

    def close(self) -> None:
        super().close()
        self._served.close()

    def _status(self) -> Json:
        room = {"cpu": "256", "memory": "2Ti", "pods": "200", CARDS: "8", "nvidia.com/gpu": "8"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        return {
            "capacity": room,
            "allocatable": room,
            "conditions": [
                {**ready, "lastHeartbeatTime": stamp(), "lastTransitionTime": stamp()},
            ],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._served.port}},
        }

    def _step(self) -> None:
        try:
            if time.monotonic() - self._beat_at > _BEAT_S:
                self._beat()
            pods = self._admin.all(PODS)
        except (urllib3.exceptions.HTTPError, OSError, Refused):
            # The API server is away, or not itself yet: what runs goes on.
            return
        heard = [pod for pod in pods if (pod["spec"].get("nodeName") or "") not in self.silent]
        for pod in heard:
            try:
                self._keep(pod)
            except (urllib3.exceptions.HTTPError, OSError, Refused):
                continue
        gone = set(self._pods) - {pod["metadata"]["name"] for pod in pods}
        for name in gone:
            self._pods.pop(name).kill()

    def _beat(self) -> None:
        self._beat_at = time.monotonic()
        for name in self.names:
            if name in self.silent:
                continue
            now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
            spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now}
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}
            try:
                self._admin.ask("POST", _LEASES, {**body, "metadata": {"name": name}})
            except Refused as error:
                if error.code != 409:
                    raise
                kind = "application/merge-patch+json"
                self._admin.ask("PATCH", f"{_LEASES}/{name}", {"spec": spec}, kind)
            self._admin.update("v1/nodes", name, _ready)


def _host(name: str) -> Json:
    return {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}


def _ready(body: Json) -> None:
    """A kubelet says so itself again once it was not heard of."""
    for one in body["status"]["conditions"]:
        if one["type"] == "Ready" and one["status"] != "True":
            one.update(status="True", reason="KubeletReady", lastTransitionTime=stamp())


class _Kubelet:
    """What the API server asks of kubelets: logs, and commands in pods."""

    def __init__(self, nodes: Kubelets, folder: Path) -> None:
        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                return

            def do_GET(self) -> None:
                place = urlsplit(self.path)
                what, _, pod = place.path.split("/")[1:4]
                if what == "exec":
                    self.close_connection = True
                    words = parse_qs(place.query)["command"]
                    return nodes.enter(pod, words, self.connection, self.headers)
                data = nodes.log_of(pod).encode()
                lines = int(parse_qs(place.query).get("tailLines", ["1000"])[0])
                data = b"".join(data.splitlines(keepends=True)[-lines:])
                self.send_response(200)
                self.send_header("Content-Type", "text/plain")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                return None

        key, shown = folder / "kubelet.key", folder / "kubelet.crt"
        subject = ["-subj", "/CN=kubelet", "-days", "2", "-keyout", str(key), "-out", str(shown)]
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject],
            check=True,
            capture_output=True,
            timeout=60,
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(shown, key)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


class RealCluster:
    """All of it, with jumar's account and no other for the engine."""

    def __init__(self, folder: Path) -> None:
        self.plane = ControlPlane(folder)
        try:
            self.admin = self.plane.admin
            self._token = self.plane.make_namespace(_ROLE)
            self.machines = Nodes(self.admin, folder)
        except BaseException:
            self.plane.close()
            raise

    def engine(self, home: Path, **options: Any) -> KubernetesEngine:
        """As `Double.engine`."""
        file = self.plane.kubeconfig(home.with_name(f"{home.name}.kubeconfig"), self._token)
        small = {"cpus_per_device": "1", "memory_per_device": "1Gi"}
        return KubernetesEngine(home, options_for(file, **(small | options)))

    def pods(self, job_id: str) -> list[Json]:
        found = self.admin.all(PODS)
        return [pod for pod in found if pod["metadata"]["labels"].get("jumar.io/job") == job_id]

    def close(self) -> None:
        self.machines.close()
        self.plane.close()


@contextmanager
def running_cluster() -> Generator[RealCluster]:
    """Skips where nobody has the programs."""
    if not is_wanted():
        pytest.skip("no control plane: see docs/howto/real-kubernetes.md")
    assert os.geteuid() == 0, "pods need process namespaces of their own: root"
    folder = Path(tempfile.mkdtemp(prefix="jumar-kubernetes-"))
    try:
        cluster = RealCluster(folder)
        try:
            yield cluster
        finally:
            cluster.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
