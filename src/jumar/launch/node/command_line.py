"""`jumar launch`: ranks on this node, started and supervised from a command line.

The process the user sees is the keeper and prints; its child supervises."""

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
from typing import Callable, List, Mapping, NamedTuple, Optional, Sequence

from jumar.launch.jobdir.safefile import write_whole
from jumar.launch.node.run import NodeRun
from jumar.launch.node.stream import Logs, Stream
from jumar.launch.nodes.team import Hello, Message, group_of, host_address
from jumar.launch.options import Options, parse, program_of
from jumar.launch.processes import pair
from jumar.launch.processes.control import Control
from jumar.launch.processes.pair import Watcher
from jumar.launch.processes.supervise import RUN_AGAIN, Outcome
from jumar.launch.processes.tree import Cgroup, Tree, cgroup_place, make_cgroup
from jumar.launch.ranks.cards import BadUsage, Choice, choose
from jumar.launch.ranks.environment import Environment, active_python, shell_python
from jumar.launch.ranks.frameworks import Devices, Group
from jumar.launch.ranks.plan import TABLE_NAME, Cores, NodePlan, Script, cores_for, read_script
from jumar.launch.verdict import LAUNCHER_KILLED, SetupFailed, Verdict, consequences, signal_name

_LOOK_S = 0.05
_MARK = "JUMAR_LAUNCH_"


def main(arguments: Sequence[str], *, from_shell: bool) -> int:
    """Run one command line; the exit code is documented in `jumar launch --help`.

    Scripts that do not say with which Python run with that of the active environment. Where there is none:
    `from_shell` with what the shell would take, else with the one that runs this: whoever writes
    `python3.9 jumar-launch.pyz` has named it."""
    if not sys.platform.startswith("linux"):
        _print(2, "error: ranks are supervised on Linux only\nhint: submit to a server instead\n")
        return 2
    try:
        options = parse(arguments, os.environ)
        of_shell = shell_python if from_shell else active_python
        launch = Launch.of(options, os.environ, of_shell(os.environ) or sys.executable)
    except BadUsage as error:
        _print(2, f"error: {error}\nhint: {error.hint}\n")
        return 2
    if options.dry_run:
        _print(1, launch.describe())
        return 0
    return _Front(launch).run()


class Launch(NamedTuple):
    """What a command line asks for, on this machine."""

    options: Options
    choice: Choice
    argv: List[str]
    script: Script
    environment: Environment
    folder: str
    """Where ranks start."""
    rank_table: Optional[str]
    """A file, `make`, or None: without."""
    cores: Cores
    mark: str
    """A variable in the environment of each process of the run, also of those that belong to a launcher
    within it, which has another."""

    @classmethod
    def of(cls, options: Options, environ: Mapping[str, str], python: str) -> "Launch":
        """Look at the machine and the script; raises BadUsage."""
        folder = _current_folder()
        choice = choose(options.kind, options.per_node, options.cards_file, environ)
        argv = program_of(options, python)
        named = None if options.framework == "auto" else options.framework
        script = read_script(argv, argv, folder, named)
        mark = f"{_MARK}{os.getpid()}_{os.urandom(4).hex()}"
        platform = {} if options.dry_run else {mark: "1"}
        environment = Environment.of(environ, choice.kind, platform=platform)
        kind = choice.kind if options.bind else "none"
        return cls(
            options=options,
            choice=choice,
            argv=argv,
            script=script,
            environment=environment,
            folder=folder,
            rank_table=_rank_table(options, choice, script.framework, environ),
            cores=cores_for(kind, choice.facts, choice.size, environment),
            mark=mark,
        )

    def hello(self) -> Hello:
        """What the other nodes must know of this node's cards; raises SetupFailed."""
        if self.rank_table != "make":
            return Hello(self.choice.size, None)
        from jumar.launch.ascend import apply

        try:
            return Hello(self.choice.size, apply.table_part(self._address(), self.choice.facts))
        except apply.RankTableError as error:
            raise SetupFailed("rank-table", str(error)) from error

    def plan(
        self, logs: str, parts: Sequence[Optional[Message]], pause: Callable[[float], None]
    ) -> NodePlan:
        """With the rank table there; `pause` waits for one that a platform still makes."""
        return self._plan(logs, self._devices(logs, parts, pause))

    def describe(self) -> str:
        """For --dry-run: all ranks of this node, as if each node had as many."""
        path = f"LOGS/{TABLE_NAME}" if self.rank_table == "make" else self.rank_table
        meeting = self.options.meeting
        node, counts = meeting.node or 0, [self.choice.size] * meeting.nodes
        group = group_of(meeting, node, counts, meeting.port and meeting.port + 1, self._address())
        devices = Devices(self.choice.kind, self.choice.facts, path)
        return self._plan("LOGS", devices).describe(group)

    def _plan(self, logs: str, devices: Devices) -> NodePlan:
        return NodePlan(
            argv=self.argv,
            folder=self.folder,
            environment=self.environment,
            devices=devices,
            size=self.choice.size,
            framework=self.script.framework,
            logs=logs,
            cores=self.cores,
            local_rank=self.script.local_rank if self.options.pass_local_rank else None,
            virtual_local_rank=self.options.virtual_local_rank,
        )

    def _devices(
        self, logs: str, parts: Sequence[Optional[Message]], pause: Callable[[float], None]
    ) -> Devices:
        kind, facts = self.choice.kind, self.choice.facts
        if self.rank_table is None:
            return Devices(kind, facts)
        from jumar.launch.ascend import apply

        path = self.rank_table
        try:
            if path == "make":
                path = os.path.join(logs, TABLE_NAME)
                table = apply.merge_parts(parts)
                for fault in apply.faults_in(table, facts):
                    raise apply.RankTableError(fault)
                write_whole(path, apply.dumps(table).encode(), mode=0o666, durable=True)
            else:
                limit_s = self.options.meeting.join_limit_s
                table = apply.use_rank_table(path, limit_s=limit_s, pause=pause)
        except apply.RankTableError as error:
            raise SetupFailed("rank-table", str(error)) from error
        return Devices(kind, facts, path, apply.ranks_of_cards(table, self._address(), facts))

    def _address(self) -> str:
        meeting = self.options.meeting
        if meeting.nodes == 1 and self.rank_table is None:
            return meeting.master
        towards = meeting.master if meeting.nodes > 1 else None
        return host_address(towards, self.environment.inherited)


class _Front:
    """The keeper: passes signals on, prints, and ends what a killed supervisor leaves."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._options = launch.options

    def run(self) -> int:
        kept = self._options.log_dir or None
        try:
            base = os.path.abspath(kept) if kept else tempfile.mkdtemp(prefix="jumar-launch-")
            meeting = self._options.meeting
            node = 0 if meeting.nodes == 1 else meeting.node
            node = node if meeting.least is None else None
            os.makedirs(base if node is None else _logs_of(base, node), exist_ok=True)
        except OSError as error:
            where = kept or "a temporary folder"
            _print(2, f"error: cannot keep logs in {where}: {error.strerror}\n")
            _print(2, "hint: name a folder that can be written with --log-dir\n")
            return 2
        code = self._keep(base)
        if kept is None:
            if code and _has_lines(base):
                _print(2, f"jumar launch: logs are in {base}\n")
            else:
                shutil.rmtree(base, ignore_errors=True)
        return code

    def _keep(self, base: str) -> int:
        heard, said = os.pipe()
        met, meets = os.pipe()
        place = cgroup_place(f"jumar-launch-{self._launch.mark[len(_MARK) :]}")
        try:
            watcher = Watcher({self._launch.mark: "1"}, place)
            watcher.arm()
            supervisor = pair.fork_supervisor(
                lambda seen: (
                    _Run(self._launch, base, _Mouth(said, meets), seen, place).run_node().code
                )
            )
        except OSError as error:
            _print(2, f"error: no process can be started: {error.strerror}\n")
            _print(2, "hint: see how many this user may have with: ulimit -u\n")
            return LAUNCHER_KILLED
        os.close(said)
        os.close(meets)
        stream = self._follow(heard, met)
        code = pair.wait_for(supervisor)
        everything_ended = Tree(None if place is None else Cgroup(place)).dissolve()
        watcher.dismiss()
        while stream is not None and stream.pump(flush=True):
            pass
        if code < 0:
            words = f"the supervisor was killed by {signal_name(-code)}; its ranks were ended"
            _print(2, f"jumar launch: {words}\n")
            code = LAUNCHER_KILLED
        if not everything_ended:
            _print(2, "jumar launch: some processes could not be ended\n")
        return code

    def _follow(self, heard: int, met: int) -> Optional[Stream]:
        """Print until the supervisor is gone, which closes the pipes it speaks through."""
        stream: Optional[Stream] = None
        begun = b""
        with selectors.DefaultSelector() as selector:
            selector.register(heard, selectors.EVENT_READ, "words")
            selector.register(met, selectors.EVENT_READ, "met")
            pause_s: Optional[float] = None
            more = False
            while True:
                ready = {key.data for key, _ in selector.select(0 if more else pause_s)}
                if "met" in ready:
                    block = os.read(met, 65536)
                    if not block:
                        selector.unregister(met)
                    *lines, begun = (begun + block).split(b"\n")
                    for logs in (Logs(**json.loads(line)) for line in lines):
                        if stream is not None:
                            stream.renumber(logs)
                            continue
                        stream = self._stream(logs)
                        if stream.notices is None:
                            pause_s = _LOOK_S
                        else:
                            selector.register(stream.notices, selectors.EVENT_READ, "logs")
                # What ranks wrote comes before what is said about it.
                more = stream is not None and stream.pump(flush="words" in ready)
                if "words" in ready:
                    words = os.read(heard, 65536)
                    if not words:
                        return stream
                    _put(2, words)

    def _stream(self, logs: Logs) -> Stream:
        return Stream(logs, None if self._options.quiet else 1, self._options.shown)


class _Mouth(NamedTuple):
    """The pipes from the supervisor to the keeper."""

    words: int
    """What is to be printed."""
    logs: int
    """`Logs`, a line each time that the nodes have met."""


class _Run(NodeRun):
    """The supervisor's work."""

    def __init__(
        self, launch: Launch, base: str, mouth: _Mouth, channel: int, place: Optional[str]
    ) -> None:
        tree = Tree(make_cgroup(place))
        super().__init__(launch.options.meeting, Control(keeper=channel), tree)
        self._launch = launch
        self._base = base
        self._mouth = mouth

    def hello(self) -> Hello:
        """With this node's part of a rank table that is to be made."""
        return self._launch.hello()

    def prepare(self, group: Group) -> NodePlan:
        """Only a rank table may have to be waited for, or made of the parts of all nodes."""
        folder = self._make_folder(group)
        return self._launch.plan(folder, self.team.parts, self._pause)

    def _make_folder(self, group: Group) -> str:
        """For the logs of all rounds; the keeper is told, and how ranks are numbered in this one."""
        folder = _logs_of(self._base, group.node)
        if self.meeting.least is not None:
            # Numbers change hands.
            folder = os.path.join(self._base, f"node-{socket.gethostname()}-{os.getpid()}")
        try:
            os.makedirs(folder, exist_ok=True)
            logs = Logs.of(folder, group.first_rank)
        except OSError as error:
            words = f"cannot keep logs in {folder}: {error.strerror}"
            raise SetupFailed("job-directory", words) from error
        self._tell(self._mouth.logs, json.dumps(logs._asdict()))
        return folder

    def say(self, words: str) -> None:
        """The keeper prints it."""
        self._tell(self._mouth.words, f"jumar launch: {words}")

    @staticmethod
    def _tell(pipe: int, line: str) -> None:
        # Broken: the keeper is gone; nobody listens.
        with contextlib.suppress(BrokenPipeError):
            os.write(pipe, f"{line}\n".encode())

    def concluded(self, outcome: Outcome, verdict: Verdict) -> None:
        """Say what happened, unless all went well."""
        if verdict.code in (0, RUN_AGAIN, LAUNCHER_KILLED):
            return
        if verdict.state == "stopped":
            # The signal is no news to whoever sent it; how the ranks took it is.
            lines = [_when_asked(outcome)] if outcome.exits else []
        else:
            lines = [verdict.reason, *(f"    {line}" for line in verdict.tail.splitlines())]
        if verdict.log:
            lines.append(f"  log: {verdict.log}")
        tails = {rank: tail.read() for rank, tail in self.tails.items()}
        others = consequences(outcome, verdict.rank, tails)
        if others:
            label = "  as a consequence: " if verdict.log else "  "
            lines.append(label + "; ".join(others))
        if lines:
            self.say("\n".join(lines))

    def _pause(self, duration_s: float) -> None:
        """Sleep; raises Interrupted when a stop comes."""
        self.control.pause(duration_s)
        self.control.check()


def _when_asked(outcome: Outcome) -> str:
    """How ranks that were asked to end did it, if not well."""
    if any(exit_.signal == signal.SIGKILL for exit_ in outcome.exits):
        return "the ranks did not end within the grace period, and were killed"
    return "the ranks were asked to end, and did not exit with 0 or 75"


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise BadUsage("the current folder is gone", "start again from one that exists") from error


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
        raise BadUsage(f"the rank table {wanted} does not exist", "make one with --rank-table make")
    return wanted if wanted == "make" else os.path.abspath(wanted)


def _logs_of(base: str, node: int) -> str:
    return os.path.join(base, f"node{node}")


def _has_lines(base: str) -> bool:
    """Whether a rank or a program beside it wrote anything: none may have been started."""
    paths = (os.path.join(at, name) for at, _, names in os.walk(base) for name in names)
    return any(os.path.getsize(path) for path in paths if os.path.isfile(path))


def _print(descriptor: int, text: str) -> None:
    _put(descriptor, text.encode("utf-8", "surrogateescape"))


def _put(descriptor: int, data: bytes) -> None:
    """Not through Python's files: a disk that is full must end neither ranks nor their supervision."""
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        return
