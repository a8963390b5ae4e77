"""A real control plane on this machine: etcd, kube-apiserver, kube-controller-manager, kube-scheduler.

Their programs are looked for in $JUMAR_KUBERNETES_BIN, then on the PATH; docs/howto/real-kubernetes.md
tells how to get them."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import yaml
from tests.cluster_double.store import Json
from tests.real_cluster.remote import Remote

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
NAMESPACE = "lab"
_START_S = 180.0


def find_program(name: str) -> str:
    """Fails where it is missing: whoever runs this wants a real cluster."""
    found = _found(name)
    assert found is not None, f"{name} is missing: see docs/howto/real-kubernetes.md"
    return found


def _found(name: str) -> str | None:
    folders = (os.environ.get("JUMAR_KUBERNETES_BIN"), os.environ["PATH"])
    return shutil.which(name, path=os.pathsep.join(filter(None, folders)))


def is_wanted() -> bool:
    """Whether somebody has named the programs, or all are installed."""
    return "JUMAR_KUBERNETES_BIN" in os.environ or all(map(_found, PROGRAMS))


class Daemon:
    """A program that runs until it is ended; its output is kept."""

    def __init__(self, folder: Path, name: str, *options: str) -> None:
        self._command = [find_program(name), *options]
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """And wait for it."""
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(20)
        self._process = None


class ControlPlane:
    """With rights checked, on ports of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self._token = secrets.token_hex(16)
        (folder / "tokens.csv").write_text(f"{self._token},admin,admin,system:masters\n")
        self._make_keys()
        self.etcd = self._etcd()
        self.daemons = [self.etcd]
        try:
            self.api = self._api_server()
            self.daemons.append(self.api)
            self.admin = self.remote(NAMESPACE)
            self.wait_ready()
            account = self.kubeconfig(folder / "admin.kubeconfig", self._token)
            self.controllers = self._controllers(account)
            self.scheduler = self._scheduler(account)
            self.daemons += [self.controllers, self.scheduler]
        except BaseException:
            self.close()
            raise

    @property
    def trust(self) -> Path:
        """The certificate that the server has made for itself."""
        return self.folder / "certificates" / "apiserver.crt"

    def wait_ready(self) -> None:
        give_up = time.monotonic() + _START_S
        while not (self.trust.exists() and self.admin.is_ready()):
            assert time.monotonic() < give_up, (self.folder / "kube-apiserver.log").read_text()[
                -4000:
            ]
            time.sleep(0.2)

    def remote(self, namespace: str) -> Remote:
        """Another namespace, as somebody who may do everything."""
        return Remote(self.url, self.trust, self._token, namespace)

    def make_namespace(self, role: Path) -> str:
        """With jumar's own account and its role as it is shipped; gives a token of that account."""
        self.admin.create("v1/namespaces", {"metadata": {"name": NAMESPACE}})
        self._make_claim()
        for body in yaml.safe_load_all(role.read_text("utf-8")):
            for subject in body.get("subjects") or ():
                # As kustomize does.
                subject["namespace"] = NAMESPACE
            self.admin.create(f"{body['apiVersion']}/{body['kind'].lower()}s", body)
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/jumar/token"
        asked: Json = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(self.admin.ask("POST", path, asked)["status"]["token"])

    def _make_claim(self) -> None:
        """No pod is scheduled before its volume exists."""
        modes, meta = {"accessModes": ["ReadWriteMany"]}, {"metadata": {"name": "jumar"}}
        volume = {**modes, "capacity": {"storage": "1Ti"}, "hostPath": {"path": "/"}}
        self.admin.create("v1/persistentvolumes", {**meta, "spec": volume})
        room = {"requests": {"storage": "1Gi"}}
        claim = {**modes, "storageClassName": "", "volumeName": "jumar", "resources": room}
        self.admin.create("v1/persistentvolumeclaims", {**meta, "spec": claim})

    def kubeconfig(self, path: Path, token: str) -> Path:
        name = {"name": "real"}
        cluster = {"server": self.url, "certificate-authority": str(self.trust)}
        value: Json = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "real",
            "clusters": [{**name, "cluster": cluster}],
            "users": [{**name, "user": {"token": token}}],
            "contexts": [{**name, "context": {"cluster": "real", "user": "real"}}],
        }
        path.write_text(json.dumps(value))
        return path

    def close(self) -> None:
        for daemon in reversed(self.daemons):
            daemon.end()

    def _make_keys(self) -> None:
        for words in (
            ("genrsa", "-out", "accounts.key", "2048"),
            ("rsa", "-in", "accounts.key", "-pubout", "-out", "accounts.pub"),
        ):
            subprocess.run(
                ["openssl", *words], cwd=self.folder, check=True, capture_output=True, timeout=60
            )

    def _etcd(self) -> Daemon:
        peers, clients = f"http://127.0.0.1:{_free_port()}", f"http://127.0.0.1:{_free_port()}"
        self.etcd_url, self._peers = clients, peers
        return Daemon(
            self.folder,
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            "--unsafe-no-fsync",
        )

    @property
    def audit(self) -> Path:
        """One line of JSON for each request of jumar's account."""
        return self.folder / "audit.log"

    @contextmanager
    def put_back(self) -> Generator[None]:
        """What happens to the cluster meanwhile is undone: its store is that of before."""
        saved, control = str(self.folder / "saved"), [find_program("etcdctl")]
        whole = [*control, f"--endpoints={self.etcd_url}", "snapshot", "save", saved]
        subprocess.run(whole, check=True, capture_output=True, timeout=120)
        yield
        for daemon in (self.controllers, self.scheduler, self.api, self.etcd):
            daemon.end(signal.SIGKILL)
        data = self.folder / "etcd"
        shutil.rmtree(data)
        restore = [find_program("etcdutl"), "snapshot", "restore", saved, "--data-dir", str(data)]
        peers = [f"--initial-cluster=default={self._peers}"]
        peers += [f"--initial-advertise-peer-urls={self._peers}"]
        subprocess.run([*restore, *peers], check=True, capture_output=True, timeout=120)
        for daemon in (self.etcd, self.api):
            daemon.start()
        self.wait_ready()
        for daemon in (self.controllers, self.scheduler):
            daemon.start()

    def _api_server(self) -> Daemon:
        policy = self.folder / "audit.json"
        users = {"users": [f"system:serviceaccount:{NAMESPACE}:jumar"]}
        rules = [{"level": "Metadata", **users, "omitStages": ["RequestReceived"]}]
        whole = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
        policy.write_text(json.dumps(whole))
        return Daemon(
            self.folder,
            "kube-apiserver",
            f"--etcd-servers={self.etcd_url}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--cert-dir={self.folder / 'certificates'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'accounts.pub'}",
            f"--service-account-signing-key-file={self.folder / 'accounts.key'}",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self.audit}",
        )

    def _controllers(self, account: Path) -> Daemon:
        return Daemon(
            self.folder,
            "kube-controller-manager",
            f"--kubeconfig={account}",
            f"--service-account-private-key-file={self.folder / 'accounts.key'}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={_free_port()}",
            f"--cert-dir={self.folder / 'controllers'}",
            # A node that nobody hears of is noticed quickly.
            "--node-monitor-period=1s",
            "--node-monitor-grace-period=8s",
        )

    def _scheduler(self, account: Path) -> Daemon:
        return Daemon(
            self.folder,
            "kube-scheduler",
            f"--kubeconfig={account}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={_free_port()}",
            f"--cert-dir={self.folder / 'scheduler'}",
        )


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


if __name__ == "__main__":
    # For the full test, where a part that cannot run is one that fails.
    for program in PROGRAMS:
        sys.stdout.write(f"{find_program(program)}\n")
