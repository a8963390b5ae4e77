import secrets
from pathlib import Path

import pytest

import jumar
from jumar import Client, JobSpec
from jumar.client import End, LogChunk, StateChange
from jumar.client.config import find, store_login
from jumar.errors import (
    BadInput,
    Conflict,
    NotAllowed,
    NotFound,
    NotSignedIn,
    ServerUnreachable,
)
from jumar.settings import load
from jumar.spec.states import JobState

ECHO = {"name": "echo", "command": ["echo", "hi"]}


def test_a_mapping_and_a_spec_are_the_same_job(client: Client) -> None:
    one = client.wait(client.submit(ECHO).id, timeout_s=180)
    two = client.wait(client.submit(JobSpec.model_validate(ECHO)).id, timeout_s=180)
    assert one.spec == two.spec
    assert one.state is two.state is JobState.SUCCEEDED
    assert b"".join(client.logs(one.id)) == b"hi\n"


def test_an_ended_job_is_removed_and_one_that_runs_is_not(client: Client) -> None:
    job = client.wait(client.submit(ECHO).id, timeout_s=180)
    client.remove(job.id)
    with pytest.raises(NotFound):
        client.get(job.id)
    running = client.submit({"name": "long", "command": ["sleep", "600"]})
    with pytest.raises(Conflict, match="only jobs that have ended"):
        client.remove(running.id)
    client.stop(running.id)


def test_a_folder_is_sent_once(client: Client, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(secrets.token_hex())
    sent: list[int] = []
    command = {"name": "cat", "command": ["cat", "a.txt"]}
    job = client.submit(command, code=tmp_path, on_progress=lambda done, total: sent.append(done))
    assert sent
    sent.clear()
    again = client.submit(
        {**command, "code": str(tmp_path)}, on_progress=lambda done, total: sent.append(done)
    )
    assert not sent
    assert job.spec["code"] == again.spec["code"]
    client.wait(again.id, timeout_s=180)
    assert b"".join(client.logs(again.id)).decode() == (tmp_path / "a.txt").read_text()


def test_a_megabyte_that_no_memory_block_fits(client: Client, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(secrets.token_bytes(3 << 20))
    job = client.submit({"name": "sum", "command": ["sha256sum", "big"]}, code=tmp_path)
    assert client.wait(job.id, timeout_s=180).state is JobState.SUCCEEDED


def test_the_same_key_is_the_same_job(client: Client) -> None:
    key, request = secrets.token_hex(8), {"name": "once", "command": ["true"]}
    first = client.submit(request, key=key)
    assert client.submit(request, key=key).id == first.id
    assert client.submit(request).id != first.id


def test_jobs_by_id_by_its_start_and_by_name(client: Client) -> None:
    name = f"named-{secrets.token_hex(4)}"
    job = client.submit({**ECHO, "name": name})
    assert client.get(job.id).id == client.get(job.id[:7]).id == client.get(name).id == job.id
    with pytest.raises(NotFound):
        client.get("zzzzzzzzzz")


def test_pages_and_all_jobs(client: Client) -> None:
    text = secrets.token_hex(5)
    made = [client.submit({**ECHO, "name": f"{text}-{i}"}).id for i in range(5)]
    first = client.page(text=text, limit=2)
    assert [job.id for job in first.jobs] == [made[4], made[3]]
    assert first.total == 5
    second = client.page(text=text, limit=2, before=first.next_before)
    assert [job.id for job in second.jobs] == [made[2], made[1]]
    assert [job.id for job in client.jobs(text=text)] == made[::-1]


def test_follow_ends_with_the_job(client: Client) -> None:
    job = client.submit({"name": "two", "command": "echo one; sleep 0.3; echo 二"})
    events = list(client.follow(job.id))
    text = "".join(event.text for event in events if isinstance(event, LogChunk))
    assert text == "one\n二\n"
    states = [event.state for event in events if isinstance(event, StateChange)]
    assert states[-1] is JobState.SUCCEEDED
    assert events[-1] == End(JobState.SUCCEEDED)
    chunks = [event for event in events if isinstance(event, LogChunk)]
    assert chunks[-1].end == len(text.encode())


def test_follow_from_the_middle(client: Client) -> None:
    job = client.submit({"name": "seq", "command": ["seq", "5"]})
    client.wait(job.id, timeout_s=180)
    text = [event.text for event in client.follow(job.id, offset=4) if isinstance(event, LogChunk)]
    assert "".join(text) == "3\n4\n5\n"
    text = [event.text for event in client.follow(job.id, tail=1) if isinstance(event, LogChunk)]
    assert "".join(text) == "5\n"


def test_stop_twice_is_once_and_a_finished_job_is_a_conflict(client: Client) -> None:
    job = client.submit({"name": "long", "command": ["sleep", "60"], "grace": 1})
    client.stop(job.id)
    client.stop(job.id)
    assert client.wait(job.id, timeout_s=180).state is JobState.STOPPED
    assert client.stop(job.id).state is JobState.STOPPED
    done = client.submit({"name": "short", "command": ["true"]})
    assert client.wait(done.id, timeout_s=180).state is JobState.SUCCEEDED
    with pytest.raises(Conflict):
        client.stop(done.id)
    assert client.get(client.rerun(job.id).id).name == "long"
    client.stop("long")


def test_wait_has_a_limit(client: Client) -> None:
    job = client.submit({"name": "long", "command": ["sleep", "600"]})
    with pytest.raises(TimeoutError, match=job.id):
        client.wait(job.id, timeout_s=0.3)
    client.stop(job.id)


def test_plan_queues_nothing(client: Client, tmp_path: Path) -> None:
    (tmp_path / "x.sh").write_text("echo hi")
    before = client.page().total
    plan = client.plan({"name": "x", "command": ["sh", "x.sh"]}, code=tmp_path)
    assert plan.engine == "local"
    assert client.page().total == before


def test_log_files_and_cards(client: Client) -> None:
    spec = {"name": "two", "command": ["echo", "x"], "device": "cpu:2", "ranks": "device"}
    job = client.wait(client.submit({**spec, "type": "distributed"}).id, timeout_s=180)
    assert [(file.node, file.rank, file.size) for file in client.log_files(job.id)] == [
        (0, 0, 2),
        (0, 1, 2),
    ]
    assert sum(card.kind == "cpu" for card in client.cards()) == 4


def test_users_roles_and_tokens(client: Client) -> None:
    name = f"bob-{secrets.token_hex(4)}"
    assert client.register(name, "long enough").role == "pending"
    with Client(client.url, client.sign_in(name, "long enough")) as bob:
        assert bob.me().name == name
        with pytest.raises(NotAllowed):
            bob.page()
        client.set_role(name, "member")
        assert bob.page().jobs is not None
        mine = client.submit(ECHO)
        with pytest.raises(NotAllowed):
            bob.get(mine.id)
        with Client(client.url, bob.new_token("script")) as script:
            assert script.me().name == name
        assert bob.login_url().startswith(client.url)
    assert name in [user.name for user in client.users()]
    with pytest.raises(Conflict):
        client.register(name, "long enough")
    with pytest.raises(NotSignedIn):
        client.sign_in(name, "wrong")
    with Client(client.url, "jm_nobody") as stranger, pytest.raises(NotSignedIn):
        stranger.page()


def test_errors_carry_the_servers_words(client: Client) -> None:
    with pytest.raises(BadInput, match="colour: unknown field") as caught:
        client.submit({**ECHO, "colour": "red"})
    assert caught.value.hint
    with pytest.raises(BadInput, match="there is no folder"):
        client.submit({**ECHO, "code": "/no/such/folder"})
    with pytest.raises(BadInput):
        client.get("")


def test_server_info_and_version(client: Client) -> None:
    info = client.server()
    assert (info.version, info.url) == (jumar.__version__, client.url)


def test_where_the_server_is(tmp_path: Path) -> None:
    def settings(**variables: str) -> object:
        return find(load({"JUMAR_HOME": str(tmp_path), **variables}))

    assert settings() is None
    (tmp_path / "client.json").write_text('{"url": "http://own:1", "token": "jm_own"}')
    own = find(load({"JUMAR_HOME": str(tmp_path)}))
    assert own is not None
    assert (own.url, own.token, own.embedded) == ("http://own:1", "jm_own", True)
    store_login(load({"JUMAR_HOME": str(tmp_path)}), "http://login:2/", "jm_login")
    login = find(load({"JUMAR_HOME": str(tmp_path)}))
    assert login is not None
    assert (login.url, login.token, login.embedded) == ("http://login:2", "jm_login", False)
    named = find(load({"JUMAR_HOME": str(tmp_path), "JUMAR_SERVER": "http://other:3"}))
    assert named is not None
    assert (named.url, named.token) == ("http://other:3", "")


def test_no_server_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUMAR_HOME", str(tmp_path))
    monkeypatch.delenv("JUMAR_SERVER", raising=False)
    with pytest.raises(ServerUnreachable, match="no server is configured"):
        Client()
