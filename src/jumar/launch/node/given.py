"""What an engine has written for one node of an attempt, and the plan that follows from it."""

import os
from typing import Dict, FrozenSet, List, NamedTuple, Optional

from jumar.launch.ascend.facts import CardFacts, simulated
from jumar.launch.complete import newest_complete
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.job import Job, Request, read_job, read_request
from jumar.launch.nodes.team import Meeting, group_of, host_address
from jumar.launch.prepare.platform_files import JobTable
from jumar.launch.processes.container import Wrapping
from jumar.launch.processes.namespace import View
from jumar.launch.processes.network import Network
from jumar.launch.ranks.environment import Environment, inherited, own_program
from jumar.launch.ranks.frameworks import Devices
from jumar.launch.ranks.plan import Cores, NodePlan, arguments, cores_for, read_script

_NODE_LIMIT_S = 60.0
"""Longer than anything that is prepared without a look at the other nodes."""


class Given(NamedTuple):
    """What the engine has written for this node."""

    directory: JobDir
    job: Job
    request: Request

    @property
    def is_starter(self) -> bool:
        """Whether the command is run once per node, and starts its ranks itself."""
        return self.job.ranks != "device"

    @property
    def size(self) -> int:
        """Ranks on this node."""
        return 1 if self.is_starter else self.job.device_count

    @property
    def worlds(self) -> FrozenSet[int]:
        """How many ranks the job may have on all nodes: a command that starts them itself may start one per card."""
        return frozenset(count * self.job.nodes for count in (self.size, self.job.device_count))

    @property
    def folder(self) -> str:
        """Where the code is, or will be."""
        return self.job.workdir or self.directory.path("code")

    @property
    def written(self) -> Optional[List[str]]:
        """All that ranks in containers may write; None: whatever their user may."""
        if self.request.container is None:
            return None
        # Late: most jobs have no image.
        from jumar.launch.prepare.containing import given_folders

        return given_folders(self.directory, self.job, self.folder)

    @property
    def meeting(self) -> Meeting:
        """How the nodes of the attempt find each other."""
        job, nodes = self.job, self.request.nodes
        return Meeting(
            nodes=job.nodes,
            node=self.directory.node,
            master=nodes[0].address if nodes else "127.0.0.1",
            port=self.request.port,
            run_id=job.job_id,
            key=".".join(
                filter(None, (job.job_id, str(self.directory.number), self.request.secret))
            ),
            grace_s=job.grace_s,
            join_limit_s=self.request.join_limit_s,
            node_limit_s=_NODE_LIMIT_S,
            hang_limit_s=job.hang_limit_s,
        )

    @property
    def has_table(self) -> bool:
        """Whether its cards are listed in a rank table, in which simulated ones look like NPUs."""
        return self.job.device_kind in ("npu", "sim")

    @property
    def cards(self) -> List[CardFacts]:
        """What is known of this node's cards, in ascending order."""
        facts = self.request.card_facts
        container = self.request.container
        has_own = container is not None and not container.is_apptainer
        if (self.request.is_contained or has_own) and self.job.device_kind in ("npu", "gpu"):
            # A container has no other cards: the runtime counts from 0 there.
            facts = [card._replace(logical_id=number) for number, card in enumerate(facts)]
        return simulated(self.directory.node, facts) if self.job.device_kind == "sim" else facts

    def addresses(self, environment: Dict[str, str]) -> List[str]:
        """Of each node, as the others reach it."""
        return [node.address for node in self.request.nodes] or [host_address(environ=environment)]

    def variables(self) -> Dict[str, str]:
        """Those of what prepares the attempt: of this machine, and the job's own."""
        return {**inherited(), **self.job.environment, **self.marks()}

    def marks(self) -> Dict[str, str]:
        """What names the attempt in the environment of each of its processes."""
        directory = self.directory
        return {
            "JUMAR_JOB_ID": self.job.job_id,
            "JUMAR_ATTEMPT": str(directory.number),
            # Two nodes may be on one machine.
            "JUMAR_NODE": str(directory.node),
        }

    def environment(
        self,
        activated: Optional[Dict[str, str]] = None,
        python: Optional[Dict[str, str]] = None,
        image: Optional[Dict[str, str]] = None,
    ) -> Environment:
        """The variables of all ranks; `activated`: what the first two layers have become, `python`:
        those that its requirements ask for, `image`: those of its image, in place of this machine's."""
        directory, job = self.directory, self.job
        return Environment.of(
            inherited() if image is None else {**image, "HOME": directory.path("home")},
            job.device_kind,
            own=job.environment,
            activated=activated,
            python=python,
            is_auto_ported=job.auto_port,
            private=directory.path("python"),
            store_file=directory.store_file,
            platform=self._platform_variables(),
            is_contained=image is not None,
        )

    def plan(
        self,
        folder: str,
        environment: Environment,
        table: JobTable,
        view: Optional[View] = None,
        wrapping: Optional[Wrapping] = None,
        network: Optional[Network] = None,
    ) -> NodePlan:
        """The plan of this node, once everything is in its place."""
        job, cards = self.job, self.cards
        data, contained = job.data_paths(self.directory), wrapping is not None
        argv = arguments(job.command, data, environment.common, is_contained=contained)
        script = read_script(job.command, argv, folder, job.framework)
        # A table that the job brings itself is meant; torch has no use for any, nor have ranks whose
        # NPUs are simulated. A command that starts its ranks itself reads it in any case.
        path = job.environment.get("RANK_TABLE_FILE") or table.path
        if not self.is_starter and (script.framework == "torch" or job.device_kind == "sim"):
            path = None
        is_made = path is not None and path == table.path
        return NodePlan(
            argv=self._in_ray(argv, environment.common) if job.launch == "ray" else argv,
            folder=folder,
            environment=environment,
            devices=Devices(job.device_kind, cards, path, table.ranks if is_made else ()),
            size=self.size,
            framework=script.framework,
            logs=os.path.dirname(self.directory.log(self.directory.node, 0)),
            cores=Cores([None])
            if self.is_starter
            else cores_for(job.device_kind, cards, self.size, environment),
            local_rank=script.local_rank,
            view=view,
            network=network,
            wrapping=wrapping,
            is_starter=self.is_starter,
        )

    def _in_ray(self, argv: List[str], environment: Dict[str, str]) -> List[str]:
        from jumar.launch import ray

        directory, addresses = self.directory, self.addresses(environment)
        place = ray.Place(
            node=directory.node,
            nodes=self.job.nodes,
            address=addresses[directory.node],
            head=addresses[0],
            kind=self.job.device_kind,
            cards=self.job.device_count,
            folder=directory.path("ray", str(directory.number)),
        )
        return [*own_program(), "--ray", *place.words(), *argv]

    def describe(self) -> str:
        """For --dry-run, with nothing prepared and nothing changed."""
        folder = self.folder
        table = JobTable(path=self.directory.path("hccl.json")) if self.has_table else JobTable()
        environment = self.environment()
        meeting, node = self.meeting, self.directory.node
        counts = [self.size] * meeting.nodes
        address = self.addresses(environment.common)[node]
        group = group_of(meeting, node, counts, meeting.port and meeting.port + 1, address)
        return f"in {folder}\n" + self.plan(folder, environment, table).describe(group)

    def _platform_variables(self) -> Dict[str, str]:
        directory, job, request = self.directory, self.job, self.request
        grace_s = job.grace_s if request.deadline is None else request.ask_before_s
        made = {
            **job.data_variables(directory),
            **self.marks(),
            "JUMAR_JOB_DIR": directory.root,
            "JUMAR_CKPT_DIR": directory.path("ckpt"),
            "JUMAR_CACHE_DIR": directory.path("cache"),
            "JUMAR_TENSORBOARD_DIR": directory.path("tensorboard"),
            "JUMAR_RESUME_FROM": newest_complete(directory.path("ckpt")) or "",
            "JUMAR_SEGMENT": str(request.segment),
            "JUMAR_SEGMENTS": request.segments,
            "JUMAR_DEADLINE": "" if request.deadline is None else str(int(request.deadline)),
            "JUMAR_GRACE_S": f"{grace_s:g}",
            "JUMAR_STOP_FILE": directory.stop,
            "JUMAR_POD_ENV": directory.pod_env,
        }
        if job.array_index is not None:
            made["JUMAR_ARRAY_INDEX"] = str(job.array_index)
        if job.device_kind == "npu" and "ASCEND_PROCESS_LOG_PATH" not in job.environment:
            # CANN's own log, beside those of the ranks: `jumar why` reads it.
            made["ASCEND_PROCESS_LOG_PATH"] = directory.plog(directory.node)
        if job.device_kind == "sim" and "JUMAR_SIM_REPORT" not in job.environment:
            contained = request.container is not None
            made["JUMAR_SIM_REPORT"] = directory.contained_trial if contained else directory.trial
        return made


def describe_attempt(directory: JobDir) -> str:
    """What would be started on this node; nothing is changed. Raises Unusable."""
    return Given(directory, read_job(directory), read_request(directory)).describe()
