"""hccl.json and pod.env in the job directory, for scripts that were written for other platforms."""

from typing import Dict, NamedTuple, Optional, Tuple

from jumar.launch.ascend import ranktable
from jumar.launch.ascend.apply import table_part
from jumar.launch.ascend.facts import generation_of
from jumar.launch.ascend.ranktable.podenv import Pod, pod_variables, render, write_pod_env
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.job import Job, Request


class PlatformFiles(NamedTuple):
    """What there is, and what could not be done, in words."""

    rank_table: Optional[str]
    troubles: Tuple[str, ...] = ()


def write_platform_files(
    directory: JobDir, job: Job, request: Request, environment: Dict[str, str]
) -> PlatformFiles:
    """Write both for this attempt's cards."""
    address = ranktable.host_address(environ=environment)
    table: Optional[ranktable.RankTable] = None
    troubles: Tuple[str, ...] = ()
    path = directory.path("hccl.json") if job.device_kind == "npu" else None
    if path is not None:
        try:
            table = ranktable.parse(table_part(address, request.card_facts))
            ranktable.write_table(path, table)
            faults = ranktable.check(table, generation_of(request.card_facts))
            troubles = tuple(
                f"the rank table is wrong: {fault.text}"
                for fault in faults
                if fault.severity == "error"
            )
        except ranktable.RankTableError as error:
            path, troubles = None, (f"no rank table: {error}",)
    server = table.servers[0] if table is not None else None
    pod = Pod(job.job_id, job.user, 0, 1, (address,), path)
    variables = pod_variables(pod, server)
    if server is not None:
        # As the ranks have it: counted within the visible devices.
        variables["DEVICE_ID"] = "0"
    text = render(variables, environment)
    write_pod_env(directory.path("pod.env"), text)
    return PlatformFiles(path, troubles)
