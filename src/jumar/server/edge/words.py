"""What no text in a request may hold, whatever field it is for: checked before any route is asked.

The address and the query are checked as they are decoded, small bodies as JSON or as a form. What
is not JSON at all is left to the route, which says so."""

import json
from urllib.parse import parse_qsl

from starlette.datastructures import Headers

from jumar.errors import BadInput, WrongMediaType
from jumar.spec.text import flaw_of, flaws

_FORM = "application/x-www-form-urlencoded"


def check_address(path: str, query: bytes) -> None:
    """Refuse a path or a query that holds what cannot be kept."""
    _check("path", path)
    if b"%" in query or not query.isascii():
        _check_pairs(query)


def check_body(body: bytes, headers: Headers) -> None:
    """Refuse a body with such text, naming the field."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind.startswith("multipart/"):
        # Its parts may come in any encoding that Python knows; our forms do not use it.
        raise WrongMediaType("multipart forms are not accepted", hint=f"send JSON or {_FORM}")
    if kind == _FORM:
        _check_pairs(body)
        return
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return
    found = [f"{'.'.join(map(str, place)) or 'body'}: {words}" for place, words in flaws(data)]
    if found:
        raise BadInput("\n".join(found))


def _check_pairs(encoded: bytes) -> None:
    pairs = parse_qsl(encoded.decode("latin-1"), keep_blank_values=True)
    for name, value in pairs:
        _check("name of a field", name)
        _check(name, value)


def _check(field: str, text: str) -> None:
    words = flaw_of(text)
    if words is not None:
        raise BadInput(f"{field}: {words}")
