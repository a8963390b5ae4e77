"""What of ModelArts' API is offered, as OpenAPI."""

from fastapi import APIRouter
from fastapi.openapi.utils import get_openapi
from starlette.responses import JSONResponse

from jumar.server.modelarts import v1, v2

router = APIRouter()


@router.get("/v2/openapi.json")
async def described() -> JSONResponse:
    """All calls of both versions; each has to be signed."""
    routes = [*v1.router.routes, *v2.router.routes]
    return JSONResponse(
        get_openapi(title="ModelArts training jobs, by jumar", version="2", routes=routes)
    )
