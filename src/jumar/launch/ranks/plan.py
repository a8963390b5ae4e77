"""The plan of one node: which program its ranks run, where, on which cards and cores.

A job directory and a command line each make one; how the nodes found each other comes as a `Group`.
From the two the ranks are made, here and nowhere else. The training script that a command runs first
names the framework by its imports, its options say whether it takes a local rank, and its folder is
where requirements are looked for."""

import os
import shlex
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from jumar.launch.ascend.facts import CardFacts
from jumar.launch.processes.container import Wrapping, shell_line
from jumar.launch.processes.namespace import View
from jumar.launch.processes.network import Network
from jumar.launch.processes.spawn import Program, find
from jumar.launch.processes.supervise import SCHEDULER, Rank
from jumar.launch.ranks import frameworks
from jumar.launch.ranks.environment import Environment
from jumar.launch.ranks.frameworks import Devices, Group
from jumar.launch.verdict import SetupFailed

Command = Union[str, Sequence[str]]
REQUIREMENTS = "pip-requirements.txt"


class Boot(NamedTuple):
    """One script or module."""

    word: str
    """As it stands in the command."""
    path: str
    """The file, which need not be there."""


def boot_of(command: Command, folder: str) -> Boot:
    """The first word that ends in .py or stands behind -m, else the program itself."""
    words: List[str] = command.split() if isinstance(command, str) else list(command)
    for word, following in zip(words, [*words[1:], ""]):
        if word.endswith(".py"):
            return Boot(word, os.path.join(folder, word))
        if word == "-m" and following:
            return Boot(following, _module_file(following, folder))
    program = words[0] if words else ""
    return Boot(program, os.path.join(folder, program))


def boot_file(command: Command) -> Optional[str]:
    """The script of a command as it is written there; None where a module or a program is run."""
    word = boot_of(command, "").word
    return word if word.endswith(".py") else None


def find_requirements(command: Command, named: Optional[str], folder: str) -> Optional[str]:
    """The requirements file of a job, `named` or beside its script; raises SetupFailed when it names one that
    is not there."""
    if named is not None:
        path = os.path.join(folder, named)
        if not os.path.isfile(path):
            reason = f"{named} does not exist in the code"
            raise SetupFailed("requirements-file", reason, values={"file": named})
        return path
    boot = boot_file(command)
    if boot is None:
        return None
    path = os.path.join(folder, os.path.dirname(boot), REQUIREMENTS)
    return path if os.path.isfile(path) else None


def arguments(
    command: Command,
    paths: Mapping[str, str],
    environment: Mapping[str, str],
    *,
    is_contained: bool = False,
) -> List[str]:
    """The argument vector, with the paths of inputs and outputs where the command wants them.

    A list gets `--name=PATH` for each name it does not place itself; a string is a shell's and
    is only filled in where it says `{name}`."""
    if isinstance(command, str):
        for name, path in paths.items():
            command = command.replace("{" + name + "}", shlex.quote(path))
        return shell_line(command) if is_contained else [_shell(environment), "-c", command]
    placed = list(command)
    for name, path in paths.items():
        mark = "{" + name + "}"
        if any(mark in word for word in placed):
            placed = [word.replace(mark, path) for word in placed]
        else:
            placed.append(f"--{name}={path}")
    return placed


def _module_file(name: str, folder: str) -> str:
    path = os.path.join(folder, *name.split("."))
    return os.path.join(path, "__main__.py") if os.path.isdir(path) else path + ".py"


def _shell(environment: Mapping[str, str]) -> str:
    found = find("bash", environment, "")
    return found if found is not None and os.access(found, os.X_OK) else "/bin/sh"


TABLE_NAME = "hccl.json"


class Cores(NamedTuple):
    """Of each local rank, and in words."""

    cpus: Sequence[Optional[Sequence[int]]]
    words: Sequence[str] = ()


class LocalRankOption(NamedTuple):
    """How a script of the days of torch.distributed.launch learns its local rank."""

    spelling: str
    at: int
    """Where in the arguments: right behind the script, as what follows may be a subcommand."""


class NodePlan(NamedTuple):
    """All that does not depend on the other nodes, apart from the rank table."""

    argv: List[str]
    folder: str
    """Where ranks start."""
    environment: Environment
    devices: Devices
    size: int
    """Ranks on this node."""
    framework: str
    logs: str
    """The folder of the ranks' logs."""
    cores: Cores
    local_rank: Optional[LocalRankOption] = None
    view: Optional[View] = None
    network: Optional[Network] = None
    virtual_local_rank: bool = False
    """Each rank sees its own card only, as number 0."""
    is_starter: bool = False
    """The command is run once and starts its ranks itself."""
    wrapping: Optional[Wrapping] = None
    """The container that each rank runs in."""

    def ranks(self, group: Group) -> List[Rank]:
        """The ranks of this node, and the scheduler that a MindSpore cluster has on node 0."""
        if self.is_starter:
            variables = self.environment.of_starter(group, self.devices)
            program = self._program(f"rank{group.first_rank}", variables)
            return [self._contained(Rank(group.first_rank, program, is_starter=True))]
        made: List[Rank] = []
        if frameworks.needs_scheduler(self.framework, self.devices) and group.node == 0:
            variables = self.environment.of_scheduler(self.framework, group, self.devices)
            made.append(Rank(SCHEDULER, self._program("scheduler", variables), is_service=True))
        made += [self._rank(group, local_rank) for local_rank in range(group.local_count)]
        return [self._contained(rank) for rank in made]

    def describe(self, group: Group) -> str:
        """For --dry-run: what would be started, with the variables that are not just inherited."""
        cards = ",".join(str(card.id) for card in self.devices.cards if card.uuid is None)
        where = f" on cards {cards}" if cards else ""
        lines = [f"{self.size} x {self.devices.kind}{where}, framework {self.framework}"]
        lines += self.cores.words
        for rank in self.ranks(group):
            lines += ["", "scheduler:" if rank.rank == SCHEDULER else f"rank {rank.rank}:"]
            lines += [f"  {line}" for line in self.environment.shown(rank.program.environment)]
            lines.append(f"  {' '.join(shlex.quote(word) for word in rank.program.argv)}")
        return "\n".join(lines) + "\n"

    def _rank(self, group: Group, local_rank: int) -> Rank:
        variables = self.environment.of_rank(
            self.framework, group, self.devices, local_rank, alone=self.virtual_local_rank
        )
        rank, cpus = group.first_rank + local_rank, self.cores.cpus[local_rank]
        if cpus is not None and not self.environment.common.get("OMP_NUM_THREADS"):
            variables["OMP_NUM_THREADS"] = str(len(cpus))
        program = self._program(f"rank{rank}", variables)
        argv = self._arguments(variables["LOCAL_RANK"])
        return Rank(rank, program._replace(argv=argv, cpus=cpus))

    def _contained(self, rank: Rank) -> Rank:
        if self.wrapping is None:
            return rank
        return rank._replace(program=self.wrapping.wrapped(rank.program, rank.rank))

    def _arguments(self, local_rank: str) -> List[str]:
        option = self.local_rank
        if option is None:
            return self.argv
        words = f"{option.spelling}={local_rank}"
        return [*self.argv[: option.at], words, *self.argv[option.at :]]

    def _program(self, name: str, variables: Dict[str, str]) -> Program:
        log = os.path.join(self.logs, f"{name}.log")
        return Program(self.argv, variables, self.folder, log, view=self.view, network=self.network)


class Script(NamedTuple):
    """What the script of a command tells of itself."""

    framework: str
    local_rank: Optional[LocalRankOption]


def read_script(
    command: Command, argv: List[str], folder: str, framework: Optional[str] = None
) -> Script:
    """Look into the script that `command` runs; `framework` is what a person has named."""
    boot = boot_of(command, folder)
    text = frameworks.start_of(boot.path)
    spelling = frameworks.local_rank_argument(text)
    option = None
    if spelling is not None and boot.word in argv:
        option = LocalRankOption(spelling, argv.index(boot.word) + 1)
    return Script(frameworks.named(framework) or frameworks.guess(text), option)


def cores_for(kind: str, cards: Sequence[CardFacts], size: int, environment: Environment) -> Cores:
    """Near the cards, one rank per card. Ranks without cards are left to the kernel's scheduler:
    other jobs run beside them, and each would claim the first cores."""
    if kind not in ("npu", "gpu") or any(card.uuid is not None for card in cards):
        return Cores([None] * size)
    # Late: it asks npu-smi, with a time limit.
    from jumar.launch.ranks.binding import cores_near

    plan = cores_near(kind, cards, environment.common)
    cpus: List[Optional[Tuple[int, ...]]] = [
        None if rank.cpus is None else tuple(sorted(rank.cpus)) for rank in plan.ranks
    ]
    return Cores(cpus, plan.lines())
