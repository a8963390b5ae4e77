"""What will be started on this node: programs, variables, cards and cores of each rank."""

import os
import shlex
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from jumar.launch import frameworks
from jumar.launch.cards import Choice, choose
from jumar.launch.frameworks import Devices, Group
from jumar.launch.options import Options, program_of
from jumar.launch.spawn import Program
from jumar.launch.supervise import Rank

SCHEDULER = -1


class Layout(NamedTuple):
    """All that does not depend on the other nodes."""

    options: Options
    choice: Choice
    framework: str
    argv: List[str]
    local_rank_argument: Optional[str]
    environment: Dict[str, str]

    @classmethod
    def of(cls, options: Options, environ: Mapping[str, str]) -> "Layout":
        """Look at the machine and the script; raises BadUsage."""
        choice = choose(options.kind, options.per_node, options.cards_file, environ)
        script = None if options.is_module else options.command[0]
        framework = options.framework
        if framework == "auto":
            framework = frameworks.guess(script)
        argument = frameworks.local_rank_argument(script) if options.pass_local_rank else None
        environment = dict(environ)
        environment.setdefault("PYTHONUNBUFFERED", "1")
        return cls(options, choice, framework, program_of(options, environ), argument, environment)

    @property
    def size(self) -> int:
        """Ranks on this node."""
        return self.choice.size

    def rank_table_part(self) -> Optional[Dict[str, Any]]:
        """What the other nodes must know of this node's cards."""
        return None

    def ranks(
        self, group: Group, parts: Sequence[Optional[Dict[str, Any]]], logs: str
    ) -> List[Rank]:
        """The ranks of this node, ready to be started."""
        devices = Devices(self.choice.kind, self.choice.cards)
        base = {
            name: value
            for name, value in self.environment.items()
            if name not in frameworks.conflicting(self.framework, devices)
        }
        folder = os.getcwd()
        made: List[Rank] = []
        if self.framework == "mindspore" and devices.rank_table is None and group.node == 0:
            variables = {**base, **frameworks.scheduler_variables(group)}
            log = os.path.join(logs, "scheduler.log")
            made.append(Rank(SCHEDULER, Program(self.argv, variables, folder, log), True))
        for local_rank in range(group.local_count):
            variables = frameworks.variables_of(self.framework, group, devices, local_rank, base)
            rank = group.first_rank + local_rank
            log = os.path.join(logs, f"rank{rank}.log")
            argv = self._arguments(local_rank)
            made.append(Rank(rank, Program(argv, {**base, **variables}, folder, log)))
        return made

    def describe(self) -> str:
        """For --dry-run: one block a rank, as if this node were alone or the first."""
        node = self.options.node or 0
        group = Group(
            node, self.options.nodes, node * self.size, self.size,
            self.size * self.options.nodes, self.options.master, self.options.port,
            self.options.master, self.options.run_id, 0, self.options.restarts,
        )  # fmt: skip
        cards = f" on cards {','.join(map(str, self.choice.cards))}" if self.choice.cards else ""
        lines = [f"{self.size} x {self.choice.kind}{cards}, framework {self.framework}"]
        for rank in self.ranks(group, [], "LOGS"):
            lines += ["", f"rank {rank.rank}:" if not rank.is_service else "scheduler:"]
            for name, value in sorted(rank.program.environment.items()):
                if self.environment.get(name) != value:
                    lines.append(f"  {name}={value}")
            lines.append(f"  {' '.join(shlex.quote(word) for word in rank.program.argv)}")
        return "\n".join(lines) + "\n"

    def _arguments(self, local_rank: int) -> List[str]:
        if self.local_rank_argument is None:
            return self.argv
        # Right behind the script: what follows may be a subcommand with its own options.
        at = self.argv.index(self.options.command[0]) + 1
        option = f"{self.local_rank_argument}={local_rank}"
        return [*self.argv[:at], option, *self.argv[at:]]
