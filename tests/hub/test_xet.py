"""The receiving door of Xet as a hostile client finds it; the stock client is in `hf_client.py`."""

import hashlib
import os
import struct
from urllib.parse import urlsplit

from tests.hub.conftest import Hubbed

TAG = b"HFRepoMetaData\0" + bytes(17)
PACK = "ab" * 32


def number(text: str) -> bytes:
    """A hash as shards have it."""
    return struct.pack("<4Q", *(int(text[place : place + 16], 16) for place in range(0, 64, 16)))


def chunk(content: bytes, scheme: int = 0, size: int | None = None) -> bytes:
    told = len(content) if size is None else size
    head = b"\0" + len(content).to_bytes(3, "little") + bytes([scheme]) + told.to_bytes(3, "little")
    return head + content


def shard(sha256: str | None, *segments: tuple[str, int, int, int]) -> bytes:
    flags = 0 if sha256 is None else 1 << 30
    made = TAG + bytes(16) + struct.pack("<32sIIQ", bytes(32), flags, len(segments), 0)
    for pack, size, start, end in segments:
        made += struct.pack("<32sIIII", number(pack), 0, size, start, end)
    if sha256 is not None:
        made += number(sha256) + bytes(16)
    return made + b"\xff" * 32 + bytes(16)


class Upload:
    """One upload of a user to a repository."""

    def __init__(self, hub: Hubbed, name: str, user: str = "ann") -> None:
        self.hub = hub
        path = f"/hf/api/models/ann/{name}/xet-write-token/main"
        told = hub.running.ask("GET", path, user=user)
        self.status = told.status
        if told.status == 200:
            self.place: str = urlsplit(str(told.json["casUrl"])).path
            self.token = str(told.json["accessToken"])

    def post(self, rest: str, body: bytes, *, place: str = "", token: str | None = None) -> int:
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        address = f"{place or self.place}/{rest}"
        answer = self.hub.running.ask("POST", address, user=None, body=body, headers=headers)
        assert str(self.hub.running.home) not in answer.text
        return answer.status

    def send(self, pack: bytes) -> int:
        return self.post(f"v1/xorbs/default/{PACK}", pack)


def test_only_what_was_announced_becomes_an_object(hub: Hubbed) -> None:
    repo = hub.repo("xet", kind="model")
    objects = hub.running.site.hub.objects
    upload = Upload(hub, "xet")
    content = os.urandom(1000)
    oid = hashlib.sha256(content * 3).hexdigest()
    for damaged in (b"\1" * 20, chunk(b"x" * 10)[:-1], chunk(b"x", 7), chunk(b"x", size=1 << 23)):
        assert upload.send(damaged) == 400
    assert upload.send(chunk(content) + b"XETBLOB and a table of contents") == 200
    whole = (PACK, 1000, 0, 1)
    for bad in (
        b"", b"x" * 100, shard(oid)[:90], shard(oid, whole), shard(oid, ("cd" * 32, 1000, 0, 1)),
        shard(oid, (PACK, 999, 0, 1), whole, whole), shard(oid, (PACK, 1000, 5, 9)),
        TAG + bytes(16) + struct.pack("<32sIIQ", bytes(32), 0, 1 << 31, 0),
    ):  # fmt: skip
        assert upload.post("v1/shards", bad) == 400, bad[:60]
    assert not objects.linked(repo, [oid])
    assert upload.post("v1/shards", shard(oid, whole, whole, whole)) == 200
    with objects.open(repo, oid) as file:
        assert file.read() == content * 3
    # Packed chunks that are none, or are more than they say.
    for scheme in (1, 2):
        assert upload.send(chunk(b"not packed", scheme)) == 200
        assert upload.post("v1/shards", shard(None, (PACK, 10, 0, 1))) == 400


def test_a_token_is_for_one_repository_and_for_who_may_write(hub: Hubbed) -> None:
    hub.repo("xet-mine", kind="model")
    other = hub.repo("xet-other", kind="model")
    hub.repo("xet-secret", kind="model", private=True)
    upload = Upload(hub, "xet-mine")
    session = upload.place.rpartition("/")[2]
    for place, token in (
        (f"/hf/xet/{other.id}/{session}", None),
        (f"/hf/xet/{other.id}/..%2F..", None),
        (upload.place, ""),
        (upload.place, "99999999999.0"),
        (upload.place, hub.running.token("ann")),
    ):
        assert upload.post("v1/shards", b"x", place=place, token=token) == 401, place
    assert upload.post("v1/xorbs/default/..%2F..%2Fx", b"x") == 404
    assert upload.post("v2/shards", b"x") == 404
    assert Upload(hub, "xet-mine", user="bob").status == 403
    assert Upload(hub, "xet-secret", user="bob").status == 404
