"""`jumar launch`: ranks on this node, started and supervised from a command line.

The process the user sees is the keeper and prints; its child supervises. Both modes of the
launcher, this one and `attempt`, run on the same core."""

import os
import selectors
import shutil
import sys
import tempfile
import time
from typing import Dict, List, Optional, Sequence, Tuple

from jumar.launch.node.stream import Shown, Stream
from jumar.launch.nodes.rendezvous import make_team
from jumar.launch.nodes.team import Hello, NotTogether, Team
from jumar.launch.options import BadUsage, Options, parse
from jumar.launch.processes import pair
from jumar.launch.processes.control import Control, Interrupted, Stop
from jumar.launch.processes.supervise import Exit, Listener, Outcome, Rank, supervise
from jumar.launch.processes.tree import Tree
from jumar.launch.ranks.layout import Layout
from jumar.launch.verdict.outcome import LogTail, signal_name
from jumar.launch.verdict.verdict import (
    LAUNCHER_KILLED,
    NOT_TOGETHER,
    Verdict,
    consequences,
    report_not_started,
    report_of,
    summarize,
)

_LOOK_S = 0.05


def main(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code is documented in `jumar launch --help`."""
    if not sys.platform.startswith("linux"):
        _print(2, "error: ranks are supervised on Linux only\nhint: submit to a server instead\n")
        return 2
    try:
        options = parse(arguments, os.environ)
        layout = Layout.of(options, os.environ)
    except BadUsage as error:
        _print(2, f"error: {error}\nhint: {error.hint}\n")
        return 2
    if options.dry_run:
        _print(1, layout.describe())
        return 0
    return _Front(options, layout).run()


class _Front:
    """The keeper: passes signals on, prints, and ends what a killed supervisor leaves."""

    def __init__(self, options: Options, layout: Layout) -> None:
        self._options = options
        self._layout = layout
        self._shown = None if options.shown is None else Shown(options.shown)

    def run(self) -> int:
        kept = self._options.log_dir
        try:
            base = os.path.abspath(kept) if kept else tempfile.mkdtemp(prefix="jumar-launch-")
            logs = os.path.join(base, f"node{self._options.node or 0}")
            os.makedirs(logs, exist_ok=True)
            stream = Stream(logs, None if self._options.quiet else 1, self._shown)
        except OSError as error:
            where = kept or "a temporary folder"
            _print(2, f"error: cannot keep logs in {where}: {error.strerror}\n")
            _print(2, "hint: name a folder that can be written with --log-dir\n")
            return 2
        code = self._keep(logs, stream)
        if kept is None:
            if code == 0:
                shutil.rmtree(base, ignore_errors=True)
            else:
                _print(2, f"jumar launch: logs are in {base}\n")
        return code

    def _keep(self, logs: str, stream: Stream) -> int:
        heard, said = os.pipe()
        try:
            supervisor = pair.fork_supervisor(
                lambda seen: _Run(self._options, self._layout, logs, said, seen, self._shown).run()
            )
        except OSError as error:
            _print(2, f"error: no process can be started: {error.strerror}\n")
            _print(2, "hint: see how many this user may have with: ulimit -u\n")
            return LAUNCHER_KILLED
        os.close(said)
        self._follow(stream, heard)
        code = pair.wait_for(supervisor)
        everything_ended = Tree(None).kill()
        while stream.pump(flush=True):
            pass
        if code < 0:
            words = f"the supervisor was killed by {signal_name(-code)}; its ranks were ended"
            _print(2, f"jumar launch: {words}\n")
            code = LAUNCHER_KILLED
        if not everything_ended:
            _print(2, "jumar launch: some processes could not be ended\n")
        return code

    def _follow(self, stream: Stream, heard: int) -> None:
        """Print until the supervisor is gone, which closes the pipe it speaks through."""
        with selectors.DefaultSelector() as selector:
            selector.register(heard, selectors.EVENT_READ)
            if stream.notices is not None:
                selector.register(stream.notices, selectors.EVENT_READ)
            pause_s: Optional[float] = None if stream.notices is not None else _LOOK_S
            more = False
            while True:
                ready = {key.fd for key, _ in selector.select(0 if more else pause_s)}
                # What ranks wrote comes before what is said about it.
                more = stream.pump(flush=heard in ready)
                if heard in ready:
                    words = os.read(heard, 65536)
                    if not words:
                        return
                    _put(2, words)


class _Run(Listener):
    """The supervisor's work."""

    def __init__(
        self,
        options: Options,
        layout: Layout,
        logs: str,
        said: int,
        channel: int,
        shown: Optional[Shown],
    ) -> None:
        self._options = options
        self._layout = layout
        self._shown = shown
        self._logs = logs
        self._said = said
        self._control = Control(keeper=channel)
        self._team: Team = Team(options, self._control, self._say)
        self._tails: Dict[int, LogTail] = {}
        self._node = 0
        self._done_at: Optional[float] = None

    def run(self) -> int:
        """Rounds until the verdict is final; the exit code."""
        try:
            self._team = make_team(self._options, self._control, self._say)
            part = self._layout.rank_table_part()
            group = self._team.join(Hello(self._layout.size, part))
            devices = self._layout.devices(self._team.parts, self._logs, self._pause)
        except NotTogether as error:
            self._say(f"the nodes did not come together: {error}")
            return NOT_TOGETHER
        except Interrupted as interruption:
            return 128 + interruption.stop.signal
        except BadUsage as error:
            self._say(str(error))
            return NOT_TOGETHER
        self._node = group.node
        if self._shown is not None:
            self._shown.count_from(group.first_rank)
        while True:
            ranks = self._layout.ranks(group, devices, self._logs)
            outcome, verdict = self._round(ranks)
            if outcome.stop is not None and outcome.stop.why == "keeper-killed":
                return LAUNCHER_KILLED
            if not verdict.again:
                self._conclude(outcome, verdict)
                self._team.close()
                return verdict.code
            self._control.resume()
            group = self._team.again(group)
            self._say(
                f"{verdict.words}; all ranks are started again"
                f" ({group.restart} of at most {self._options.restarts})"
            )

    def _round(self, ranks: List[Rank]) -> Tuple[Outcome, Verdict]:
        self._done_at = None
        self._tails = {rank.rank: LogTail(rank.program.log) for rank in ranks}
        outcome = supervise(
            ranks, self._control, Tree(None), grace_s=self._options.grace_s, listener=self
        )
        if outcome.stop is not None and outcome.stop.why == "keeper-killed":
            return outcome, Verdict(LAUNCHER_KILLED)
        if outcome.not_started is not None:
            rank, error = outcome.not_started
            log = self._tails[rank].path
            self._team.failed(report_not_started(self._node, rank, error, log))
        return outcome, self._team.settle(summarize(outcome))

    def exited(self, exit_: Exit) -> None:
        """A failure ends the ranks of all nodes."""
        if exit_.failed and not exit_.asked:
            tail = self._tails[exit_.rank]
            self._team.failed(report_of(self._node, exit_, tail.read(), tail.path))
        elif self._done_at is None and not exit_.asked:
            self._done_at = time.monotonic()

    def ending(self, stop: Optional[Stop]) -> None:
        """A signal from outside is meant for all nodes."""
        if stop is not None and stop.why == "signal":
            self._team.stopping(stop)

    def tick(self, running: Sequence[int], exits: Sequence[Exit]) -> None:
        """Signs of life to other nodes; name ranks that hang."""
        self._team.tick()
        if self._done_at is None or any(exit_.failed for exit_ in exits) or not running:
            return
        waited_s = time.monotonic() - self._done_at
        if waited_s >= self._options.straggler_s:
            self._done_at = None
            late = ", ".join(str(rank) for rank in sorted(running))
            done = ", ".join(str(exit_.rank) for exit_ in exits)
            self._say(f"still running {waited_s:.0f} s after rank {done} was done: rank {late}")

    def _conclude(self, outcome: Outcome, verdict: Verdict) -> None:
        if verdict.code == 0 or not verdict.words:
            return
        lines = [verdict.words]
        cause = verdict.cause
        if cause is not None:
            if self._options.nodes > 1:
                lines[0] += f" (node {cause.node})"
            lines += [f"    {line}" for line in cause.tail.splitlines()]
            lines.append(f"  log: {cause.log}")
        tails = {rank: tail.read() for rank, tail in self._tails.items()}
        others = consequences(outcome, cause, tails)
        if others:
            label = "  as a consequence: " if cause is not None else "  "
            lines.append(label + "; ".join(others))
        self._say("\n".join(lines))

    def _pause(self, duration_s: float) -> None:
        """Sleep; raises Interrupted when a stop comes."""
        self._control.pause(duration_s)
        self._control.check()

    def _say(self, words: str) -> None:
        try:
            os.write(self._said, f"jumar launch: {words}\n".encode())
        except BrokenPipeError:
            # The keeper is gone; nobody listens.
            return


def _print(descriptor: int, text: str) -> None:
    _put(descriptor, text.encode("utf-8", "surrogateescape"))


def _put(descriptor: int, data: bytes) -> None:
    """Not through Python's files: a disk that is full must end neither ranks nor their supervision."""
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        return
