"""The users of a self-test, and clients that keep submitting and stopping whatever happens."""

import random
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from jumar.client import Client
from jumar.errors import Conflict, JumarError
from jumar.selftest.machine import Machine
from jumar.selftest.plan import Kind, PlannedJob

T = TypeVar("T")
_PAUSE_S = 0.3
_CALL_PATIENCE_S = 5.0


class GaveUp(Exception):
    """Time ran out."""


@dataclass
class Outcome:
    """What the clients were told; the threads share it."""

    accepted: dict[str, str] = field(default_factory=dict[str, str])
    refused: dict[str, str] = field(default_factory=dict[str, str])
    errors: Counter[str] = field(default_factory=Counter[str])
    """Errors by kind; each call was retried."""


def let_in(machine: Machine, count: int, deadline: float) -> tuple[str, ...]:
    """Register users, approve them and sign them in; returns their tokens."""
    tokens: list[str] = []
    with machine.admin() as admin:
        for number in range(count):
            name, password = f"user{number:02}", secrets.token_hex(8)
            _patiently(lambda n=name, p=password: _register(admin, n, p), deadline, Counter())
            admin.set_role(name, "member")
            tokens.append(admin.sign_in(name, password))
    return tuple(tokens)


def _register(client: Client, name: str, password: str) -> None:
    try:
        client.register(name, password)
    except Conflict:
        return  # an earlier attempt got through


class Crowd:
    """Several clients at a time, each with its part of the jobs, as one of the users."""

    def __init__(
        self,
        machine: Machine,
        jobs: Sequence[PlannedJob],
        tokens: Sequence[str],
        *,
        clients: int,
        seed: int,
        deadline: float,
    ) -> None:
        self.outcome = Outcome()
        self._machine = machine
        self._deadline = deadline
        self._left = threading.Event()
        self._gate = threading.Condition()
        self._opened = 0.0
        self._total = len(jobs)
        with machine.admin() as admin:
            self._url = admin.url
        self._threads = [
            threading.Thread(
                target=self._client,
                args=(
                    list(enumerate(jobs))[number::clients],
                    tokens[number % len(tokens)],
                    seed + number,
                ),
                daemon=True,
            )
            for number in range(clients)
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def open(self, share: float) -> None:
        """Let this share of the jobs be submitted, so that every fault meets running ones."""
        with self._gate:
            self._opened = max(self._opened, share)
            self._gate.notify_all()

    def leave(self) -> None:
        """Stop all clients; returns once each has had its current answer."""
        self._left.set()
        self.open(1.0)
        for thread in self._threads:
            thread.join()

    @property
    def is_done(self) -> bool:
        """Whether every client has had all its answers."""
        return not any(thread.is_alive() for thread in self._threads)

    def _client(self, jobs: Sequence[tuple[int, PlannedJob]], token: str, seed: int) -> None:
        chance = random.Random(seed)
        to_stop: list[PlannedJob] = []
        with Client(self._url, token, patience_s=_CALL_PATIENCE_S) as client:
            for number, job in jobs:
                with self._gate:
                    self._gate.wait_for(lambda n=number: n < self._opened * self._total)
                self._submit(client, job)
                if job.kind is Kind.STOPPED:
                    to_stop.append(job)
                if to_stop and chance.random() < 0.3:
                    self._stop(client, to_stop.pop(0))
            for job in to_stop:
                self._stop(client, job)

    def _submit(self, client: Client, job: PlannedJob) -> None:
        request = job.request(self._machine.program, self._machine.job_environment)
        try:
            # The name is the key: however often it is sent, it is one job.
            record = self._ask(lambda: client.submit(request, key=job.name))
        except GaveUp as error:
            self.outcome.refused[job.name] = f"not accepted: {error}"
        else:
            self.outcome.accepted[job.name] = record.id

    def _stop(self, client: Client, job: PlannedJob) -> None:
        job_id = self.outcome.accepted.get(job.name)
        if job_id is None:
            return

        def stop() -> None:
            try:
                client.stop(job_id)
            except Conflict:
                # Over already: it was lost with its supervisor, or asked to stop before.
                if not client.get(job_id).state.is_final:
                    raise

        try:
            self._ask(stop)
        except GaveUp as error:
            self.outcome.refused[job.name] = f"could not be stopped: {error}"

    def _ask(self, call: Callable[[], T]) -> T:
        return _patiently(call, self._deadline, self.outcome.errors, self._left)


def _patiently(
    call: Callable[[], T],
    deadline: float,
    errors: Counter[str],
    left: threading.Event | None = None,
) -> T:
    """Retry until it works. A server may be down, full or busy, but not forever."""
    while True:
        try:
            return call()
        except JumarError as error:
            errors[f"{type(error).__name__}: {error.message}"[:160]] += 1
            if time.monotonic() > deadline or (left is not None and left.is_set()):
                raise GaveUp(error.message) from error
        time.sleep(_PAUSE_S)
