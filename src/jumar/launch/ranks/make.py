"""The ranks of one node: a process for each device, with what its framework wants to find.

The one place where they are made, for the jobs of the platform and for `jumar launch`. Which
devices, which program and how the nodes found each other is decided elsewhere."""

import os
from typing import Dict, List, NamedTuple, Optional

from jumar.launch.processes.namespace import View
from jumar.launch.processes.spawn import Program
from jumar.launch.processes.supervise import SCHEDULER, Rank
from jumar.launch.ranks import frameworks
from jumar.launch.ranks.boot import Boot
from jumar.launch.ranks.cores import Cores
from jumar.launch.ranks.frameworks import Devices, Group


class LocalRankOption(NamedTuple):
    """How a script of the days of torch.distributed.launch learns its local rank."""

    spelling: str
    at: int
    """Where in the arguments: right behind the script, as what follows may be a subcommand."""


class Shared(NamedTuple):
    """What all ranks of a node have in common."""

    framework: str
    argv: List[str]
    environment: Dict[str, str]
    folder: str
    logs: str
    cores: Cores
    local_rank: Optional[LocalRankOption] = None
    view: Optional[View] = None
    virtual_local_rank: bool = False


def make_ranks(shared: Shared, group: Group, devices: Devices) -> List[Rank]:
    """The ranks of this node, and the scheduler that a MindSpore cluster has on node 0."""
    unwanted = frameworks.conflicting(shared.framework, devices)
    base = {name: value for name, value in shared.environment.items() if name not in unwanted}
    made: List[Rank] = []
    if frameworks.needs_scheduler(shared.framework, devices) and group.node == 0:
        variables = {**base, **frameworks.scheduler_variables(group)}
        log = os.path.join(shared.logs, "scheduler.log")
        program = Program(shared.argv, variables, shared.folder, log, view=shared.view)
        made.append(Rank(SCHEDULER, program, True))
    for local_rank in range(group.local_count):
        own = frameworks.variables_of(shared.framework, group, devices, local_rank, base)
        if shared.virtual_local_rank:
            own = frameworks.as_the_only_one(own, devices, local_rank)
        rank = group.first_rank + local_rank
        program = Program(
            _arguments(shared, own["LOCAL_RANK"]),
            {**base, **own},
            shared.folder,
            os.path.join(shared.logs, f"rank{rank}.log"),
            shared.cores.cpus[local_rank],
            shared.view,
        )
        made.append(Rank(rank, program))
    return made


def local_rank_option(boot: Boot, argv: List[str]) -> Optional[LocalRankOption]:
    """For a script that declares the option and is a word of `argv`."""
    spelling = frameworks.local_rank_argument(boot.path)
    if spelling is None or boot.word not in argv:
        return None
    return LocalRankOption(spelling, argv.index(boot.word) + 1)


def _arguments(shared: Shared, local_rank: str) -> List[str]:
    option = shared.local_rank
    if option is None:
        return shared.argv
    words = f"{option.spelling}={local_rank}"
    return [*shared.argv[: option.at], words, *shared.argv[option.at :]]
