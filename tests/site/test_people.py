"""Three people with closed homes use a site: by socket, without login, each as herself."""

import json
import os
import re
import shutil
import subprocess
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from tests.site.api import api
from tests.site.conftest import Host, until
from tests.store.dialects import Dialect, speaking

from jumar.store.credentials import as_json

_TRAIN = """
import os
open("result.txt", "w").write("trained")
print("hello from", os.getuid(), os.getcwd())
"""


def _folder(site: Host, user: str, name: str = "work") -> Path:
    """A folder of a user, closed to everybody else, with a script in it."""
    folder = site.home(user) / name
    if not folder.exists():
        folder.mkdir()
        (folder / "train.py").write_text(_TRAIN)
        for path in (folder, folder / "train.py"):
            path.chmod(0o700)
            shutil.chown(path, user, user)
    return folder


def _submit(
    site: Host, user: str, *command: str, follow: bool = False, options: tuple[str, ...] = ()
) -> tuple[str, str]:
    """The id of a new job in a user's folder, and its log if it was followed."""
    folder = _folder(site, user)
    words = ["run", *options, *(["--follow"] if follow else []), "--", *command]
    _, out, err = site.jumar(user, *words, folder=folder)
    found = re.search(r"\b[a-z][a-z0-9]{9}\b", out + err)
    assert found is not None, (out, err)
    return found[0], out


def _show(site: Host, user: str, job: str) -> dict[str, Any]:
    return json.loads(site.jumar(user, "show", job, "--json")[1])


def _ended(site: Host, user: str, job: str) -> dict[str, Any]:
    ends = ("succeeded", "failed", "stopped", "lost", "timed-out")
    return until(
        lambda: (found := _show(site, user, job))["state"] in ends and found, f"{job} ends"
    )


def test_each_runs_in_her_own_folder(site: Host) -> None:
    for user in site.users:
        _, out = _submit(site, user, "/usr/bin/python3", "train.py", follow=True)
        folder = _folder(site, user)
        assert f"hello from {site.uid(user)} {folder}" in out
        assert (folder / "result.txt").stat().st_uid == site.uid(user)
        me = api(site, user, "GET", "/me")
        assert (me["name"], me["role"]) == (user, "member")


def test_code_is_uploaded_and_unpacked_by_the_user(site: Host) -> None:
    ann = site.users[0]
    folder = _folder(site, ann)
    words = ("run", "--code", ".", "--follow", "--", "/usr/bin/python3", "train.py")
    out = site.jumar(ann, *words, folder=folder)[1]
    assert re.search(rf"hello from {site.uid(ann)} {site.state}/jobs/\w+/work/code", out), out


def test_what_is_refused_says_why(site: Host) -> None:
    ann = site.users[0]
    code, _, err = site.jumar("root", "run", "--", "true", check=False)
    assert (code, "jobs do not run as root" in err) == (2, True), err
    code, _, err = site.jumar(ann, "run", "--workdir", "/tmp", "--", "true", check=False)
    assert (code, "/tmp and a /dev/shm of its own" in err) == (2, True), err
    job, _ = _submit(site, ann, "definitely-not-a-program")
    assert _ended(site, ann, job)["cause"] == "missing-command"
    assert site.jumar("nobody", "jobs", check=False)[0] == 2


def test_jobs_of_others_are_closed_except_to_administrators(site: Host) -> None:
    ann, ben, eve = site.users
    job, _ = _submit(site, ann, "bash", "-c", "echo private words; sleep 60")
    until(lambda: _show(site, ann, job)["state"] == "running", "it runs")
    until(lambda: "private" in site.jumar(ann, "logs", job)[1], "it has spoken")
    allowed = {
        who: {
            verb: site.jumar(who, *words, check=False)[0] == 0
            for verb, words in {
                "list": ("jobs",),
                "show": ("show", job),
                "logs": ("logs", job),
                "users": ("users",),
            }.items()
        }
        for who in (ann, ben, "root")
    }
    assert allowed == {
        ann: {"list": True, "show": True, "logs": True, "users": False},
        ben: {"list": True, "show": False, "logs": False, "users": False},
        "root": {"list": True, "show": True, "logs": True, "users": True},
    }
    assert site.jumar(ben, "stop", job, check=False)[0] != 0
    # A group makes administrators; it is asked at every call.
    group = str(site.settings["admin_group"])
    subprocess.run(["gpasswd", "-a", eve, group], check=True, capture_output=True, timeout=30)
    assert "private words" in site.jumar(eve, "logs", job)[1]
    call = f"JUMAR_SITE_SOCKET={site.door} {site.command} users"
    inside = _submit(site, eve, "bash", "-c", call)[0]
    ended = _ended(site, eve, inside)
    assert ended["state"] == "failed"
    assert "only an administrator" in site.jumar(eve, "logs", inside)[1], "inside a job, a member"
    site.jumar(eve, "stop", job)
    assert _ended(site, ann, job)["state"] == "stopped"
    site.jumar(ann, "jobs", "rm", "--yes", job)
    # Files are deleted after the answer: a job may have left millions.
    until(lambda: not (site.state / "jobs" / job).exists(), "its files are gone")


_SEARCH = """
cat {server}/* {server}/.* 2>/dev/null; ls -R {server} {control} {other} {root_run}; env
for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ; cat $p/cmdline; done 2>/dev/null
ls {users}; cat {users}/*/* ; cat $JUMAR_STORE_FILE
"""


def _give_key(site: Host, user: str, key: dict[str, Any]) -> None:
    """As `jumar login obs` does."""
    store = site.state / "server/store-users"
    store.mkdir(exist_ok=True)
    path = store / f"{user}.json"
    path.write_text(json.dumps({"obs": key}))
    for one in (store, path):
        shutil.chown(one, site.server)
        one.chmod(0o700)


def test_a_job_finds_no_secret(site: Host) -> None:
    """Each searches where secrets of others are: canaries of the server, of a store, of another job."""
    ann, ben = site.users[:2]
    server = site.state / "server"
    values = {"endpoint": "https://obs.example.com", "region": "x", "access_key": "AK"}
    for user in (ann, ben):
        _give_key(site, user, {**values, "secret_key": f"canary-key-{user}"})
    other, _ = _submit(site, ben, "bash", "-c", "echo canary-of-ben; sleep 60")
    until(lambda: _show(site, ben, other)["state"] == "running", "ben's job runs")
    words = _SEARCH.format(
        server=server,
        control=site.state / "control",
        other=site.state / "jobs" / other,
        root_run=site.top / "run-root",
        users=site.state / "users",
    )
    job, out = _submit(site, ann, "bash", "-c", words, follow=True)
    assert f"canary-key-{ann}" in out, "her own key is hers"
    assert f"canary-key-{ben}" not in out
    assert "canary-of-ben" not in out
    assert "SQLite" not in out
    site.jumar(ben, "stop", other)
    kept = site.state / "jobs" / job / "work/attempts/1/store.json"
    assert not kept.exists(), "keys are gone when the job is"


def test_a_web_account_is_nobody_on_the_machine(site: Host) -> None:
    """A name that somebody registered first is not the Unix account of that name."""
    late = f"{site.server[:-1]}w"
    url = json.loads((site.state / "server/server.json").read_text())["url"]
    body = {"name": late, "password": "a long enough password"}
    api(site, None, "POST", "/users", body, url)
    api(site, "root", "PATCH", f"/users/{late}", {"role": "member"})
    token = api(site, None, "POST", "/session", body, url)["token"]
    job = {"name": "web", "command": ["true"], "workdir": "/"}
    refused = api(site, None, "POST", "/jobs", job, url, token, expect=422)
    assert "has no Unix account" in refused["error"]["message"]
    assert f"jumar users map {late}" in refused["error"]["hint"]
    subprocess.run(["useradd", "-M", "-d", "/nonexistent", "-s", "/bin/bash", late], check=True)
    try:
        me = api(site, late, "GET", "/me")
        assert me["name"] == f"{late}.{site.uid(late)}", "two accounts"
    finally:
        subprocess.run(["userdel", "-f", late], check=True, capture_output=True)
    ann = site.users[0]
    site.jumar("root", "users", "map", late, ann, JUMAR_SITE=str(site.toml))
    made = api(site, None, "POST", "/jobs", job, url, token, expect=201)
    assert until(lambda: _show(site, "root", made["id"])["state"] == "succeeded", "it ran")
    assert (site.state / "jobs" / made["id"] / "work").stat().st_uid == site.uid(ann)
    code, _, err = site.jumar(
        ann, "users", "map", late, ann, check=False, JUMAR_SITE=str(site.toml)
    )
    assert (code, "only root" in err) == (2, True)


def test_a_link_opens_the_pages_once(site: Host) -> None:
    url = site.jumar(site.users[0], "open")[1].strip()
    place = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/login\?code=\S+)", url)
    assert place is not None, url
    statuses: list[int] = []
    for _ in range(2):
        connection = HTTPConnection("127.0.0.1", int(place[1]), timeout=30)
        connection.request("GET", place[2], headers={"Accept": "text/html"})
        answer = connection.getresponse()
        statuses.append(answer.status if answer.getheader("set-cookie") else 0)
        connection.close()
    assert statuses[0] in (302, 303)
    assert statuses[1] == 0


@pytest.mark.parametrize("who", ["server", "root"])
def test_killed_programs_lose_no_job_and_run_none_twice(site: Host, who: str) -> None:
    """The size of every day; hundreds of jobs are in tools/full_test.py."""
    ledger = {user: site.home(user) / f"ledger-{who}" for user in site.users}
    jobs: list[tuple[str, str]] = []
    for turn in range(2):
        for user in site.users:
            line = f"echo $JUMAR_JOB_ID $(id -un) >> {ledger[user]}; sleep 0.3"
            jobs.append((user, _submit(site, user, "bash", "-c", line)[0]))
        if who == "server":
            site.end_server()
            site.start_server()
        else:
            site.end_root()
            site.start_root()
        assert turn < 2
    assert {_ended(site, user, job)["state"] for user, job in jobs} == {"succeeded"}
    ran = [line for path in ledger.values() for line in path.read_text().splitlines()]
    assert sorted(ran) == sorted(f"{job} {user}" for user, job in jobs)


def test_a_header_makes_nobody_somebody(site: Host) -> None:
    """Over the network the kernel says nothing, whatever a request claims."""
    url = json.loads((site.state / "server/server.json").read_text())["url"]
    assert os.path.exists(site.door)
    refused = api(site, None, "GET", "/me", url=url, expect=401)
    assert refused["error"]["code"] == "not-signed-in"


def test_files_and_commands_of_a_job_are_its_users(site: Host) -> None:
    ann, ben = site.users[:2]
    folder = _folder(site, ann)
    script = "mkdir -p out/deep out/shut; echo x > out/deep/model; ln -s /etc/passwd out/escape; "
    script += "touch out/none out/shut/in; chmod 0 out/none out/shut; sleep 300"
    _, out, err = site.jumar(ann, "run", "--code", ".", "--", "sh", "-c", script, folder=folder)
    found = re.search(r"\b[a-z][a-z0-9]{9}\b", out + err)
    assert found is not None
    job = found[0]

    def model_is_listed() -> bool:
        code, listed, _ = site.jumar(ann, "files", job, "--json", check=False)
        return code == 0 and "code/out/shut" in listed

    until(model_is_listed, "the model is listed")
    code, _, err = site.jumar(ann, "get", job, "-o", "got", folder=folder, check=False)
    assert (code, "out/none cannot be opened" in err, "left out: code/out/shut" in err) == (
        1,
        True,
        True,
    )
    got = folder / "got"
    assert (got / "code/out/deep/model").read_text() == "x\n"
    assert (got / "code/out/deep/model").stat().st_uid == site.uid(ann)
    assert not (got / "attempts").exists()
    assert (
        site.jumar(ann, "get", job, "code/out/escape", "-o", "no", check=False, folder=folder)[0]
        == 2
    )
    ran = site.jumar(ann, "exec", job, "--", "sh", "-c", "id -un; pwd; exit 7", check=False)
    assert (ran[0], ran[1].splitlines()) == (7, [ann, f"{site.state}/jobs/{job}/work/code"]), ran
    for words in (("files", job), ("get", job), ("exec", job, "--", "true")):
        assert site.jumar(ben, *words, check=False, folder=_folder(site, ben))[0] == 2
    site.jumar(ann, "stop", job)
    assert _ended(site, ann, job)["state"] == "stopped"


def test_outputs_lie_in_the_jobs_own_folder(site: Host) -> None:
    ann = site.users[0]
    folder = _folder(site, ann)
    script = 'test -d "$JUMAR_OUTPUT_MODEL" && echo made > "$JUMAR_OUTPUT_MODEL/m" && pwd'
    words = ("run", "--output", "model=results", "--code", ".", "--ckpt", "marks", "--follow", "--")
    _, out, err = site.jumar(ann, *words, "sh", "-c", script, folder=folder)
    found = re.search(r"/jobs/(\w+)/work/code", out)
    assert found is not None, (out, err)
    assert (site.state / "jobs" / found[1] / "work/out/results/m").read_text() == "made\n"
    assert (site.state / "jobs" / found[1] / "work/code/marks").is_dir()


def test_data_of_a_store_is_carried_by_the_user(site: Host) -> None:
    eve = site.users[2]
    folder = _folder(site, eve)
    script = 'cat "$JUMAR_INPUT_DATA" > "$JUMAR_OUTPUT_MODEL/m"; echo kept > "$JUMAR_CKPT_DIR/c"'
    words = ["run", "--input", "data=obs://lab/in.txt", "--output", "model=obs://lab/out"]
    words += ["--ckpt", "obs://lab/marks", "--follow", "--", "sh", "-c", script]
    code, _, err = site.jumar(eve, *words, check=False, folder=folder)
    assert (code, "store is closed" in err, "JUMAR_S3_PORT" in err) == (2, True, True), err
    for words_of_data in (
        ("push", "train.py", "obs://lab/"),
        ("ls", "s3://lab/"),
        ("ls", "obs://"),
    ):
        code, _, err = site.jumar(eve, "data", *words_of_data, check=False, folder=folder)
        assert (code, "S3 door of this site's store is closed" in err) == (2, True), err
    site.jumar(eve, "data", "push", "train.py", str(folder / "copy"), folder=folder)
    assert not (site.home(eve) / ".jumar/store").exists(), "no store that her jobs cannot see"
    with speaking(Dialect()) as store:
        store.put("in.txt", b"read")
        _give_key(site, eve, as_json(store.credential))
        site.jumar(eve, *words, folder=folder)
        found = {name: one.data for name, one in store.objects.items()}
    assert found == {"in.txt": b"read", "out/m": b"read", "marks/c": b"kept\n"}


def test_cores_and_memory_of_a_job_are_limited(site: Host) -> None:
    ann = site.users[0]
    folder = _folder(site, ann)
    big = ("/usr/bin/python3", "-c", "print(len(bytearray(b'x') * (300 << 20)))")
    words = ("run", "--cpus", "2", "--memory", "100M", "--follow", "--", *big)
    code, out, err = site.jumar(ann, *words, folder=folder, check=False)
    assert "not enforced" not in err
    assert (code, out, "memory ran out" in err) == (1, "", True), (out, err)
    job = _submit(site, ann, "sleep", "60", options=("--cpus", "2"))[0]
    until(lambda: _show(site, ann, job)["state"] == "running", "it runs")
    found = Path("/sys/fs/cgroup").rglob(f"{job}-1/cpu.cfs_quota_us")
    assert [path.read_text() for path in found] == ["200000\n"]
    site.jumar(ann, "stop", job)
    for wrong in ("--memory=much", "--memory=1K", "--cpus=0"):
        assert site.jumar(ann, "run", wrong, "--", "true", check=False, folder=folder)[0] == 2


@pytest.mark.parametrize("how", ["size=16k", "ro"])
def test_a_disk_that_takes_no_job_is_told_to_its_user(site: Host, how: str) -> None:
    ann, disk = site.users[0], site.state / "jobs"
    small = ["mount", "-t", "tmpfs", "-o", f"mode=711,{how}", "tmpfs", str(disk)]
    subprocess.run(small, check=True)
    try:
        if how != "ro":
            subprocess.run(
                ["dd", "if=/dev/zero", f"of={disk}/big", "bs=1k"], check=False, capture_output=True
            )
        job, _ = _submit(site, ann, "cat", "train.py")
        told = until(lambda: (found := _show(site, ann, job)).get("cause") and found, "it is told")
        cause = "folder-closed" if how == "ro" else "folder-full"
        assert told["cause"] == cause, told
        assert told["values"]["folder"].startswith(str(disk))
        shown = site.jumar(ann, "show", job, LC_ALL="zh_CN.UTF-8")[1]
        assert "无法写入" in shown if how == "ro" else "空间不足" in shown, shown
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
    assert _ended(site, ann, job)["state"] == ("succeeded" if how == "ro" else "failed")


def test_inputs_of_the_hub_are_read_with_the_users_rights(site: Host) -> None:
    ann, ben = site.users[:2]
    data = _folder(site, ann, "rows")
    for path, text in (("a.txt", "first row"), ("sub/b.csv", "1,2")):
        (data / path).parent.mkdir(exist_ok=True)
        (data / path).write_text(text)
    subprocess.run(["chown", "-R", f"{ann}:{ann}", str(data)], check=True)
    words = ("repo", "import", "rows", "--kind", "dataset", "--private", "--json")
    made = json.loads(site.jumar(ann, *words, folder=site.home(ann))[1])
    address = f"hub://dataset/{made['owner']}/rows"
    command = ("sh", "-c", 'for w in "$@"; do cat ${w#*=}; ls -ld ${w#*=}; done', "x")
    options = ("--input", f"all={address}:a.txt", "--input", f"part={address}:sub/b.csv")
    job, log = _submit(site, ann, *command, follow=True, options=options)
    assert "first row" in log
    assert "1,2" in log
    assert log.count(f" {ann} ") >= 2, "the files are hers"
    shown = _show(site, ann, job)
    assert shown["spec"]["inputs"]["all"] == f"{address}@{made['commit']}:a.txt"
    code, _, error = site.jumar(
        ben, "run", "--input", f"x={address}", "--", "true", folder=_folder(site, ben), check=False
    )
    assert code == 2, error
    assert "no dataset" in error or "does not exist" in error or "no repository" in error, error
