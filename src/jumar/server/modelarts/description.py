"""What of ModelArts' API is offered, as OpenAPI."""

from fastapi import APIRouter
from fastapi.openapi.utils import get_openapi
from starlette.responses import JSONResponse

from jumar.server.modelarts import v1, v1_boards, v1_configs, v2, v2_logs, v2_search
from jumar.server.modelarts.caller import SCHEMAS

router = APIRouter()


@router.get("/v2/openapi.json")
async def described() -> JSONResponse:
    """All calls of both versions; each has to be signed."""
    parts = (v1, v1_boards, v1_configs, v2, v2_logs, v2_search)
    routes = [route for part in parts for route in part.router.routes]
    made = get_openapi(title="ModelArts training jobs, by jumar", version="2", routes=routes)
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    with_bodies = (v1, v1_boards, v1_configs, v2, v2_search)
    for model in [model for part in with_bodies for model in part.BODIES]:
        schema = model.model_json_schema(ref_template=SCHEMAS + "{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[model.__name__] = schema
    return JSONResponse(made)
