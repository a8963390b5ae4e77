"""What will be started on this node: programs, variables, cards and cores of each rank.

Everything about the vendor's world is imported only where there are NPUs to use."""

import os
import shlex
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

from jumar.launch.ascend.facts import generation_of
from jumar.launch.options import BadUsage, Options, program_of
from jumar.launch.processes.supervise import SCHEDULER, Rank
from jumar.launch.ranks import frameworks
from jumar.launch.ranks.boot import boot_of
from jumar.launch.ranks.cards import Choice, choose
from jumar.launch.ranks.cores import Cores, cores_for
from jumar.launch.ranks.environment import simulation_path
from jumar.launch.ranks.frameworks import Devices, Group
from jumar.launch.ranks.make import LocalRankOption, Shared, local_rank_option, make_ranks

if TYPE_CHECKING:
    from jumar.launch.ascend.ranktable import RankTableError

TABLE_NAME = "hccl.json"
Part = Optional[Dict[str, Any]]


class Layout(NamedTuple):
    """All that does not depend on the other nodes."""

    options: Options
    choice: Choice
    framework: str
    argv: List[str]
    local_rank: Optional[LocalRankOption]
    given: Mapping[str, str]
    """The environment of the launcher."""
    environment: Dict[str, str]
    """The same for all ranks."""
    folder: str
    """Where ranks start."""
    rank_table: Optional[str]
    """A file, `make`, or None: without."""
    cores: Cores

    @classmethod
    def of(cls, options: Options, environ: Mapping[str, str]) -> "Layout":
        """Look at the machine and the script; raises BadUsage."""
        folder = _current_folder()
        choice = choose(options.kind, options.per_node, options.cards_file, environ)
        argv = program_of(options, environ)
        boot = boot_of(argv, folder)
        framework = options.framework
        if framework == "auto":
            framework = frameworks.guess(boot.path)
        cores = Cores([None] * choice.size, [])
        if options.bind and choice.cards:
            cores = cores_for(choice.kind, choice.facts, environ)
        return cls(
            options=options,
            choice=choice,
            framework=framework,
            argv=argv,
            local_rank=local_rank_option(boot, argv) if options.pass_local_rank else None,
            given=environ,
            environment=_common(choice, environ),
            folder=folder,
            rank_table=_rank_table(options, choice, framework, environ),
            cores=cores,
        )

    @property
    def size(self) -> int:
        """Ranks on this node."""
        return self.choice.size

    def rank_table_part(self) -> Part:
        """What the other nodes must know of this node's cards; raises BadUsage."""
        if self.rank_table != "make":
            return None
        from jumar.launch.ascend.apply import table_part
        from jumar.launch.ascend.ranktable import RankTableError

        try:
            return table_part(self._address(), self.choice.facts)
        except RankTableError as error:
            raise _unusable(error) from error

    def devices(
        self, parts: Sequence[Part], folder: str, pause: Callable[[float], None]
    ) -> Devices:
        """This node's cards, with the rank table there; `pause` waits for one that a platform still
        makes. Raises BadUsage."""
        if self.rank_table is None:
            return Devices(self.choice.kind, self.choice.facts)
        from jumar.launch.ascend.apply import use_rank_table, write_rank_table
        from jumar.launch.ascend.ranktable import RankTableError

        try:
            if self.rank_table == "make":
                whole = [part for part in parts if part is not None]
                path = os.path.join(folder, TABLE_NAME)
                chip = generation_of(self.choice.facts)
                table = write_rank_table(whole, path, self._address(), chip)
            else:
                limit_s = self.options.join_limit_s
                table = use_rank_table(
                    self.rank_table, self._address(), limit_s=limit_s, pause=pause
                )
        except RankTableError as error:
            raise _unusable(error) from error
        ranks = table.rank_of_card
        numbers = [ranks[card] for card in self.choice.cards if card in ranks]
        return Devices(self.choice.kind, self.choice.facts, table.path, numbers)

    def ranks(self, group: Group, devices: Devices, logs: str) -> List[Rank]:
        """The ranks of this node, ready to be started."""
        shared = Shared(
            self.framework,
            self.argv,
            self.environment,
            self.folder,
            logs,
            self.cores,
            self.local_rank,
            virtual_local_rank=self.options.virtual_local_rank,
        )
        return make_ranks(shared, group, devices)

    def describe(self) -> str:
        """For --dry-run: all ranks of this node, as if each node had as many."""
        node = self.options.node or 0
        group = Group(
            node=node,
            nodes=self.options.nodes,
            first_rank=node * self.size,
            local_count=self.size,
            world_size=self.size * self.options.nodes,
            master=self.options.master,
            port=self.options.port,
            address=self._address(),
            run_id=self.options.run_id,
            most_restarts=self.options.restarts,
        )
        cards = f" on cards {','.join(map(str, self.choice.cards))}" if self.choice.cards else ""
        lines = [f"{self.size} x {self.choice.kind}{cards}, framework {self.framework}"]
        lines += self.cores.words
        path = f"LOGS/{TABLE_NAME}" if self.rank_table == "make" else self.rank_table
        devices = Devices(self.choice.kind, self.choice.facts, path)
        for rank in self.ranks(group, devices, "LOGS"):
            lines += ["", "scheduler:" if rank.rank == SCHEDULER else f"rank {rank.rank}:"]
            for name, value in sorted(rank.program.environment.items()):
                if self.given.get(name) != value:
                    lines.append(f"  {name}={value}")
            lines.append(f"  {' '.join(shlex.quote(word) for word in rank.program.argv)}")
        return "\n".join(lines) + "\n"

    def _address(self) -> str:
        if self.options.nodes == 1 and self.rank_table is None:
            return self.options.master
        from jumar.launch.ascend.ranktable import host_address

        towards = self.options.master if self.options.nodes > 1 else None
        return host_address(towards, self.given)


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise BadUsage("the current folder is gone", "start again from one that exists") from error


def _unusable(error: "RankTableError") -> BadUsage:
    return BadUsage(str(error), error.hint or "see: jumar ranktable check FILE")


def _common(choice: Choice, environ: Mapping[str, str]) -> Dict[str, str]:
    common = {"PYTHONUNBUFFERED": "1", **environ}
    if choice.kind == "npu":
        from jumar.launch.ascend.apply import cann_variables, hccl_variables

        common.update(cann_variables(environ))
        common.update(hccl_variables(environ))
    elif choice.kind == "sim":
        common.update(simulation_path(environ))
    return common


def _rank_table(
    options: Options, choice: Choice, framework: str, environ: Mapping[str, str]
) -> Optional[str]:
    wanted = options.rank_table
    if wanted is None and framework != "torch":
        wanted = environ.get("RANK_TABLE_FILE")
        if wanted is None and framework == "tensorflow" and choice.kind == "npu":
            wanted = "make"
    if wanted is None or wanted == "none":
        return None
    if wanted == "make" and choice.kind != "npu":
        raise BadUsage("a rank table lists NPUs, and none are used", "leave --rank-table out")
    if wanted != "make" and not os.path.isfile(wanted):
        raise BadUsage(f"the rank table {wanted} is not there", "make one with --rank-table make")
    return wanted if wanted == "make" else os.path.abspath(wanted)
