"""A platform with its S3 door open, as `jumar up --s3` starts it, and its users."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.ports import free_port

from jumar.client import Client
from jumar.inject.moxing_path.jumar_s3 import S3
from jumar.spec.records import S3Keys
from jumar.store.credentials import Credential, StoreConfig, load_config

HIDDEN = ("JUMAR_SERVER", "JUMAR_TOKEN", "JUMAR_DATABASE_URL", "JUMAR_PORT")


def run_jumar(
    home: Path, *arguments: str, rc: int | None = 0, text: str | None = None
) -> "subprocess.CompletedProcess[str]":
    """One command of a home's owner; `text`: its input."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in HIDDEN and not name.startswith("AWS_")
    }
    done = subprocess.run(
        [str(Path(sys.executable).parent / "jumar"), *arguments],
        env={**kept, "JUMAR_HOME": str(home), "JUMAR_CPU_SLOTS": "2"},
        input=text,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=180,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert rc is None or done.returncode == rc, (done.returncode, done.stdout, done.stderr)
    return done


@dataclass(frozen=True)
class Served:
    """A server that runs, its door, and the tokens of its users."""

    home: Path
    port: int
    tokens: dict[str, str]

    @property
    def url(self) -> str:
        return str(json.loads((self.home / "client.json").read_text())["url"])

    def keys(self, user: str, *, renew: bool = False) -> S3Keys:
        with Client(self.url, self.tokens[user]) as client:
            return client.s3_keys(renew=renew)

    def credential(self, user: str) -> Credential:
        keys = self.keys(user)
        return Credential(keys.endpoint, access_key=keys.access_key, secret_key=keys.secret_key)

    def s3(self, user: str) -> S3:
        """A client with the user's keys; nobody's for an empty name."""
        credential = self.credential(user) if user else Credential(f"http://127.0.0.1:{self.port}")
        return S3(credential.wire())

    def config(self) -> StoreConfig:
        return load_config(self.home, {})


@contextmanager
def served(home: Path, *, door: bool = True) -> Generator[Served]:
    """`jumar up --s3`, or without the door, with an administrator, two members and one who waits."""
    port = free_port()
    s3 = ("--s3", str(port)) if door else ()
    run_jumar(home, "up", "--detach", "--port", str(free_port()), *s3)
    try:
        values = json.loads((home / "client.json").read_text())
        tokens = {"admin": str(values["token"])}
        with Client(values["url"], values["token"]) as admin:
            for name in ("ann", "bob", "eve"):
                admin.register(name, f"{name}-password")
                if name != "eve":
                    admin.set_role(name, "member")
                tokens[name] = admin.sign_in(name, f"{name}-password")
        yield Served(home, port, tokens)
    finally:
        run_jumar(home, "down")
