"""Who asks: a user by the signature of their AK and SK, in a project, which is their group."""

import json
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.errors import BadInput, JobNotFound, NotAllowed, NotApproved, NotSignedIn
from jumar.modelarts.signing import Signed, check, read_claim
from jumar.modelarts.told import Asked
from jumar.server.edge.auth import may_open
from jumar.server.edge.exchange import MOST_SPEC_BYTES, too_large
from jumar.server.edge.site import Site, SiteOf
from jumar.server.modelarts.kept import Kept, KeptAnswer, KeptJob
from jumar.spec.faults import fault_words, field_words
from jumar.spec.people import UserRecord
from jumar.spec.records import JobRecord
from jumar.store.keys import holder_of

Model = TypeVar("Model", bound=BaseModel)
Project = Annotated[str, Path(max_length=64)]
SCHEMAS = "#/components/schemas/"


def takes(model: type[BaseModel]) -> dict[str, Any]:
    """For the description of a call: what its body is, which `Caller.read` checks."""
    schema = {"$ref": f"{SCHEMAS}{model.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, about what project, and by what signature."""

    site: Site
    user: UserRecord
    project: str
    signature: str
    body: bytes

    @property
    def kept(self) -> Kept:
        """What is written down for clients."""
        return Kept(self.site.service.database)

    def read(self, model: type[Model]) -> Model:
        """The body as `model`; BadInput names its fields."""
        if len(self.body) > MOST_SPEC_BYTES:
            raise too_large(MOST_SPEC_BYTES)
        try:
            return model.model_validate(from_json(self.body))
        except ValidationError as error:
            faults: Any = error.errors()
            words = [f"{field_words(fault['loc'])}: {fault_words(fault)}" for fault in faults[:20]]
            raise BadInput("\n".join(words)) from error
        except ValueError as error:
            raise BadInput("the body is not JSON") from error

    def job(self, job_id: str) -> tuple[JobRecord, KeptJob]:
        """A job of this project that the user may open, by its whole id; JobNotFound else, whatever
        the reason is: nobody learns of the jobs of others."""
        unknown = JobNotFound(f"no training job {job_id[:64]!r}")
        try:
            record = self.site.service.get(job_id)
        except JobNotFound:
            raise unknown from None
        kept = self.kept.job(record.id) or KeptJob(
            job_id=record.id, project=self.project, asked=Asked()
        )
        hidden = kept.is_deleted or kept.project != self.project
        if hidden or not may_open(self.user, record.user):
            raise unknown
        return record, kept

    def jobs(self, job_ids: Iterable[str]) -> list[tuple[JobRecord, KeptJob]]:
        """Those of the jobs that there are: one of a list may be removed while the list is made."""
        found: list[tuple[JobRecord, KeptJob]] = []
        for job_id in job_ids:
            with suppress(JobNotFound):
                found.append(self.job(job_id))
        return found

    async def once(self, act: Callable[[], tuple[int, Any]]) -> Response:
        """What `act` answers, or what it answered when this same request came before."""
        return _as_response(await run_in_threadpool(self._once, act))

    def _once(self, act: Callable[[], tuple[int, Any]]) -> KeptAnswer:
        known = self.kept.answer(self.signature)
        if known is not None:
            return known
        status, body = act()
        text = "" if body is None else json.dumps(body)
        return self.kept.keep_answer(self.signature, KeptAnswer(status, text))


def _as_response(answer: KeptAnswer) -> Response:
    return Response(answer.body, answer.status, media_type="application/json")


async def caller(project_id: Project, request: Request, site: SiteOf) -> Caller:
    """Who signed the request; NotSignedIn, or NotAllowed for a project that is not theirs."""
    body = await request.body()
    return await run_in_threadpool(_caller, site, project_id, request, body)


By = Annotated[Caller, Depends(caller)]


@dataclass(frozen=True, slots=True)
class _V1Part:
    """Which part of a list is asked for: newest first unless `order` is `asc`, by a part of the name."""

    per_page: Annotated[int, Query(ge=1, le=1000)] = 10
    page: Annotated[int, Query(ge=1, lt=1 << 31)] = 1
    order: Annotated[str, Query(max_length=8)] = "desc"
    search_content: Annotated[str, Query(max_length=64)] = ""

    @property
    def is_oldest_first(self) -> bool:
        return self.order == "asc"

    def of(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """That part of all rows."""
        return rows[(self.page - 1) * self.per_page : self.page * self.per_page]


V1Part = Annotated[_V1Part, Depends()]


def _caller(site: Site, project: str, request: Request, body: bytes) -> Caller:
    claim = read_claim(request.headers.get("authorization", ""))
    found = holder_of(site.stores.home, claim.access_key)
    if found is None:
        raise NotSignedIn("this AK is not known here", hint="jumar store keys --for modelarts")
    name, keys = found
    headers = {
        # As it was signed: what ASGI takes for Latin is UTF-8.
        key: value.encode("latin-1").decode("utf-8", "surrogateescape")
        for key, value in request.headers.items()
    }
    signed = Signed(
        method=request.method,
        path=request.scope["raw_path"].decode("latin-1"),
        query=request.scope["query_string"].decode("latin-1"),
        headers=headers,
        body=body,
    )
    check(claim, keys.secret_key, signed, now=time.time())
    user = next((one for one in site.accounts.users() if one.name == name), None)
    if user is None:
        raise NotSignedIn("this AK is not known here")
    if user.role not in ("member", "admin"):
        raise NotApproved(f"{name} is waiting for an administrator's approval")
    request.state.user = name
    _check_project(site, user, project)
    return Caller(site, user, project, claim.signature, body)


def project_of(site: Site, user: str) -> str:
    """The project of a user: the group that they are in."""
    for group in site.service.groups.all():
        if any(member.user == user for member in group.members):
            return group.name
    raise NotAllowed(f"{user} is in no group")


def _check_project(site: Site, user: UserRecord, project: str) -> None:
    if project != project_of(site, user.name):
        raise NotAllowed(
            f"the project {project[:64]!r} is not one of {user.name}'s",
            hint="the project id is the group's name: jumar store keys --for modelarts",
        )
