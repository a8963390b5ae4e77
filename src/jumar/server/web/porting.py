"""A job that asked for CUDA: ported, proven and run again with one button."""

import shlex
import sys
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from jumar.server.edge.auth import Member, OpenedJob
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.devices import DeviceKind
from jumar.spec.document import validate_spec
from jumar.spec.job import JobSpec
from jumar.spec.people import UserRecord

router = APIRouter()
_KEPT = ("code", "workdir", "environment", "inputs", "requirements", "activate", "framework")
"""What a proof needs of the job; the rest of it is about where and how long the training runs."""
_OF_A_SHELL = frozenset("|&;<>()$`\n*?[]{}~#")


@router.post("/jobs/{job}/port")
async def port(opened: OpenedJob, site: SiteOf, user: Member) -> Response:
    """Submit the job again, ported as it runs: on NPUs, or simulated ones where there are none, which shows
    what of it is not supported. It waits for another job, which proves the port by a few steps of both
    sides on this machine's CPU. The new job is shown."""
    made = await run_in_threadpool(_submit_both, site, opened.id, user)
    return RedirectResponse(f"/jobs/{made}", status_code=303)


def _submit_both(site: Site, job: str, user: UserRecord) -> str:
    spec = site.service.spec_of(job)
    kinds = {card.kind for card in site.service.cards()}
    kind = DeviceKind.NPU if DeviceKind.NPU in kinds else DeviceKind.SIM
    changed: dict[str, Any] = {"auto_port": True, "device": f"{kind}:{max(1, spec.device.count)}"}
    # Checked as a job file is: what cannot be ported is said before anything is submitted.
    ported = validate_spec({**spec.dump(), **changed}, source="job")
    ranked = user.role == "admin"
    proof = _proof_of(spec, is_here=bool(kinds))
    if proof is not None:
        first = site.service.submit(proof, user=user.name, ranked=ranked)
        after = [*ported.dump().get("after", ()), first.id]
        ported = validate_spec({**ported.dump(), "after": after}, source="job")
    return site.service.submit(ported, user=user.name, ranked=ranked).id


def _proof_of(spec: JobSpec, *, is_here: bool) -> JobSpec | None:
    """None where it cannot be had: nodes that are not ours need not have jumar, and a proof must not write
    where the training's results belong."""
    program = Path(sys.executable).with_name("jumar")
    if not is_here or not program.exists() or spec.outputs or spec.image:
        return None
    told = spec.dump()
    words = [str(program), "port", ".", "--out"]
    command = f'{shlex.join(words)} "$JUMAR_JOB_DIR/ported" --prove -- {shlex.join(_words(spec))}'
    kept = {name: told[name] for name in _KEPT if told.get(name)}
    name = f"{spec.name[:57]}-proof"
    return validate_spec(
        {**kept, "name": name, "command": command, "device": "cpu:1"}, source="job"
    )


def _words(spec: JobSpec) -> list[str]:
    command = spec.command
    if not isinstance(command, str):
        return list(command)
    return ["bash", "-c", command] if _OF_A_SHELL & set(command) else shlex.split(command)
