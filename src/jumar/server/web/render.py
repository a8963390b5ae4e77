"""Templates to answers: the one place where pages are put together."""

import hashlib
import shlex
import time
from collections.abc import Mapping
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlencode

from fastapi import Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import RedirectResponse, Response

from jumar.errors import (
    DatabaseAway,
    DatabaseLost,
    JumarError,
    NotAllowed,
    NotFound,
    NotSignedIn,
)
from jumar.server.edge.auth import may_open, user_or_none
from jumar.server.edge.site import site_of
from jumar.server.web import times
from jumar.server.web.i18n import COOKIE, LANGUAGES, choose
from jumar.spec.amounts import bytes_text
from jumar.spec.devices import card_names
from jumar.spec.people import UserRecord
from jumar.why.knowledge import texts
from jumar.words.reasons import (
    catalogue,
    drain_why,
    ended_name,
    reason,
    recovery_sentence,
    state_name,
    value_name,
    waiting_sentence,
)
from jumar.words.sentences import spoken

STATIC = Path(str(files("jumar.server.web").joinpath("static")))
_YEAR_S = 365 * 24 * 3600


def render(
    request: Request,
    template: str,
    values: Mapping[str, object],
    *,
    user: UserRecord | None = None,
    status: int = 200,
) -> Response:
    """A page in the visitor's language."""
    t = choose(request)
    now = time.time()
    html = (
        _templates()
        .get_template(template)
        .render(
            t=t,
            user=user,
            info=site_of(request).info,
            now=now,
            language_link=_language_link(request),
            moment=partial(times.moment, now=now, t=t),
            elapsed=partial(times.elapsed, now=now, t=t),
            span=partial(times.span, t=t),
            reason=partial(reason, language=t.language),
            drain_why=partial(drain_why, language=t.language),
            recovered=partial(recovery_sentence, language=t.language),
            whose=texts(t.language)["whose"],
            alert_words=catalogue(t.language)["alert"],
            waiting_sentence=partial(waiting_sentence, language=t.language),
            state_name=partial(_state_name, language=t.language),
            ended_name=partial(_ended_name, language=t.language),
            field_name=partial(_field_name, language=t.language),
            spec_value=partial(value_name, language=t.language),
            spoken=partial(spoken, language=t.language),
            card_names=card_names,
            **values,
        )
    )
    response = Response(html, status, media_type="text/html; charset=utf-8")
    response.headers["Vary"] = "HX-Request, Cookie, Accept-Language"
    if request.query_params.get("lang") in LANGUAGES:
        response.set_cookie(COOKIE, t.language, max_age=_YEAR_S, samesite="lax", httponly=True)
    return response


def coded(text: str) -> Markup:
    """Words in backticks as code, as our sentences for the terminal have them."""
    parts = [escape(part) for part in text.split("`")]
    if len(parts) % 2 == 0:
        return escape(text)
    marked = [f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts)]
    return Markup("".join(marked))  # every part is escaped


def _state_name(state: str, language: str) -> str:
    """As a label of its own: `Timed out`."""
    return state_name(state, language).capitalize()


def _ended_name(state: str, cause: str | None, language: str) -> str:
    return ended_name(state, cause, language).capitalize()


def _field_name(name: str, language: str) -> str:
    """A field of a job file, or one value in it (`environment.SEED`), as a label."""
    field, dot, key = name.partition(".")
    labels = catalogue(language).get("terminal", {})
    return f"{labels.get(field, field)}{dot}{key}"


def go_to(request: Request, address: str) -> Response:
    """Send the browser to another page, also when htmx asked."""
    if is_fragment(request):
        return Response(status_code=204, headers={"HX-Redirect": address})
    return RedirectResponse(address, status_code=303)


def is_fragment(request: Request) -> bool:
    """Whether htmx asks for a part of a page."""
    return request.headers.get("hx-request") == "true"


async def error_page(request: Request, error: JumarError) -> Response:
    """An error as a page; strangers are sent to the login first."""
    if isinstance(error, NotSignedIn):
        here = request.url.path if request.method == "GET" else "/"
        return go_to(request, f"/login?next={quote(here)}")
    titles = {NotFound.status: "error.not_found", NotAllowed.status: "error.not_allowed"}
    title = titles.get(error.status, "error.title")
    if isinstance(error, DatabaseAway | DatabaseLost):
        title = "error.no_database"
    # Not every message is in the table of translations: what the code means is told in any case.
    explained = catalogue(choose(request).language).get("error", {}).get(error.code)
    values = {"title": title, "error": error, "explained": explained}
    try:
        user = await user_or_none(request)
    except (DatabaseAway, DatabaseLost):
        # Then nobody can be known; what went wrong is said all the same.
        user = None
    return render(request, "error.html", values, user=user, status=error.status)


def _language_link(request: Request) -> str:
    current = choose(request).language
    other = next(language for language in LANGUAGES if language != current)
    kept = [(k, v) for k, v in request.query_params.multi_items() if k not in ("lang", "seen")]
    return f"?{urlencode([*kept, ('lang', other)])}"


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("jumar.server.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters["coded"] = coded
    environment.filters["size"] = bytes_text
    environment.filters["command"] = shlex.join
    known = cast("dict[str, Any]", environment.globals)
    known.update(static=_static_address, may_open=may_open)
    return environment


@cache
def _static_address(name: str) -> str:
    # The content is in the address: browsers may keep it for ever.
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={digest}"
