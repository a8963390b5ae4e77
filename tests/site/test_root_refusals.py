"""What root's program refuses, and that nobody can hold it up."""

import itertools
import json
import os
import pwd
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.site.conftest import Host, memfd, new_id

from jumar.engine.shared.jobfiles import SharedFiles
from jumar.launch.jobdir.files import JobDir
from jumar.root import program
from jumar.root.program import Refused, parse
from jumar.spec.job import JobSpec
from jumar.spec.states import MOST_ATTEMPTS

_GOOD: dict[str, Any] = {
    "v": 1, "do": "start", "kind": "attempt", "job": "jaaaaaaaaa", "attempt": 1, "user": "ann",
    "uid": 1001, "cards": [], "kill_at": None, "memory": None, "cpus": None,
}  # fmt: skip
_WRONG: list[dict[str, Any]] = [
    {"v": 2}, {"v": True}, {"v": "1"}, {"do": "stop"}, {"do": None}, {"do": ["start"]},
    {"kind": "endpoint"}, {"kind": None}, {"job": "../../etc"}, {"job": "JAAAAAAAAA"},
    {"job": "jaaaaaaaa"}, {"job": "jaaaaaaaaa\n"}, {"job": 1}, {"job": "jaaaaaaaa\u0661"},
    {"attempt": 0}, {"attempt": -1}, {"attempt": 100_000}, {"attempt": True}, {"attempt": 1.0},
    {"attempt": "1"}, {"user": ""}, {"user": "a/b"}, {"user": "a\0"}, {"user": "-ann"},
    {"uid": 0}, {"uid": -1}, {"uid": 65534}, {"uid": True}, {"uid": 1001.0}, {"uid": "1001"},
    {"cards": ["sda"]}, {"cards": ["davinci0/../sda"]}, {"cards": "nvidia0"}, {"cards": [0]},
    {"kill_at": "soon"}, {"kill_at": -1}, {"kill_at": True}, {"kill_at": 1e300}, {"kill_at": 10**400},
    {"memory": 1}, {"memory": -5}, {"memory": 2.5}, {"cpus": 0}, {"cpus": "2"},
    {"argv": ["/bin/sh"]}, {"environment": {}},
]  # fmt: skip


@pytest.mark.parametrize("change", _WRONG, ids=str)
def test_wrong_fields_are_refused(change: dict[str, Any]) -> None:
    assert parse(json.dumps(_GOOD).encode()) == _GOOD
    with pytest.raises(Refused):
        parse(json.dumps(_GOOD | change).encode())


def test_every_attempt_that_a_job_may_have_is_taken(tmp_path: Path) -> None:
    last = _GOOD | {"attempt": MOST_ATTEMPTS}
    assert parse(json.dumps(last).encode()) == last
    directory = JobDir(str(tmp_path / "jaaaaaaaaa"), MOST_ATTEMPTS)
    # As the sweep knows the processes of jobs.
    assert program.KEEPER.match(directory.keeper_name)
    Path(directory.control).mkdir(parents=True)
    assert SharedFiles(tmp_path).attempts("jaaaaaaaaa") == [directory]
    fields = {"name": "x", "command": "x", "device": "sim:1", "segments": "auto"}
    assert not JobSpec.model_validate(fields).has_segment(MOST_ATTEMPTS)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"null", b"[]", b"{}", b"\xff", b"{" * 8000, b'{"v":1,"v":1,"do":"remove","job":"jaaaaaaaaa"}',
        b'{"v":1,"do":"remove"}', b'{"v":NaN}', b" " * 9000, b'{"v":1,"do":"signal","job":"jaaaaaaaaa","attempt":1,"why":"reboot"}',
        b'{"v":1,"do":"files","job":"jaaaaaaaaa","op":"write","paths":["a"]}',
        b'{"v":1,"do":"files","job":"jaaaaaaaaa","op":"open","paths":[]}',
        b'{"v":1,"do":"files","job":"jaaaaaaaaa","op":"open","paths":["a\\u0000"]}',
        b'{"v":1,"do":"files","job":"jaaaaaaaaa","op":"open","paths":["\\ud800"]}',
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused(data: bytes) -> None:
    with pytest.raises(Refused):
        parse(data)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=300)
@given(
    st.one_of(
        st.binary(max_size=200),
        st.dictionaries(st.sampled_from([*_GOOD, "why", "op", "paths", "x"]), _JSON).map(
            lambda change: json.dumps(_GOOD | change).encode()
        ),
    )
)
def test_any_bytes_are_a_request_or_refused(data: bytes) -> None:
    try:
        request = parse(data)
    except Refused:
        return
    assert program._JOB.match(request["job"])  # pyright: ignore[reportPrivateUsage]
    assert request.get("uid", 1) > 0


def test_only_allowed_accounts_are_acted_for(host: Host) -> None:
    ann, ben = host.users[:2]
    told = memfd(b"{}")

    def code(**changes: Any) -> str:
        return str(host.ask(host.message(new_id(), ann) | changes, (told,)).get("code"))

    assert code(user="root", uid=host.uid(ann)) == "account"
    assert code(user=ben) == "account", "name and uid must agree"
    assert code(user="nobody-at-all") == "account"
    assert code(user=host.server, uid=host.uid(host.server)) == "account"
    assert code(user="daemon", uid=1) == "account", "below UID_MIN"
    host.configure(users=[ben])
    assert code() == "account", "not among the users of the site"
    host.configure(users=["*"], uid_min=0)
    assert code() == "refused", "a site that allows root is none"
    host.configure(uid_min=1000)
    host.toml.chmod(0o666)
    assert code() == "refused", "a site file that others can write is none"
    host.toml.chmod(0o644)
    os.close(told)


def test_only_the_server_is_heard(host: Host) -> None:
    for user in (host.users[0], "root"):
        with pytest.raises((OSError, ValueError)):
            host.ask({"v": 1, "do": "remove", "job": "jaaaaaaaaa"}, user=user)


def test_descriptors_are_what_they_must_be(host: Host) -> None:
    ann = host.users[0]
    message = host.message(new_id(), ann)
    writable = os.memfd_create("x")
    readable = memfd(b"{}")
    heard, said = os.pipe()
    path_only = os.open("/etc/passwd", os.O_PATH)
    folder = os.open("/", os.O_RDONLY)
    for given_ in (
        (),
        (writable,),
        (heard,),
        (path_only,),
        (folder,),
        (readable, said),
        (readable,) * (program.MOST_INPUTS + 3),
    ):
        assert "no" in host.ask(message, given_), given_
    assert "no" in host.ask({"v": 1, "do": "remove", "job": "jaaaaaaaaa"}, (readable,))
    assert host.ask({"v": 1, "do": "remove", "job": "jaaaaaaaaa"})["code"] == "no-job"
    assert "no" in host.ask(message | {"kind": "beside"}, (readable,))
    for descriptor in (writable, readable, heard, said, path_only, folder):
        os.close(descriptor)


def test_silent_connections_hold_nobody_up(host: Host) -> None:
    ann, job = host.users[0], new_id()
    silent = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(40)]
    with host.being(host.server):
        for one in silent:
            one.connect(str(host.top / "run-root" / "root.sock"))
    began = time.monotonic()
    assert host.start(job, "true", ann)["ok"]
    took_s = time.monotonic() - began
    for one in silent:
        one.close()
    assert took_s < program.READ_LIMIT_S * 10, "it did not wait for them one after the other"
    assert host.result(job)["state"] == "succeeded"


def test_root_runs_no_code_that_others_can_write(host: Host) -> None:
    ann = host.users[0]
    told = memfd(b"{}")
    launcher = host.settings["launcher"]
    mine = host.top / "python"
    mine.write_text("#!/bin/sh\n")
    mine.chmod(0o755)
    shutil.chown(mine, ann)
    host.configure(launcher=[str(mine)])
    try:
        assert "can be changed by others" in host.ask(host.message(new_id(), ann), (told,))["no"]
    finally:
        host.configure(launcher=launcher)
        os.close(told)


def test_root_asks_slurm_for_nobody_else(host: Host) -> None:
    ann = host.users[0]
    ours, theirs = socket.socketpair()
    told = memfd(b"{}")
    request = host.message(new_id(), ann, kind="sbatch")
    try:
        host.configure(slurm=False)
        with ours, theirs:
            assert host.ask(request, (theirs.fileno(), told))["code"] == "slurm"
            host.configure(slurm=True)
            for wrong in ((told,), (told, theirs.fileno()), (theirs.fileno(), theirs.fileno())):
                assert "no" in host.ask(request, wrong)
            other = {**request, "uid": host.uid(host.users[1])}
            assert host.ask(other, (theirs.fileno(), told))["code"] == "account"
    finally:
        os.close(told)


def test_who_reads_too_long_as_a_user_is_ended_and_that_is_said(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = pwd.getpwnam(host.users[0])
    monkeypatch.setattr(program, "FILES_LIMIT_S", 0.3)

    def owner_of(_site: object, _job: str) -> tuple[int, str]:
        return ann.pw_uid, ann.pw_name

    def hang(_site: object, _request: object, _connection: object) -> None:
        time.sleep(600)

    monkeypatch.setattr(program, "owner_of", owner_of)
    # A file system that does not answer.
    monkeypatch.setattr(program, "_list_files", hang)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    request = {"v": 1, "do": "files", "job": new_id(), "op": "list", "paths": ["."]}
    with ours, theirs:
        ours.send(json.dumps(request).encode())
        pid = os.fork()
        if pid == 0:
            try:
                ours.close()
                program.answer(str(host.toml), theirs)
            finally:
                os._exit(0)
        theirs.close()
        said = ours.recv(65536)
        os.waitpid(pid, 0)
    assert json.loads(said)["code"] == "slow"


def test_of_a_folder_with_too_much_in_it_what_was_seen_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        (tmp_path / str(number)).write_bytes(bytes(4096))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        # A disk that takes seconds for each name.
        clock = itertools.count(step=2)
        monkeypatch.setattr("jumar.root.program.time", SimpleNamespace(monotonic=clock.__next__))
        count: Callable[..., None] = vars(program)["_count"]
        count([(str(tmp_path), ".")], ours)
        monkeypatch.undo()
        assert 0 < json.loads(theirs.recv(4096))["bytes"] < 90 * 4096


@pytest.mark.parametrize("by_s", [-86400.0, 86400.0], ids=["back", "forward"])
def test_a_clock_that_is_set_ends_no_job_and_lets_none_run_on(
    by_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: dict[str, Any] = dict.fromkeys(("state", "run", "root_run"), "/nowhere")
    lists: dict[str, Any] = {"launcher": [], "users": [], "variables": {}, "map": {}}
    site = program.Site(server="root", cgroup="none", **names, **lists)
    request = {"job": "a123456789", "attempt": 1, "kill_at": time.time() + 600}
    keeper = program.Keeper(site, request, pwd.getpwuid(os.getuid()))
    really = time.time
    monkeypatch.setattr(time, "time", lambda: really() + by_s)
    assert 590 < keeper.left_s() <= 600
