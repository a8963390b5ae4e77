"""The page "Submit Training Job": the form, what is wrong with it and what would run as one types, and
the pickers over the stores."""

import secrets
from dataclasses import dataclass
from typing import Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from jumar.errors import BadInput, JumarError, NotFound
from jumar.server.api.jobs import MOST_NUMBER
from jumar.server.edge.auth import Member, find_job
from jumar.server.edge.site import Site, SiteOf
from jumar.server.web import job_form
from jumar.server.web.render import render
from jumar.spec.job import JobSpec
from jumar.spec.people import UserRecord
from jumar.store.places import buckets, open_place

router = APIRouter(prefix="/submit")
MOST_LISTED = 500
# A store that does not answer holds a thread for a while; others have to go on.
_asking = CapacityLimiter(4)
_KINDS = ("npu", "gpu", "sim", "cpu")


@dataclass(frozen=True, slots=True)
class Sent:
    """What came with a form."""

    values: job_form.Values
    cloned: str
    """The job that it was filled from, or nothing."""
    key: str
    """The same for every click on one page: it submits once."""
    template: str


@router.get("")
async def submit_page(
    request: Request,
    site: SiteOf,
    user: Member,
    cloned: Annotated[str, Query(alias="from", max_length=160)] = "",
    template: Annotated[int | None, Query(ge=1, le=MOST_NUMBER)] = None,
) -> Response:
    """An empty form, or that of a job or a template."""
    if template is not None:
        kept = await run_in_threadpool(site.service.templates.find, template, user.name)
        values = job_form.fill(kept.spec)
    elif cloned:
        source = await run_in_threadpool(_source, site, cloned, user)
        values = job_form.fill(source)
    else:
        kinds = {card.kind for card in await run_in_threadpool(site.service.cards)}
        values = job_form.empty(next((kind for kind in _KINDS if kind in kinds), "cpu"))
    return await _page(request, site, user, Sent(values, cloned, secrets.token_hex(16), ""))


@router.post("/check")
async def check(request: Request, site: SiteOf, user: Member) -> Response:
    """What is wrong, or what would run, where, and why it would wait."""
    sent = await _sent(request)
    found = await run_in_threadpool(_checked, site, user, sent)
    return render(request, "_preview.html", found, user=user)


@router.post("")
async def submit(request: Request, site: SiteOf, user: Member) -> Response:
    """Submit the job and show it, or the form with what is wrong; or keep it as a template."""
    sent = await _sent(request)
    found = await run_in_threadpool(_checked, site, user, sent)
    spec = found["spec"]
    if not isinstance(spec, JobSpec) or found["refused"] is not None:
        return await _page(request, site, user, sent, found, status=422)
    if sent.template:
        keep = site.service.templates.keep
        shared = sent.template == "shared"
        await run_in_threadpool(keep, spec, user=user.name, is_shared=shared)
        return RedirectResponse("/submit", status_code=303)
    record = await run_in_threadpool(
        site.service.submit, spec, user=user.name, key=sent.key, ranked=user.role == "admin"
    )
    return RedirectResponse(f"/jobs/{record.id}", status_code=303)


@router.post("/templates/{template}/delete")
async def delete_template(
    site: SiteOf, user: Member, template: Annotated[int, Path(ge=1, le=MOST_NUMBER)]
) -> Response:
    """Delete a template of one's own; an administrator deletes any."""
    sees_all = user.role == "admin"
    await run_in_threadpool(site.service.templates.delete, template, user.name, sees_all=sees_all)
    return RedirectResponse("/submit", status_code=303)


@router.get("/browse")
async def browse(
    request: Request,
    site: SiteOf,
    user: Member,
    place: Annotated[str, Query(max_length=4096)] = "",
) -> Response:
    """One level of a store, as its user sees it; without a place, the buckets."""
    try:
        level = await to_thread.run_sync(_level, site, user.name, place, limiter=_asking)
        values = {"level": level, "error": None}
    except JumarError as error:
        values = {"level": Level(place=place, above=""), "error": error}
    return render(request, "_browse.html", values, user=user)


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level of a store; the addresses are whole."""

    place: str
    above: str | None
    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def _level(site: Site, user: str, place: str) -> Level:
    config = site.stores.job_config(user)
    scheme = place.partition("://")[0]
    if not place:
        found = tuple(
            f"{kind}://{name}/"
            for kind in ("obs", "s3")
            if kind == "obs" or config.credential(kind) is not None
            for name in buckets(kind, config)
        )
        return Level(place="", above=None, folders=found)
    if scheme not in ("obs", "s3"):
        # Paths would be read with the rights of the server's user.
        raise BadInput(f"{place!r} is not an obs:// or s3:// address")
    opened = open_place(place if place.endswith("/") else f"{place}/", config)
    listing = opened.store.level(opened.prefix)
    base = f"{scheme}://{opened.url.bucket}/"
    above = place.rstrip("/").rpartition("/")[0] + "/"
    return Level(
        place=place,
        above="" if above in (f"{scheme}://", f"{scheme}:/") else above,
        folders=tuple(base + prefix for prefix in listing.folders[:MOST_LISTED]),
        files=tuple(base + entry.key for entry in listing.entries[:MOST_LISTED]),
    )


async def _sent(request: Request) -> Sent:
    form = await request.form()
    texts = [(name, text) for name, text in form.multi_items() if isinstance(text, str)]
    given = dict(texts)
    return Sent(
        values=job_form.read(texts),
        cloned=given.get("cloned", "")[:160],
        key=given.get("key", "")[:128] or secrets.token_hex(16),
        template=given.get("template", ""),
    )


def _source(site: Site, job: str, user: UserRecord) -> JobSpec:
    return site.service.spec_of(find_job(site, job, user).id)


def _checked(site: Site, user: UserRecord, sent: Sent) -> dict[str, object]:
    """All that the preview shows."""
    shown: dict[str, object] = {
        "spec": None,
        "faults": [],
        "plan": None,
        "waiting": None,
        "refused": None,
    }
    if not sent.values.get("name") and not sent.values.get("command"):
        # Nobody has begun to type: there is nothing to complain about yet.
        return shown
    source = None
    if sent.cloned:
        try:
            source = _source(site, sent.cloned, user)
        except NotFound:
            # It was removed meanwhile: then the secrets have to be typed.
            source = None
    found = job_form.check(sent.values, source)
    if not isinstance(found, JobSpec):
        return {**shown, "faults": found}
    shown["spec"] = found
    try:
        shown["plan"] = site.service.plan(found, user=user.name)
        shown["waiting"] = site.service.preview(found, user=user.name)
    except JumarError as error:
        shown["refused"] = error
    return shown


async def _page(
    request: Request,
    site: Site,
    user: UserRecord,
    sent: Sent,
    found: dict[str, object] | None = None,
    *,
    status: int = 200,
) -> Response:
    kept = await run_in_threadpool(site.service.templates.all, user.name)
    values = {
        "sections": job_form.sections(),
        "sent": sent,
        "templates": kept,
        "found": found,
        **(found or {"spec": None, "faults": [], "plan": None, "waiting": None, "refused": None}),
    }
    return render(request, "submit.html", values, user=user, status=status)
