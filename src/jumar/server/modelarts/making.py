"""A training job that a client asks for becomes a job here; v1 and v2 alike."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from threading import BoundedSemaphore
from typing import Any

from jumar.errors import BadInput, JobEnded, Unavailable
from jumar.modelarts.catalogue import Catalogue, load_catalogue
from jumar.modelarts.told import Asked
from jumar.modelarts.wanted import TrainingJob, boot_path, code_name, job_spec, store_url
from jumar.server.edge.site import Site
from jumar.server.modelarts.caller import Caller
from jumar.server.modelarts.code import StoredCode, take_code
from jumar.server.modelarts.kept import Edit, KeptAnswer, KeptJob
from jumar.spec.devices import DeviceKind, DeviceRequest
from jumar.spec.records import JobRecord

PATIENCE_S = 60.0
# Code is read in the threads that answer requests: most of these stay free for others.
_reading = BoundedSemaphore(4)


def make_job(
    by: Caller, wanted: TrainingJob, *, series: int | None = None, in_series: bool = False
) -> tuple[JobRecord, KeptJob]:
    """Put the job in line. The same signature is the same job, however often it comes."""
    catalogue = load_catalogue(by.site.stores.home)
    kinds = kinds_of(by.site)
    # Before anything is fetched: most mistakes show here.
    job_spec(wanted, catalogue, kinds)
    code = _code(by, wanted)
    spec = job_spec(
        wanted,
        catalogue,
        kinds,
        archive=code and code.archive,
        requirements=code and code.requirements,
    )
    record = by.site.service.submit(
        spec,
        user=by.user.name,
        key=f"modelarts-{by.signature}",
        ranked=by.user.role == "admin",
    )
    kept = KeptJob(
        job_id=record.id,
        project=by.project,
        asked=_asked(wanted, catalogue),
        series=series,
        log_url=wanted.log_url,
    )
    return record, by.kept.note(kept, in_series=in_series)


def delete_job(by: Caller, record: JobRecord, kept: KeptJob) -> None:
    """Show it no more; it is stopped, and removed once it has ended."""
    by.kept.mark_deleted(kept)
    with suppress(JobEnded):
        by.site.service.stop(record.id, by=by.user.name, why="deleted")


def kinds_of(site: Site) -> frozenset[DeviceKind]:
    """The kinds of cards that there are."""
    return frozenset(DeviceKind(card.kind) for card in site.service.cards())


def devices_of(site: Site, catalogue: Catalogue) -> Mapping[str, DeviceRequest]:
    """What each flavor is here."""
    kinds = kinds_of(site)
    return {name: catalogue.device(one, kinds) for name, one in catalogue.flavors.items()}


def _code(by: Caller, wanted: TrainingJob) -> StoredCode | None:
    folder = wanted.algorithm.code_dir
    if not folder:
        return None
    url = store_url(folder)
    if not code_name(url) or not url.removeprefix("obs://").partition("/")[2].strip("/"):
        raise BadInput(f"algorithm.code_dir: {url!r} is a whole bucket; name a folder in it")
    if not _reading.acquire(timeout=PATIENCE_S):
        raise Unavailable("too much code is being read from the store", hint="try again")
    try:
        code = take_code(by.site, by.user.name, url)
    finally:
        _reading.release()
    if wanted.algorithm.boot_file and not wanted.algorithm.command:
        script = boot_path(wanted.algorithm)
        if script not in code.names:
            raise BadInput(f"algorithm.boot_file: {script!r} does not exist in {url}")
    return code


def _asked(wanted: TrainingJob, catalogue: Catalogue) -> Asked:
    def dumped(part: Any) -> dict[str, Any]:
        return part.model_dump(exclude_none=True, exclude_unset=True)

    algorithm = dumped(wanted.algorithm)
    # They may be secrets; the job's own record has them, masked where it is shown.
    algorithm.pop("environments", None)
    spec = dumped(wanted.spec)
    if wanted.spec.resource.flavor_id:
        # By its name, also where v1 gave a number.
        spec["resource"]["flavor_id"] = catalogue.flavor(wanted.spec.resource.flavor_id).id
    return Asked(
        description=wanted.metadata.description or "",
        annotations=wanted.metadata.annotations or {},
        algorithm=algorithm,
        spec=spec,
    )


def describe(by: Caller, kept: KeptJob, words: str) -> dict[str, Any]:
    """Other words about a job; a replay of the call is answered and not acted on."""
    done = {"is_success": True}

    def changed(asked: Asked) -> Asked:
        return replace(asked, description=words)

    by.kept.edit(Edit(kept, changed, by.signature, KeptAnswer(200, json.dumps(done))))
    return done
