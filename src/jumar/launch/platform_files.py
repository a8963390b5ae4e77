"""hccl.json and pod.env in the job directory, for scripts that were written for other platforms."""

from typing import Dict, List, Optional

from jumar.launch import ranktable
from jumar.launch.ascend import table_part
from jumar.launch.job import Job, Request
from jumar.launch.jobdir import JobDir
from jumar.launch.ranktable.podenv import Pod, pod_variables, render, write_pod_env


def write_platform_files(
    directory: JobDir, job: Job, request: Request, environment: Dict[str, str]
) -> List[str]:
    """Write both for this attempt's cards; what could not be done, in words."""
    troubles: List[str] = []
    address = ranktable.host_address(environ=environment)
    server: Optional[ranktable.RankServer] = None
    path: Optional[str] = None
    if job.device_kind == "npu":
        table = ranktable.parse(table_part(address, sorted(request.cards), []))
        server = table.servers[0]
        try:
            ranktable.write_table(directory.path("hccl.json"), table)
            path = directory.path("hccl.json")
        except ranktable.RankTableError as error:
            troubles.append(f"no rank table: {error}")
    pod = Pod(job.job_id, job.user, 0, 1, (address,), path)
    text = render(pod_variables(pod, server), environment)
    write_pod_env(directory.path("pod.env"), text)
    return troubles
