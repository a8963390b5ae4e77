"""What tests of jobs on Kubernetes share, on the double and on a real cluster."""

from typing import Any, Protocol

from tests.cluster_double.store import Json
from tests.engine.conftest import log_of
from tests.waiting import wait_for

from jumar.engine.base import Attempt, Observation
from jumar.engine.kubernetes.engine import KubernetesEngine
from jumar.errors import EngineFailed
from jumar.launch.ascend import ranktable
from jumar.spec.states import AttemptState
from jumar.words.reasons import cause_sentence

WAIT = 'echo up; echo x >> "$JUMAR_JOB_DIR/starts"; until [ -e "$JUMAR_JOB_DIR/go" ]; do sleep 0.05; done'
SHOW = "echo $JUMAR_NODE $RANK $LOCAL_RANK $WORLD_SIZE"
WIDE: dict[str, Any] = {"device": "npu:2", "nodes": 2, "type": "distributed", "ranks": "device"}


class HasPods(Protocol):
    """A cluster."""

    def pods(self, job_id: str) -> list[Json]: ...


def look(engine: KubernetesEngine, attempt: Attempt) -> Observation:
    return engine.observe([attempt])[0]


def is_started(engine: KubernetesEngine, attempt: Attempt) -> bool:
    """Whether the engine could start it."""
    try:
        engine.start(attempt)
    except EngineFailed:
        return False
    return True


def running(engine: KubernetesEngine, attempt: Attempt) -> None:
    engine.start(attempt)
    wait_for(lambda: look(engine, attempt).state is AttemptState.RUNNING, "it runs")
    wait_for(lambda: "up" in log_of(attempt), "its first line")


def pod_of(cluster: HasPods, attempt: Attempt) -> str:
    (pod,) = cluster.pods(attempt.job_id)
    return str(pod["metadata"]["name"])


def check_table(attempt: Attempt, servers: int, cards: int) -> None:
    """A rank table that the vendor's library would take: all cards, each with its address, in order."""
    table = ranktable.read_table(attempt.directory / "hccl.json")
    assert [len(one.devices) for one in table.servers] == [cards] * servers
    assert [device.rank for _, device in table.devices] == list(range(servers * cards))
    assert len({device.device_ip for _, device in table.devices}) == servers * cards
    found = {one.name for one in ranktable.check(table, "A2")}
    # All of these nodes are this machine.
    assert found <= {"loopback-server-id"}, found


def pending(engine: KubernetesEngine, attempt: Attempt, sign: str) -> tuple[str, str]:
    """The sentences of an attempt that waits for this, in both languages."""
    wait_for(lambda: sign in str(look(engine, attempt).values.get("error")), f"it waits for {sign}")
    seen = look(engine, attempt)
    assert seen.state is AttemptState.PENDING
    english, chinese = (cause_sentence(seen.cause, seen.values, one) for one in ("en", "zh"))
    return str(english), str(chinese)
