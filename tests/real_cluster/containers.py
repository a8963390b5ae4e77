"""Kubelets whose pods are containers: podman runs each with the user, the mounts, the rights and the
memory that the pod asks for. All of them share this machine's network."""

import base64
import re
import subprocess
from pathlib import Path
from typing import Any

import urllib3
from tests.cluster_double.kubelet import PODS, Kubelets, Pod
from tests.cluster_double.store import Json
from tests.real_cluster.remote import Refused, Remote

from jumar.engine.kubernetes.asking import part

_LIMIT_S = 120
_KILLED = 128 + 9
_NAMED = re.compile(r"\$\((\w+)\)")


class ContainerPod(Pod):
    """A container by podman."""

    def __init__(self, body: Json, log: Path, options: list[str], environment: Json) -> None:
        container: Json = body["spec"]["containers"][0]
        self.log, self.environment, self.is_asked = log, environment, False
        self._name = f"{body['metadata']['name']}-{body['metadata']['uid'][:8]}"
        words = [*_rights(body["spec"], container), *options]
        words += [f"--env={name}={value}" for name, value in environment.items()]
        words += [f"--workdir={container['workingDir']}"] if "workingDir" in container else []
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    *("podman", "run", "--name", self._name, "--network", "host"),
                    *("--cgroupns", "host", *words, container["image"]),
                    *container.get("command", ()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Where a container's memory is used up, its monitor leaves an empty `oom` in its folder.
                cwd=log.parent,
            )

    @property
    def is_out_of_memory(self) -> bool:
        """Killed by nobody here, and it has a limit."""
        return self.code() == _KILLED and not self.is_asked

    def ask(self) -> None:
        if not self.is_asked:
            self.is_asked = True
            _podman("kill", "--signal", "TERM", self._name)

    def inside(self, words: list[str]) -> list[str]:
        return ["podman", "exec", "--interactive", self._name, *words]

    def kill(self) -> None:
        self.is_asked = True
        _podman("rm", "--force", "--time", "0", self._name)
        self._process.wait(_LIMIT_S)


def _podman(*words: str) -> str:
    done = subprocess.run(["podman", *words], capture_output=True, text=True, timeout=_LIMIT_S)
    return done.stdout.strip()


def _rights(spec: Json, container: Json) -> list[str]:
    """Of a pod and its container, as podman calls them."""
    pod, own = part(spec, "securityContext"), part(container, "securityContext")
    words = [f"--user={pod['runAsUser']}:{pod['runAsGroup']}"]
    assert not pod.get("runAsNonRoot") or pod["runAsUser"]
    if own.get("readOnlyRootFilesystem"):
        words += ["--read-only", "--read-only-tmpfs=false"]
    words += [f"--cap-drop={one}" for one in part(own, "capabilities").get("drop", ())]
    if own.get("allowPrivilegeEscalation") is False:
        words.append("--security-opt=no-new-privileges")
    if part(pod, "seccompProfile").get("type") != "RuntimeDefault":
        words.append("--security-opt=seccomp=unconfined")
    memory = part(part(container, "resources"), "limits").get("memory")
    # Without swap, as kubelets have it.
    sizes = ("--memory", "--memory-swap") if memory else ()
    return words + [f"{size}={str(memory).removesuffix('i').lower()}" for size in sizes]


class ContainerKubelets(Kubelets):
    """Of all nodes, for one namespace."""

    def __init__(self, admin: Remote, port: int, trust: Path, binds: tuple[str, ...] = ()) -> None:
        """`port`: of the API server. `binds`: folders of this machine that every pod has too."""
        super().__init__(admin)
        self._admin, self._port, self._trust, self._binds = admin, port, trust, binds
        self.crashed: dict[str, str] = {}
        """What those have written that were to run for ever."""
        # Folders in it are mounted into pods of other users.
        self._folder.chmod(0o755)
        self.begin()

    def inside(self, pod: str, words: list[str]) -> list[str]:
        """The command line that runs another one in a pod."""
        return self._pods[pod].inside(words)

    def _step(self) -> None:
        try:
            self._keep_all(self._admin.all(PODS))
        except (urllib3.exceptions.HTTPError, OSError, Refused):
            # The API server is away: what runs goes on.
            return

    def _over(self, name: str, running: Pod) -> None:
        found = self._admin.get(PODS, name)
        if found is None or found["spec"]["restartPolicy"] != "Always" or running.is_asked:
            return super()._over(name, running)
        # A server that ends by itself: one that is started again would tell nothing more.
        if name not in self.crashed:
            self.crashed[name] = running.log.read_text("utf-8", "replace")[-4000:]
        return None

    def _cannot_be_had(self, image: str) -> str:
        known = subprocess.run(["podman", "image", "exists", image], timeout=_LIMIT_S)
        return "ErrImagePull" if known.returncode else ""

    def _started(self, pod: Json) -> ContainerPod:
        name = pod["metadata"]["name"]
        options = [word for one in self._mounts(pod) for word in one]
        options += [f"--volume={bind}:{bind}" for bind in self._binds]
        log = self._folder / name
        return ContainerPod(pod, log, options, self._environment(pod))

    def _environment(self, pod: Json) -> Json:
        made: Json = {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self._port),
        }
        for one in pod["spec"]["containers"][0].get("env") or ():
            value = one.get("value") or self._told(pod, one.get("valueFrom") or {})
            made[one["name"]] = _NAMED.sub(lambda found: made[found[1]], value)
        return made

    def _told(self, pod: Json, source: Json) -> str:
        if "secretKeyRef" in source:
            wanted = source["secretKeyRef"]
            secret = self._admin.get("v1/secrets", wanted["name"])
            assert secret is not None
            return base64.b64decode(secret["data"][wanted["key"]]).decode()
        field = str(part(source, "fieldRef").get("fieldPath", ""))
        for place in ("labels", "annotations"):
            if field.startswith(f"metadata.{place}["):
                return str(pod["metadata"][place][field.split("'")[1]])
        known = {"status.podIP": "127.0.0.1", "spec.nodeName": pod["spec"]["nodeName"]}
        return str(known.get(field, ""))

    def _mounts(self, pod: Json) -> list[list[str]]:
        volumes = {one["name"]: one for one in pod["spec"].get("volumes") or ()}
        made: list[list[str]] = []
        for mount in pod["spec"]["containers"][0].get("volumeMounts") or ():
            at, volume = mount["mountPath"], volumes[mount["name"]]
            source = self._source(pod, volume) / mount.get("subPath", "")
            # A kubelet would make a folder of root's.
            assert source.exists(), f"{source} for {at}"
            mode = ":ro" if mount.get("readOnly") else ""
            made.append([f"--volume={source}:{at}{mode}"])
        return made

    def _source(self, pod: Json, volume: Json) -> Path:
        if "hostPath" in volume:
            return Path(volume["hostPath"]["path"])
        if "projected" in volume:
            return self._account(pod)
        if "emptyDir" in volume:
            folder = self._folder / f"{pod['metadata']['name']}.{volume['name']}"
            folder.mkdir(exist_ok=True)
            folder.chmod(0o777)
            return folder
        claim = self._admin.get(
            "v1/persistentvolumeclaims", volume["persistentVolumeClaim"]["claimName"]
        )
        assert claim is not None
        found = self._admin.get("v1/persistentvolumes", claim["spec"]["volumeName"])
        assert found is not None
        return Path(found["spec"]["hostPath"]["path"])

    def _account(self, pod: Json) -> Path:
        """What a pod of an account finds in its folder."""
        folder = self._folder / f"{pod['metadata']['name']}.account"
        folder.mkdir(exist_ok=True)
        path = self._admin.path("v1/serviceaccounts", pod["spec"]["serviceAccountName"]) + "/token"
        asked: Json = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token: Any = self._admin.ask("POST", path, asked)["status"]["token"]
        for name, text in (
            ("token", token),
            ("ca.crt", self._trust.read_text()),
            ("namespace", pod["metadata"]["namespace"]),
        ):
            (folder / name).write_text(text)
        return folder
