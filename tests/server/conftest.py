"""A whole server in this process: real sockets, real SQLite, an engine that runs nothing."""

import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.store.conftest import moto_credential as moto_credential
from tests.waiting import wait_for

from jumar.database.access import Database, open_database
from jumar.engine.memory import MemoryEngine
from jumar.errors import CODES
from jumar.hub.hub import Hub
from jumar.jobs.service import JobService
from jumar.notify.notices import Notices
from jumar.notify.sending import Sender
from jumar.notify.webhooks import Webhooks
from jumar.people.accounts import Accounts
from jumar.people.oidc import Oidc, OidcOptions
from jumar.server.edge.site import Site
from jumar.server.hub.git_ssh import GitChannel
from jumar.server.process.listen import listen
from jumar.server.process.serving import SiteServer
from jumar.server.proxy.endpoints import Endpoints
from jumar.server.ssh.port import SshDoor, host_key
from jumar.settings import Settings
from jumar.spec.devices import Card, DeviceKind
from jumar.spec.job import JobSpec
from jumar.spec.records import JobRecord, ServerInfo
from jumar.spec.states import AttemptState, JobState
from jumar.store.users import UserStores
from jumar.tls import client_context

LIMIT_S = 180.0


@dataclass(frozen=True)
class Answer:
    """What the server answered."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def error(self) -> str:
        error = self.json["error"]
        assert set(error) == {"code", "message", "hint"}
        assert CODES[error["code"]].status == self.status
        return error["message"]


@dataclass(frozen=True)
class Event:
    """One server-sent event."""

    name: str
    data: Any
    id: str | None = None


@dataclass
class Running:
    """A server, its parts, and what tests do with them."""

    site: Site
    server: SiteServer
    engine: MemoryEngine
    home: Path
    tokens: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def url(self) -> str:
        return self.site.info.url

    def connect(self) -> http.client.HTTPConnection:
        place = urlsplit(self.url)
        return http.client.HTTPConnection(place.hostname or "", place.port, timeout=LIMIT_S)

    def ask(
        self,
        method: str,
        path: str,
        *,
        user: str | None = "ann",
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request; `body` that is not bytes is sent as JSON."""
        sent = dict(headers or {})
        if user is not None:
            sent["Authorization"] = f"Bearer {self.token(user)}"
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        with closing(self.connect()) as connection:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())

    def api(self, method: str, path: str, **more: Any) -> Answer:
        return self.ask(method, f"/api/v1{path}", **more)

    @contextmanager
    def open(
        self, path: str, *, user: str = "ann", headers: Mapping[str, str] | None = None
    ) -> Generator[http.client.HTTPResponse]:
        """An answer that is read piece by piece."""
        sent = {**(headers or {}), "Authorization": f"Bearer {self.token(user)}"}
        with closing(self.connect()) as connection:
            connection.request("GET", path, headers=sent)
            yield connection.getresponse()

    def token(self, user: str) -> str:
        """A token of ann (member), bob (member), eve (pending) or root (administrator)."""
        return self.tokens[user]

    def submit(self, user: str = "ann", **values: Any) -> JobRecord:
        spec = JobSpec.model_validate({"name": "digits", "command": ["train"], **values})
        return self.site.service.submit(spec, user=user)

    def running_job(self, user: str = "ann", **values: Any) -> JobRecord:
        record = self.submit(user, **values)
        self._wait_for_start(record.id)
        self.hint(record.id)
        return self.wait(record.id, JobState.RUNNING)

    def finish(
        self, job_id: str, state: AttemptState = AttemptState.SUCCEEDED, **more: Any
    ) -> JobRecord:
        self._wait_for_start(job_id)
        self.engine.finish(job_id, state, **more)
        self.hint(job_id)
        return self.wait(job_id, JobState(state))

    def _wait_for_start(self, job_id: str) -> None:
        wait_for(lambda: any(job == job_id for job, _ in self.engine.started()))

    def hint(self, job_id: str) -> None:
        """Say that something happened, as a supervisor does."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(
                json.dumps({"job_id": job_id}).encode(), os.fspath(self.home / "notify.sock")
            )

    def wait(self, job_id: str, state: JobState) -> JobRecord:
        until = time.monotonic() + LIMIT_S
        while (record := self.site.service.get(job_id)).state is not state:
            assert time.monotonic() < until, record
            time.sleep(0.02)
        return record

    def log_path(self, job_id: str, rank: int = 0) -> Path:
        path = self.home / "jobs" / job_id / "logs" / "node0" / f"rank{rank}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def events(answer: http.client.HTTPResponse) -> Iterator[Event]:
    """The events of a stream, until it ends."""
    fields: dict[str, str] = {}
    for raw in answer:
        line = raw.decode().rstrip("\n")
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "event" in fields:
            yield Event(fields["event"], json.loads(fields["data"]), fields.get("id"))
            fields = {}
        else:
            fields = {}


@pytest.fixture
def running(tmp_path: Path) -> Generator[Running]:
    """A server with four users and eight simulated cards."""
    with serving(tmp_path) as server:
        yield server


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """The same for all tests of a file; for tests that do not count jobs."""
    with serving(tmp_path_factory.mktemp("shared")) as server:
        yield server


@contextmanager
def serving(
    folder: Path,
    *,
    obedient: bool = True,
    database_url: str = "",
    tls_cert: str = "",
    endpoints: Endpoints | None = None,
    has_ssh: bool = False,
    oidc_issuer: str = "",
    public_url: str = "",
) -> Generator[Running]:
    """A server whose jobs, unless obedient, take no notice of being stopped."""
    home = folder / "home"
    home.mkdir()
    engine = MemoryEngine(
        (
            *(Card(DeviceKind.SIM, number) for number in range(8)),
            *(Card(DeviceKind.CPU, number) for number in range(64)),
        ),
        obedient=obedient,
    )
    listener = listen(Settings(home=home, tls_cert=tls_cert))
    database = open_database(database_url or f"sqlite:///{home / 'jumar.db'}")
    accounts = Accounts(database)
    notices = Notices(
        Webhooks(home), Sender(gather_s=0.0, pause_s=0.0), lambda: {"root"}, listener.url
    )
    service = JobService(
        database=database,
        engine=engine,
        home=home,
        on_news=lambda job: notices.job_news(job.summary()),
    )
    notices.sender.start()
    service.start()
    hub = Hub(database, home)
    hub.prepare()
    opened = socket.create_server(("127.0.0.1", 0)) if has_ssh else None
    ssh = None if opened is None else SshDoor(host_key(home), opened, GitChannel)
    site = Site(
        service=service,
        accounts=accounts,
        stores=UserStores(home, owner="root"),
        notices=notices,
        hub=hub,
        loopback_only=listener.loopback_only,
        oidc=_oidc(oidc_issuer, accounts, database),
        endpoints=endpoints or Endpoints(),
        public_url=public_url,
        info=ServerInfo(
            name="test",
            version="0",
            home=str(home),
            url=listener.url,
            started_at=time.time(),
            engine=engine.name,
            ssh_port=0 if ssh is None else ssh.socket.getsockname()[1],
        ),
    )
    server = SiteServer(site, listener, ssh=ssh)
    thread = threading.Thread(target=server.run, args=([],))
    thread.start()
    try:
        wait_for(lambda: server.started)
        yield Running(site, server, engine, home, _people(accounts))
    finally:
        server.end()
        thread.join(timeout=LIMIT_S)
        listener.socket.close()
        service.close()
        notices.sender.close()
        assert not thread.is_alive()


def _oidc(issuer: str, accounts: Accounts, database: Database) -> Oidc | None:
    if not issuer:
        return None
    options = OidcOptions(
        issuer=issuer, client_id="jumar", client_secret="a secret", label="Lab login"
    )
    return Oidc(options, database, accounts.tokens, client_context(""))


def _people(accounts: Accounts) -> dict[str, str]:
    # Without passwords: hashing those takes long, and only the tests of signing in need them.
    tokens = {name: accounts.bootstrap(name) for name in ("root", "ann", "bob", "eve")}
    for name, role in {"ann": "member", "bob": "member", "eve": "pending"}.items():
        accounts.set_role(name, role)
    return tokens
