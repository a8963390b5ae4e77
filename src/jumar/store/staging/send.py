"""Results from the node to their targets: every few minutes while the job runs, and at the end.

Results that cannot be sent never fail a job: they stay where they are, and the status says so. A link that
leads out of the job's folders is no result: it is told, and no reason to send again."""

import fcntl
import logging
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from jumar.errors import JumarError
from jumar.inject.moxing_path.jumar_s3 import Patience
from jumar.store.credentials import StoreConfig
from jumar.store.errors import TransferFailed
from jumar.store.folder import FolderStore, explained
from jumar.store.places import Place, open_place
from jumar.store.staging.plan import Staged, StagePlan
from jumar.store.staging.status import StatusFile
from jumar.store.transfer.records import Options, Progress
from jumar.store.transfer.run import transfer

logger = logging.getLogger(__name__)
_SHORT_PATIENCE_S = 30.0
# A file modified just now may be half a checkpoint, and would replace a complete one in the store.
_SETTLED_S = 10.0


class LedOut(TransferFailed):
    """All was sent but for links that lead out of the job's folders; trying again would change nothing."""


def keep_sending(plan: StagePlan) -> None:
    """Send what is new every few minutes, until this process is ended."""
    status = StatusFile(Path(plan.status))
    status.tell(phase="running", error=None)
    told: type[JumarError] | None = None
    while True:
        time.sleep(plan.every_s)
        began = time.time()
        try:
            # A store that is away now is asked again next time.
            _send(plan, min(_SHORT_PATIENCE_S, plan.every_s), [], settled_s=_SETTLED_S)
        except JumarError as error:
            status.tell(error=error.message)
            # A store may be away for hours: log it once, not every time.
            if type(error) is not told:
                logger.warning("results could not be sent yet and are kept: %s", error)
            told = type(error)
        except Exception as error:  # the next try may work, and the last one is another process
            logger.exception("sending failed")
            status.tell(error=str(error))
        else:
            status.tell(sent_at=began, error=None)
            if told is not None:
                logger.info("results are being sent again")
            told = None


def send_finally(plan: StagePlan) -> bool:
    """Send everything; returns whether it arrived. What did not is marked and kept."""
    status, parts = StatusFile(Path(plan.status)), list[Progress]()
    with _opened_lock(f"{plan.status}.lock") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("the results are already being sent")
            return True
        began = time.time()
        try:
            with status.telling("sending", "outputs", parts):
                _send(plan, plan.patience_s, parts)
        except LedOut as error:
            logger.warning("%s", error)
            status.tell(phase="done", sent_at=began, error=error.message)
            return True
        except JumarError as error:
            logger.error("results are not yet uploaded: %s", error)
            status.tell(phase="not-uploaded", error=error.message)
            return False
        status.tell(phase="done", sent_at=began, error=None)
        return True


def _opened_lock(path: str) -> TextIO:
    """Not through a link, nor emptied: a job may have put anything there."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.fdopen(os.open(path, flags, 0o600), "w")
    except OSError as error:
        raise explained(error, path) from error


def _send(
    plan: StagePlan, patience_s: float, parts: list[Progress], *, settled_s: float = 0.0
) -> None:
    """Send all outputs, even if one of them fails; TransferFailed or StoreAway if something was not
    sent, LedOut if that will never be."""
    config = plan.config()
    within = tuple(map(os.path.realpath, plan.within))
    options = Options(patience=Patience(limit_s=patience_s), settled_s=settled_s, within=within)
    first: JumarError | None = None
    led_out: LedOut | None = None
    for staged in plan.sent:
        parts.append(Progress())
        try:
            _send_one(staged, config, options, parts[-1])
        except LedOut as error:
            led_out = led_out or error
        except JumarError as error:
            first = first or error
    missed = first or led_out
    if missed is not None:
        raise missed


def _send_one(staged: Staged, config: StoreConfig, options: Options, progress: Progress) -> None:
    target = open_place(staged.url.rstrip("/") + "/", config)
    source = open_place(f"{staged.path}/", config)
    outside = list[str]()
    if isinstance(source.store, FolderStore):
        store = replace(source.store, within=options.within, outside=outside)
        source = replace(source, store=store)
    if isinstance(target.store, FolderStore):
        real = os.path.realpath(f"{target.store.root}/{target.prefix}")
        if real == os.path.realpath(staged.path):
            return
    if next(source.store.walk(source.prefix), None) is not None:
        _carry(staged, source, target, options, config, progress)
    if outside:
        path = outside[0]
        raise LedOut(
            f"not sent to {staged.url}: {path} is a link that leads out of the job's folders",
            hint="put a copy of what it leads to in its place",
        )


def _carry(
    staged: Staged,
    source: Place,
    target: Place,
    options: Options,
    config: StoreConfig,
    progress: Progress,
) -> None:
    report = transfer(source, target, options, state=config.state, progress=progress)
    for note in report.notes:
        logger.warning("%s", note)
    if report.failed:
        first = report.failed[0]
        raise TransferFailed(f"{staged.url}: {first.key}: {first.reason}", hint=first.hint)
