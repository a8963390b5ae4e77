"""A real server with a real queue, and the vendor's own SDK."""

import json
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
import urllib3
from tests.store.served import Served, served

from jumar.client import Client
from jumar.modelarts.signing import Signed, authorization, canonical_query, date_header
from jumar.spec.records import ModelArtsKeys
from jumar.store.base import Store
from jumar.store.places import make_bucket, open_bucket

LIMIT_S = 180.0


@dataclass(frozen=True)
class Signer:
    """Sends signed requests of one user, right ones and wrong ones."""

    keys: ModelArtsKeys

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: str = "",
        project: str | None = None,
        api: str = "v2",
        at: float | None = None,
        headers: dict[str, str] | None = None,
        sent_body: bytes | None = None,
        ak: str | None = None,
        sk: str | None = None,
    ) -> tuple[int, Any]:
        """Status and JSON; `sent_body`: what is sent in the place of what was signed."""
        place = urlsplit(self.keys.endpoint)
        data = (
            b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        )
        target = f"/{api}/{project or self.keys.project_id}{path}"
        signed = {
            "host": place.netloc,
            "x-sdk-date": date_header(time.time() if at is None else at),
            "content-type": "application/json",
            **(headers or {}),
        }
        request = Signed(method=method, path=target, query=query, headers=signed, body=data)
        signed["authorization"] = authorization(ak or self.keys.ak, sk or self.keys.sk, request)
        return self.send(
            method,
            target + (f"?{canonical_query(query)}" if query else ""),
            signed,
            data if sent_body is None else sent_body,
        )

    def send(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, Any]:
        with urllib3.PoolManager(cert_reqs="CERT_NONE") as pool:
            url = self.keys.endpoint + target
            got = pool.request(
                method, url, body=body, headers=headers, timeout=LIMIT_S, retries=False
            )
            is_json = got.headers.get("content-type", "").startswith("application/json")
            return got.status, json.loads(got.data) if is_json and got.data else got.data


def signer(server: Served, user: str) -> Signer:
    with Client(server.url, server.tokens[user]) as client:
        return Signer(client.modelarts_keys())


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    """A server whose OBS is a folder: the S3 door starts slowly."""
    with served(tmp_path_factory.mktemp("modelarts") / "home", door=False) as made:
        yield made


@pytest.fixture(scope="session")
def ann(platform: Served) -> Signer:
    return signer(platform, "ann")


@pytest.fixture(scope="session")
def bob(platform: Served) -> Signer:
    return signer(platform, "bob")


def put(server: Served, bucket: str, files: dict[str, str]) -> Store:
    """Files in a bucket, which is made."""
    make_bucket("obs", bucket, server.config())
    store = open_bucket("obs", bucket, server.config())
    for key, text in files.items():
        store.write(key, text.encode())
    return store
