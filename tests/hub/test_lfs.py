"""LFS objects: with the stock git-lfs, and as a hostile client would send them."""

import hashlib
import io
import os
import shutil
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.hub.conftest import Hubbed, needs_lfs

from jumar.hub.objects import ObjectMissing
from jumar.spec.repos import RepoRecord


def batch(hub: Hubbed, repo: RepoRecord, content: bytes, user: str = "ann", **more: Any) -> Any:
    oid = hashlib.sha256(content).hexdigest()
    body = {"operation": "upload", "objects": [{"oid": oid, "size": len(content)}], **more}
    path = f"/git/{repo.kind}s/{repo.owner}/{repo.name}.git/info/lfs/objects/batch"
    return hub.running.ask("POST", path, user=user, body=body).json["objects"][0]


def put(hub: Hubbed, href: str, content: bytes) -> int:
    place = urlsplit(href)
    return hub.running.ask("PUT", f"{place.path}?{place.query}", user=None, body=content).status


def send(hub: Hubbed, repo: RepoRecord, content: bytes, user: str = "ann") -> None:
    assert put(hub, batch(hub, repo, content, user)["actions"]["upload"]["href"], content) == 200


def stored(hub: Hubbed) -> int:
    return sum(len(files) for _, _, files in os.walk(hub.running.home / "hub/lfs"))


@needs_lfs
def test_weights_go_up_and_come_down_and_can_be_locked(hub: Hubbed) -> None:
    repo = hub.repo("weights", kind="model", private=True)
    work = hub.clone(repo, "weights")
    hub.git("lfs", "install", "--local", cwd=work)
    content = os.urandom(9 << 20)
    # Tracked by the repository's first commit.
    hub.commit(work, {"lenet.ckpt": content, "README.md": b"---\nlicense: mit\n---\n# LeNet\n"})
    hub.git("push", "-q", "origin", "HEAD:main", cwd=work)
    other = hub.clone(repo, "weights-again")
    assert (other / "lenet.ckpt").stat().st_size < 200
    hub.git("lfs", "install", "--local", cwd=other)
    hub.git("lfs", "pull", cwd=other)
    assert (other / "lenet.ckpt").read_bytes() == content
    hub.git("lfs", "lock", "lenet.ckpt", cwd=work)
    assert "lenet.ckpt" in hub.git("lfs", "locks", cwd=other).stdout
    hub.git("lfs", "lock", "lenet.ckpt", cwd=other, rc=2)
    hub.git("lfs", "unlock", "lenet.ckpt", cwd=work)
    part = hub.running.ask(
        "GET", "/hf/ann/weights/resolve/main/lenet.ckpt", headers={"Range": "bytes=5-9"}
    )
    assert (part.status, part.body) == (206, content[5:10])


def test_a_lie_about_the_content_does_not_count(hub: Hubbed) -> None:
    repo = hub.repo("lies", kind="model")
    wanted = b"the weights that were announced"
    href = batch(hub, repo, wanted)["actions"]["upload"]["href"]
    before = stored(hub)
    for content in (b"x" * len(wanted), wanted[:-1], b"", wanted + b"x"):
        assert put(hub, href, content) in (413, 422)
    other = href.replace(hashlib.sha256(wanted).hexdigest(), "a" * 64)
    assert put(hub, other, wanted) == 403
    assert stored(hub) == before
    assert "actions" in batch(hub, repo, wanted)
    assert not list((hub.running.home / "hub/spool").iterdir())


def test_objects_are_stored_once_and_nobody_gets_them_by_knowing_their_name(hub: Hubbed) -> None:
    mine = hub.repo("one", kind="model", private=True)
    second = hub.repo("two", kind="model")
    hers = hub.repo("hers", kind="model", user="bob")
    content = os.urandom(1000)
    send(hub, mine, content)
    count = stored(hub)
    assert "actions" not in batch(hub, mine, content)
    # Bob has to have the bytes: that they are here already is nothing he may learn.
    assert "actions" in batch(hub, hers, content, "bob")
    assert "error" in batch(hub, hers, content, "bob", operation="download")
    send(hub, hers, content, "bob")
    assert "actions" not in batch(hub, second, content)
    assert stored(hub) == count
    hub.running.site.hub.repositories.delete(mine)
    assert "download" in batch(hub, second, content, operation="download")["actions"]


def test_a_pointer_without_its_object_is_refused_and_a_damaged_one_is_named(hub: Hubbed) -> None:
    repo = hub.repo("damaged", kind="model")
    work = hub.clone(repo, "damaged", "ann", "-c", "filter.lfs.required=false")
    content = os.urandom(2000)
    oid = hashlib.sha256(content).hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize 2000\n".encode()
    hub.commit(work, {"w.bin": pointer})
    said = hub.git("push", "origin", "HEAD:main", cwd=work, rc=1).stderr
    assert f"w.bin (sha256:{oid})" in said
    send(hub, repo, content)
    hub.git("push", "-q", "origin", "HEAD:main", cwd=work)
    [path] = (hub.running.home / "hub/lfs").rglob(f"{oid}.*")
    for damage in (content[:-1], bytes(1) * 2000):
        path.write_bytes(damage)
        answer = hub.running.ask("GET", "/hf/ann/damaged/resolve/main/w.bin")
        assert answer.status == 404
        words = f"the LFS object of w.bin (sha256:{oid}) is missing or damaged"
        assert words in answer.json["error"]
        # Sent again, it is whole again.
        send(hub, repo, content)
        assert hub.running.ask("GET", "/hf/ann/damaged/resolve/main/w.bin").body == content
        [path] = (hub.running.home / "hub/lfs").rglob(f"{oid}.*")


def test_damage_of_a_large_object_is_found_before_its_last_block(hub: Hubbed) -> None:
    repo = hub.repo("rotten", kind="model")
    objects = hub.running.site.hub.objects
    size = (64 << 20) + 1
    content = bytes(size)
    oid = hashlib.sha256(content).hexdigest()
    with objects.incoming(repo, oid, size) as incoming:
        incoming.write(content)
        incoming.keep()
    [path] = (hub.running.home / "hub/lfs").rglob(f"{oid}.*")
    with path.open("r+b") as file:
        file.write(b"x")
    copied = io.BytesIO()
    with (
        objects.open(repo, oid, "w.bin") as file,
        pytest.raises(ObjectMissing, match=r"w\.bin"),
    ):
        shutil.copyfileobj(file, copied, 4 << 20)
    assert copied.tell() < size
    with pytest.raises(ObjectMissing):
        objects.open(repo, oid)
