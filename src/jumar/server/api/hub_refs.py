"""`hub://` in jobs: code and inputs become files of a commit that stays the same, whatever is pushed."""

from collections.abc import Mapping
from contextlib import closing
from hashlib import sha256
from typing import Any, cast

from jumar.errors import BadInput
from jumar.hub.address import SCHEME, Address, parse
from jumar.hub.checkouts import pinned
from jumar.hub.reading import commit_of
from jumar.server.edge.site import Site
from jumar.spec.document import validate_spec
from jumar.spec.job import JobSpec
from jumar.spec.people import UserRecord
from jumar.spec.repos import RepoRecord

INPUT_VARIABLE = "JUMAR_HUB_"
CODE_VARIABLE = f"{INPUT_VARIABLE}code"
"""Tells a job which project, at which commit, its code is of."""
_BLOCK_BYTES = 1 << 20


def with_hub_files(site: Site, user: UserRecord, spec: JobSpec) -> JobSpec:
    """The job with what it names of the hub in place; its environment tells the commits. Waits."""
    code = spec.code if isinstance(spec.code, str) else None
    named = {name: url for name, url in spec.inputs.items() if url.startswith(SCHEME)}
    if code is None and not named:
        return spec
    if named and site.unix is not None:
        # There a job has rights of its own, and none in the server's folders.
        raise BadInput(
            "inputs: hub:// inputs are not available on a site yet",
            hint="fetch them in the script: huggingface_hub with HF_ENDPOINT, or git clone",
        )
    values: dict[str, Any] = spec.dump()
    told: dict[str, str] = {}
    if code is not None:
        address, repo = _found(site, user, code)
        values["code"] = {"archive": _archive(site, repo, address)}
        told[CODE_VARIABLE] = str(address)
    for name, url in named.items():
        address, repo = _found(site, user, url)
        folder = site.hub.checkouts.folder(repo, address.revision, address.path)
        values["inputs"][name] = str(folder)
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


def _archive(site: Site, repo: RepoRecord, address: Address) -> str:
    with closing(site.hub.checkouts.archive(repo, address.revision, address.path)) as file:
        hashed = sha256()
        for block in iter(lambda: file.read(_BLOCK_BYTES), b""):
            hashed.update(block)
        digest = hashed.hexdigest()
        if not site.service.archives.has(digest):
            file.seek(0)
            site.service.archives.receive(digest, iter(lambda: file.read(_BLOCK_BYTES), b""))
    return digest
