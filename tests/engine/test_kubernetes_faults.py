"""A cluster that loses answers, cuts watches, takes pods away: what becomes of attempts."""

import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster_double.api import Fault, shipped_rules
from tests.cluster_double.cluster import Double
from tests.cluster_double.kubelet import BAD_IMAGE, MISSING_IMAGE
from tests.cluster_double.machines import EVENTS, JOBS, SERVICES
from tests.engine.conftest import make_attempt, wait_final
from tests.engine.pods import SHOW, WAIT, WIDE, check_table, look, pending, pod_of, running
from tests.waiting import wait_for

from jumar.engine.base import Observation, StartHindered
from jumar.engine.kubernetes import observing, reasons, watching
from jumar.engine.kubernetes.engine import KubernetesEngine
from jumar.errors import EngineFailed, SubmitRefused
from jumar.spec.causes import Cause
from jumar.spec.states import AttemptState
from jumar.words.reasons import cause_sentence


@pytest.fixture
def double(kubernetes_double: Double) -> Generator[Double]:
    yield kubernetes_double
    kubernetes_double.machines.is_held = False
    kubernetes_double.api.most_jobs = None
    kubernetes_double.api.is_silent = kubernetes_double.api.is_short = False
    assert not kubernetes_double.api.faults, "not every fault was met"


@pytest.fixture
def engine(double: Double, tmp_path: Path) -> Generator[KubernetesEngine]:
    made = double.engine(tmp_path)
    yield made
    made.close()


def test_a_create_whose_answer_was_lost_is_found_again(
    double: Double, engine: KubernetesEngine, tmp_path: Path
) -> None:
    attempt = make_attempt(tmp_path, WAIT, cards=())
    engine.plan(attempt.spec, user="ann")
    double.api.faults += [
        Fault("create", "jobs", "status", code=429, after=0.1),
        Fault("create", "jobs", "lose"),
    ]
    with pytest.raises(EngineFailed, match="does not answer"):
        engine.start(attempt)
    # A new server, which knows nothing but the files.
    again = double.engine(tmp_path)
    double.api.faults.append(Fault("create", "services", "status", code=500))
    with pytest.raises(EngineFailed):
        again.start(attempt)
    running(again, attempt)
    assert len(double.pods(attempt.job_id)) == 1
    (attempt.directory / "go").touch()
    assert wait_final(again, attempt).state is AttemptState.SUCCEEDED
    assert (attempt.directory / "starts").read_text() == "x\n"
    assert wait_final(engine, attempt).state is AttemptState.SUCCEEDED
    again.close()


def test_a_quota_on_jobs_is_waited_for_and_never_met_by_the_job_itself(
    double: Double, engine: KubernetesEngine, tmp_path: Path
) -> None:
    """Quotas are asked before names: a create whose answer was lost is refused when it comes again."""
    attempt = make_attempt(tmp_path, WAIT, cards=())
    engine.plan(attempt.spec, user="ann")
    double.api.most_jobs = len(double.store.all(JOBS)) + 1
    double.api.faults.append(Fault("create", "jobs", "lose"))
    with pytest.raises(EngineFailed, match="does not answer"):
        engine.start(attempt)
    running(engine, attempt)
    other = make_attempt(tmp_path, "true", cards=())
    with pytest.raises(StartHindered) as met:
        engine.start(other)
    english, chinese = (
        str(cause_sentence(met.value.cause, met.value.values, one)) for one in ("en", "zh")
    )
    assert "a quota of the namespace is used up, jobs.batch" in english
    assert "命名空间的配额已用完" in chinese
    double.api.most_jobs = None
    # Two servers at once: the quota's own count is contended for, which is no name that is taken.
    double.api.faults.append(Fault("create", "services", "status", code=409, reason="Conflict"))
    with pytest.raises(EngineFailed, match="cannot do it now"):
        engine.start(other)
    engine.start(other)
    assert double.store.get(SERVICES, f"jumar-{other.job_id}-1") is not None
    assert wait_final(engine, other).state is AttemptState.SUCCEEDED
    (attempt.directory / "go").touch()
    assert wait_final(engine, attempt).state is AttemptState.SUCCEEDED


def test_a_cluster_that_was_put_back_is_listed_anew(
    double: Double, engine: KubernetesEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says nothing of what comes before the version we have, and no error either."""
    monkeypatch.setattr(watching, "_WATCH_S", 1)
    monkeypatch.setattr(watching, "_LIST_S", 0.5)
    attempt = make_attempt(tmp_path, WAIT, cards=())
    running(engine, attempt)
    double.api.is_silent = True
    double.machines.status(pod_of(double, attempt), phase="Failed", reason="NodeLost")
    seen = wait_final(engine, attempt)
    assert (seen.state, seen.cause) == (AttemptState.LOST, Cause.NODE_LOST)


def test_watches_that_end_at_once_are_not_asked_for_without_a_pause(
    double: Double, engine: KubernetesEngine, tmp_path: Path
) -> None:
    double.api.is_short = True
    double.api.cut_watches()
    double.api.asked.clear()
    began = time.monotonic()
    attempt = make_attempt(tmp_path, "true", cards=())
    engine.start(attempt)
    assert wait_final(engine, attempt).state is AttemptState.SUCCEEDED
    most = 2 * ((time.monotonic() - began) / 0.2 + 2)
    assert len([one for one in double.api.asked if one[2] == "watch"]) <= most


def test_what_happens_while_no_watch_is_open_is_seen(
    double: Double, engine: KubernetesEngine, tmp_path: Path
) -> None:
    """Cut and resumed; cut and too old, by status and by event; the API away."""
    attempts = [make_attempt(tmp_path, WAIT, cards=()) for _ in range(3)]
    for attempt in attempts:
        running(engine, attempt)
    assert double.api.cut_watches() >= 2
    (attempts[0].directory / "go").touch()
    assert wait_final(engine, attempts[0]).state is AttemptState.SUCCEEDED
    double.api.faults += [Fault("watch", kind, "status", code=410) for kind in ("pods", "jobs")]
    double.store.compact()
    double.api.cut_watches()
    lists = len([one for one in double.api.asked if one[2] == "list"])
    (attempts[1].directory / "go").touch()
    assert wait_final(engine, attempts[1]).state is AttemptState.SUCCEEDED
    wait_for(
        lambda: len([one for one in double.api.asked if one[2] == "list"]) > lists, "a new list"
    )
    double.store.compact()
    (attempts[2].directory / "go").touch()
    assert wait_final(engine, attempts[2]).state is AttemptState.SUCCEEDED


def test_what_the_cluster_does_to_pods_is_told(
    double: Double, engine: KubernetesEngine, tmp_path: Path
) -> None:
    def ended(command: str = WAIT, **status: Any) -> Observation:
        attempt = make_attempt(tmp_path, command, cards=())
        running(engine, attempt)
        double.machines.status(pod_of(double, attempt), phase="Failed", **status)
        return wait_final(engine, attempt)

    killed = {"exitCode": 137, "reason": "OOMKilled"}
    seen = ended(containerStatuses=[{"name": "ascend", "state": {"terminated": killed}}])
    assert (seen.state, seen.cause) == (AttemptState.LOST, Cause.OUT_OF_MEMORY)
    seen = ended(reason="Evicted", message="The node was low on resource: memory.")
    assert (seen.state, seen.cause) == (AttemptState.LOST, Cause.EVICTED)
    assert seen.reason == "evicted by the cluster: The node was low on resource: memory."
    assert "驱逐" in str(cause_sentence(seen.cause, seen.values, "zh"))
    seen = ended(reason="NodeLost")
    assert (seen.state, seen.cause) == (AttemptState.LOST, Cause.NODE_LOST)
    assert "node" in str(seen.reason)


def test_who_is_taken_away_is_asked_first_and_it_is_told_why(
    double: Double, engine: KubernetesEngine, tmp_path: Path
) -> None:
    expected = {
        "PreemptionByScheduler": (AttemptState.PREEMPTED, Cause.PREEMPTED),
        "DeletionByTaintManager": (AttemptState.LOST, Cause.NODE_LOST),
        "EvictionByEvictionAPI": (AttemptState.LOST, Cause.EVICTED),
    }
    attempts = {why: make_attempt(tmp_path, WAIT, cards=()) for why in expected}
    for why, attempt in attempts.items():
        running(engine, attempt)
        double.machines.evict(pod_of(double, attempt), why, "for maintenance")
    for why, attempt in attempts.items():
        seen = wait_final(engine, attempt)
        assert (seen.state, seen.cause) == expected[why]
        events = (attempt.directory / "events.jsonl").read_text()
        assert "ranks-asked-to-end" in events


def test_why_it_waits_is_one_sentence_in_both_languages(
    double: Double, engine: KubernetesEngine, tmp_path: Path
) -> None:
    def waits(sign: str, **fields: Any) -> tuple[str, str]:
        attempt = make_attempt(tmp_path, "true", cards=(), **fields)
        engine.start(attempt)
        said = pending(engine, attempt, sign)
        engine.stop(attempt, AttemptState.STOPPED)
        assert wait_final(engine, attempt).state is AttemptState.STOPPED
        return said

    english, chinese = waits("Unschedulable", device="npu:16")
    assert "no node can take it now, 0/4 nodes are available: 4 Insufficient" in english
    assert "暂时没有可用的节点" in chinese
    english, chinese = waits("ImagePullBackOff", image=MISSING_IMAGE)
    assert f'its image cannot be pulled, Back-off pulling image "{MISSING_IMAGE}"' in english
    assert "无法拉取镜像" in chinese


def test_what_only_events_tell_is_told_too(
    double: Double, engine: KubernetesEngine, tmp_path: Path
) -> None:
    double.machines.is_held = True
    attempt = make_attempt(tmp_path, "true", cards=())
    about = {"kind": "Job", "name": f"jumar-{attempt.job_id}-1"}
    event = {"reason": "FailedCreate", "message": "exceeded quota: cards", "involvedObject": about}
    double.store.create(EVENTS, {"metadata": {"name": attempt.job_id}, "type": "Warning", **event})
    engine.start(attempt)
    english, chinese = pending(engine, attempt, "FailedCreate")
    assert english.endswith("its pods cannot be created, exceeded quota: cards")
    assert "无法创建 Pod" in chinese
    engine.stop(attempt, AttemptState.STOPPED)
    assert wait_final(engine, attempt).state is AttemptState.STOPPED


def test_an_image_that_can_never_be_had_fails_at_once_and_any_other_after_a_while(
    double: Double, engine: KubernetesEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = make_attempt(tmp_path, "true", cards=(), image=BAD_IMAGE)
    engine.start(attempt)
    seen = wait_final(engine, attempt)
    assert (seen.state, seen.cause) == (AttemptState.FAILED, Cause.IMAGE)
    monkeypatch.setattr(observing, "PULL_LIMIT_S", 0.1)
    attempt = make_attempt(tmp_path, "true", cards=(), image=MISSING_IMAGE)
    engine.start(attempt)
    seen = wait_final(engine, attempt)
    assert (seen.state, seen.cause) == (AttemptState.FAILED, Cause.IMAGE)
    wait_for(lambda: not double.pods(attempt.job_id), "its cards are free")


def test_a_gang_of_which_only_some_can_run_gives_its_cards_back(
    double: Double, engine: KubernetesEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "STRANDED_S", 0.2)
    monkeypatch.setattr(double.machines, "nodes", {"node0": 2})
    attempt = make_attempt(tmp_path, SHOW, cards=(), **WIDE)
    engine.start(attempt)
    seen = wait_final(engine, attempt)
    assert (seen.state, seen.cause) == (AttemptState.LOST, Cause.NODES_APART)
    assert "only 1 of 2 pods" in str(seen.reason)
    wait_for(lambda: not double.pods(attempt.job_id), "its cards are free")
    monkeypatch.setattr(double.machines, "nodes", {"node0": 2, "node1": 2})
    again = make_attempt(tmp_path, SHOW, cards=(), job_id=attempt.job_id, number=2, **WIDE)
    engine.start(again)
    assert wait_final(engine, again).state is AttemptState.SUCCEEDED
    lines = sorted(path.read_text().strip() for path in again.directory.glob("logs/node*/rank*"))
    assert lines == [f"{n} {2 * n + r} {r} 4" for n in range(2) for r in range(2)]
    check_table(again, 2, 2)


def test_a_pod_on_a_node_that_nobody_hears_of_is_given_up(
    double: Double, engine: KubernetesEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays in the list; should it come back, it finds that it is over."""
    attempt = make_attempt(tmp_path, WAIT, cards=())
    running(engine, attempt)
    (pod,) = double.pods(attempt.job_id)
    monkeypatch.setattr(double.machines, "silent", {pod["spec"]["nodeName"]})
    monkeypatch.setattr(reasons, "_OVERDUE_S", -3600.0)
    double.machines.evict(pod_of(double, attempt), "DeletionByTaintManager")
    seen = wait_final(engine, attempt)
    assert (seen.state, seen.cause) == (AttemptState.LOST, Cause.NODE_LOST)
    assert double.pods(attempt.job_id)
    monkeypatch.undo()
    wait_for(lambda: not double.pods(attempt.job_id), "it has ended by itself")
    assert look(engine, attempt) == seen


def test_a_server_that_starts_while_the_api_is_away_goes_on_by_the_files(
    double: Double, engine: KubernetesEngine, tmp_path: Path
) -> None:
    attempt = make_attempt(tmp_path, WAIT, cards=())
    running(engine, attempt)
    away = double.engine(tmp_path)
    file = tmp_path.with_name(f"{tmp_path.name}.kubeconfig")
    file.write_text(file.read_text().replace(double.api.url, "http://127.0.0.1:9"))
    assert look(away, attempt).state is AttemptState.RUNNING
    (attempt.directory / "go").touch()
    assert wait_final(away, attempt).state is AttemptState.SUCCEEDED
    with pytest.raises(EngineFailed, match="does not answer"):
        away.start(make_attempt(tmp_path, "true", cards=()))
    away.close()


def test_a_job_that_somebody_deletes_in_the_cluster_was_stopped(
    double: Double, engine: KubernetesEngine, tmp_path: Path
) -> None:
    attempt = make_attempt(tmp_path, WAIT, cards=())
    running(engine, attempt)
    double.store.remove(JOBS, f"jumar-{attempt.job_id}-1")
    assert wait_final(engine, attempt).state is AttemptState.STOPPED
    double.machines.is_held = True
    attempt = make_attempt(tmp_path, WAIT, cards=())
    engine.start(attempt)
    wait_for(lambda: bool(double.pods(attempt.job_id)), "its pod waits")
    double.store.remove(JOBS, f"jumar-{attempt.job_id}-1")
    assert wait_final(engine, attempt).state is AttemptState.STOPPED


def test_an_image_without_python_says_so_by_the_log_of_its_pod(
    double: Double, tmp_path: Path
) -> None:
    engine = double.engine(tmp_path, python="/opt/no/python3")
    attempt = make_attempt(tmp_path, "true", cards=())
    engine.start(attempt)
    seen = wait_final(engine, attempt)
    assert (seen.state, seen.cause) == (AttemptState.FAILED, Cause.POD_FAILED)
    assert "/opt/no/python3" in str(seen.tail)
    engine.close()


def test_what_the_cluster_refuses_is_refused_and_what_is_not_ours_is_left_alone(
    double: Double, engine: KubernetesEngine, tmp_path: Path
) -> None:
    attempt = make_attempt(tmp_path, "true", cards=())
    foreign = {"name": f"jumar-{attempt.job_id}-1", "labels": {"jumar.io/job": attempt.job_id}}
    double.store.create(JOBS, {"metadata": foreign, "spec": {"suspend": True}})
    with pytest.raises(SubmitRefused, match="not ours"):
        engine.start(attempt)
    engine.stop(attempt, AttemptState.STOPPED)
    nowhere = double.engine(tmp_path, namespace="nowhere")
    with pytest.raises(SubmitRefused, match="not found"):
        nowhere.start(make_attempt(tmp_path, "true", cards=()))
    nowhere.close()
    urls: dict[str, Any] = {"inputs": {"data_url": "s3://bucket/data"}}
    with pytest.raises(SubmitRefused, match="cannot be reached"):
        engine.plan(make_attempt(tmp_path, "true", cards=(), **urls).spec, user="ann")


def test_the_role_allows_exactly_what_is_asked_for(
    kubernetes_double: Double, volcano_double: Double, tmp_path: Path
) -> None:
    used = set[tuple[str, str, str]]()
    for number, double in enumerate((kubernetes_double, volcano_double)):
        double.api.asked.clear()
        home = tmp_path / str(number)
        home.mkdir()
        engine = double.engine(home)
        attempt = make_attempt(home, WAIT, cards=())
        double.api.faults.append(Fault("create", "jobs", "lose"))
        with pytest.raises(EngineFailed):
            engine.start(attempt)
        running(engine, attempt)
        if number:
            with engine.start_beside(attempt):
                wait_for(
                    lambda: ("", "pods/exec", "create") in volcano_double.api.asked, "a way in"
                )
        engine.kill(attempt)
        assert wait_final(engine, attempt).state is AttemptState.LOST
        engine.close()
        broken = double.engine(home, python="/opt/no/python3")
        attempt = make_attempt(home, WAIT, cards=())
        broken.start(attempt)
        assert wait_final(broken, attempt).state is AttemptState.FAILED
        broken.close()
        used |= set(double.api.asked)
    assert used == shipped_rules()
