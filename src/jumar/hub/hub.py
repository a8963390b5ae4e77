"""The hub as the server has it: its parts, made once."""

import hashlib
import hmac
import os
import secrets
import time
from pathlib import Path

from sqlalchemy import select

from jumar.database.access import Database
from jumar.database.tables import hub_repos
from jumar.errors import NotFound, SubmitRefused
from jumar.hub.address import parse
from jumar.hub.checkouts import Checkouts
from jumar.hub.collecting import Collector
from jumar.hub.commits import Commits
from jumar.hub.deposits import Deposits
from jumar.hub.locks import Locks
from jumar.hub.objects import Objects
from jumar.hub.quota import used_bytes
from jumar.hub.referee import write_hook
from jumar.hub.repositories import Limits, Repositories
from jumar.hub.upstream import UNUSED_S, Upstream
from jumar.hub.xet import Parked
from jumar.spec.people import UserRecord
from jumar.wholefile import whole_file

LINK_S = 3600
_JOB_TOKEN = "jmj_"
_VISIT_TOKEN = "jml_"
# What the libraries would ask of other hosts, or send to them.
_QUIET = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    "HF_UPDATE_DOWNLOAD_COUNTS": "0",
    "DISABLE_SAFETENSORS_CONVERSION": "1",
}


class Hub:
    """Repositories, their objects, and the links by which bytes are sent and fetched."""

    def __init__(
        self,
        database: Database,
        home: Path,
        limits: Limits | None = None,
        upstream: Upstream | None = None,
    ) -> None:
        self._database = database
        self.repositories = Repositories(database, home, limits)
        self.objects = Objects(database, home, self.repositories.quota)
        self.commits = Commits(self.repositories, self.objects)
        self.deposits = Deposits(self.repositories, self.objects, self.commits)
        self.checkouts = Checkouts(self.repositories, self.objects)
        self.collector = Collector(self.repositories, self.objects, self.checkouts)
        self.xet = Parked(self.repositories, self.objects)
        self.locks = Locks(database)
        self.upstream = upstream
        """The hub that is asked for what does not exist here."""
        self.hooks = home / "hub" / "hooks"
        self._secret_file = home / "hub" / "secret"
        self._secret = b""

    def tree_of(self, user: str, url: str) -> Path:
        """The tar file of what a member's job names, at a commit; SubmitRefused where that is gone, or not
        theirs to read any more."""
        address = parse(url)
        member = UserRecord(name=user, role="member", created_at=0.0)
        try:
            repo = self.repositories.readable(member, address.kind, address.owner, address.name)
            return self.checkouts.tar(repo, address.revision, address.path)
        except NotFound as error:
            raise SubmitRefused(error.message, hint=error.hint) from error

    def used_bytes(self, owner: str) -> int:
        """What the repositories of one owner take."""
        with self._database.read() as connection:
            return used_bytes(connection, owner)

    def prepare(self) -> None:
        """Make the folders, and remove what a killed server left."""
        for folder in ("repos", "lfs", "spool", "hooks", "trees"):
            (self.hooks.parent / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        write_hook(self.hooks)
        try:
            self._secret = self._secret_file.read_bytes()
        except FileNotFoundError:
            self._secret = secrets.token_bytes(32)
            with whole_file(self._secret_file, private=True, durable=True) as file:
                file.write(self._secret)
        self.repositories.sweep()
        if self.upstream is not None and self.repositories.clock.is_left_alone(UNUSED_S):
            self.upstream.collect()

    def job_variables(self, address: str, job: str) -> dict[str, str]:
        """What has the Hugging Face libraries in a job ask this hub, with the rights of `job_of`; nothing
        while the hub has nothing for them: then they are better off with the one that they know."""
        if self.upstream is None and not self._has_models_or_data():
            return {}
        token = f"{_JOB_TOKEN}{job}_{self.proof('job', job)}"
        return {"HF_ENDPOINT": f"{address}/hf", "HF_TOKEN": token, **_QUIET}

    def _has_models_or_data(self) -> bool:
        """Whether there is any repository that the Hugging Face libraries could ask for."""
        query = select(hub_repos.c.id).where(hub_repos.c.kind != "project").limit(1)
        with self._database.read() as connection:
            return connection.execute(query).first() is not None

    def job_of(self, token: str) -> str | None:
        """The job that was given this token: it reads what its user may read, while it runs."""
        job, _, proof = token.removeprefix(_JOB_TOKEN).partition("_")
        made = self.proof("job", job).encode()
        is_good = token.startswith(_JOB_TOKEN) and hmac.compare_digest(made, os.fsencode(proof))
        return job if is_good else None

    def visit_token(self, user: str, right: str, repo: str) -> str:
        """What lets a user who came by SSH send (`upload`) or fetch (`download`) the LFS objects of one
        repository for an hour; together with the user's name."""
        until = str(int(time.time()) + LINK_S)
        return f"{_VISIT_TOKEN}{until}_{right}_{self.proof(until, 'visit', right, user, repo)}"

    def visit_right(self, token: str, user: str, repo: str) -> str | None:
        """The right that `visit_token` gave this user for this repository, while it is good."""
        until, _, rest = token.removeprefix(_VISIT_TOKEN).partition("_")
        right, _, proof = rest.partition("_")
        is_token = token.startswith(_VISIT_TOKEN) and until.isascii() and until.isdigit()
        good = is_token and self.is_signed(until, proof, "visit", right, user, repo)
        return right if good else None

    def signed(self, *what: str) -> str:
        """A query that lets in who has no token, for these words and for an hour."""
        until = str(int(time.time()) + LINK_S)
        return f"until={until}&proof={self.proof(until, *what)}"

    def is_signed(self, until: str, proof: str, *what: str) -> bool:
        """Whether a query was made here for the same words and is still good."""
        good = hmac.compare_digest(
            self.proof(until, *what).encode(), proof.encode("utf-8", "replace")
        )
        return good and int(until) > time.time()

    def proof(self, *what: str) -> str:
        """What only this hub can make of these words."""
        assert self._secret, "the hub was not prepared"
        text = os.fsencode("|".join(what))
        return hmac.new(self._secret, text, hashlib.sha256).hexdigest()
