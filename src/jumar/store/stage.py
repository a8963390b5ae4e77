"""Staging around a job on one node: inputs before, outputs while it runs and after.

An engine writes a plan (`plan_json`) and runs `python -m jumar.store.stage run PLAN -- COMMAND`
around `jumar launch`, or the steps by themselves: `bring PLAN`, `send PLAN`. How far it is stands in
the plan's status file; `not-uploaded` there means that results are kept here and wait for
`send PLAN`. Outputs that cannot be sent never make a job fail."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from jumar.errors import BadInput, JumarError, NotFound
from jumar.store.accounts import StoreConfig, load_config
from jumar.store.base import Place
from jumar.store.cache import ContentCache
from jumar.store.errors import TransferFailed
from jumar.store.folder import FolderStore, check_path_key
from jumar.store.objects import ObjectStore
from jumar.store.places import open_place
from jumar.store.retry import Patience, patiently
from jumar.store.transfer.records import Options, Progress, Report
from jumar.store.transfer.run import transfer

logger = logging.getLogger(__name__)
STAGE_FAILED = 70
"""Exit code of `run` when the inputs could not be brought; the command was not started."""
_TELL_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """One input or output: a URL of a store and a path of this node."""

    url: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """What is to be staged on one node."""

    home: str
    """The platform's home: built-in store, accounts, unfinished uploads."""
    status: str
    inputs: tuple[Staged, ...] = ()
    outputs: tuple[Staged, ...] = ()
    cache: str = ""
    """Empty means `cache/inputs` in the home."""
    cache_bytes: int = 100 * 10**9
    every_s: float = 180.0
    patience_s: float = 600.0
    user: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStatus:
    """How far staging is. `phase`: bringing, running, sending, done, not-uploaded, failed."""

    phase: str
    files: int = 0
    total_files: int = 0
    bytes: int = 0
    total_bytes: int = 0
    cached_bytes: int = 0
    sent_at: float | None = None
    error: str | None = None
    updated_at: float = field(default_factory=time.time)


def plan_json(plan: StagePlan) -> str:
    """The plan as its file has it."""
    return json.dumps(asdict(plan), indent=2)


def read_plan(path: Path) -> StagePlan:
    """The plan in a file."""
    try:
        values = cast("dict[str, Any]", json.loads(path.read_text("utf-8")))
        for side in ("inputs", "outputs"):
            values[side] = tuple(Staged(**staged) for staged in values.get(side, ()))
        return StagePlan(**values)
    except (OSError, ValueError, TypeError) as error:
        raise BadInput(f"{path} is not a staging plan: {error}") from error


def read_status(path: Path) -> StageStatus | None:
    """How far staging is; None before it began."""
    try:
        return StageStatus(**json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise BadInput(f"{path} is not a staging status: {error}") from error


def bring_inputs(plan: StagePlan) -> None:
    """Bring all inputs; the status file tells how far it is."""
    config = load_config(Path(plan.home), user=plan.user)
    progress = Progress()
    with _Telling(plan, "bringing", progress):
        for staged in plan.inputs:
            _bring(staged, plan, config, progress)


def _bring(staged: Staged, plan: StagePlan, config: StoreConfig, progress: Progress) -> None:
    place = open_place(staged.url, config)
    if isinstance(place.store, FolderStore):
        _link(place, staged)
        return
    if not isinstance(place.store, ObjectStore):
        raise BadInput(f"{staged.url} cannot be staged")
    cache = ContentCache(Path(plan.cache or f"{plan.home}/cache/inputs"), plan.cache_bytes)
    options = Options(patience=Patience(limit_s=plan.patience_s))
    store, prefix = place.store, place.prefix
    with cache.held(staged.url):
        entries = patiently(lambda: list(store.walk(prefix)), options.patience, staged.url)
        single = not entries and not place.url.says_folder
        if single:
            entries = [store.stat(place.key)]
        if not entries:
            raise NotFound(f"the input {staged.url} is empty or not there")
        progress.plan(
            progress.total_files + len(entries),
            progress.total_bytes + sum(entry.size for entry in entries),
        )
        _each(
            [
                (
                    entry,
                    staged.path
                    if single
                    else f"{staged.path.rstrip('/')}/{check_path_key(entry.key[len(prefix) :])}",
                )
                for entry in entries
            ],
            lambda pair: cache.bring(store, pair[0], pair[1], options, progress),
            options.workers,
        )
    cache.trim()


def _each(items: list[Any], action: Callable[[Any], object], workers: int) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(workers, len(items))) as pool:
        futures = [pool.submit(action, item) for item in items]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _link(place: Place, staged: Staged) -> None:
    """Local data is not copied: the input is a link to it."""
    store = cast("FolderStore", place.store)
    source = store.path(place.key.rstrip("/")) if place.key.rstrip("/") else store.root
    if not os.path.exists(source):
        raise NotFound(f"the input {staged.url} is not there")
    target = Path(staged.path)
    if os.path.realpath(source) == os.path.realpath(target):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_symlink() or (target.is_dir() and not any(target.iterdir())):
        target.unlink() if target.is_symlink() else target.rmdir()
    target.symlink_to(source)


def send_outputs(plan: StagePlan, *, patience_s: float | None = None) -> tuple[Report, ...]:
    """Send what is new in all outputs; TransferFailed or StoreAway when something stays behind."""
    config = load_config(Path(plan.home), user=plan.user)
    limit_s = plan.patience_s if patience_s is None else patience_s
    options = Options(patience=Patience(limit_s=limit_s))
    reports: list[Report] = []
    for staged in plan.outputs:
        target = open_place(staged.url.rstrip("/") + "/", config)
        source = open_place(staged.path, config)
        if isinstance(target.store, FolderStore):
            real = os.path.realpath(f"{target.store.root}/{target.prefix}")
            if real == os.path.realpath(staged.path):
                continue
        if next(source.store.walk(source.prefix), None) is None:
            continue
        report = transfer(source, target, options, state=config.state)
        reports.append(report)
        if report.failed:
            first = report.failed[0]
            raise TransferFailed(f"{staged.url}: {first.key}: {first.reason}", hint=first.hint)
    return tuple(reports)


def send_finally(plan: StagePlan) -> bool:
    """Send at the end; whether all arrived. What did not is marked and kept."""
    progress = Progress()
    try:
        with _Telling(plan, "sending", progress):
            patiently(
                lambda: send_outputs(plan), Patience(limit_s=plan.patience_s), "sending results"
            )
    except JumarError as error:
        logger.error("results are not yet uploaded: %s", error)
        _tell(plan, StageStatus(phase="not-uploaded", error=error.message))
        return False
    _tell(plan, StageStatus(phase="done", sent_at=time.time()))
    return True


def run_staged(plan: StagePlan, command: Sequence[str]) -> int:
    """Bring, run the command with sends every few minutes, send; gives the command's exit code."""
    try:
        bring_inputs(plan)
    except JumarError as error:
        logger.error("cannot bring the inputs: %s", error)
        _tell(plan, StageStatus(phase="failed", error=error.message))
        return STAGE_FAILED
    _tell(plan, StageStatus(phase="running"))
    over = threading.Event()
    sender = threading.Thread(target=_send_often, args=(plan, over), name="jumar-send")
    process = subprocess.Popen(list(command))
    before = {
        number: signal.signal(number, lambda got, _: process.send_signal(got))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    }
    sender.start()
    try:
        code = process.wait()
    finally:
        over.set()
        sender.join()
        for number, handler in before.items():
            signal.signal(number, handler)
    send_finally(plan)
    return code if code >= 0 else 128 - code


def _send_often(plan: StagePlan, over: threading.Event) -> None:
    while not over.wait(plan.every_s):
        try:
            # A store that is away now is asked again at the next turn.
            send_outputs(plan, patience_s=min(30.0, plan.every_s))
        except JumarError as error:
            logger.warning("results could not be sent just now: %s", error)
            _tell(plan, StageStatus(phase="running", error=error.message))
        else:
            _tell(plan, StageStatus(phase="running", sent_at=time.time()))


class _Telling:
    """Writes the status file while something is brought or sent."""

    def __init__(self, plan: StagePlan, phase: str, progress: Progress) -> None:
        self._plan, self._phase, self._progress = plan, phase, progress
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jumar-status")

    def _run(self) -> None:
        while True:
            over = self._over.wait(_TELL_EVERY_S)
            self._tell_now()
            if over:
                return

    def _tell_now(self) -> None:
        progress = self._progress
        status = StageStatus(
            phase=self._phase,
            files=progress.files,
            total_files=progress.total_files,
            bytes=progress.bytes,
            total_bytes=progress.total_bytes,
            cached_bytes=progress.resumed_bytes,
        )
        _tell(self._plan, status)

    def __enter__(self) -> None:
        self._tell_now()
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def _tell(plan: StagePlan, status: StageStatus) -> None:
    path = Path(plan.status)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    aside.write_text(json.dumps(asdict(status)), "utf-8")
    aside.replace(path)


def main(arguments: list[str]) -> int:
    """`bring PLAN`, `send PLAN` or `run PLAN -- COMMAND`."""
    logging.basicConfig(level=logging.INFO, format="stage: %(message)s", stream=sys.stderr)
    try:
        return _main(arguments)
    except JumarError as error:
        logger.error("%s", error)
        return STAGE_FAILED


def _main(arguments: list[str]) -> int:
    match arguments:
        case ["bring", path]:
            bring_inputs(read_plan(Path(path)))
            return 0
        case ["send", path]:
            return 0 if send_finally(read_plan(Path(path))) else 1
        case ["run", path, "--", *command] if command:
            return run_staged(read_plan(Path(path)), command)
        case _:
            raise BadInput("write: bring PLAN, send PLAN, or run PLAN -- COMMAND")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
