"""deploy/ as it is shipped, on a real control plane: the server is a pod from its own image, and so are its
jobs; part of the full test, see docs/howto/real-kubernetes.md.

Pods are containers of podman. PostgreSQL is this machine's own."""

import base64
import json
import secrets
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster_double.store import Json
from tests.containers import make_python_image, make_server_image, write_config
from tests.ports import free_port
from tests.real_cluster.cluster import RealCluster
from tests.real_cluster.containers import ContainerKubelets
from tests.real_cluster.remote import Remote
from tests.waiting import wait_for

from jumar.words.reasons import cause_sentence

pytestmark = pytest.mark.full
DEPLOY = Path(__file__).parents[2] / "deploy"
NAMESPACE = "jumar"
USER = 1000


@dataclass
class Site:
    """The server, as its administrator sees it."""

    admin: Remote
    kubelets: ContainerKubelets
    port: int
    image: str

    def pod(self) -> str:
        (found,) = [
            pod
            for pod in self.admin.all("v1/pods")
            if pod["metadata"]["labels"].get("app") == "jumar"
        ]
        return str(found["metadata"]["name"])

    def jumar(self, *words: str) -> str:
        """In the server's pod."""
        inside = self.kubelets.inside(self.pod(), ["env", f"JUMAR_PORT={self.port}", "jumar"])
        done = subprocess.run([*inside, *words], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout

    def submit(self, *words: str) -> str:
        return str(json.loads(self.jumar("run", "--json", *words))["id"])

    def shown(self, job: str) -> Json:
        return dict(json.loads(self.jumar("show", job, "--json")))


def bodies() -> list[Json]:
    """What `kubectl apply -k` would send, but for PostgreSQL."""
    listed = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text("utf-8"))["resources"]
    found = [
        body
        for name in listed
        if name != "postgresql.yaml"
        for body in yaml.safe_load_all((DEPLOY / name).read_text("utf-8"))
    ]
    for body in found:
        for subject in body.get("subjects") or ():
            subject["namespace"] = NAMESPACE
    return found


@pytest.fixture
def site(
    real_cluster: RealCluster,
    postgres_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Generator[Site]:
    monkeypatch.setenv("CONTAINERS_CONF", write_config(tmp_path))
    mark = secrets.token_hex(4)
    base, server = f"localhost/python-{mark}:1", f"localhost/jumar-{mark}:1"
    make_python_image(tmp_path, base)
    make_server_image(tmp_path, base, server)
    home = tmp_path / "volume"
    home.mkdir()
    shutil.chown(home, USER, USER)
    database, _, socket = postgres_url.partition("?host=")
    for folder in (tmp_path, *tmp_path.parents[:3], Path(socket)):
        # Only more than before: one of them is the /tmp of all.
        folder.chmod(folder.stat().st_mode | 0o055)
    plane, port = real_cluster.plane, free_port()
    admin = plane.remote(NAMESPACE)
    for body in bodies():
        if body["kind"] == "Deployment":
            (container,) = body["spec"]["template"]["spec"]["containers"]
            container["image"] = server
            # The network is this machine's, where ports are taken.
            container["command"] = ["jumar", "up", "--host", "127.0.0.1", "--port", str(port)]
            for one in container["env"]:
                if one["name"] == "JUMAR_DATABASE_URL":
                    whole = database.replace("jumar@", "jumar:$(DATABASE_PASSWORD)@")
                    one["value"] = f"{whole}?host={socket}"
        kind = f"{body['apiVersion']}/{body['kind'].lower()}s"
        if body["kind"] == "PersistentVolumeClaim":
            _make_volume(admin, home, body)
        admin.create(kind, body)
        if body["kind"] == "Namespace":
            password = base64.b64encode(secrets.token_hex(8).encode()).decode()
            meta = {"name": "postgresql"}
            admin.create("v1/secrets", {"metadata": meta, "data": {"password": password}})
    kubelets = ContainerKubelets(admin, plane.port, plane.trust, (socket,))
    made = Site(admin, kubelets, port, base)
    try:
        wait_for(lambda: bool(kubelets.crashed) or _answers(port), "the server serves", 300)
        assert not kubelets.crashed, kubelets.crashed
        yield made
    finally:
        admin.remove("apps/v1/deployments", "jumar")
        kubelets.close()
        subprocess.run(["podman", "rmi", "--force", server, base], capture_output=True, timeout=120)


def _make_volume(admin: Remote, home: Path, claim: Json) -> None:
    wanted = claim["spec"]
    spec = {
        "accessModes": wanted["accessModes"],
        "capacity": wanted["resources"]["requests"],
        "hostPath": {"path": str(home)},
        "claimRef": {"namespace": NAMESPACE, "name": claim["metadata"]["name"]},
    }
    admin.create("v1/persistentvolumes", {"metadata": {"name": "deployed"}, "spec": spec})


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/server", timeout=10) as answer:
            return bool(json.load(answer)["engine"] == "kubernetes")
    except OSError:
        return False


def ended(site: Site, job: str) -> Json:
    give_up = time.monotonic() + 300
    while (shown := site.shown(job))["state"] not in ("succeeded", "failed", "stopped"):
        assert time.monotonic() < give_up, shown
        time.sleep(0.5)
    return shown


def sentences(shown: Json) -> tuple[str, str]:
    values: dict[str, Any] = shown["values"]
    english, chinese = (cause_sentence(shown["cause"], values, one) for one in ("en", "zh"))
    return str(english), str(chinese)


def test_the_server_and_its_jobs_run_as_they_are_shipped(site: Site) -> None:
    """Nobody is root, the server's root is read-only, and its account has the Role of deploy/ alone."""
    show = "id -u; . /pod.env && echo rank $RANK_ID; ls $JUMAR_JOB_DIR/..; touch /etc/x 2>&- || echo closed"
    image = ("--image", site.image)
    said = site.jumar("run", "--follow", *image, "--", "sh", "-c", show)
    lines = said.splitlines()
    job = site.jumar("jobs", "--all", "--json")
    assert lines[0] == str(USER), said
    assert lines[1].startswith("rank"), said
    # Of the jobs' folder a pod has its own.
    assert len(lines[2:-1]) == 1, said
    assert lines[-1] == "closed", (said, job)
    hungry = "x = [bytearray(1 << 20) for _ in range(1000)]"
    job = site.submit(*image, "--memory", "300M", "--retries", "0", "--", "python3", "-c", hungry)
    shown = ended(site, job)
    english, chinese = sentences(shown)
    assert shown["cause"] in ("out-of-memory", "host-memory"), shown
    assert "memory" in english
    assert "内存" in chinese
    job = site.submit("--image", "localhost/none:1", "--", "true")

    def waits() -> bool:
        return "image cannot be pulled" in str(sentences(site.shown(job))[0])

    wait_for(waits, "its image cannot be had", 300)
    site.jumar("stop", job)
    assert ended(site, job)["state"] == "stopped"
