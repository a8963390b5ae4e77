"""Repositories with the stock git."""

import json
import os
import subprocess
from typing import Any

from tests.hub.conftest import Hubbed, client_environment


def test_clone_push_pull_branches_tags_and_a_forced_push(hub: Hubbed) -> None:
    repo = hub.repo("round")
    work = hub.clone(repo, "round-one")
    hub.commit(work, {"train.py": b"print(1)\n", "data/a.txt": b"a" * 5000})
    hub.git("push", "-q", "origin", "HEAD:main", cwd=work)
    hub.git("push", "-q", "origin", "HEAD:refs/heads/dev/x", cwd=work)
    hub.git("tag", "v1", cwd=work)
    hub.git("push", "-q", "--tags", cwd=work)
    other = hub.clone(repo, "round-two")
    assert (other / "train.py").read_bytes() == b"print(1)\n"
    hub.commit(other, {"train.py": b"print(2)\n"})
    hub.git("push", "-q", cwd=other)
    hub.git("pull", "-q", "origin", "main", cwd=work)
    assert (work / "train.py").read_bytes() == b"print(2)\n"
    assert set(hub.git("ls-remote", "origin", cwd=work).stdout.split()[1::2]) == {
        "HEAD", "refs/heads/main", "refs/heads/dev/x", "refs/tags/v1",
    }  # fmt: skip
    shallow = hub.clone(repo, "round-shallow", "ann", "--depth", "1")
    assert hub.git("rev-list", "--count", "HEAD", cwd=shallow).stdout.strip() == "1"
    partial = hub.clone(repo, "round-partial", "ann", "--filter=blob:none", "--no-checkout")
    assert "?" in hub.git("rev-list", "--objects", "--missing=print", "HEAD", cwd=partial).stdout
    hub.git("reset", "-q", "--hard", "v1", cwd=work)
    hub.commit(work, {"train.py": b"print(3)\n"})
    refused = hub.git("push", "origin", "HEAD:main", cwd=work, rc=1)
    assert "non-fast-forward" in refused.stderr
    hub.git("push", "-q", "--force", "origin", "HEAD:main", cwd=work)
    hub.fsck(repo)


def test_large_plain_files_are_refused_with_the_lines_to_run(hub: Hubbed) -> None:
    repo = hub.repo("rule")
    work = hub.clone(repo, "rule")
    limit = hub.running.site.hub.repositories.limits.plain_bytes
    hub.commit(work, {"w/weights.ckpt": b"\0" * (limit + 1), "fine.txt": b"1" * 1000})
    said = hub.git("push", "origin", "HEAD:main", cwd=work, rc=1).stderr
    for words in (
        f"w/weights.ckpt ({limit + 1} bytes)",
        'git lfs track "*.ckpt"',
        "git lfs migrate",
    ):
        assert words in said
    assert hub.git("ls-remote", hub.address(repo)).stdout == ""


def test_a_pushed_repository_runs_nothing_and_hides_nothing_in_odd_names(hub: Hubbed) -> None:
    repo = hub.repo("hostile")
    work = hub.clone(repo, "hostile")
    # What git itself would refuse to add is made by plumbing.
    blob = hub.git("hash-object", "-w", "--stdin", cwd=work).stdout.strip()
    for name in (".git", ".GIT", "git~1", ".git\u200c", ".."):
        done = subprocess.run(
            ["git", "mktree"], input=f"100644 blob {blob}\t{name}\n", cwd=work,
            env=client_environment(hub.folder), capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        commit = hub.git("commit-tree", "-m", "x", done.stdout.strip(), cwd=work).stdout.strip()
        hub.git("push", "origin", f"{commit}:refs/heads/main", cwd=work, rc=1)
    hub.git("push", "origin", "HEAD:refs/jumar/jobs/x", cwd=work, rc=1)
    assert hub.git("ls-remote", hub.address(repo)).stdout == ""
    hub.commit(
        work, {"hooks/pre-receive": b"#!/bin/sh\ntouch /tmp/ran-by-hub\n", "config": b"[core]\n"}
    )
    (work / "link").symlink_to("/etc/passwd")
    hub.commit(work, {})
    hub.git("push", "-q", "origin", "HEAD:main", cwd=work)
    answer = hub.running.ask("GET", "/hf/projects/ann/hostile/resolve/main/link")
    assert answer.body == b"/etc/passwd"
    assert not (hub.bare(repo) / "hooks").exists()


def _of_one_kind(kind: str) -> list[tuple[str, str, object]]:
    api, page = f"/api/v1/repos/{kind}/ann/NAME", f"/repos/{kind}/ann/NAME"
    address = f"hub://{kind}/ann/NAME@main:a"
    job: dict[str, object] = {"name": "x", "command": "true"}
    no_objects: dict[str, object] = {"objects": {}}
    return [
        ("GET", api, None),
        ("DELETE", api, None),
        ("PATCH", api, {"private": False}),
        ("POST", f"{api}/missing", no_objects),
        ("POST", f"{api}/commits", {"files": {"a": "a" * 64}}),
        ("POST", f"/api/v1/repo-objects/{kind}/ann/NAME", b"x"),
        ("GET", page, None),
        ("GET", f"{page}/file?path=a", None),
        ("GET", f"{page}/folder", None),
        *([("GET", f"{page}/train", None)] if kind == "project" else []),
        # As the code or an input of a job.
        ("POST", "/api/v1/jobs", {**job, "code": address}),
        ("POST", "/api/v1/plans", {**job, "inputs": {"data_url": address}}),
    ]


def _named(body: object, name: str) -> Any:
    return json.loads(json.dumps(body).replace("NAME", name)) if isinstance(body, dict) else body


def test_a_private_repository_does_not_exist_for_strangers(hub: Hubbed) -> None:
    hub.repo("secret", private=True)
    ask = hub.running.ask
    batch: dict[str, object] = {"operation": "download", "objects": []}
    no_files: dict[str, object] = {"files": []}
    for kind in ("projects", "models"):
        for method, path, body in (
            ("GET", f"/git/{kind}/ann/NAME.git/info/refs?service=git-upload-pack", None),
            ("GET", f"/git/{kind}/ann/NAME.git/info/refs?service=git-receive-pack", None),
            ("POST", f"/git/{kind}/ann/NAME.git/git-upload-pack", b"0000"),
            ("POST", f"/git/{kind}/ann/NAME.git/info/lfs/objects/batch", batch),
            ("GET", f"/git/{kind}/ann/NAME.git/info/lfs/locks", None),
            ("GET", f"/hf/{kind}/ann/NAME/resolve/main/a.txt", None),
            ("GET", f"/hf/api/{kind}/ann/NAME", None),
            ("GET", f"/hf/api/{kind}/ann/NAME/tree/main", None),
            ("GET", f"/hf/api/{kind}/ann/NAME/refs", None),
            ("POST", f"/hf/api/{kind}/ann/NAME/commit/main", b"{}"),
            ("POST", f"/hf/api/{kind}/ann/NAME/preupload/main", no_files),
            ("DELETE", f"/hf/api/{kind}/ann/NAME/branch/main", None),
            ("GET", f"/hf/api/{kind}/ann/NAME/xet-write-token/main", None),
            *_of_one_kind(kind.removesuffix("s")),
        ):
            for user in ("bob", None):
                real, none = (
                    ask(
                        method,
                        path.replace("NAME", name),
                        user=user,
                        body=_named(body, name),
                    )
                    for name in ("secret", "absent")
                )
                assert real.status == none.status, path
                # To a page strangers are sent by the login.
                assert real.status in ((401, 404) if user else (401, 404, 303)), path
                assert real.body == none.body.replace(b"absent", b"secret"), path
    for path in ("/api/v1/repos", "/repos?search=secret", "/api/v1/evaluation?project=ann/secret"):
        assert "ann/secret" not in ask("GET", path, user="bob").text.replace(
            "project=ann/secret", ""
        )
    assert "secret" not in ask("GET", "/hf/api/models?search=secret", user="bob").text
    assert ask("GET", "/hf/api/projects/ann/secret").status == 200
    assert ask("GET", "/hf/api/projects/ann/secret", user="eve").status == 403


def test_the_tokens_owner_is_the_user_name_and_passwords_are_none(hub: Hubbed) -> None:
    repo = hub.repo("named", private=True)
    token = hub.running.token("ann")
    good = hub.address(repo)
    hub.git("ls-remote", good)
    for user, password in (("bob", token), ("ann", "wrong"), ("ann", "")):
        address = good.replace(f"ann:{token}", f"{user}:{password}")
        assert "Authentication failed" in hub.git("ls-remote", address, rc=128).stderr


def test_a_push_whose_client_was_killed_leaves_nothing_and_can_be_repeated(hub: Hubbed) -> None:
    repo = hub.repo("killed")
    work = hub.clone(repo, "killed")
    hub.commit(work, {f"{number}.bin": bytes([number]) * 4000 for number in range(200)})
    pack = hub.git("rev-parse", "HEAD", cwd=work).stdout.strip()
    head = f"{'0' * 40} {pack} refs/heads/main\0 report-status\n"
    line = f"{len(head) + 4:04x}{head}0000".encode()
    connection = hub.running.connect()
    connection.putrequest("POST", "/git/projects/ann/killed.git/git-receive-pack")
    connection.putheader("Authorization", f"Bearer {hub.running.token('ann')}")
    connection.putheader("Content-Type", "application/x-git-receive-pack-request")
    connection.putheader("Content-Length", "100000")
    connection.endheaders(line + b"PACK\0\0\0\2\0\0\0\x05half of")
    connection.close()
    hub.git("push", "-q", "origin", "HEAD:main", cwd=work)
    hub.fsck(repo)


def test_a_checkout_for_jobs_has_any_name_and_the_links_that_stay_inside(hub: Hubbed) -> None:
    repo = hub.repo("names")
    work = hub.clone(repo, "names")
    names = [
        "目录/文件 名.txt",
        'it\'s "q".txt',
        "new\nline.txt",
        "-dash",
        "n" * 255,
        b"latin\xe9.txt",
    ]
    for name in map(os.fsencode, names):
        path = os.path.join(os.fsencode(work), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(name)
    good = {"to-file": "目录/文件 名.txt", "目录/up": "../-dash", "目录/root": ".."}
    bad = {"out": "../out", "far": "/etc/passwd", "turn": "目录/root/../out"}
    for name, to in {**good, **bad}.items():
        (work / name).symlink_to(to)
    hub.commit(work, {"a": b"a"})
    hub.git("push", "-q", "origin", "HEAD:main", cwd=work)
    commit = hub.git("rev-parse", "HEAD", cwd=work).stdout.strip()
    checkouts = hub.running.site.hub.checkouts
    made = checkouts.folder(repo, commit, "")
    for name in map(os.fsencode, names):
        with open(os.path.join(os.fsencode(made), name), "rb") as file:
            assert file.read() == name
    assert {name: os.readlink(made / name) for name in good} == good
    assert not [name for name in bad if os.path.lexists(made / name)]
    part = checkouts.folder(repo, commit, "目录")
    assert sorted(os.listdir(part)) == ["文件 名.txt"]
    checkouts.archive(repo, commit, "").close()
