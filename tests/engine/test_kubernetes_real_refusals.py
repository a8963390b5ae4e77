"""What a real control plane refuses, and what becomes of attempts when parts of it die; part of the full
test, see docs/howto/real-kubernetes.md."""

import json
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster_double.api import shipped_rules
from tests.engine.conftest import make_attempt, wait_final
from tests.engine.pods import WAIT, is_started, look, pending, running
from tests.engine.test_kubernetes_manifests import made
from tests.real_cluster.cluster import RealCluster
from tests.real_cluster.control_plane import NAMESPACE, Daemon
from tests.real_cluster.remote import Refused
from tests.waiting import wait_for

from jumar.engine.base import StartHindered
from jumar.engine.kubernetes import watching
from jumar.engine.kubernetes.asking import part
from jumar.engine.kubernetes.engine import KubernetesEngine
from jumar.errors import EngineFailed, SubmitRefused
from jumar.spec.causes import Cause
from jumar.spec.states import AttemptState
from jumar.words.reasons import cause_sentence

pytestmark = pytest.mark.full
JOBS, QUOTAS, LIMITS = "batch/v1/jobs", "v1/resourcequotas", "v1/limitranges"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
DEPLOY = Path(__file__).parents[2] / "deploy"


@contextmanager
def quota(cluster: RealCluster, **hard: str) -> Generator[None]:
    body = {"metadata": {"name": "few"}, "spec": {"hard": hard}}
    cluster.admin.create(QUOTAS, body)

    def counts() -> bool:
        return bool(part(cluster.admin.get(QUOTAS, "few") or {}, "status").get("hard"))

    try:
        wait_for(counts, "the quota counts")
        yield
    finally:
        cluster.admin.remove(QUOTAS, "few")


def test_a_quota_on_jobs_is_waited_for(
    real_cluster: RealCluster, real_engine: KubernetesEngine, tmp_path: Path
) -> None:
    have = len(real_cluster.admin.all(JOBS))
    first, second = (make_attempt(tmp_path, WAIT, cards=()) for _ in range(2))
    with quota(real_cluster, **{"count/jobs.batch": str(have + 1)}):
        running(real_engine, first)
        # As a server that has lost the answer: the quota is asked before the name.
        (first.directory / "attempts" / "1" / "submitted.json").unlink()
        again = real_cluster.engine(tmp_path)
        again.start(first)
        again.close()
        with pytest.raises(StartHindered) as met:
            real_engine.start(second)
        english, chinese = (
            str(cause_sentence(met.value.cause, met.value.values, one)) for one in ("en", "zh")
        )
        assert "a quota of the namespace is used up, jobs.batch" in english
        assert "exceeded quota: few" in english
        assert "命名空间的配额已用完" in chinese
    (first.directory / "go").touch()
    wait_for(lambda: is_started(real_engine, second), "the quota is gone")
    (second.directory / "go").touch()
    for attempt in (first, second):
        assert wait_final(real_engine, attempt).state is AttemptState.SUCCEEDED
        assert (attempt.directory / "starts").read_text() == "x\n"


@contextmanager
def policy(cluster: RealCluster, resource: str, group: str, **validation: str) -> Generator[None]:
    """One that denies what is called so in this namespace."""
    rules = [
        {
            "apiGroups": [group],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": [resource],
        }
    ]
    rule = {"expression": "false", "message": "no training on Sundays", **validation}
    spec = {"matchConstraints": {"resourceRules": rules}, "validations": [rule]}
    binding = {
        "policyName": "sundays",
        "validationActions": ["Deny"],
        "matchResources": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}
        },
    }
    group_version = "admissionregistration.k8s.io/v1"
    named = {"apiVersion": group_version, "metadata": {"name": "sundays"}}
    kind = "ValidatingAdmissionPolicy"
    cluster.admin.ask("POST", POLICIES, {**named, "kind": kind, "spec": spec})
    bound = {**named, "kind": f"{kind}Binding", "spec": binding}
    cluster.admin.ask("POST", f"{POLICIES[:-3]}ybindings", bound)
    probe = {"v1": "v1/pods", "batch/v1": JOBS}[f"{group}/v1".lstrip("/")]
    job, _ = made({"namespace": NAMESPACE, "volcano": False}, device="cpu:1")
    body = job if probe == JOBS else {**job["spec"]["template"], "apiVersion": "v1", "kind": "Pod"}
    body["metadata"] = {"name": "probe", "namespace": NAMESPACE, "labels": {}}

    def denies(wanted: bool) -> bool:
        try:
            cluster.admin.ask("POST", f"{cluster.admin.path(probe)}?dryRun=All", body)
        except Refused as error:
            return ("Sundays" in str(error)) is wanted
        return not wanted

    try:
        wait_for(lambda: denies(True), "the policy is in force")
        yield
    finally:
        cluster.admin.ask("DELETE", f"{POLICIES[:-3]}ybindings/sundays")
        cluster.admin.ask("DELETE", f"{POLICIES}/sundays")
        wait_for(lambda: denies(False), "the policy is gone")


def test_what_a_policy_denies_is_refused_and_what_it_denies_pods_is_told(
    real_cluster: RealCluster, real_engine: KubernetesEngine, tmp_path: Path
) -> None:
    for reason in ("Forbidden", "Invalid", "RequestEntityTooLarge"):
        with (
            policy(real_cluster, "jobs", "batch", reason=reason),
            pytest.raises(SubmitRefused, match="no training on Sundays"),
        ):
            real_engine.start(make_attempt(tmp_path, "true", cards=()))
    attempt = make_attempt(tmp_path, "true", cards=())
    with policy(real_cluster, "pods", ""):
        real_engine.start(attempt)
        english, chinese = pending(real_engine, attempt, "FailedCreate")
        assert "no training on Sundays" in english
        assert "无法创建 Pod" in chinese
    real_engine.stop(attempt, AttemptState.STOPPED)
    assert wait_final(real_engine, attempt).state is AttemptState.STOPPED


def test_limits_and_classes_that_pods_break_are_told(
    real_cluster: RealCluster, real_engine: KubernetesEngine, tmp_path: Path
) -> None:
    most = {"limits": [{"type": "Container", "max": {"memory": "512Mi"}}]}
    real_cluster.admin.create(LIMITS, {"metadata": {"name": "small"}, "spec": most})
    classless = real_cluster.engine(tmp_path, priority_class="nobodys")
    try:
        for one, sign in ((real_engine, "maximum memory usage"), (classless, "no PriorityClass")):
            attempt = make_attempt(tmp_path, "true", cards=())
            one.start(attempt)
            english, _ = pending(one, attempt, "FailedCreate")
            assert sign in english, english
            one.stop(attempt, AttemptState.STOPPED)
            assert wait_final(one, attempt).state is AttemptState.STOPPED
            real_cluster.admin.remove(LIMITS, "small")
    finally:
        real_cluster.admin.remove(LIMITS, "small")
        classless.close()


def test_the_server_and_jobs_fit_a_namespace_with_the_strictest_level(
    real_cluster: RealCluster,
) -> None:
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    meta = {"name": "strict", "labels": label}
    real_cluster.admin.create("v1/namespaces", {"metadata": meta})
    admin = real_cluster.plane.remote("strict")
    account = {"metadata": {"name": "jumar"}}
    admin.create("v1/serviceaccounts", account)

    def take(pod: dict[str, Any]) -> None:
        body = {"apiVersion": "v1", "kind": "Pod", **pod}
        body["metadata"] = {"name": "x", "labels": pod["metadata"]["labels"]}
        admin.ask("POST", f"{admin.path('v1/pods')}?dryRun=All&fieldValidation=Strict", body)

    wait_for(lambda: admin.get("v1/serviceaccounts", "default") is not None, "its account")
    for device in ("cpu:2", "gpu:1"):
        options = {"namespace": "strict", "volcano": False}
        job, _ = made({**options, "restricted": True}, device=device)
        take(job["spec"]["template"])
        job, _ = made(options, device=device)
        with pytest.raises(Refused, match="seccompProfile"):
            take(job["spec"]["template"])
    (deployment,) = [
        body
        for body in yaml.safe_load_all((DEPLOY / "server.yaml").read_text("utf-8"))
        if body["kind"] == "Deployment"
    ]
    take(deployment["spec"]["template"])


def test_parts_that_die_are_waited_for(
    real_cluster: RealCluster, real_engine: KubernetesEngine, tmp_path: Path
) -> None:
    """The store of the cluster, its controllers and its scheduler, each killed while jobs run and begin."""
    plane = real_cluster.plane
    attempts = [make_attempt(tmp_path, WAIT, cards=()) for _ in range(3)]
    running(real_engine, attempts[0])
    plane.etcd.end(signal.SIGKILL)
    assert look(real_engine, attempts[0]).state is AttemptState.RUNNING
    with pytest.raises(EngineFailed):
        real_engine.start(attempts[1])
    plane.etcd.start()
    plane.wait_ready()
    wait_for(lambda: is_started(real_engine, attempts[1]), "the store is back")
    _without(plane.controllers, real_engine, attempts[2])
    for attempt in attempts:
        (attempt.directory / "go").touch()
    for attempt in attempts:
        assert wait_final(real_engine, attempt).state is AttemptState.SUCCEEDED
    attempt = make_attempt(tmp_path, "true", cards=())
    _without(plane.scheduler, real_engine, attempt)
    assert wait_final(real_engine, attempt).state is AttemptState.SUCCEEDED


def _without(part: Daemon, engine: KubernetesEngine, attempt: Any) -> None:
    part.end(signal.SIGKILL)
    engine.start(attempt)
    assert look(engine, attempt).state is AttemptState.PENDING
    part.start()


def test_a_store_that_was_put_back_to_an_older_state_is_listed_anew(
    real_cluster: RealCluster,
    real_engine: KubernetesEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was created since is unknown to the cluster; its versions are lower than those we have."""
    monkeypatch.setattr(watching, "_WATCH_S", 2)
    monkeypatch.setattr(watching, "_LIST_S", 1.0)
    kept, lost = (make_attempt(tmp_path, WAIT, cards=()) for _ in range(2))
    running(real_engine, kept)
    with real_cluster.plane.put_back():
        running(real_engine, lost)
    assert look(real_engine, kept).state is AttemptState.RUNNING
    # Its objects are gone with the newer state, and nobody has told so.
    assert wait_final(real_engine, lost).state.is_final
    (kept.directory / "go").touch()
    assert wait_final(real_engine, kept).state is AttemptState.SUCCEEDED


def test_a_node_that_is_deleted_takes_its_pods_along(
    real_cluster: RealCluster, real_engine: KubernetesEngine, tmp_path: Path
) -> None:
    attempt = make_attempt(tmp_path, WAIT, cards=())
    running(real_engine, attempt)
    (pod,) = real_cluster.pods(attempt.job_id)
    node = str(pod["spec"]["nodeName"])
    with real_cluster.machines.without(node):
        seen = wait_final(real_engine, attempt)
        assert (seen.state, seen.cause) == (AttemptState.LOST, Cause.NODE_LOST), seen
        assert node in str(cause_sentence(seen.cause, seen.values, "zh"))


def test_the_role_is_used_whole_and_nothing_else_is_asked_for(
    real_cluster: RealCluster, real_engine: KubernetesEngine, tmp_path: Path
) -> None:
    """By the API server's own record of all that jumar's account has asked since it began."""
    attempt = make_attempt(tmp_path, WAIT, cards=())
    running(real_engine, attempt)
    with real_engine.start_beside(attempt):
        wait_for(lambda: ("", "pods/exec", "get") in _asked(real_cluster), "a way in")
    real_engine.kill(attempt)
    assert wait_final(real_engine, attempt).state is AttemptState.LOST
    broken = real_cluster.engine(tmp_path, python="/opt/no/python3")
    attempt = make_attempt(tmp_path, "true", cards=())
    broken.start(attempt)
    assert wait_final(broken, attempt).cause is Cause.POD_FAILED
    broken.close()
    asked, role = _asked(real_cluster), shipped_rules()
    assert asked <= role
    unused = {rule for rule in role - asked if rule[0] != "batch.volcano.sh"}
    # Whoever has a way in with this version is asked for both rights at once.
    assert unused <= {("", "pods/exec", "create")}


def _asked(cluster: RealCluster) -> set[tuple[str, str, str]]:
    """What was asked for, and not refused for lack of a right."""
    found = set[tuple[str, str, str]]()
    for line in cluster.plane.audit.read_text("utf-8").splitlines():
        event = json.loads(line)
        place = part(event, "objectRef")
        if part(event, "responseStatus").get("code") in (401, 403) or not place.get("resource"):
            continue
        whole = "/".join(filter(None, (place["resource"], place.get("subresource"))))
        found.add((str(place.get("apiGroup", "")), whole, str(event["verb"])))
    return found
