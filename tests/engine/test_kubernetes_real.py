"""What a real control plane does to attempts; part of the full test, see docs/howto/real-kubernetes.md.

The nodes are none: pods run as processes of this machine, everything above them is the real thing."""

import json
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster_double.kubelet import BAD_IMAGE, MISSING_IMAGE, PODS
from tests.engine.conftest import log_of, make_attempt, wait_final
from tests.engine.pods import WAIT, WIDE, check_table, is_started, look, pending, pod_of, running
from tests.engine.test_kubernetes_manifests import FULL, made
from tests.real_cluster.cluster import RealCluster
from tests.real_cluster.control_plane import NAMESPACE, find_program
from tests.real_cluster.remote import Refused
from tests.waiting import wait_for

from jumar.engine.kubernetes import manifests, observing, reasons
from jumar.engine.kubernetes.engine import KubernetesEngine
from jumar.errors import EngineFailed
from jumar.spec.causes import Cause
from jumar.spec.states import AttemptState

pytestmark = pytest.mark.full
JOBS = "batch/v1/jobs"
CRDS = "apiextensions.k8s.io/v1/customresourcedefinitions"
DEPLOY = Path(__file__).parents[2] / "deploy"


def job_name(attempt: Any) -> str:
    return f"jumar-{attempt.job_id}-{attempt.number}"


def dry(cluster: RealCluster, kind: str, body: dict[str, Any]) -> None:
    """Whether the API server would take it, unknown fields refused."""
    cluster.admin.ask("POST", cluster.admin.path(kind) + "?dryRun=All&fieldValidation=Strict", body)


def test_every_body_is_taken_strictly(real_cluster: RealCluster) -> None:
    crd = Path(find_program("kube-apiserver")).parent / "batch.volcano.sh_jobs.yaml"
    assert crd.exists(), "see docs/howto/real-kubernetes.md"
    real_cluster.admin.create(CRDS, yaml.safe_load(crd.read_text("utf-8")))
    volcano = "batch.volcano.sh/v1alpha1/jobs"

    def is_served() -> bool:
        try:
            real_cluster.admin.all(volcano)
        except Refused:
            return False
        return True

    try:
        wait_for(is_served, "Volcano's kind is known")
        options: list[dict[str, Any]] = [
            {"namespace": NAMESPACE},
            FULL,
            {
                "namespace": NAMESPACE,
                "kueue": "lab-queue",
                "home": {"nfs": "10.0.0.7", "path": "/export/jumar"},
            },
            {"namespace": NAMESPACE, "home": {"host": True, "path": "/mnt/all/jumar"}},
        ]
        chips = ("910", "910b", "910c", "310p", "950")
        options += [{"namespace": NAMESPACE, "chip": chip} for chip in chips]
        for one in options:
            for device, nodes in (("npu:8", 1), ("npu:16", 2), ("gpu:1", 1), ("cpu:2", 2)):
                fields: dict[str, Any] = {"device": device, "nodes": nodes, "type": "distributed"}
                job, service = made({**one, "volcano": False}, **fields)
                dry(real_cluster, JOBS, job)
                dry(real_cluster, "v1/services", service)
                pod = job["spec"]["template"]
                meta = {"name": "x", "labels": pod["metadata"]["labels"]}
                if "priority_class" not in one:
                    dry(
                        real_cluster,
                        PODS,
                        {"kind": "Pod", "apiVersion": "v1", **pod, "metadata": meta},
                    )
                (body,) = made({**one, "volcano": True}, **fields, preemptible=True)
                dry(real_cluster, volcano, body)
    finally:
        real_cluster.admin.remove(CRDS, "jobs.batch.volcano.sh")
    # The claim of that name exists where jobs are.
    elsewhere = real_cluster.plane.remote("default")
    for file in ("postgresql", "server"):
        for body in yaml.safe_load_all((DEPLOY / f"{file}.yaml").read_text("utf-8")):
            path = elsewhere.path(f"{body['apiVersion']}/{body['kind'].lower()}s")
            elsewhere.ask("POST", path + "?dryRun=All&fieldValidation=Strict", body)


def test_a_gang_of_two_nodes_with_eight_cards_each(
    real_cluster: RealCluster, real_engine: KubernetesEngine, tmp_path: Path
) -> None:
    command = "echo $RANK $LOCAL_RANK $WORLD_SIZE"
    wide: dict[str, Any] = {**WIDE, "device": "npu:8"}
    attempt = make_attempt(tmp_path, command, cards=(), **wide)
    real_engine.start(attempt)
    seen = wait_final(real_engine, attempt)
    assert seen.state is AttemptState.SUCCEEDED, seen
    lines = [path.read_text().split() for path in attempt.directory.glob("logs/node*/rank*.log")]
    assert sorted(int(rank) for rank, _, _ in lines) == list(range(16))
    assert {size for _, _, size in lines} == {"16"}
    check_table(attempt, 2, 8)
    where = {one["spec"]["nodeName"] for one in real_cluster.pods(attempt.job_id)}
    assert len(where) in (0, 2)


def test_why_it_waits_is_told(
    real_cluster: RealCluster, real_engine: KubernetesEngine, tmp_path: Path
) -> None:
    quota = {"hard": {"requests.huawei.com/Ascend910": "4"}}

    def waits(sign: str, **fields: Any) -> tuple[str, str]:
        attempt = make_attempt(tmp_path, "true", cards=(), **fields)
        real_engine.start(attempt)
        said = pending(real_engine, attempt, sign)
        real_engine.stop(attempt, AttemptState.STOPPED)
        assert wait_final(real_engine, attempt).state is AttemptState.STOPPED
        wait_for(lambda: not real_cluster.pods(attempt.job_id), "nothing of it is left")
        return said

    english, chinese = waits("Unschedulable", device="npu:16")
    assert "no node can take it now, 0/4 nodes are available: 4 Insufficient" in english
    assert "暂时没有可用的节点" in chinese
    english, chinese = waits("ImagePullBackOff", image=MISSING_IMAGE)
    assert "its image cannot be pulled" in english
    real_cluster.admin.create("v1/resourcequotas", {"metadata": {"name": "cards"}, "spec": quota})
    try:
        wait_for(
            lambda: (
                "status" in (real_cluster.admin.get("v1/resourcequotas", "cards") or {})
                and bool(real_cluster.admin.all("v1/resourcequotas")[0]["status"].get("hard"))
            ),
            "the quota counts",
        )
        english, chinese = waits("FailedCreate", device="npu:8")
        assert "its pods cannot be created" in english
        assert "exceeded quota: cards" in english
        assert "无法创建 Pod" in chinese
    finally:
        real_cluster.admin.remove("v1/resourcequotas", "cards")


def test_what_is_done_to_pods_is_told(
    real_cluster: RealCluster, real_engine: KubernetesEngine, tmp_path: Path
) -> None:
    def begun() -> Any:
        attempt = make_attempt(tmp_path, WAIT, cards=())
        running(real_engine, attempt)
        return attempt

    attempt = begun()
    killed = {"exitCode": 137, "reason": "OOMKilled"}
    status = {"name": "ascend", "image": "any:1", "imageID": "", "ready": False, "restartCount": 0}
    real_cluster.machines.status(
        pod_of(real_cluster, attempt),
        phase="Failed",
        containerStatuses=[{**status, "state": {"terminated": killed}}],
    )
    seen = wait_final(real_engine, attempt)
    assert (seen.state, seen.cause) == (AttemptState.LOST, Cause.OUT_OF_MEMORY), seen
    attempt = begun()
    real_cluster.machines.status(
        pod_of(real_cluster, attempt),
        phase="Failed",
        reason="Evicted",
        message="The node was low on resource: memory.",
    )
    seen = wait_final(real_engine, attempt)
    assert (seen.state, seen.cause) == (AttemptState.LOST, Cause.EVICTED), seen
    attempt = begun()
    name = pod_of(real_cluster, attempt)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    real_cluster.admin.ask("POST", real_cluster.admin.path(PODS, name) + "/eviction", eviction)
    seen = wait_final(real_engine, attempt)
    assert (seen.state, seen.cause) == (AttemptState.LOST, Cause.EVICTED), seen
    attempt = begun()
    found = real_cluster.pods(attempt.job_id)[0]
    real_cluster.admin.ask_delete(PODS, found, None)
    seen = wait_final(real_engine, attempt)
    assert (seen.state, seen.cause) == (AttemptState.LOST, Cause.EVICTED), seen


def test_who_makes_room_was_preempted(real_cluster: RealCluster, tmp_path: Path) -> None:
    group = "scheduling.k8s.io/v1"
    for name, value in (("low", 10), ("high", 1000)):
        body = {"apiVersion": group, "kind": "PriorityClass", "metadata": {"name": name}}
        real_cluster.admin.ask("POST", f"/apis/{group}/priorityclasses", {**body, "value": value})
    low = real_cluster.engine(tmp_path, priority_class="low")
    (tmp_path / "high").mkdir()
    high = real_cluster.engine(tmp_path / "high", priority_class="high")
    four: dict[str, Any] = {"device": "npu:8", "nodes": 4, "type": "distributed", "ranks": "node"}
    attempt = make_attempt(tmp_path, WAIT, cards=(), **four)
    running(low, attempt)
    other = make_attempt(tmp_path / "high", "true", cards=(), device="npu:8")
    high.start(other)
    assert wait_final(high, other).state is AttemptState.SUCCEEDED
    seen = wait_final(low, attempt)
    assert (seen.state, seen.cause) == (AttemptState.PREEMPTED, Cause.PREEMPTED), seen
    low.close()
    high.close()


def test_a_stop_gives_the_grace_and_a_delete_by_others_is_a_stop(
    real_cluster: RealCluster, real_engine: KubernetesEngine, tmp_path: Path
) -> None:
    saves = (
        "trap 'echo saved > \"$JUMAR_JOB_DIR/saved\"; exit 0' TERM; echo up; "
        "while true; do sleep 0.05; done"
    )
    attempts = [make_attempt(tmp_path, saves, cards=(), grace=20) for _ in range(3)]
    for attempt in attempts:
        running(real_engine, attempt)
    real_engine.stop(attempts[0], AttemptState.STOPPED)
    real_cluster.admin.ask_delete(JOBS, {"metadata": {"name": job_name(attempts[1])}}, None)
    real_engine.stop(attempts[2], AttemptState.PREEMPTED)
    seen = [wait_final(real_engine, attempt) for attempt in attempts]
    assert [one.state for one in seen] == [
        *(AttemptState.STOPPED, AttemptState.STOPPED, AttemptState.PREEMPTED)
    ], seen
    assert all((attempt.directory / "saved").exists() for attempt in attempts)
    for name in map(job_name, attempts):
        for kind in (JOBS, "v1/services"):
            wait_for(partial(is_gone, real_cluster, kind, name), f"{kind} {name} is gone")


def is_gone(cluster: RealCluster, kind: str, name: str) -> bool:
    return cluster.admin.get(kind, name) is None


def test_an_api_server_that_is_killed_changes_nothing(
    real_cluster: RealCluster, real_engine: KubernetesEngine, tmp_path: Path
) -> None:
    """Killed, and its history compacted before it is back; then stopped as a hung one is."""
    attempts = [make_attempt(tmp_path, WAIT, cards=()) for _ in range(3)]
    for attempt in attempts:
        running(real_engine, attempt)
    plane = real_cluster.plane
    plane.api.end(signal.SIGKILL)
    (attempts[0].directory / "go").touch()
    with pytest.raises(EngineFailed, match="does not answer"):
        real_engine.start(make_attempt(tmp_path, "true", cards=()))
    assert look(real_engine, attempts[1]).state is AttemptState.RUNNING
    again = real_cluster.engine(tmp_path)
    assert look(again, attempts[1]).state is AttemptState.RUNNING
    _compact(plane.etcd_url)
    plane.api.start()
    plane.wait_ready()
    assert wait_final(real_engine, attempts[0]).state is AttemptState.SUCCEEDED
    assert wait_final(again, attempts[0]).state is AttemptState.SUCCEEDED
    (attempts[1].directory / "go").touch()
    assert wait_final(real_engine, attempts[1]).state is AttemptState.SUCCEEDED
    real_cluster.admin.ask_delete(JOBS, {"metadata": {"name": job_name(attempts[2])}}, None)
    assert wait_final(again, attempts[2]).state is AttemptState.STOPPED
    again.close()


def _compact(etcd: str) -> None:
    control = [find_program("etcdctl"), f"--endpoints={etcd}"]
    told = subprocess.run(
        [*control, "endpoint", "status", "--write-out=json"],
        check=True,
        capture_output=True,
        timeout=60,
    ).stdout
    revision = json.loads(told)[0]["Status"]["header"]["revision"]
    subprocess.run(
        [*control, "compact", str(revision)], check=True, capture_output=True, timeout=60
    )


def test_rights_that_are_missing_are_named_and_nothing_is_lost(
    real_cluster: RealCluster, real_engine: KubernetesEngine, tmp_path: Path
) -> None:
    attempt = make_attempt(tmp_path, WAIT, cards=())
    running(real_engine, attempt)
    kind = "rbac.authorization.k8s.io/v1/rolebindings"
    binding = real_cluster.admin.get(kind, "jumar")
    assert binding is not None
    real_cluster.admin.remove(kind, "jumar")
    other = make_attempt(tmp_path, "true", cards=())
    try:
        with pytest.raises(EngineFailed, match="does not allow it") as refusal:
            real_engine.start(other)
        assert "role.yaml" in str(refusal.value.hint)
        assert look(real_engine, attempt).state is AttemptState.RUNNING
        with pytest.raises(EngineFailed, match="does not allow it"):
            real_engine.kill(attempt)
        (attempt.directory / "go").touch()
    finally:
        plain = {key: binding[key] for key in ("apiVersion", "kind", "roleRef", "subjects")}
        real_cluster.admin.create(kind, {**plain, "metadata": {"name": "jumar"}})
    wait_final(real_engine, attempt)
    wait_for(lambda: is_started(real_engine, other), "rights are back")
    assert wait_final(real_engine, other).state is AttemptState.SUCCEEDED
    nowhere = real_cluster.engine(tmp_path, namespace="nowhere")
    with pytest.raises(EngineFailed, match="does not allow it"):
        nowhere.start(make_attempt(tmp_path, "true", cards=()))
    nowhere.close()


def test_a_node_that_nobody_hears_of_is_given_up(
    real_cluster: RealCluster,
    real_engine: KubernetesEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(manifests, "_SILENT_S", 2)
    monkeypatch.setattr(reasons, "_OVERDUE_S", -3600.0)
    attempt = make_attempt(tmp_path, WAIT, cards=())
    running(real_engine, attempt)
    (pod,) = real_cluster.pods(attempt.job_id)
    real_cluster.machines.silent.add(pod["spec"]["nodeName"])
    seen = wait_final(real_engine, attempt)
    assert (seen.state, seen.cause) == (AttemptState.LOST, Cause.NODE_LOST), seen
    assert pod["spec"]["nodeName"] in str(seen.reason)
    again = make_attempt(tmp_path, WAIT, cards=(), job_id=attempt.job_id, number=2)
    running(real_engine, again)
    (second,) = of_attempt(real_cluster, again)
    assert second["spec"]["nodeName"] != pod["spec"]["nodeName"]
    (attempt.directory / "go").touch()
    assert wait_final(real_engine, again).state is AttemptState.SUCCEEDED
    real_cluster.machines.silent.clear()
    wait_for(lambda: not of_attempt(real_cluster, attempt), "the first one's pod is gone")


def of_attempt(cluster: RealCluster, attempt: Any) -> list[dict[str, Any]]:
    number = str(attempt.number)
    found = cluster.pods(attempt.job_id)
    return [one for one in found if one["metadata"]["labels"]["jumar.io/attempt"] == number]


def test_an_image_that_cannot_be_had_and_a_gang_that_strands(
    real_cluster: RealCluster,
    real_engine: KubernetesEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempt = make_attempt(tmp_path, "true", cards=(), image=BAD_IMAGE)
    real_engine.start(attempt)
    seen = wait_final(real_engine, attempt)
    assert (seen.state, seen.cause) == (AttemptState.FAILED, Cause.IMAGE), seen
    monkeypatch.setattr(observing, "STRANDED_S", 1.0)
    five: dict[str, Any] = {"device": "npu:8", "nodes": 5, "type": "distributed", "ranks": "node"}
    attempt = make_attempt(tmp_path, "true", cards=(), **five)
    real_engine.start(attempt)
    seen = wait_final(real_engine, attempt)
    assert (seen.state, seen.cause) == (AttemptState.LOST, Cause.NODES_APART), seen
    assert "only 4 of 5 pods" in str(seen.reason)
    wait_for(lambda: not real_cluster.pods(attempt.job_id), "its cards are free")
    broken = real_cluster.engine(tmp_path, python="/opt/no/python3")
    attempt = make_attempt(tmp_path, "true", cards=())
    broken.start(attempt)
    seen = wait_final(broken, attempt)
    assert (seen.state, seen.cause) == (AttemptState.FAILED, Cause.POD_FAILED), seen
    # By way of the API server, from the kubelet.
    assert "/opt/no/python3" in str(seen.tail)
    broken.close()


def test_a_hundred_at_once(
    real_cluster: RealCluster, real_engine: KubernetesEngine, tmp_path: Path
) -> None:
    """A server that is new over the same home sees all of them too."""
    attempts = [make_attempt(tmp_path, f"echo {number}", cards=(), cpus=1) for number in range(100)]
    for attempt in attempts[:50]:
        real_engine.start(attempt)
    again = real_cluster.engine(tmp_path)
    for attempt in attempts[50:]:
        again.start(attempt)
    wait_for(lambda: all(one.state.is_final for one in again.observe(attempts)), "all of them", 900)
    assert {one.state for one in again.observe(attempts)} == {AttemptState.SUCCEEDED}
    assert [log_of(attempt) for attempt in attempts] == [f"{number}\n" for number in range(100)]
    assert all(wait_final(real_engine, one).state is AttemptState.SUCCEEDED for one in attempts)
    again.close()
