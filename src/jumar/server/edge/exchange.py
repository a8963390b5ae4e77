"""JSON in and out: bodies to values, records to answers, errors to one form."""

from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from pydantic_core import from_json, to_json
from starlette.exceptions import HTTPException
from starlette.responses import Response

from jumar.errors import (
    BadInput,
    JobEnded,
    JobNotFound,
    JumarError,
    NotSignedIn,
    PathNotFound,
    TooLarge,
    TooManyAttempts,
    WrongMethod,
)
from jumar.spec.document import validate_spec
from jumar.spec.faults import fault_words, field_words
from jumar.spec.job import JobSpec

MOST_MESSAGE = 4000
MOST_SPEC_BYTES = 256 << 10


class Body(BaseModel):
    """What a small request says; fields that nobody knows are refused."""

    model_config = ConfigDict(extra="forbid")


def too_large(most_bytes: int) -> TooLarge:
    """What to raise when a body has more bytes than that."""
    return TooLarge(f"the request is larger than {most_bytes} bytes")


def answer(record: Any, status: int = 200) -> Response:
    """A record, or a tuple of records, as JSON."""
    return Response(to_json(record), status, media_type="application/json")


def error_answer(error: JumarError, path: str = "") -> Response:
    """The one form of every error, and for clients of ModelArts, told by the path, theirs."""
    # Messages quote what was sent; clients and terminals are not made for megabytes of it.
    values = error.as_json()
    if len(error.message) > MOST_MESSAGE:
        values["message"] = f"{error.message[:MOST_MESSAGE]}…"
    if is_modelarts(path):
        response = _modelarts_error(values, error.status)
    else:
        response = answer({"error": values}, error.status)
    if error.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if error.status == 408:
        # The rest of the request, should it ever come, is nobody's.
        response.headers["Connection"] = "close"
    if isinstance(error, TooManyAttempts):
        response.headers["Retry-After"] = str(error.wait_s)
    return response


def is_modelarts(path: str) -> bool:
    """Whether a path is one of ModelArts' API."""
    return path.startswith(("/v1/", "/v2/"))


# What the vendor's gateway and service say, where scripts look for it; all else is told apart by the status.
_VENDOR_CODES = {
    NotSignedIn.code: "APIGW.0301",
    PathNotFound.code: "APIGW.0101",
    JobNotFound.code: "ModelArts.0102",
    JobEnded.code: "ModelArts.6357",
}
_VENDOR_WORDS = {NotSignedIn.code: "Incorrect IAM authentication information: "}


def _modelarts_error(values: dict[str, str | None], status: int) -> Response:
    # Its clients know 400 for all that is wrong with what they sent.
    status = 400 if status == BadInput.status else status
    words = "; hint: ".join(filter(None, (values["message"], values["hint"])))
    code = str(values["code"])
    body = {
        "is_success": False,
        "error_code": _VENDOR_CODES.get(code, f"ModelArts.{status:04d}"),
        "error_msg": _VENDOR_WORDS.get(code, "") + words,
    }
    return answer(body, status)


async def read_spec(request: Request) -> JobSpec:
    """The job in the body; errors name its fields."""
    body = await request.body()
    if len(body) > MOST_SPEC_BYTES:
        # Thousands of them are kept for as long as the jobs are.
        raise too_large(MOST_SPEC_BYTES)
    try:
        data = from_json(body)
    except ValueError as error:
        raise BadInput(f"the body is not JSON: {error}") from error
    spec = validate_spec(data, source="job")
    if isinstance(spec.code, str) and not spec.code.startswith("hub://"):
        raise BadInput(
            "job: code: a folder cannot be sent as a path",
            hint="give an uploaded archive, a git repository or a workdir; `jumar run` uploads folders",
        )
    return spec


def invalid_request(error: RequestValidationError) -> JumarError:
    """What is wrong with a path, a query or a small body, field by field."""
    return BadInput("\n".join(_words(detail) for detail in error.errors()))


def _words(detail: Any) -> str:
    if detail["type"] == "json_invalid":
        return "the body is not JSON"
    place = detail["loc"]
    return f"{field_words(place[1:]) or place[0]}: {fault_words(detail)}"


def http_error(request: Request, error: HTTPException) -> JumarError:
    """Errors of the framework itself: unknown addresses, wrong methods."""
    path = request.url.path
    if error.status_code == PathNotFound.status:
        return PathNotFound(f"{path} does not exist")
    if error.status_code == WrongMethod.status:
        return WrongMethod(f"{request.method} is not allowed for {path}")
    return JumarError(f"{request.method} {path} cannot be read: {error.detail}")
