"""The form that makes a training of a project: code, model and data set from repositories."""

import re
import shlex
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from jumar.errors import BadInput, JumarError
from jumar.hub import reading
from jumar.hub.address import SCHEME
from jumar.hub.names import Kind
from jumar.modelarts.catalogue import HOME_FILE, Engine, load_catalogue
from jumar.server.api.hub_refs import with_hub_files
from jumar.server.api.repos import search_repos
from jumar.server.edge.auth import Member
from jumar.server.edge.site import Site, SiteOf
from jumar.server.web.render import render
from jumar.spec.document import validate_spec
from jumar.spec.people import UserRecord
from jumar.spec.records import JobRecord
from jumar.spec.repos import RepoRecord

router = APIRouter(prefix="/repos/project/{owner}/{name}/train")
OUTPUT = "output"
"""Where the script is told to put its results: a folder beside it, which `jumar get` copies."""
AIM = "aim"
"""The same for the Aim repository of a script with an evaluation of its own."""
Field = Annotated[str, Form(max_length=1024)]
_MINDSPORE = re.compile(rb"^\s*(?:from\s+mindspore\b|import\s[^#\n]*\bmindspore\b)", re.M)
_MOST_BOOT_BYTES = 1 << 20


@router.get("")
async def form_page(
    request: Request, site: SiteOf, user: Member, owner: str, name: str
) -> Response:
    """An empty form."""
    return await _page(request, site, user, owner, name, {}, None)


@router.post("")
async def create(
    request: Request,
    site: SiteOf,
    user: Member,
    owner: str,
    name: str,
    instance: Field,
    boot_file: Field,
    revision: Field = "main",
    model: Field = "",
    dataset: Field = "",
    parameters: Annotated[str, Form(max_length=16_384)] = "",
    environment: Annotated[str, Form(max_length=16_384)] = "",
    engine: Field = "",
    device: Field = "cpu:1",
    aim: Field = "",
) -> Response:
    """Submit the training and show it, or the form again with what is wrong."""
    values = {
        "instance": instance,
        "boot_file": boot_file,
        "revision": revision,
        "model": model,
        "dataset": dataset,
        "parameters": parameters,
        "environment": environment,
        "engine": engine,
        "device": device,
        "aim": aim,
    }

    def submit() -> JobRecord:
        repo = site.hub.repositories.readable(user, "project", owner, name)
        wanted = load_catalogue(site.stores.home).engine(engine.strip())
        job = job_values(owner, name, values, wanted)
        if _imports_mindspore(site.hub.repositories.folder(repo), values):
            job["environment"] = {"JUMAR_RUN_CHECK": "1", **job["environment"]}
        spec = validate_spec(job, source="form")
        return site.service.submit(
            with_hub_files(site, user, spec), user=user.name, ranked=user.role == "admin"
        )

    try:
        record = await run_in_threadpool(submit)
    except JumarError as error:
        return await _page(request, site, user, owner, name, values, error)
    return RedirectResponse(f"/jobs/{record.id}", status_code=303)


def _imports_mindspore(folder: Path, form: dict[str, str]) -> bool:
    """Of the boot file at its revision; EntryNotFound where there is none."""
    commit = reading.commit_of(folder, form["revision"].strip() or reading.MAIN)
    entry = reading.entry_at(folder, commit, form["boot_file"].strip())
    is_text = entry.pointer is None and entry.stored <= _MOST_BOOT_BYTES
    return is_text and _MINDSPORE.search(reading.content(folder, entry.oid)) is not None


def job_values(
    owner: str, name: str, form: dict[str, str], engine: Engine | None
) -> dict[str, Any]:
    """The job that a filled form describes, as a job file would have it."""
    boot_file = form["boot_file"].strip()
    if not boot_file.endswith(".py"):
        raise BadInput(
            f"boot file: {boot_file[:100]!r} is not a Python script",
            hint="give its path in the project, such as train/train.py",
        )
    inputs = {
        argument: _address(kind, form[field])
        for argument, kind, field in (
            ("pretrain_url", "model", "model"),
            ("data_url", "dataset", "dataset"),
        )
        if form[field].strip()
    }
    words = [word for line in form["parameters"].splitlines() for word in _parameter(line)]
    if form["aim"]:
        words.append(f"--aim_repo={AIM}")
    if engine is not None and not engine.activate:
        raise BadInput(
            f"framework: {engine.id} is not set up here",
            hint=f"an administrator names what it activates in {HOME_FILE} of the server's home",
        )
    return {
        "name": form["instance"].strip(),
        "command": ["python", boot_file, *words, f"--output_path={OUTPUT}"],
        "code": f"{SCHEME}project/{owner}/{name}@{form['revision'].strip() or 'main'}",
        "inputs": inputs,
        "device": form["device"].strip(),
        "environment": dict(map(_variable, filter(str.strip, form["environment"].splitlines()))),
        "activate": None if engine is None else engine.activate,
    }


def _address(kind: Kind | str, text: str) -> str:
    """`ann/mnist`, `ann/mnist@v1:train` or a whole address."""
    text = text.strip()
    return text if "://" in text else f"{SCHEME}{kind}/{text}"


def _parameter(line: str) -> list[str]:
    """`epochs=10`, `--epochs 10` and `--epochs=10` are one."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise BadInput(f"parameters: {line[:100]!r}: {error}") from None
    if words and not words[0].startswith("-"):
        words[0] = f"--{words[0]}"
    return words


def _variable(line: str) -> tuple[str, str]:
    name, equals, value = line.strip().partition("=")
    if not equals:
        raise BadInput(f"environment: {line[:100]!r} is not NAME=VALUE")
    return name, value


async def _page(
    request: Request,
    site: Site,
    user: UserRecord,
    owner: str,
    name: str,
    form: dict[str, str],
    error: JumarError | None,
) -> Response:
    def look() -> tuple[RepoRecord, tuple[RepoRecord, ...], tuple[RepoRecord, ...]]:
        return (
            site.hub.repositories.readable(user, "project", owner, name),
            search_repos(site, user, "model", "", ""),
            search_repos(site, user, "dataset", "", ""),
        )

    repo, models, datasets = await run_in_threadpool(look)
    catalogue = await run_in_threadpool(load_catalogue, site.stores.home)
    usual = {"instance": repo.name, "boot_file": "train.py", "revision": "main", "device": "cpu:1"}
    blank = dict.fromkeys(("model", "dataset", "parameters", "environment", "engine", "aim"), "")
    values = {
        "repo": repo,
        "models": models,
        "datasets": datasets,
        # Those that can be chosen come first.
        "engines": sorted(catalogue.engines.values(), key=lambda one: not one.activate),
        "form": {**usual, **blank, **form},
        "problem": error,
    }
    status = 200 if error is None else error.status
    return render(request, "training_form.html", values, user=user, status=status)
