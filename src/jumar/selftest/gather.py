"""What is there at the end: read from the API, the ledger and the machine.

Stops the server on the way, since what outlives it is evidence too."""

from collections.abc import Sequence

from jumar.client import Client
from jumar.errors import JumarError
from jumar.selftest import processes
from jumar.selftest.crowd import Outcome
from jumar.selftest.ledger import read_ledger
from jumar.selftest.machine import Machine
from jumar.selftest.plan import PlannedJob
from jumar.selftest.promises import Evidence
from jumar.selftest.trouble import Done
from jumar.spec.records import JobRecord

_GONE_LIMIT_S = 90.0
_ANSWER_LIMIT_S = 120.0
# Below jobs/ID/attempts/N: a user's keys, and files that were being written during a kill.
_NOT_NEEDED = ("store.json", "result.json.new", "node0/result.json.new")


def gather(
    machine: Machine,
    jobs: tuple[PlannedJob, ...],
    outcome: Outcome,
    done: Sequence[Done],
    deaths: Sequence[str],
) -> Evidence:
    """The evidence; the server is down afterwards."""
    refused = dict(outcome.refused)
    records: tuple[JobRecord, ...] = ()
    logs: dict[tuple[str, int], str] = {}
    try:
        with machine.admin(_ANSWER_LIMIT_S) as admin:
            records = tuple(admin.get(row.id) for row in admin.jobs())
            logs = _logs(admin, records)
    except JumarError as error:
        refused["the list of jobs"] = f"cannot be read: {error}"
    orphans = _orphans(machine, {record.id for record in records if not record.state.is_final})
    complaint = machine.stop()
    is_over = all(record.state.is_final for record in records)
    return Evidence(
        jobs=jobs,
        accepted=dict(outcome.accepted),
        refused=refused,
        records=records,
        ledger=read_ledger(machine.ledger),
        logs=logs,
        faults=frozenset(one.fault for one in done),
        victims=frozenset(one.victim for one in done if one.victim is not None),
        deaths=tuple(deaths),
        orphans=orphans,
        # Jobs that are still running have processes; "none stuck" reports those.
        left_processes=_left_processes(machine, complaint) if is_over else (),
        left_files=_left_files(machine, records),
    )


def _logs(client: Client, records: Sequence[JobRecord]) -> dict[tuple[str, int], str]:
    return {
        (record.id, log.rank): b"".join(client.logs(record.id, rank=log.rank)).decode(
            "utf-8", "replace"
        )
        for record in records
        for log in client.log_files(record.id)
    }


def _orphans(machine: Machine, going: set[str]) -> tuple[str, ...]:
    """Processes of jobs that have ended. The last ones may still be exiting."""
    found: list[str] = []

    def none() -> bool:
        found[:] = [
            f"{processes.describe(stat)} of job {job}"
            for stat, job in processes.of_jobs(machine.run_id)
            if job not in going
        ]
        return not found

    processes.wait_until(none, _GONE_LIMIT_S)
    return tuple(found)


def _left_processes(machine: Machine, complaint: str | None) -> tuple[str, ...]:
    processes.wait_until(lambda: not processes.marked(machine.run_id), _GONE_LIMIT_S)
    left = [processes.describe(stat) for stat in processes.marked(machine.run_id)]
    return (*([f"jumar down: {complaint}"] if complaint else []), *left)


def _left_files(machine: Machine, records: Sequence[JobRecord]) -> tuple[str, ...]:
    over = {record.id for record in records if record.state.is_final}
    found = [
        path
        for name in _NOT_NEEDED
        for path in (machine.home / "jobs").glob(f"*/attempts/*/{name}")
        if path.relative_to(machine.home / "jobs").parts[0] in over
    ]
    found += (machine.home / "jobs").glob(".removed-*")
    return tuple(f"left in the home: {path.relative_to(machine.home)}" for path in sorted(found))
