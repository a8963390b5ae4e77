"""`hub://` in jobs: code and inputs become files of a commit that stays the same, whatever is pushed."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from typing import Any, cast

from jumar.hub.address import Address, parse
from jumar.hub.checkouts import pinned
from jumar.hub.reading import commit_of
from jumar.server.edge.site import Site
from jumar.spec.document import validate_spec
from jumar.spec.job import JobSpec
from jumar.spec.people import UserRecord
from jumar.spec.repos import RepoRecord
from jumar.spec.urls import is_of_hub

INPUT_VARIABLE = "JUMAR_HUB_"
CODE_VARIABLE = f"{INPUT_VARIABLE}code"
"""Tells a job which project, at which commit, its code is of."""
_BLOCK_BYTES = 1 << 20


def with_hub_files(site: Site, user: UserRecord, spec: JobSpec) -> JobSpec:
    """The job with what it names of the hub in place; its environment tells the commits. Waits."""
    if not spec.names_hub:
        return spec
    code = spec.code if isinstance(spec.code, str) else None
    named = {name: url for name, url in spec.inputs.items() if is_of_hub(url)}
    values: dict[str, Any] = spec.dump()
    told: dict[str, str] = {}
    if code is not None:
        address, repo = _found(site, user, code)
        values["code"] = {"archive": _archive(site, user.name, repo, address)}
        told[CODE_VARIABLE] = str(address)
    for name, url in named.items():
        if site.unix is None:
            address, repo = _found(site, user, url)
            folder = site.hub.checkouts.folder(repo, address.revision, address.path)
            values["inputs"][name] = str(folder)
        else:
            # There a job has no right to the server's folders, and its user's alone to the hub.
            address, repo = _found(site, replace(user, role="member"), url)
            site.hub.checkouts.tar(repo, address.revision, address.path)
            values["inputs"][name] = str(address)
        told[f"{INPUT_VARIABLE}{name}"] = str(address)
    values["environment"] = {**values.get("environment", {}), **told}
    return validate_spec(values, source="job")


def told_of(spec: Mapping[str, Any]) -> dict[str, str]:
    """Which repositories, at which commits, a submitted job is made of."""
    variables = cast("dict[str, str]", spec.get("environment") or {})
    return {name: url for name, url in variables.items() if name.startswith(INPUT_VARIABLE)}


def _found(site: Site, user: UserRecord, text: str) -> tuple[Address, RepoRecord]:
    address = parse(text)
    repositories = site.hub.repositories
    repo = repositories.readable(user, address.kind, address.owner, address.name)
    commit = commit_of(repositories.folder(repo), address.revision)
    return pinned(address, commit), repo


def _archive(site: Site, user: str, repo: RepoRecord, address: Address) -> str:
    with closing(site.hub.checkouts.archive(repo, address.revision, address.path)) as file:
        hashed = sha256()
        for block in iter(lambda: file.read(_BLOCK_BYTES), b""):
            hashed.update(block)
        digest = hashed.hexdigest()
        if not site.service.archives.has(digest):
            file.seek(0)
            site.service.archives.receive(digest, iter(lambda: file.read(_BLOCK_BYTES), b""), user)
    return digest
