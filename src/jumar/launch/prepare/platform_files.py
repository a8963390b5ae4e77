"""hccl.json and pod.env in the job directory, for scripts that were written for other platforms."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from jumar.launch.ascend import apply
from jumar.launch.ascend.facts import CardFacts
from jumar.launch.ascend.ranktable.podenv import Pod, pod_variables, render, write_pod_env
from jumar.launch.ascend.ranktable.records import RankTable, RankTableError
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.job import Job

Part = Optional[Dict[str, Any]]


class JobTable(NamedTuple):
    """The rank table of a job on NPUs, as far as one can be made."""

    table: Optional[RankTable] = None
    path: Optional[str] = None
    ranks: Sequence[int] = ()
    """Each local rank's number in it."""


def part_of(address: str, cards: Sequence[CardFacts], troubles: List[str]) -> Part:
    """This node's part of the rank table; a job may do without."""
    try:
        return apply.table_part(address, cards)
    except RankTableError as error:
        troubles.append(f"no rank table: {error}")
        return None


def table_of(
    directory: JobDir,
    parts: Sequence[Part],
    address: str,
    cards: Sequence[CardFacts],
    troubles: List[str],
) -> JobTable:
    """The table of all nodes; node 0 writes it."""
    if not parts or any(part is None for part in parts):
        return JobTable()
    path = directory.path("hccl.json")
    try:
        table = apply.merge_parts(parts)
        if directory.node == 0:
            apply.write_table(path, table)
            troubles += apply.faults_in(table, cards)
    except RankTableError as error:
        troubles.append(f"no rank table: {error}")
        return JobTable()
    return JobTable(table, path, apply.ranks_of_cards(table, address, cards))


def write_variables(
    directory: JobDir,
    job: Job,
    table: JobTable,
    addresses: Sequence[str],
    environment: Dict[str, str],
) -> None:
    """pod.env of this node, with the environment of its ranks."""
    address = addresses[directory.node]
    server = None if table.table is None else apply.server_of(table.table, address)
    pod = Pod(job.job_id, job.user, directory.node, job.nodes, tuple(addresses), table.path)
    variables = pod_variables(pod, server)
    if server is not None:
        # As the ranks have it: counted within the visible devices.
        variables["DEVICE_ID"] = "0"
    write_pod_env(directory.pod_env, render(variables, environment))
