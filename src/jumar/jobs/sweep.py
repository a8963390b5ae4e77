"""The nightly sweep: processes that use cards and belong to no job are ended, after a warning.

Every process is warned itself, and has the whole time of the warning from then on; who comes after the
hour of the sweep is left alone until the next. Jobs are spared, and so is whatever uses no card. Where
the site wants its cards free for some hours, jobs that hold cards are asked to save and go on afterwards."""

import logging
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from jumar.engine.base import EndsOthers
from jumar.errors import EngineFailed
from jumar.jobs.draining import Draining
from jumar.jobs.foreign import Foreign
from jumar.launch.processes.process import identify
from jumar.rounds import Rounds
from jumar.spec.devices import CardProcess
from jumar.words.reasons import LANGUAGES, phrase

log = logging.getLogger(__name__)
_GRACE_S = 30.0
OnWarning = Callable[[CardProcess, str, float], None]
"""Hears of a process, the card it uses, and when it is ended."""
_LONGEST_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """When a site sweeps; times of the day in seconds, local time."""

    at_s: int
    warning_s: float
    until_s: int | None = None
    """Until when the cards stay free; None: jobs run on."""

    def hour_near(self, now: float) -> float:
        """The sweep whose warnings or endings may be due now, or else the next one."""
        today = time.localtime(now)
        for days in (-1, 0):
            hour = _moment(today, days, self.at_s)
            if now <= hour + self.warning_s + 2 * _GRACE_S:
                return hour
        return _moment(today, 1, self.at_s)

    def free_until(self, hour: float) -> float | None:
        """When jobs go on that this sweep asked to save."""
        if self.until_s is None:
            return None
        days = 0 if self.until_s > self.at_s else 1
        return _moment(time.localtime(hour), days, self.until_s)


def _moment(day: time.struct_time, days: int, second: int) -> float:
    # By mktime: a day on which the clocks are changed has another length.
    return time.mktime((day.tm_year, day.tm_mon, day.tm_mday + days, 0, 0, second, 0, 0, -1))


@dataclass(slots=True)
class _Warned:
    process: CardProcess
    handle: int
    """A pidfd: it is this very process that was warned and no other."""
    at: float
    asked_at: float | None = None


class Sweep:
    """Owns a thread; `look` may be called instead, with a time."""

    def __init__(
        self,
        plan: SweepPlan,
        foreign: Foreign,
        draining: Draining,
        on_warning: OnWarning,
        engine: object,
    ) -> None:
        self._plan = plan
        self._foreign = foreign
        self._draining = draining
        self._on_warning = on_warning
        self._ends_others = engine if isinstance(engine, EndsOthers) else None
        self._warned: dict[tuple[int, int], _Warned] = {}
        self._emptied: float | None = None
        self._rounds = Rounds(
            "sweep",
            lambda: self.look(time.time()),
            self._pause_s,
            trouble="the sweep is tried again",
            at_once=True,
            end_s=_GRACE_S,
        )

    def start(self) -> None:
        """From now on."""
        # The server was down at the hour: nobody was warned, and jobs have gone on.
        self._emptied = self._plan.hour_near(time.time()) if self._is_past(time.time()) else None
        self._rounds.start()

    def close(self) -> None:
        """End nobody any more."""
        self._rounds.close()
        self._forget()

    def look(self, now: float) -> None:
        """Do what is due."""
        hour = self._plan.hour_near(now)
        if now < hour - self._plan.warning_s:
            self._forget()
            return
        self._free_cards(hour, now)
        there: set[tuple[int, int]] = set()
        for (kind, card), processes in self._foreign.look().items():
            for process in processes:
                name = f"{kind}:{card.id}"
                key = self._meet(process, name, hour, now)
                if key is not None:
                    there.add(key)
        for key in set(self._warned) - there:
            # It uses no card any more.
            os.close(self._warned.pop(key).handle)
        for warned in self._warned.values():
            self._end(warned, hour, now)

    def _is_past(self, now: float) -> bool:
        return now >= self._plan.hour_near(now)

    def _free_cards(self, hour: float, now: float) -> None:
        until = self._plan.free_until(hour)
        if until is None or self._emptied == hour or not hour <= now < until:
            return
        said = self._draining.now()
        if said is not None and (said.until is None or said.until > until):
            # Maintenance lasts longer than the night: what its administrator said of it stays.
            self._draining.begin(
                by=said.by, why=said.why, until=said.until, requeue=True, sweep=not said.requeue
            )
        else:
            self._draining.begin(
                by="sweep", why="nightly sweep", until=until, requeue=True, sweep=True
            )
        self._emptied = hour

    def _meet(
        self, process: CardProcess, card: str, hour: float, now: float
    ) -> tuple[int, int] | None:
        """Warn a process once; None for one that cannot be told from others, or has come too late."""
        if process.own_pid is None:
            return None
        identity = identify(process.own_pid)
        if identity is None:
            return None
        key = (identity.pid, identity.start_ticks)
        if key in self._warned:
            return key
        if _started_at(identity.start_ticks) > hour:
            return None
        try:
            handle = os.pidfd_open(identity.pid)
        except OSError:
            return None
        if identify(identity.pid) != identity:
            os.close(handle)
            return None
        self._warned[key] = _Warned(process, handle, now)
        ends_at = max(hour, now + self._plan.warning_s)
        log.warning(
            "%s is used by process %d (%s) of %s, which belongs to no job and is ended at %s",
            *(card, identity.pid, process.name, process.user, _clock(ends_at)),
        )
        _tell_terminals(identity.pid, process, card, ends_at)
        self._on_warning(process, card, ends_at)
        return key

    def _end(self, warned: _Warned, hour: float, now: float) -> None:
        if now < max(hour, warned.at + self._plan.warning_s):
            return
        if warned.asked_at is None:
            number, warned.asked_at = signal.SIGTERM, now
        elif now >= warned.asked_at + _GRACE_S:
            number = signal.SIGKILL
        else:
            return
        try:
            self._send(warned.handle, number)
        except ProcessLookupError:
            return
        except (PermissionError, EngineFailed) as error:
            words = "process %d of %s cannot be ended: %s"
            log.warning(words, warned.process.own_pid, warned.process.user, error)
        else:
            log.info("process %d was sent %s", warned.process.own_pid, number.name)

    def _send(self, handle: int, number: signal.Signals) -> None:
        try:
            signal.pidfd_send_signal(handle, number)
        except PermissionError:
            if self._ends_others is None:
                raise
            self._ends_others.end_other(handle, hard=number == signal.SIGKILL)

    def _forget(self) -> None:
        for warned in self._warned.values():
            os.close(warned.handle)
        self._warned.clear()

    def _pause_s(self) -> float:
        now = time.time()
        hour = self._plan.hour_near(now)
        due = [moment - now for moment in (hour - self._plan.warning_s, hour) if moment > now]
        return max(0.05, min([_LONGEST_PAUSE_S, max(0.2, self._plan.warning_s / 4), *due]))


def _started_at(ticks: int) -> float:
    up_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.time() - up_s + ticks / os.sysconf("SC_CLK_TCK")


def _clock(moment: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(moment))


def _tell_terminals(pid: int, process: CardProcess, card: str, ends_at: float) -> None:
    """On the terminals the process writes to, where this is allowed; in both languages."""
    values = {"pid": pid, "name": process.name, "card": card, "at": _clock(ends_at)}
    said = "".join(
        f"\r\n{phrase(language, 'note', 'sweep', **values)}\r\n" for language in LANGUAGES
    ).encode()
    for terminal in _terminals(pid):
        try:
            handle = os.open(terminal, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if os.isatty(handle):
                os.write(handle, said)
        except OSError as error:
            log.info("process %d could not be warned on %s: %s", pid, terminal, error)
        finally:
            os.close(handle)


def _terminals(pid: int) -> set[str]:
    found: set[str] = set()
    for number in range(3):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{number}")
        except OSError:
            continue
        if target.startswith(("/dev/pts/", "/dev/tty")):
            found.add(target)
    return found
