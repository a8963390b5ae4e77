"""Inputs to the node, before the ranks start: linked when they are local, else out of a cache.

The places that results will go to are looked at too: a wrong bucket or key is better told now than
after ten hours of training."""

import os
from pathlib import Path
from typing import cast

from jumar.errors import BadInput, NotFound
from jumar.store.base import Entry, Place
from jumar.store.cache import ContentCache
from jumar.store.credentials import StoreConfig
from jumar.store.errors import TransferFailed
from jumar.store.folder import FolderStore, check_path_key
from jumar.store.objects import ObjectStore
from jumar.store.parallel import each
from jumar.store.places import open_place
from jumar.store.retry import Patience, patiently
from jumar.store.staging.plan import Staged, StagePlan
from jumar.store.staging.status import StatusFile
from jumar.store.transfer.records import Options, Progress
from jumar.store.transfer.run import transfer


def bring(plan: StagePlan) -> None:
    """Bring all inputs and the checkpoints; the status file tells how far it is."""
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
    store = place.store
    if not isinstance(store, ObjectStore):
        return

    def look() -> None:
        store.make_ready()
        next(store.walk(place.prefix), None)

    patiently(look, Patience(limit_s=plan.patience_s), staged.url)


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
        entries = patiently(lambda: list(store.walk(place.prefix)), options.patience, staged.url)
        single = not entries and not place.url.says_folder
        if single:
            entries = [patiently(lambda: store.stat(place.key), options.patience, staged.url)]
        if not entries:
            raise NotFound(f"the input {staged.url} is empty or not there")
        progress.plan(len(entries), sum(entry.size for entry in entries))
        cut = len(place.prefix)

        def bring_one(entry: Entry) -> None:
            below = "" if single else f"/{check_path_key(entry.key[cut:])}"
            cache.bring(store, entry, staged.path + below, options, progress)

        each(bring_one, entries, min(options.workers, len(entries)), progress.stop)
    cache.trim()


def _link(place: Place, staged: Staged) -> None:
    """Local data is not copied: the input is a link to it."""
    store = cast("FolderStore", place.store)
    source = store.path(place.key.rstrip("/")) if place.key.rstrip("/") else store.root
    if not os.path.exists(source):
        raise NotFound(f"the input {staged.url} is not there")
    target = Path(staged.path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # An earlier attempt has left its link, maybe to where the data no longer is.
    target.unlink(missing_ok=True)
    target.symlink_to(source)


def _bring_ckpt(staged: Staged, plan: StagePlan, config: StoreConfig, progress: Progress) -> None:
    """A copy, for the job writes to it. What an earlier attempt left here is newer than the store."""
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
        # The first of the jobs that share it.
        return
    if report.failed:
        first = report.failed[0]
        raise TransferFailed(f"{staged.url}: {first.key}: {first.reason}", hint=first.hint)
