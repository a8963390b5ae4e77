"""What a training has left, made a model repository, with a card that says where it comes from."""

import json
from dataclasses import replace
from typing import Annotated, Any, cast

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from jumar.errors import Conflict, NotFound
from jumar.hub.model_card import MARK, Metric, Origin, model_card
from jumar.hub.names import check_path
from jumar.hub.reading import MAIN, head_of, text_at
from jumar.hub.repositories import RepoNotFound
from jumar.server.api.evaluation import evaluate
from jumar.server.api.hub_refs import CODE_VARIABLE, INPUT_VARIABLE, told_of
from jumar.server.api.repos import with_address
from jumar.server.api.results import results_of
from jumar.server.edge.auth import Member, OpenedJob
from jumar.server.edge.exchange import Body, answer
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.people import UserRecord
from jumar.spec.records import JobFile, JobRecord
from jumar.spec.repos import CommitRecord, RepoRecord
from jumar.track.evaluation import parameters_of

router = APIRouter(tags=["hub"])
_BLOCK_BYTES = 4 << 20
_README_BYTES = 1 << 20
_REPORT = "code/jumar-report/report.json"
_MOST_REPORT_BYTES = 64 << 20
# Copying and hashing: each holds a core.
_working = CapacityLimiter(2)


class Publication(Body):
    """What to publish, and where."""

    name: Annotated[str, Field(min_length=1, max_length=200, description="NAME or OWNER/NAME")]
    path: Annotated[str, Field(max_length=4096, description="below the job's folder")] = ""
    private: bool = False
    """Of a repository that does not exist yet."""
    branch: Annotated[str, Field(max_length=200)] = MAIN


@router.post(
    "/jobs/{job}/publish",
    status_code=201,
    response_model=CommitRecord,
    summary="Publish a training's results as a model",
)
async def publish_job(
    request: Request, opened: OpenedJob, site: SiteOf, user: Member, wanted: Publication
) -> Response:
    """Copies its results into a model repository, made where there is none, with a model card."""
    made = await to_thread.run_sync(publish, site, user, opened.id, wanted, limiter=_working)
    assert made.repo is not None
    return answer(replace(made, repo=with_address(request, site, made.repo)), 201)


def publish(site: Site, user: UserRecord, job_id: str, wanted: Publication) -> CommitRecord:
    """The same; waits for disks."""
    record = site.service.get(job_id)
    if not record.state.is_final:
        raise Conflict(
            f"job {job_id} has not ended yet", hint=f"wait for it with: jumar logs -f {job_id}"
        )
    found = results_of(site, job_id, wanted.path).files
    for path in found:
        check_path(path)
    repo = _repository(site, user, wanted)
    files = {path: _copy(site, repo, job_id, one) for path, one in found.items()}
    title = f"{repo.owner}/{repo.name}"
    card = model_card(title, origin_of(site, record))
    # Somebody's own README stays as it is.
    path = "TRAINING.md" if "README.md" in files or _has_own_readme(site, repo) else "README.md"
    message = f"Publish {record.name} ({job_id})"
    commit = site.hub.deposits.commit(
        repo, wanted.branch, user.name, message, files, texts={path: card}
    )
    return CommitRecord(commit=commit, repo=repo)


def _repository(site: Site, user: UserRecord, wanted: Publication) -> RepoRecord:
    owner, _, name = wanted.name.rpartition("/")
    owner = owner or user.name
    repositories = site.hub.repositories
    try:
        return repositories.writable(user, "model", owner, name)
    except RepoNotFound:
        return repositories.create(user, "model", name, owner=owner, private=wanted.private)


def _copy(site: Site, repo: RepoRecord, job_id: str, one: JobFile) -> str:
    with (
        site.service.open_file(job_id, one.path) as file,
        site.hub.objects.incoming(repo, None, one.size) as incoming,
    ):
        # Exactly what was listed: a file may still grow.
        left = one.size
        while left and (block := file.read(min(_BLOCK_BYTES, left))):
            left -= len(block)
            incoming.write(block)
        return incoming.keep().oid


def _has_own_readme(site: Site, repo: RepoRecord) -> bool:
    folder = site.hub.repositories.folder(repo)
    head = head_of(folder)
    readme = text_at(folder, head, "README.md", _README_BYTES) if head else ""
    return bool(readme) and MARK not in readme


def origin_of(site: Site, record: JobRecord) -> Origin:
    """What is known of how a job came to its results."""
    spec = record.spec
    told = told_of(spec)
    command = cast("list[str] | str", spec.get("command") or [])
    words = [command] if isinstance(command, str) else command
    runs = [run for run in evaluate(site, [record]).runs if run.job == record.id]
    own = {name: value for run in runs for name, value in run.parameters.items()}
    inputs = cast("dict[str, str]", spec.get("inputs") or {})
    return Origin(
        job=record.id,
        name=record.name,
        user=record.user,
        state=record.state.value,
        command=" ".join(words),
        code=told.get(CODE_VARIABLE) or _code_of(spec),
        data={name: told.get(f"{INPUT_VARIABLE}{name}", url) for name, url in inputs.items()},
        parameters={**parameters_of(words), **own},
        environment=_environment(record),
        metrics=[
            Metric(name=one.name, best=one.best, last=one.last)
            for run in runs
            for one in run.metrics
        ],
        proof=_proof(site, record.id),
    )


def _code_of(spec: dict[str, Any]) -> str:
    code = spec.get("code")
    if isinstance(code, dict):
        values = cast("dict[str, Any]", code)
        if "git" in values:
            return f"{values['git']}@{values.get('commit') or values.get('ref') or ''}"
        return f"archive sha256:{values.get('archive', '')}"
    return str(code or spec.get("workdir") or "")


def _environment(record: JobRecord) -> dict[str, str]:
    spec = record.spec
    named = ("device", "nodes", "framework", "image", "requirements", "activate")
    values = {name: spec.get(name) for name in named}
    return {
        "platform": f"jumar, engine {record.engine}",
        **{
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in values.items()
            if value not in (None, "", [], {})
        },
    }


def _proof(site: Site, job_id: str) -> dict[str, Any] | None:
    """The certificate of the port that the job's code is, where `jumar port --prove` has left one."""
    try:
        with site.service.open_file(job_id, _REPORT) as file:
            report = json.loads(file.read(_MOST_REPORT_BYTES))
    except (NotFound, OSError, ValueError, RecursionError):
        return None
    proof = cast("dict[str, Any]", report).get("proof") if isinstance(report, dict) else None
    return cast("dict[str, Any]", proof) if isinstance(proof, dict) else None
