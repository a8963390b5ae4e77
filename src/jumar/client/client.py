"""`Client`: the REST API as typed calls. Reads need neither pydantic nor httpx."""

import secrets
import socket
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from jumar.client import config, events
from jumar.client.beside import BesideCalls
from jumar.client.connection import Call, Connection, decode, job_call, place_of
from jumar.client.files import FileCalls
from jumar.client.measuring import MeasuringCalls
from jumar.client.older_server import blame_age
from jumar.client.people import PeopleCalls
from jumar.client.repos import RepoCalls
from jumar.client.upkeep import UpkeepCalls
from jumar.errors import BadInput, NotFound, ServerUnreachable
from jumar.settings import load
from jumar.spec.records import (
    CardUse,
    ImageRecord,
    JobPage,
    JobRecord,
    JobSummary,
    LogFile,
    Plan,
    ServerInfo,
)
from jumar.spec.states import JobState
from jumar.spec.verdicts import Verdict

if TYPE_CHECKING:
    from jumar.client.pack import Listing, Package, Progress
    from jumar.spec.job import JobSpec

CALL_PATIENCE_S = 10.0
FOLLOW_PATIENCE_S = 120.0
_PAGE = 500
_BLOCK = 1 << 18
_UPLOAD_LIMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A folder the server has."""

    digest: str
    size: int
    listing: "Listing"


@dataclass(frozen=True, slots=True)
class WithCodeSent:
    """A spec whose code the server has."""

    values: dict[str, Any]
    left_out: tuple[str, ...] = ()
    """What of the folder was not sent, and why."""


class Client(PeopleCalls, FileCalls, BesideCalls, RepoCalls, UpkeepCalls, MeasuringCalls):
    """A server of jumar, as seen by one user."""

    def __init__(
        self,
        url: str | config.Address | None = None,
        token: str | None = None,
        *,
        patience_s: float = CALL_PATIENCE_S,
        trust: str | None = None,
    ) -> None:
        """`url`: or all that `config.find` knows of a server. `patience_s`: how long a call keeps trying a
        server that does not answer. `trust`: a certificate in PEM form, or a file of them, in place of what
        is stored or set."""
        known = isinstance(url, config.Address)
        address = url if known else config.required(load(), url, token)
        trust = address.trust if trust is None else trust
        self._connection = Connection(
            address.url, address.token, patience_s=patience_s, trust=trust
        )

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._connection.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._connection.close()

    def reach(self) -> None:
        """See that the server can be reached now, without patience."""
        self._connection.reach()

    def open_stream(self) -> tuple[socket.socket, str]:
        """A new connection to the server as bare bytes, and the token to use on it."""
        return self._connection.open_stream()

    # jobs

    def submit(
        self,
        spec: "JobSpec | Mapping[str, Any]",
        *,
        code: Path | None = None,
        on_progress: "Progress | None" = None,
        key: str | None = None,
        engine: str | None = None,
    ) -> JobRecord:
        """Queue a job. A folder, given as `code` or in the spec, is packed and sent first.

        A cut connection is no danger: the same submit sent again is the same job. With a `key` of
        your own that is also true of another call, whatever became of the first. `engine`: where it runs,
        of a server that has several."""
        return self._submit(self.with_code_sent(spec, code, on_progress).values, key, engine)

    def _submit(self, values: dict[str, Any], key: str | None, engine: str | None) -> JobRecord:
        headers = {"Idempotency-Key": key or secrets.token_hex(16)}
        call = Call(
            method="POST",
            path="/jobs",
            query=_where(engine),
            body=values,
            headers=headers,
            repeatable=True,
        )
        return decode(JobRecord, self._answer_to_spec(call, values))

    def plan(
        self,
        spec: "JobSpec | Mapping[str, Any]",
        *,
        code: Path | None = None,
        on_progress: "Progress | None" = None,
        engine: str | None = None,
    ) -> Plan:
        """What the server would do with the job. A folder is sent, so that it can be looked at."""
        return self._plan(self.with_code_sent(spec, code, on_progress).values, engine)

    def _plan(self, values: dict[str, Any], engine: str | None) -> Plan:
        call = Call(
            method="POST", path="/plans", query=_where(engine), body=values, repeatable=True
        )
        return decode(Plan, self._answer_to_spec(call, values))

    def _answer_to_spec(self, call: Call, values: Mapping[str, Any]) -> Any:
        try:
            return self._json(call)
        except BadInput as error:
            blame_age(error, values)
            raise

    def get(self, job: str) -> JobRecord:
        """One job, by id, by the start of its id, or by name (the newest of your own of that name);
        `ann/train` is the one of ann."""
        return decode(JobRecord, self._json(job_call("GET", job, repeatable=True)))

    def page(
        self,
        *,
        states: Collection[JobState] = (),
        user: str | None = None,
        text: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> JobPage:
        """Some rows of the list, newest first."""
        query = {
            "state": [str(state) for state in states],
            "user": user,
            "text": text,
            "before": before,
            "limit": limit,
        }
        call = Call(method="GET", path="/jobs", query=query, repeatable=True)
        return decode(JobPage, self._json(call))

    def jobs(
        self,
        *,
        states: Collection[JobState] = (),
        user: str | None = None,
        text: str | None = None,
    ) -> Iterator[JobSummary]:
        """All rows of the list, newest first, a page at a time."""
        before = None
        while True:
            page = self.page(states=states, user=user, text=text, before=before, limit=_PAGE)
            yield from page.jobs
            before = page.next_before
            if before is None:
                return

    def stop(self, job: str, *, why: str | None = None) -> JobRecord:
        """Ask a job to end; asking twice is once. `why` is kept with the job."""
        call = job_call("POST", job, "/stop", query={"why": why}, repeatable=True)
        return decode(JobRecord, self._json(call))

    def upload_results(self, job: str) -> JobRecord:
        """Have the results sent that an ended job left on its machine; `staging` tells how far."""
        return decode(JobRecord, self._json(job_call("POST", job, "/upload", repeatable=True)))

    def remove(self, job: str) -> None:
        """Remove an ended job with its folder; Conflict while it is not over or not uploaded."""
        self._json(job_call("DELETE", job))

    def rerun(self, job: str) -> JobRecord:
        """Queue a new job with the same spec; sent again after a cut, it is the same new job."""
        headers = {"Idempotency-Key": secrets.token_hex(16)}
        call = job_call("POST", job, "/rerun", headers=headers, repeatable=True)
        return decode(JobRecord, self._json(call))

    def wait(self, job: str, timeout_s: float | None = None) -> JobRecord:
        """The job once it is over; TimeoutError when that takes longer than `timeout_s`."""
        give_up_at = None if timeout_s is None else time.monotonic() + timeout_s
        pause_s = 0.02
        while True:
            record = self.get(job)
            if record.state.is_final:
                return record
            # A newer job of the same name is not the one that was waited for.
            job = record.id
            if give_up_at is not None and time.monotonic() >= give_up_at:
                raise TimeoutError(f"job {job} is {record.state} after {timeout_s:g} s")
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 1.0)

    # logs

    def log_files(self, job: str) -> tuple[LogFile, ...]:
        """The logs a job has, one per rank."""
        call = job_call("GET", job, "/logs", repeatable=True)
        return decode(tuple[LogFile, ...], self._json(call))

    def why(self, job: str) -> Verdict:
        """Why a job failed, by its logs."""
        return decode(Verdict, self._json(job_call("GET", job, "/why", repeatable=True)))

    def logs(
        self, job: str, *, tail: int | None = None, node: int = 0, rank: int = 0
    ) -> Iterator[bytes]:
        """The log of one rank as it is now, in blocks; with `tail` its last lines."""
        call = job_call("GET", job, f"/logs/{node}/{rank}", query={"tail": tail}, repeatable=True)
        with self._connection.stream(call) as response:
            try:
                while block := response.read1(_BLOCK):
                    yield block
            except OSError as error:
                raise ServerUnreachable(f"the log of {job} broke off: {error}") from error
            # A connection that is closed early looks like the end; what is missing tells.
            if response.length:
                raise ServerUnreachable(
                    f"the log of {job} broke off: {response.length} bytes are missing"
                )

    def follow(
        self,
        job: str,
        *,
        tail: int | None = None,
        offset: int = 0,
        node: int = 0,
        rank: int = 0,
        patience_s: float = FOLLOW_PATIENCE_S,
    ) -> Iterator[events.FollowEvent]:
        """The log of one rank as it comes, until the job is over.

        A server that goes away is waited for, `patience_s` at most."""
        path, user = place_of(job)
        return events.follow(
            self._connection,
            f"{path}/logs/{node}/{rank}/stream",
            user=user,
            tail=tail,
            offset=offset,
            patience_s=patience_s,
        )

    # code

    def with_code_sent(
        self,
        spec: "JobSpec | Mapping[str, Any]",
        code: Path | None = None,
        on_progress: "Progress | None" = None,
    ) -> "WithCodeSent":
        """The spec, with a folder of this machine sent and replaced by its archive."""
        values = dict(spec) if isinstance(spec, Mapping) else spec.dump()
        given = values.get("code")
        if code is None and isinstance(given, str) and not given.startswith("hub://"):
            code = Path(given).expanduser()
        if code is None and isinstance(given, Mapping):
            values["code"] = _with_commit(cast("Mapping[str, Any]", given))
        if code is None:
            return WithCodeSent(values)
        uploaded = self.upload(code, on_progress=on_progress)
        values["code"] = {"archive": uploaded.digest}
        return WithCodeSent(values, uploaded.listing.left_out)

    def upload(self, folder: Path, *, on_progress: "Progress | None" = None) -> Uploaded:
        """Send a folder unless the server has it."""
        from jumar.client.pack import pack

        package = pack(folder)
        with package.file:
            self._keep(package, on_progress)
        return Uploaded(package.digest, package.size, package.listing)

    def _has(self, path: str) -> bool:
        try:
            self._ask("HEAD", path)
        except NotFound:
            return False
        return True

    def _keep(self, package: "Package", on_progress: "Progress | None") -> None:
        path = f"/code/{package.digest}"
        if self._has(path):
            return
        call = Call(
            method="PUT",
            path=path,
            upload=_Counted(package, on_progress),
            upload_size=package.size,
            repeatable=True,
            answer_limit_s=_UPLOAD_LIMIT_S,
        )
        self._json(call)

    # the server

    def server(self) -> ServerInfo:
        """Which server this is."""
        return decode(ServerInfo, self._ask("GET", "/server"))

    def images(self) -> tuple[ImageRecord, ...]:
        """The images that jobs may name."""
        return decode(tuple[ImageRecord, ...], self._ask("GET", "/images"))

    def cards(self) -> tuple[CardUse, ...]:
        """All cards and who holds them."""
        return decode(tuple[CardUse, ...], self._ask("GET", "/cards"))

    def _json(self, call: Call) -> Any:
        return self._connection.json(call)


class _Counted:
    """A package as it is read, telling how far it is."""

    def __init__(self, package: "Package", on_progress: "Progress | None") -> None:
        self._package = package
        self._on_progress = on_progress

    def seek(self, offset: int) -> int:
        return self._package.file.seek(offset)

    def read(self, size: int = -1) -> bytes:
        block = self._package.file.read(size)
        if self._on_progress is not None:
            self._on_progress(self._package.file.tell(), self._package.size)
        return block


def _with_commit(code: Mapping[str, Any]) -> Mapping[str, Any]:
    """Code from git with the commit that its branch or tag is now."""
    if not (code.get("git") and code.get("ref")) or code.get("commit"):
        return code
    from jumar.client.git_refs import commit_of

    return {"git": code["git"], "commit": commit_of(str(code["git"]), str(code["ref"]))}


def _where(engine: str | None) -> "dict[str, str] | None":
    return None if engine is None else {"engine": engine}
