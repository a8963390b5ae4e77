"""Repositories of the hub over REST: made, searched, shown, deleted. Their content has doors of its own."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.hub.names import Kind, plural
from jumar.server.edge.addresses import pages_at
from jumar.server.edge.auth import Admin, Member
from jumar.server.edge.exchange import Body, answer
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.people import UserRecord
from jumar.spec.repos import CollectedRecord, RepoRecord

router = APIRouter(tags=["hub"], prefix="/repos")
PAGE = 100


class NewRepo(Body):
    """What a repository shall be called, and who shall see it."""

    kind: Kind
    name: Annotated[str, Field(min_length=1, max_length=96)]
    owner: Annotated[str, Field(max_length=64)] = ""
    private: bool = False


class RepoChange(Body):
    """What can be changed of a repository."""

    private: bool


def _readable(site: SiteOf, user: Member, kind: Kind, owner: str, name: str) -> RepoRecord:
    return site.hub.repositories.readable(user, kind, owner, name)


def _writable(site: SiteOf, user: Member, kind: Kind, owner: str, name: str) -> RepoRecord:
    return site.hub.repositories.writable(user, kind, owner, name)


ReadableRepo = Annotated[RepoRecord, Depends(_readable)]
"""The repository that a path names, of those that I may read; any other does not exist."""
WritableRepo = Annotated[RepoRecord, Depends(_writable)]


def search_repos(
    site: Site, user: UserRecord, kind: Kind | None, text: str, owner: str, start: int = 0
) -> tuple[RepoRecord, ...]:
    """What `user` may see; waits for the database."""
    return site.hub.repositories.search(
        user, kind=kind, text=text, owner=owner, start=start, most=PAGE
    )


def with_address(request: Request, site: Site, repo: RepoRecord) -> RepoRecord:
    """The repository with the address that git clones it from."""
    address = f"{pages_at(site, request)}/git/{plural(repo.kind)}/{repo.owner}/{repo.name}.git"
    return replace(repo, clone_url=address)


@router.get("", response_model=list[RepoRecord], summary="Search repositories")
async def list_repos(
    request: Request,
    site: SiteOf,
    user: Member,
    kind: Kind | None = None,
    search: Annotated[str, Query(max_length=200)] = "",
    owner: Annotated[str, Query(max_length=64)] = "",
    start: Annotated[int, Query(ge=0, le=1 << 30)] = 0,
) -> Response:
    """Those that I may read, the latest changed first; 100 at a time."""
    found = await run_in_threadpool(search_repos, site, user, kind, search, owner, start)
    return answer([with_address(request, site, repo) for repo in found])


@router.post("", status_code=201, response_model=RepoRecord, summary="Create a repository")
async def create_repo(request: Request, site: SiteOf, user: Member, wanted: NewRepo) -> Response:
    """A repository of mine, or of a group that I am in."""

    def create() -> RepoRecord:
        return site.hub.repositories.create(
            user, wanted.kind, wanted.name, owner=wanted.owner, private=wanted.private
        )

    return answer(with_address(request, site, await run_in_threadpool(create)), 201)


@router.post("/collect", response_model=CollectedRecord, summary="Remove what nothing refers to")
async def collect(site: SiteOf, _admin: Admin) -> Response:
    """LFS objects that no repository refers to, old git objects, files of jobs that were removed; for admins.
    Done every night as well. What was uploaded in the last day stays."""

    def work() -> CollectedRecord:
        return site.hub.collector.collect(dead_for_s=0.0)

    return answer(await run_in_threadpool(work))


@router.get("/{kind}/{owner}/{name}", response_model=RepoRecord, summary="Show a repository")
async def show_repo(request: Request, site: SiteOf, repo: ReadableRepo) -> Response:
    """One that I may read; any other does not exist."""
    return answer(with_address(request, site, repo))


@router.patch("/{kind}/{owner}/{name}", response_model=RepoRecord, summary="Change a repository")
async def change_repo(
    request: Request, site: SiteOf, repo: WritableRepo, wanted: RepoChange
) -> Response:
    """Show it to everybody, or to its owner only."""

    def change() -> RepoRecord:
        site.hub.repositories.set_private(repo, wanted.private)
        return site.hub.repositories.get(repo.kind, repo.owner, repo.name)

    return answer(with_address(request, site, await run_in_threadpool(change)))


@router.delete("/{kind}/{owner}/{name}", status_code=204, summary="Delete a repository")
async def delete_repo(site: SiteOf, repo: WritableRepo) -> Response:
    """With all its branches and history; there is no way back."""
    await run_in_threadpool(site.hub.repositories.delete, repo)
    return Response(status_code=204)
