"""JSON in and out: bodies to values, records to answers, errors to one form."""

from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic_core import from_json, to_json
from starlette.exceptions import HTTPException
from starlette.responses import Response

from jumar.errors import BadInput, JumarError, TooManyAttempts
from jumar.spec.document import validate_spec
from jumar.spec.job import JobSpec

MOST_MESSAGE = 4000
MOST_SPEC_BYTES = 256 << 10


class BodyTooLarge(JumarError):
    """More was sent than the server takes."""

    status = 413

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"the request is larger than {most_bytes} bytes")


def answer(record: Any, status: int = 200) -> Response:
    """A record, or a tuple of records, as JSON."""
    return Response(to_json(record), status, media_type="application/json")


def error_answer(error: JumarError) -> Response:
    """The one form of every error."""
    # Messages quote what was sent; clients and terminals are not made for megabytes of it.
    message = error.message
    if len(message) > MOST_MESSAGE:
        message = f"{message[:MOST_MESSAGE]}…"
    body = {"error": {"message": message, "hint": error.hint}}
    response = answer(body, error.status)
    if error.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if error.status == 408:
        # The rest of the request, should it ever come, is nobody's.
        response.headers["Connection"] = "close"
    if isinstance(error, TooManyAttempts):
        response.headers["Retry-After"] = str(error.wait_s)
    return response


async def read_spec(request: Request) -> JobSpec:
    """The job in the body; errors name its fields."""
    body = await request.body()
    if len(body) > MOST_SPEC_BYTES:
        # Thousands of them are kept for as long as the jobs are.
        raise BodyTooLarge(MOST_SPEC_BYTES)
    try:
        data = from_json(body)
    except ValueError as error:
        raise BadInput(f"the body is not JSON: {error}") from error
    spec = validate_spec(data, source="job")
    if isinstance(spec.code, str):
        raise BadInput(
            "job: code: a folder cannot be given over the network",
            hint="the client uploads folders; give an archive, a git repository or a workdir",
        )
    return spec


def invalid_request(error: RequestValidationError) -> JumarError:
    """What is wrong with a path, a query or a small body, field by field."""
    return BadInput("\n".join(_words(detail) for detail in error.errors()))


def _words(detail: Any) -> str:
    # Never the value itself: it may be a password.
    place = [str(part) for part in detail["loc"]]
    if detail["type"] == "json_invalid":
        return "the body is not JSON"
    field = ".".join(place[1:]) or place[0]
    known = {"missing": "is missing", "extra_forbidden": "unknown field"}
    return f"{field}: {known.get(detail['type'], detail['msg'])}"


def http_error(request: Request, error: HTTPException) -> JumarError:
    """Errors of the framework itself: unknown addresses, wrong methods."""
    words = {
        404: f"there is nothing at {request.url.path}",
        405: f"{request.method} is not allowed at {request.url.path}",
    }
    found = JumarError(words.get(error.status_code, str(error.detail)))
    found.status = error.status_code
    return found
