"""What a cluster would be given, checked with the schemas of Kubernetes."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate import validate  # pyright: ignore[reportMissingTypeStubs]
from tests.cli.conftest import caller
from tests.cluster_double.bodies import VERSION, check

from jumar.engine.kubernetes.manifests import Origin, manifests
from jumar.engine.kubernetes.options import cluster_options
from jumar.errors import BadInput, SubmitRefused
from jumar.spec.job import JobSpec

ORIGIN = Origin(Path("/var/lib/jumar"), "program/x.pyz", "s1", 1000, 1000)
FULL: dict[str, Any] = {
    "namespace": "lab",
    "claim": "jumar-home",
    "queue": "training",
    "priority_class": "high",
    "node_selector": {"host-arch": "huawei-arm", "accelerator-type": "module-910b-8"},
    "pull_secret": "registry-key",
    "tolerations": [{"key": "npu", "operator": "Exists", "effect": "NoSchedule"}],
    "mounts": {
        "/data": {"claim": "datasets", "path": "public", "read_only": True},
        "/dlwsdata": {"nfs": "10.0.0.7", "path": "/export"},
    },
    "memory_per_device": "1.5Gi",
}


def spec(**fields: Any) -> JobSpec:
    values = {"name": "x", "command": "source /pod.env && ./run.sh", "image": "tf:1.15", **fields}
    return JobSpec.model_validate(values)


def made(options: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    return manifests(spec(**fields), "t1", 2, cluster_options(options), ORIGIN)


@pytest.mark.parametrize(
    "options",
    [
        {},
        FULL,
        {"kueue": "lab-queue", "home": {"nfs": "10.0.0.7", "path": "/export/jumar"}},
        {"home": {"host": True, "path": "/mnt/all/jumar"}},
    ],
)
@pytest.mark.parametrize("device", ["npu:8", "gpu:1", "cpu:2"])
@pytest.mark.parametrize("nodes", [1, 2])
def test_every_body_is_valid(options: dict[str, Any], device: str, nodes: int) -> None:
    fields: dict[str, Any] = {"device": device, "nodes": nodes, "type": "distributed"}
    job, service = made({**options, "volcano": False}, **fields)
    check(job)
    check(service)
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == nodes
    pods = job["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= pods.items()
    (volcano,) = made(options, **fields)
    (task,) = volcano["spec"]["tasks"]
    assert (task["name"], task["replicas"], volcano["spec"]["minAvailable"]) == (
        *("worker", nodes, nodes),
    )
    check(volcano)
    for body in (task["template"]["spec"], job["spec"]["template"]["spec"]):
        names = {volume["name"] for volume in body["volumes"]}
        mounts = body["containers"][0]["volumeMounts"]
        assert {mount["name"] for mount in mounts} == names
        # Of the home a job has its own folder, and the launcher to read.
        home = [mount for mount in mounts if mount["name"] == "home"]
        variables = "program/x.pyz/jumar/launch/kubernetes/pod.env"
        assert [mount["subPath"] for mount in home] == ["jobs/t1", "program/x.pyz", variables]
        assert all(mount["readOnly"] for mount in home[1:])


def test_cards_labels_and_blocks_are_those_of_the_chip() -> None:
    def of(chip: str, device: str, nodes: int) -> tuple[dict[str, str], str | None, str | None]:
        fields: dict[str, Any] = {"device": device, "nodes": nodes, "type": "distributed"}
        (job,) = made({"chip": chip}, **fields)
        limits = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]["limits"]
        cards = {name: count for name, count in limits.items() if name != "memory"}
        metadata = job["metadata"]
        ring = metadata["labels"].get("ring-controller.atlas")
        return cards, ring, metadata.get("annotations", {}).get("sp-block")

    assert of("910", "npu:8", 1) == ({"huawei.com/Ascend910": "8"}, "ascend-910", None)
    assert of("910c", "npu:16", 2) == ({"huawei.com/Ascend910": "16"}, "ascend-910b", "32")
    assert of("910c", "npu:2", 1) == ({"huawei.com/Ascend910": "2"}, "ascend-910b", None)
    assert of("310p", "npu:1", 1) == ({"huawei.com/Ascend310P": "1"}, "ascend-310P", None)
    assert of("950", "npu:8", 1) == ({"huawei.com/npu": "8"}, None, None)
    assert of("910b", "gpu:4", 1) == ({"nvidia.com/gpu": "4"}, None, None)


@pytest.mark.parametrize(
    "wanted",
    [
        {"outputs": {"x": "/home/jumar"}},
        {"outputs": {"x": "file:///etc"}},
        {"outputs": {"x": "/data/../etc"}},
        {"ckpt": "/home/jumar"},
        {"workdir": "/data/run", "ckpt": "../../etc"},
        {"workdir": "/data/../etc"},
    ],
)
def test_folders_of_the_server_are_no_place_for_results(wanted: dict[str, Any]) -> None:
    """The server shows what is there: under that name it has files of its own."""
    options = {"mounts": {"/data": {"claim": "datasets"}}}
    with pytest.raises(SubmitRefused, match="cannot be seen"):
        made(options, **wanted)
    assert made(options, outputs={"x": "/data/y", "z": "obs://a/b", "r": "w"})


def test_what_a_cluster_cannot_run_is_refused() -> None:
    with pytest.raises(SubmitRefused, match="needs an image"):
        made({}, image=None)
    with pytest.raises(SubmitRefused, match="can fetch"):
        made({}, image="/data/tf.tar")
    with pytest.raises(SubmitRefused, match="cannot be seen"):
        made({}, workdir="/home/ann")
    assert made(FULL, workdir="/data/x")
    with pytest.raises(BadInput, match="namespace"):
        cluster_options({"namespace": "A B"})
    for folder in ({"nfs": "x", "claim": "y"}, {"host": True}, {"claim": "a", "path": "../b"}):
        with pytest.raises(BadInput, match="home"):
            cluster_options({"home": folder})
    with pytest.raises(BadInput, match="unknwon"):
        cluster_options({"unknwon": 1})


def test_dry_run_prints_the_plan_with_no_cluster_and_no_server(
    jumar_program: str, tmp_path: Path
) -> None:
    home, jumar = tmp_path, caller(jumar_program, tmp_path, tmp_path)
    file = home / "job.yaml"
    file.write_text("name: x\ncommand: [python3, train.py]\nimage: tf:1.15\ndevice: npu:8\n")
    (home / "config.toml").write_text('[kubernetes]\nnamespace = "lab"\nvolcano = false\n')
    words = ("run", "-f", str(file), "--engine", "kubernetes")
    shown = jumar(*words, "--dry-run").stdout
    documents: list[dict[str, Any]] = list(yaml.safe_load_all(shown))
    assert [one["kind"] for one in documents] == ["Job", "Service"]
    assert documents[0]["metadata"]["namespace"] == "lab"
    listed = json.loads(jumar(*words, "--dry-run", "--json").stdout)
    assert listed == documents
    assert not (home / "jumar.db").exists()


def test_the_manifests_of_the_server_are_valid_and_belong_together() -> None:
    folder = Path(__file__).parents[2] / "deploy"
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))["resources"]
    assert sorted(listed) == sorted(
        path.name for path in folder.glob("*.yaml") if path.name != "kustomization.yaml"
    )
    found: dict[tuple[str, str], Any] = {}
    for name in listed:
        for body in yaml.safe_load_all((folder / name).read_text("utf-8")):
            validate(body, VERSION, strict=True)
            found[body["kind"], body["metadata"]["name"]] = body
    for kind, name in (("Deployment", "jumar"), ("StatefulSet", "postgresql")):
        labels = found[kind, name]["spec"]["template"]["metadata"]["labels"]
        assert found["Service", name]["spec"]["selector"] == labels
    volumes = found["Deployment", "jumar"]["spec"]["template"]["spec"]["volumes"]
    assert ("PersistentVolumeClaim", volumes[0]["persistentVolumeClaim"]["claimName"]) in found
