"""Commands in running jobs over REST: one answer that streams what the command says, and requests that
carry what is said to it. Frames as in `launch/processes/frames.py`."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from jumar.errors import BadInput, NotAllowed, NotSignedIn
from jumar.launch.processes import frames
from jumar.launch.processes.frames import BadFrame, Reader, json_frame
from jumar.server.edge.auth import Member, OpenedJob, check_still_allowed, right_of
from jumar.server.edge.exchange import Body, too_large
from jumar.server.edge.sessions import Session
from jumar.server.edge.site import Site, SiteOf
from jumar.spec.states import JobState

router = APIRouter(tags=["exec"], prefix="/jobs/{job}/exec")
RIGHTS_S = 1.0
"""How often it is asked whether the user may still do this."""
SILENCE_LIMIT_S = 120.0
"""Without anything from the client, which says so when it has nothing else to say."""
_BLOCK = 1 << 16
SessionId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
MEDIA_TYPE = "application/vnd.jumar.frames"


class Terminal(Body):
    """Of whoever types."""

    rows: int = Field(ge=1, le=9999)
    columns: int = Field(ge=1, le=9999)
    term: str = Field(default="xterm", pattern=r"^[A-Za-z0-9._+-]{1,64}$")


class Command(Body):
    """What to run in a job."""

    command: list[str] | None = Field(default=None, description="None: the user's shell")
    terminal: Terminal | None = Field(default=None, description="None: three plain streams")
    holds: bool = Field(default=False, description="the job waits for this shell, and ends with it")


@router.post(
    "",
    response_class=StreamingResponse,
    summary="Run a command in a running job",
    responses={
        200: {
            "content": {MEDIA_TYPE: {}},
            "headers": {"X-Session": {"description": "where to send input to"}},
        }
    },
)
async def run_command(
    request: Request, opened: OpenedJob, site: SiteOf, user: Member, wanted: Command
) -> Response:
    """Runs as one more process of the job: its variables, folder and cards. The answer streams frames
    (a letter, four bytes of length, content): `o` output, `x` errors, `t` input taken, `k` still there, and
    at the end `q` with the exit code or signal, or `f` with a message. When the answer is no longer
    read, the command ends."""
    site.sessions.check_room(user.name)
    said = json_frame(frames.REQUEST, wanted.model_dump())
    if len(said) > frames.MOST_BYTES:
        raise too_large(frames.MOST_BYTES)
    stream = await run_in_threadpool(site.service.start_beside, opened.id)
    stream.setblocking(False)
    try:
        reader, writer = await asyncio.open_connection(sock=stream)
    except BaseException:
        stream.close()
        raise
    session = Session(user.name, opened.id, reader, writer)
    try:
        await session.send(said)
    except BaseException:
        session.close()
        raise
    check = partial(check_still_allowed, site, right_of(request), opened.user)
    return _SessionAnswer(site, session, check)


class _SessionAnswer(StreamingResponse):
    """The session is there for as long as it is answered, even if nobody takes a byte of it."""

    def __init__(self, site: Site, session: Session, check_rights: Callable[[], None]) -> None:
        super().__init__(
            _relayed(site, session, check_rights),
            media_type=MEDIA_TYPE,
            # Proxies that collect an answer before they pass it on would make it late.
            headers={"X-Session": session.id, "X-Accel-Buffering": "no"},
        )
        self._site, self._session = site, session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._site.sessions.known(self._session):
            await super().__call__(scope, receive, send)


@router.post("/{session}", status_code=204, summary="Send input to a command in a job")
async def send_input(
    request: Request, opened: OpenedJob, site: SiteOf, user: Member, session: SessionId
) -> Response:
    """Whole frames: `i` input, `e` its end, `w` the terminal's size, `s` a signal, `k` still there. Only the
    user who runs the command may send; at most 256 KiB of input before `t` says it was taken."""
    found = site.sessions.find(session, user=user.name, job_id=opened.id)
    body, reader = await request.body(), Reader()
    try:
        kinds = {kind for kind, _ in reader.feed(body)}
    except BadFrame as error:
        raise BadInput(f"the body is not a list of frames: {error}") from error
    if not reader.is_between or not kinds <= frames.FROM_CLIENT:
        raise BadInput("the body is not a list of whole frames that a client may send")
    await found.send(body)
    return Response(status_code=204)


def _why_it_broke(site: Site, session: Session) -> bytes:
    """After an exit code nobody listens any more; before it, the command's host was killed."""
    is_running = site.service.glance(session.job_id).state is JobState.RUNNING
    message = "the command was killed" if is_running else "the job has ended"
    return json_frame(frames.REFUSED, {"message": message})


async def _relayed(
    site: Site, session: Session, check_rights: Callable[[], None]
) -> AsyncIterator[bytes]:
    """What the command says, frame by frame, for as long as somebody may hear it."""
    reader, checked_at = Reader(), time.monotonic()
    # At once: the client need not wait for the first word to know that it runs.
    yield frames.frame(frames.ALIVE)
    while not site.closing.is_set():
        try:
            async with asyncio.timeout(RIGHTS_S):
                data = await session.reader.read(_BLOCK)
        except TimeoutError:
            data = None
        except ConnectionError:
            return
        if data == b"":
            yield await run_in_threadpool(_why_it_broke, site, session)
            return
        try:
            said = b"".join(frames.frame(*one) for one in reader.feed(data or b""))
        except BadFrame:
            # The host is a process of the job's user, who may have tampered with it.
            yield json_frame(frames.REFUSED, {"message": "the command was tampered with"})
            return
        if said:
            yield said
        now = time.monotonic()
        if now - session.heard_at > SILENCE_LIMIT_S:
            return
        if now - checked_at > RIGHTS_S:
            checked_at = now
            try:
                await run_in_threadpool(check_rights)
            except (NotAllowed, NotSignedIn) as error:
                yield json_frame(frames.REFUSED, {"message": error.message})
                return
    yield json_frame(frames.REFUSED, {"message": "the server is being stopped"})
