"""`/v1/{project_id}/training-job-configs`: what jobs are created with, kept by name for its user."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from sqlalchemy import ColumnElement, Connection, Row, delete, insert, select, update
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from jumar.database.tables import modelarts_configs
from jumar.errors import NameTaken, NotFound
from jumar.modelarts.told import milliseconds
from jumar.modelarts.wanted_v1 import V1Config, V1ConfigChange, V1KeptConfig
from jumar.server.edge.exchange import answer
from jumar.server.modelarts.caller import By, Caller, V1Part, takes
from jumar.server.modelarts.kept import KeptAnswer

router = APIRouter(tags=["modelarts"], prefix="/v1/{project_id}/training-job-configs")
BODIES = (V1KeptConfig, V1ConfigChange)
Name = Annotated[str, Path(max_length=64)]
_MOST = 1000
_columns = modelarts_configs.c


@dataclass(frozen=True, slots=True)
class _Change:
    """What is to be written about a configuration, from the body of a request."""

    description: str | None
    config: str

    @classmethod
    def of(cls, sent: V1ConfigChange) -> "_Change":
        values = sent.model_dump(exclude_unset=True, include=set(V1Config.model_fields))
        # As a job would be refused: a configuration that can never run is no use to anybody.
        sent.as_job("config", "")
        return cls(sent.config_desc, json.dumps(values, ensure_ascii=False))


def _of(by: Caller) -> ColumnElement[bool]:
    return (_columns.project == by.project) & (_columns.user == by.user.name)


def _named(by: Caller, name: str) -> ColumnElement[bool]:
    return _of(by) & (_columns.name == name)


def _shown(row: Row[Any]) -> dict[str, Any]:
    return {
        "config_name": row.name,
        "config_desc": row.description,
        "create_time": milliseconds(row.created_at),
        **json.loads(row.config),
    }


def _unknown(name: str) -> NotFound:
    return NotFound(f"no training job configuration {name!r}")


@router.post("", summary="Keep a configuration", openapi_extra=takes(V1KeptConfig))
async def create(by: By) -> Response:
    """Under a name of the user's own."""

    def act() -> tuple[int, Any]:
        sent = by.read(V1KeptConfig)
        change = _Change.of(sent)
        values = {
            "project": by.project,
            "user": by.user.name,
            "name": sent.config_name,
            "description": change.description or "",
            "config": change.config,
            "created_at": time.time(),
        }

        def write(connection: Connection) -> None:
            known = connection.execute(select(_columns.name).where(_of(by))).scalars().all()
            if sent.config_name in known:
                raise NameTaken(f"a configuration {sent.config_name!r} exists")
            if len(known) >= _MOST:
                raise NameTaken(f"there are {_MOST} configurations", hint="delete some")
            connection.execute(insert(modelarts_configs).values(values))

        return _done(by, write)

    return await by.once(act)


@router.get("", summary="List configurations")
async def list_configs(
    by: By,
    part: V1Part,
    config_type: Annotated[str, Query(max_length=16)] = "custom",
) -> Response:
    """By name. There are no samples of the vendor's."""

    def read() -> dict[str, Any]:
        with by.site.service.database.read() as connection:
            rows = connection.execute(select(modelarts_configs).where(_of(by)))
            found = [_shown(row) for row in rows if part.search_content in row.name]
        if config_type != "custom":
            found = []
        found.sort(key=lambda one: str(one["config_name"]), reverse=not part.is_oldest_first)
        return {"is_success": True, "config_total_count": len(found), "configs": part.of(found)}

    return answer(await run_in_threadpool(read))


@router.get("/{config_name}", summary="A configuration")
async def show(by: By, config_name: Name) -> Response:
    """As it was sent."""

    def read() -> dict[str, Any]:
        with by.site.service.database.read() as connection:
            query = select(modelarts_configs).where(_named(by, config_name))
            row = connection.execute(query).first()
        if row is None:
            raise _unknown(config_name)
        return {"is_success": True, **_shown(row)}

    return answer(await run_in_threadpool(read))


@router.put("/{config_name}", summary="Change a configuration", openapi_extra=takes(V1ConfigChange))
async def edit(by: By, config_name: Name) -> Response:
    """Another one under the same name."""

    def act() -> tuple[int, Any]:
        change = _Change.of(by.read(V1ConfigChange))
        values = {"config": change.config}
        if change.description is not None:
            values["description"] = change.description
        return _changed(by, update(modelarts_configs).values(values), config_name)

    return await by.once(act)


@router.delete("/{config_name}", summary="Delete a configuration")
async def remove(by: By, config_name: Name) -> Response:
    """Jobs that were made with it stay."""

    def act() -> tuple[int, Any]:
        return _changed(by, delete(modelarts_configs), config_name)

    return await by.once(act)


def _changed(by: Caller, statement: Any, name: str) -> tuple[int, Any]:
    def write(connection: Connection) -> None:
        if connection.execute(statement.where(_named(by, name))).rowcount == 0:
            raise _unknown(name)

    return _done(by, write)


def _done(by: Caller, change: Callable[[Connection], None]) -> tuple[int, Any]:
    answered = KeptAnswer(200, json.dumps({"is_success": True}))
    kept = by.kept.change_once(by.signature, answered, change)
    return kept.status, json.loads(kept.body)
