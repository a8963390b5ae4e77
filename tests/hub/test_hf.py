"""The Hugging Face API: the stock client, and requests that no client sends."""

import base64
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.hub.conftest import LIMIT_S, Hubbed, client_environment


def test_the_stock_client(hub: Hubbed, tmp_path: Path) -> None:
    environment = client_environment(
        tmp_path,
        HF_ENDPOINT=f"{hub.running.url}/hf",
        HF_TOKEN=hub.running.token("ann"),
        HF_HUB_DISABLE_TELEMETRY="1",
        HF_HUB_DISABLE_PROGRESS_BARS="1",
    )
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("hf_client.py"))],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert (tmp_path / "done").exists(), done.stderr
    repo = hub.running.site.hub.repositories.find("model", "ann", "tiny")
    assert repo is not None
    assert repo.licence == "mit"
    hub.fsck(repo)
    # Git takes the odd file, which no pattern had matched, for one of LFS too.
    work = hub.clone(repo, "tiny", "ann", "-b", "v1")
    attribute = hub.git("check-attr", "filter", "odd name [1].xyz", cwd=work).stdout
    assert attribute.endswith("filter: lfs\n")


def lines(*operations: tuple[str, dict[str, Any]], **header: str) -> bytes:
    all_ = [("header", {"summary": "x", **header}), *operations]
    return "".join(json.dumps({"key": key, "value": value}) + "\n" for key, value in all_).encode()


def file(path: str, content: bytes) -> tuple[str, dict[str, Any]]:
    encoded = base64.b64encode(content).decode()
    return "file", {"path": path, "content": encoded, "encoding": "base64"}


def test_commits_at_once_all_succeed_and_a_parent_that_has_moved_is_told(hub: Hubbed) -> None:
    repo = hub.repo("many", kind="model")
    address = "/hf/api/models/ann/many/commit/main"
    start = hub.running.ask("GET", "/hf/api/models/ann/many").json["sha"]

    def commit(number: int) -> int:
        return hub.running.ask("POST", address, body=lines(file(f"{number}.txt", b"x"))).status

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(commit, range(6))) == [200] * 6
    stale = hub.running.ask("POST", address, body=lines(file("y", b"y"), parentCommit=start))
    assert stale.status == 412
    listed = hub.running.ask("GET", "/hf/api/models/ann/many/tree/main?limit=4")
    assert len(listed.json) == 4
    assert 'rel="next"' in listed.headers["Link"]
    hub.fsck(repo)


def test_what_a_hostile_client_sends_is_refused_in_words(hub: Hubbed) -> None:
    repo = hub.repo("refused", kind="model")
    limit = hub.running.site.hub.repositories.limits.plain_bytes
    address = "/hf/api/models/ann/refused/commit/main"
    modules = b'[submodule "x"]\n\tpath = x\n\turl = --upload-pack=touch\n'
    pointer = (
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{'b' * 64}\nsize 9\n".encode()
    )
    for body in (
        b"",
        b"\xff\xfe",
        b"[1]\n",
        b'{"key": "header"}\n',
        b"[" * 100_000,
        lines(("file", {"path": "a"})),
        lines(("file", {"path": "a", "content": "?", "encoding": "base64"})),
        lines(("what", {"path": "a"})),
        lines(("lfsFile", {"path": "a", "oid": "b" * 64})),
        lines(("lfsFile", {"path": "a", "oid": "../../x"})),
        lines(file("a.txt", b"0" * (limit + 1))),
        lines(file(".git\u200c/config", b"x")),
        lines(file(".gitmodules", modules)),
        lines(file("w.bin", pointer)),
    ):
        answer = hub.running.ask("POST", address, body=body)
        assert answer.status == 400, body[:200]
        assert str(hub.running.home) not in answer.text
        assert answer.headers["X-Error-Message"].isascii()
    for text in ("a\nb", "模型", "x" * 10_000):
        made = hub.running.ask("POST", address, body=lines(file(text, b"x")))
        assert made.status in (200, 400), text
    bomb = b"---\na: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n---\n"
    assert hub.running.ask("POST", address, body=lines(file("README.md", bomb))).status == 200
    assert "cardData" not in hub.running.ask("GET", "/hf/api/models/ann/refused").json
    hub.fsck(repo)
    left = (hub.running.home / "hub/spool").iterdir()
    # What a client has sent by Xet is kept for some minutes: it may refer to it again.
    assert all(one.name.startswith("xet-") for one in left)


def test_commits_are_made_on_branches_only_and_texts_stay_in_git(hub: Hubbed) -> None:
    repo = hub.repo("branches", kind="model")
    hub.git("tag", "v1", "main", cwd=hub.bare(repo))
    commit = hub.git("rev-parse", "main", cwd=hub.bare(repo)).stdout.strip()
    line = {"path": "LICENSE", "content": "MIT"}
    lines = [{"key": "header", "value": {"summary": "x"}}, {"key": "file", "value": line}]
    body = "".join(json.dumps(one) + "\n" for one in lines).encode()
    for branch, status in (("v1", 404), (commit, 404), ("none", 404), ("main", 200)):
        path = f"/hf/api/models/ann/branches/commit/{branch}"
        assert hub.running.ask("POST", path, body=body).status == status, branch
    assert hub.git("branch", "--format=%(refname:short)", cwd=hub.bare(repo)).stdout == "main\n"
    for path, sample, mode in (
        ("LICENSE", "MIT 许可".encode(), "regular"),
        ("src/net.cpp", b"int x;", "regular"),
        ("empty", b"", "regular"),
        ("a.csv", "数".encode("gb18030"), "regular"),
        ("cut", "数".encode()[:-1], "regular"),
        ("noise", b"\xff\xfe", "lfs"),
        ("model.safetensors", b"text", "lfs"),
        ("x.txt", b"\0", "lfs"),
    ):
        asked = {"path": path, "size": len(sample), "sample": base64.b64encode(sample).decode()}
        answer = hub.running.ask(
            "POST", "/hf/api/models/ann/branches/preupload/main", body={"files": [asked]}
        )
        assert answer.json["files"][0]["uploadMode"] == mode, path
