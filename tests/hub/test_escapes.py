"""Names, paths, refs and LFS ids that are meant to get out, on every route that takes one."""

from urllib.parse import quote

import pytest
from tests.hub.conftest import Hubbed

from jumar.errors import BadInput
from jumar.hub.names import check_path, check_repo_name, is_ref_name

NAMES = (
    "", ".", "..", "../x", "a/../b", "/etc", "a\\b", ".git", "x.git", "x.GIT", "x.lock", "x.ipynb",
    "a--b", "a..b", "-x", "x-.", "a b", "a\nb", "a\0b", "é", "x" * 97, "%2e%2e", "~", "$(id)", "a;b",
)  # fmt: skip
PATHS = (
    "", "/", "/etc/passwd", "..", "../x", "a/../../x", "a//b", "./a", "a/.", ".git", ".git/config",
    "a/.git/hooks/x", ".GIT", ".git.", ".git ", "git~1", "GIT~1/config", "a\nb", "a\0b", "a\x7fb", "x" * 256,
    "a/" * 2100 + "a",
)  # fmt: skip
REFS = (
    "", "-x", "--upload-pack=x", "a..b", "a~1", "a^", "a:b", "a?b", "a*", "a[b", "a\\b", "a b", "a@{1}",
    "@", "/a", "a/", "a//b", ".a", "a/.b", "a.lock", "a.", "refs/heads/x", "refs/jumar/x", "a\nb", "x" * 201,
)  # fmt: skip


@pytest.mark.parametrize("names", [NAMES])
def test_repository_names(hub: Hubbed, names: tuple[str, ...]) -> None:
    for name in names:
        with pytest.raises(BadInput):
            check_repo_name("ann", name)
        body = {"name": name, "type": "model"}
        assert hub.running.ask("POST", "/hf/api/repos/create", body=body).status == 400, name
        body = {"name": name, "kind": "model"}
        assert hub.running.api("POST", "/repos", body=body).status == 422, name


def test_paths(hub: Hubbed) -> None:
    hub.repo("paths", kind="model")
    for path in PATHS:
        with pytest.raises(BadInput):
            check_path(path)
        if path:
            address = f"/hf/ann/paths/resolve/main/{quote(path, safe='')}"
            assert hub.running.ask("GET", address).status in (400, 404, 422), path
        lines = (
            '{"key":"header","value":{"summary":"x"}}\n'
            f'{{"key":"file","value":{{"content":"aGk=","encoding":"base64","path":{_json(path)}}}}}\n'
        )
        answer = hub.running.ask(
            "POST", "/hf/api/models/ann/paths/commit/main", body=lines.encode()
        )
        assert answer.status == 400, path
    listed = hub.running.ask("GET", "/hf/api/models/ann/paths/tree/main?recursive=true").json
    assert [one["path"] for one in listed] == [".gitattributes"]


def test_revisions(hub: Hubbed) -> None:
    hub.repo("refs", kind="model")
    for ref in REFS:
        assert not is_ref_name(ref), ref
        quoted = quote(ref, safe="")
        if not ref:
            continue
        for address in (
            f"/hf/api/models/ann/refs/tree/{quoted}",
            f"/hf/ann/refs/resolve/{quoted}/a",
        ):
            answer = hub.running.ask("GET", address)
            assert answer.status in (404, 422), address
        made = hub.running.ask("POST", f"/hf/api/models/ann/refs/branch/{quoted}", body={})
        assert made.status in (400, 404, 422), ref


def test_lfs_ids_and_links(hub: Hubbed) -> None:
    repo = hub.repo("ids", kind="model")
    oids = ("", "..", "../../x", "a" * 63, "A" * 64, "a" * 65, "g" * 64, f"{'a' * 63}/", 5, None)
    body = {"operation": "upload", "objects": [{"oid": oid, "size": 1} for oid in oids]}
    answer = hub.running.ask("POST", "/git/models/ann/ids.git/info/lfs/objects/batch", body=body)
    assert all(one["error"]["code"] == 422 for one in answer.json["objects"])
    assert len(answer.json["objects"]) == len(oids)
    for size in (-1, 1.5, "1", None, True, 1 << 70):
        body = {"operation": "upload", "objects": [{"oid": "a" * 64, "size": size}]}
        asked = hub.running.ask("POST", "/git/models/ann/ids.git/info/lfs/objects/batch", body=body)
        assert "error" in asked.json["objects"][0], size
    for link in (
        f"/git/lfs/{repo.id}/{'a' * 64}/5",
        f"/git/lfs/{repo.id}/{'a' * 64}/5?until=99999999999&proof={'0' * 64}",
        f"/git/lfs/{repo.id}/{'a' * 64}/5?until=x&proof=%C3%A9",
        f"/git/lfs/..%2F..%2Fx/{'a' * 64}/5?until=99999999999&proof=0",
    ):
        assert hub.running.ask("PUT", link, user=None, body=b"hello").status == 403


def _json(text: str) -> str:
    return '"' + "".join(f"\\u{ord(letter):04x}" for letter in text) + '"'
