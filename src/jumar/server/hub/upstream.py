"""Names that do not exist here, asked of the site's upstream: for people who are signed in, and for jobs."""

from typing import Any
from urllib.parse import quote

from jumar.errors import JumarError, Unavailable
from jumar.hub.names import PLURALS, Kind
from jumar.hub.reading import EntryNotFound
from jumar.hub.repositories import RepoNotFound
from jumar.hub.upstream import Keeping, Told, Upstream, hang_up, next_part
from jumar.server.hub.call import (
    BLOCK_BYTES,
    Call,
    ascii_line,
    in_far_thread,
    in_thread,
    split_kind,
)
from jumar.server.hub.sending import patiently, send_file

_READS = ("revision", "tree", "refs", "commits", "paths-info")


async def serve(call: Call, missing: JumarError) -> None:
    """Answer from there; `missing` where it is not a question for there."""
    upstream = call.hub.upstream
    found = _asked(call)
    if upstream is None or found is None:
        raise missing
    if call.user is None:
        await call.sign_in()
    if call.user is None:
        # Strangers do not read with the site's token.
        raise missing
    kind, owner, rest = found
    if owner and await in_thread(call.hub.repositories.has_owner, owner):
        # Whoever is here is not somebody else there.
        raise missing
    match rest:
        case ["resolve", revision, *_]:
            await _file(call, upstream, _path(kind, call), revision)
        case _:
            await _api(call, upstream, rest[1] if len(rest) > 1 else "")


def _asked(call: Call) -> tuple[Kind, str, list[str]] | None:
    """Kind, owner (empty for names without one) and what is asked, of a call that only reads."""
    if call.door != "hf":
        return None
    match (call.method, call.parts):
        case ("GET", ["api", kinds, *rest]) if kinds in PLURALS:
            owner, more = _split(rest, _READS)
            return (PLURALS[kinds], owner, more) if not more or more[0] in _READS else None
        case ("POST", ["api", kinds, *rest]) if kinds in PLURALS:
            owner, more = _split(rest, _READS)
            return (PLURALS[kinds], owner, more) if more[:1] == ["paths-info"] else None
        case ("GET" | "HEAD", parts):
            kind, rest = split_kind(parts)
            owner, more = _split(rest, ("resolve",))
            return (kind, owner, more) if more[:1] == ["resolve"] and len(more) > 2 else None
        case _:
            return None


def _split(parts: list[str], verbs: tuple[str, ...]) -> tuple[str, list[str]]:
    """Owner and the rest after the name; old names there have no owner."""
    if len(parts) == 1 or (len(parts) > 1 and parts[1] in verbs):
        return "", parts[1:]
    return (parts[0], parts[2:]) if parts else ("", [])


def _path(kind: Kind, call: Call) -> str:
    parts = call.parts
    if kind == "model" and parts[0] == "models":
        # There models have no prefix.
        parts = parts[1:]
    return "".join(f"/{quote(part, safe='')}" for part in parts)


async def _api(call: Call, upstream: Upstream, revision: str) -> None:
    query = call.scope["query_string"].decode("latin-1")
    path = "".join(f"/{quote(part, safe='')}" for part in call.parts)
    path = f"{path}?{query}" if query else path
    body = await call.body() if call.method == "POST" else None
    media = call.headers.get("content-type", "") if body is not None else ""

    def ask() -> Told:
        return upstream.answer(path, body=body, media=media, commit=revision)

    told = await in_far_thread(ask)
    _check(told, path)
    headers = {name: told.headers[name] for name in ("x-repo-commit", "x-total-count", "link") if name in told.headers}  # fmt: skip
    if "link" in headers:
        headers["link"] = headers["link"].replace(upstream.url, call.base)
    await call.answer(200, told.body.encode(), **_words(headers))


async def _file(call: Call, upstream: Upstream, path: str, revision: str) -> None:
    told = await in_far_thread(upstream.head, path, revision)
    _check(told, path)
    headers = {"Content-Type": "application/octet-stream"}
    headers |= {"ETag": f'"{told.etag}"'} if told.etag else {}
    for name in ("x-repo-commit", "x-linked-etag", "x-linked-size"):
        if name in told.headers:
            headers[name] = told.headers[name]
    file = await in_thread(upstream.kept, told)
    if file is not None and told.size is not None:
        with file:
            await send_file(call, file, told.size, headers)
        return
    if upstream.is_distrusted(told):
        raise _not_what_it_said()
    if call.method == "HEAD":
        headers["Accept-Ranges"] = "bytes"
        headers |= {} if told.size is None else {"Content-Length": str(told.size)}
        await call.start(200, headers)
        await call.send({"type": "http.response.body", "body": b""})
        return
    await _pass_on(call, upstream, path, told, headers)


async def _pass_on(
    call: Call, upstream: Upstream, path: str, told: Told, headers: dict[str, str]
) -> None:
    """From there to the client, and into what is kept unless only a part is asked for."""
    span = call.headers.get("range", "")
    got = await in_far_thread(lambda: upstream.open("GET", path, span=span))
    keeping = None if span else await in_thread(upstream.keeping, told)
    try:
        _check(Told(got.status, {}), path)
        for name in ("Content-Length", "Content-Range"):
            if got.headers.get(name):
                headers[name] = got.headers[name]
        await call.start(got.status, {**headers, "Accept-Ranges": "bytes"})
        async with call.while_there():
            await _relay(call, upstream, got, told, keeping)
    finally:
        hang_up(got)
        await in_thread(got.close)
        if keeping is not None:
            keeping.close()


async def _relay(
    call: Call, upstream: Upstream, got: Any, told: Told, keeping: Keeping | None
) -> None:
    """Block by block; the last one only once all are known to be right, so that what is wrong is never whole."""
    held = b""
    is_right = True
    while is_right and (block := await in_far_thread(next_part, got, BLOCK_BYTES)):
        if keeping is not None:
            is_right = await in_thread(keeping.write, block)
        await patiently(call, held, more=True)
        held = block
    if keeping is not None and not (is_right and await in_thread(keeping.keep)):
        upstream.distrust(told)
        raise _not_what_it_said()
    await patiently(call, held, more=False)


def _not_what_it_said() -> Unavailable:
    return Unavailable(
        "the other hub sent something other than it announced", hint="try again in a few minutes"
    )


def _check(told: Told, path: str) -> None:
    """What the other hub refuses is refused here in the same terms."""
    if told.status < 400:
        return
    code = told.headers.get("x-error-code", "")
    words = ascii_line(told.headers.get("x-error-message", "")) or "it does not exist there"
    if code == "EntryNotFound":
        raise EntryNotFound(path, told.headers.get("x-repo-commit", ""))
    raise RepoNotFound(f"not on this server, and on the upstream hub: {words}")


def _words(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("-", "_"): value for name, value in headers.items()}
