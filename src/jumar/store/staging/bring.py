"""Inputs to the node before the ranks start: linked if they are local, else through a cache.

The targets of the results are checked too: better to learn of a wrong bucket or key now than after
ten hours of training."""

import os
from pathlib import Path
from typing import cast

from jumar.errors import BadInput, NotFound
from jumar.inject.moxing_path.jumar_s3 import Patience
from jumar.store.base import Entry
from jumar.store.cache import ContentCache
from jumar.store.credentials import StoreConfig
from jumar.store.errors import TransferFailed, patiently
from jumar.store.folder import FolderStore, check_path_key
from jumar.store.objects import ObjectStore
from jumar.store.parallel import each
from jumar.store.places import Place, open_place
from jumar.store.staging.plan import Staged, StagePlan
from jumar.store.staging.status import StatusFile
from jumar.store.transfer.records import FILES_AT_FIRST, Options, Progress
from jumar.store.transfer.run import transfer


def bring(plan: StagePlan) -> None:
    """Fetch all inputs and the checkpoints; the status file shows the progress."""
    config, parts = plan.config(), list[Progress]()
    with StatusFile(Path(plan.status)).telling("bringing", "inputs", parts):
        for staged in plan.sent:
            _check_target(staged, plan, config)
        for staged in plan.inputs:
            parts.append(Progress())
            _bring(staged, plan, config, parts[-1])
        if plan.ckpt is not None:
            parts.append(Progress())
            _bring_ckpt(plan.ckpt, plan, config, parts[-1])


def _check_target(staged: Staged, plan: StagePlan, config: StoreConfig) -> None:
    place = open_place(staged.url, config)

    def look() -> None:
        place.store.make_ready()
        next(place.store.walk(place.prefix), None)

    patiently(look, Patience(limit_s=plan.patience_s))


def _bring(staged: Staged, plan: StagePlan, config: StoreConfig, progress: Progress) -> None:
    place = open_place(staged.url, config)
    if isinstance(place.store, FolderStore):
        _link(place, staged)
    elif isinstance(place.store, ObjectStore):
        _fetch(place, place.store, staged, plan, progress)
    else:
        raise BadInput(f"{staged.url} cannot be staged")


def _fetch(
    place: Place, store: ObjectStore, staged: Staged, plan: StagePlan, progress: Progress
) -> None:
    cache = ContentCache(Path(plan.home) / "cache" / "inputs", plan.cache_bytes)
    options = Options(patience=Patience(limit_s=plan.patience_s))
    with cache.held(staged.url):
        entries = patiently(lambda: list(store.walk(place.prefix)), options.patience)
        single = not entries and not place.url.says_folder
        if single:
            entries = [patiently(lambda: store.stat(place.key), options.patience)]
        if not entries:
            raise NotFound(f"the input {staged.url} is empty or does not exist")
        progress.plan(len(entries), sum(entry.size for entry in entries))
        cut = len(place.prefix)

        def bring_one(entry: Entry) -> None:
            below = "" if single else f"/{check_path_key(entry.key[cut:])}"
            cache.bring(store, entry, staged.path + below, options, progress)

        each(bring_one, entries, min(FILES_AT_FIRST, len(entries)), progress.stop)
    cache.trim()


def _link(place: Place, staged: Staged) -> None:
    """Local data is not copied: the input is a link to it."""
    store = cast("FolderStore", place.store)
    source = store.path(place.key.rstrip("/")) if place.key.rstrip("/") else store.root
    if not os.path.exists(source):
        raise NotFound(f"the input {staged.url} does not exist")
    target = Path(staged.path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # An earlier attempt left its link, maybe to where the data no longer is.
    target.unlink(missing_ok=True)
    target.symlink_to(source)


def _bring_ckpt(staged: Staged, plan: StagePlan, config: StoreConfig, progress: Progress) -> None:
    """A copy, because the job writes to it. What an earlier attempt left here is newer than the store."""
    folder = Path(staged.path)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        return
    options = Options(patience=Patience(limit_s=plan.patience_s))
    source = open_place(staged.url.rstrip("/") + "/", config)
    try:
        report = transfer(
            source,
            open_place(f"{folder}/", config),
            options,
            state=config.state,
            progress=progress,
        )
    except NotFound:
        # This is the first of the jobs that share it.
        return
    if report.failed:
        first = report.failed[0]
        raise TransferFailed(f"{staged.url}: {first.key}: {first.reason}", hint=first.hint)
