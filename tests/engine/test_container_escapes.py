"""What a job in a container does to get at files outside of it: by what it leaves in its own folder for
the supervisor, which runs outside with its user's rights."""

import http.client
import json
import os
import secrets
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.containers import make_image, write_config
from tests.engine.conftest import Workshop, log_of, wait_final, wait_for
from tests.engine.test_slurm_beside import Host
from tests.track.events_file import event, record, simple, version

from jumar.database.access import open_database
from jumar.engine.shared.files import given_places
from jumar.errors import JobFileNotFound
from jumar.jobs.service import JobService
from jumar.launch.jobdir.files import JobDir
from jumar.launch.jobdir.job import Job
from jumar.launch.prepare.containing import given_folders, not_shown, wrapping_of
from jumar.launch.prepare.staging import link_data
from jumar.launch.processes import frames
from jumar.launch.processes.container import Container, Wrapping
from jumar.launch.processes.frames import json_frame
from jumar.launch.processes.namespace import Mount
from jumar.spec.job import JobSpec
from jumar.spec.states import AttemptState

NAME = f"escapes:{secrets.token_hex(4)}"
LN = "/bin/busybox ln -sfn"
MV = "/bin/busybox mv"
WHOLE = "\\200\\002N."
"""A pickle, as printf takes it."""
TORN = "\\200\\002"


@pytest.fixture(scope="module", autouse=True)
def image(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    folder = tmp_path_factory.mktemp("image")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_CONF", write_config(folder))
        make_image(folder, NAME)
        yield
        subprocess.run(["podman", "rmi", "--force", NAME], capture_output=True, timeout=60)


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A folder that the job was not given."""
    folder = tmp_path / "private"
    folder.mkdir()
    (folder / "key.pkl").write_bytes(b"\x80\x02N.")
    (folder / "secret").write_text("sesame")
    return folder


def test_nothing_outside_is_read_or_written_for_the_next_attempt(
    workshop: Workshop, private: Path
) -> None:
    """Links in the place of all that the platform opens in a job's folder, and a version that it never kept."""
    place = str(private).strip("/").replace("/", "-")[-200:]
    (private / "half.pkl").write_bytes(b"\x80\x02")
    attack = f"""
        {LN} {private} code/output
        mkdir -p code/checkpoints; {LN} {private} code/checkpoints/.torn
        mkdir -p out versions/{place}/1; {LN} {private} out/model
        /bin/busybox printf '{WHOLE}' > versions/{place}/1/planted.pth
        rm -r cache; {LN} {private} cache
        rm -r ckpt; {LN} {private} ckpt
        {LN} {private} ckpt/.torn; /bin/busybox printf '{TORN}' > ckpt/planted.pth
        {MV} logs/node0 logs/was; {LN} {private} logs/node0
        touch -d 2020-01-01 logs
        {MV} attempts was; {LN} {private} attempts
        for i in $(/bin/busybox seq 300); do {LN} {private}/secret pod.env.$i.new; done
        {LN} {private}/secret pod.env
    """
    look = "sleep 3; cat /cache/secret versions/*/*/key.pkl out/model/secret pod.env; echo second"
    script = f"cd $JUMAR_JOB_DIR; if [ $JUMAR_ATTEMPT = 1 ]; then {attack}\nelse {look}; fi; true"
    fields = {"image": NAME, "environment": {"USES": "/cache"}}
    first, seen = workshop.run(script, **fields)
    assert seen.state is AttemptState.SUCCEEDED, (seen, log_of(first))
    assert seen.saved is None
    second, _ = workshop.run(script, number=2, job_id=first.job_id, **fields)
    assert "second" in log_of(second)
    assert "sesame" not in log_of(second)
    assert sorted(os.listdir(private)) == ["half.pkl", "key.pkl", "secret"]
    assert (private / "secret").read_text() == "sesame"
    assert not list((first.directory / "versions").rglob("*.p*"))


def test_nothing_outside_is_sent(workshop: Workshop, private: Path) -> None:
    """By links in an output, and by a plan of the job's own."""
    plan = f"""'s#"path": "[^"]*"#"path": "{private}"#'"""
    attack = f"""
        cd $JUMAR_JOB_DIR/out/model
        echo x > x; {LN} x inside; {LN} {private} folder; {LN} {private}/secret file
        cd ../../attempts/1; /bin/busybox sed -i {plan} stage.json
        {LN} {private}/secret staging.json.lock
    """
    workshop.run(attack, image=NAME, outputs={"model": "obs://lab/out"})
    sent = workshop.home / "store/lab/out"
    assert sorted(path.name for path in sent.rglob("*")) == ["inside", "x"]
    assert (private / "secret").read_text() == "sesame"


def test_results_that_lead_to_an_input_are_sent(workshop: Workshop, tmp_path: Path) -> None:
    """As scripts save the tokenizer of the model that they began with: what was given may be given back."""
    base, disk = tmp_path / "base", tmp_path / "disk"
    disk.mkdir()
    base.symlink_to(disk)
    (disk / "tokenizer").write_text("words")
    stored = workshop.home / "store/lab/in"
    stored.mkdir(parents=True)
    (stored / "config").write_text("wide")
    script = f"cd $JUMAR_OUTPUT_MODEL; {LN} $JUMAR_INPUT_BASE/tokenizer .; {LN} $JUMAR_INPUT_OLD/config ."
    made, _ = workshop.run(
        script,
        image=NAME,
        inputs={"base": str(base), "old": "obs://lab/in"},
        outputs={"model": "obs://lab/out"},
    )
    sent = workshop.home / "store/lab/out"
    found = {path.name: path.read_text() for path in sent.rglob("*")}
    assert found == {"tokenizer": "words", "config": "wide"}, log_of(made)


def test_no_link_of_the_job_widens_what_is_sent(workshop: Workshop, private: Path) -> None:
    """A declared output in the working folder, which the job has replaced by a link."""
    work = private.parent / "work"
    work.mkdir()
    made = workshop.attempt(
        "true", image=NAME, workdir=str(work), outputs={"b": str(work / "b")}, inputs={"c": "c"}
    )
    for name in ("b", "c"):
        (work / name).symlink_to(private)
    assert given_places(made) == (str(made.directory), str(work))


def test_a_command_beside_the_job_stays_in_its_container(workshop: Workshop, private: Path) -> None:
    forged = json.dumps({"environment": {"PATH": "/bin:/usr/bin"}, "folder": str(private)})
    command = f"""
        cd $JUMAR_JOB_DIR/attempts/1; while [ ! -e beside.json ]; do sleep 0.1; done
        rm -f beside.json; echo '{forged}' > beside.json; echo up; sleep 600
    """
    made = workshop.attempt(command, image=NAME)
    workshop.engine.start(made)
    wait_for(lambda: "up" in log_of(made), "the command runs")
    with workshop.engine.start_beside(made) as stream:
        words = ["cat", "/etc/os-release"]
        stream.sendall(json_frame(frames.REQUEST, {"command": words}))
        assert Host(stream).next()[:2] == (frames.OUTPUT, b"NAME=tiny\n")
    workshop.engine.stop(made, AttemptState.STOPPED)
    wait_final(workshop.engine, made)


def test_what_is_declared_is_there_and_inputs_are_only_read(
    workshop: Workshop, tmp_path: Path
) -> None:
    """A working folder with an input and the checkpoints in it, one more input under a fixed path, and an output elsewhere."""
    work, away = tmp_path / "work", tmp_path / "away"
    (work / "data").mkdir(parents=True)
    (work / "data/x").write_text("seven\n")
    fixed = "/home/ma-user/modelarts/inputs/data_0"
    script = f"""
        cat data/x {fixed}/x; touch data/y {fixed}/y; touch ckpt/a $JUMAR_OUTPUT_MODEL/b here
        touch $JUMAR_JOB_DIR/x; touch $JUMAR_CACHE_DIR/c $JUMAR_TENSORBOARD_DIR/d; echo done
    """
    made, _ = workshop.run(
        script,
        image=NAME,
        workdir=str(work),
        inputs={"data": "data"},
        outputs={"model": str(away)},
        ckpt="ckpt",
    )
    assert log_of(made).splitlines()[:2] == ["seven", "seven"]
    assert log_of(made).count("Read-only file system") == 3, log_of(made)
    assert (work / "ckpt/a").exists()
    assert (work / "here").exists()
    assert (away / "b").exists()
    assert (made.directory / "tensorboard/d").exists()


def test_no_rank_chooses_what_the_container_of_the_next_is_given(tmp_path: Path) -> None:
    """By a link where an input was, in a folder that all ranks write to."""
    root, work = tmp_path / "job", tmp_path / "work"
    (work / "data").mkdir(parents=True)
    root.mkdir()
    job = Job(
        *("j", "x", "ann", ["true"], "folder", str(work), None, None, "cpu", 2, "device", None),
        environment={},
        inputs={"data": str(work / "data")},
        outputs={},
        requirements=None,
        endpoints=(),
        grace_s=1.0,
        env_cache="",
    )
    job = job._replace(ckpt=str(work / "a/ckpt"))
    fixed = [Mount("/fixed", str(work / "data"))]
    container = Container("/usr/bin/podman", NAME)

    def sources(*, is_alone: bool) -> set[str]:
        where = JobDir(str(root), 1)
        made = wrapping_of(where, job, container, str(work), fixed, is_alone=is_alone)
        # Whoever looks for it there is told.
        assert len(not_shown(fixed, made)) == (str(work / "data") not in _sources(made))
        return _sources(made)

    job = job._replace(launch="ray")
    assert {str(root / "ray"), str(work / "data")} <= sources(is_alone=True)
    assert str(work / "data") not in sources(is_alone=False)
    given = given_folders(JobDir(str(root), 1), job, str(work))
    link_data(JobDir(str(root), 1), job, given)
    (work / "data").rmdir()
    (work / "data").symlink_to(tmp_path)
    assert str(work / "data") not in sources(is_alone=True)
    # Nor is a folder made where a link in the place of the one above it leads.
    (work / "a/ckpt").rmdir()
    (work / "a").rmdir()
    (work / "a").symlink_to(tmp_path)
    with pytest.raises(NotADirectoryError):
        link_data(JobDir(str(root), 1), job, given)
    assert not (tmp_path / "ckpt").exists()


def test_nothing_outside_is_shown_or_downloaded(workshop: Workshop, private: Path) -> None:
    """By a link in the place of an output and of the checkpoints, which are in the working folder and so the job's
    to replace."""
    work = private.parent / "work"
    work.mkdir()
    outputs = {"b": str(work / "b"), "c": str(work / "c")}
    attack = f"rm -r b ckpt; {LN} {private} b; {LN} {private} ckpt; echo mine > c/model"
    fields = {"image": NAME, "workdir": str(work), "ckpt": "ckpt", "outputs": outputs}
    spec = JobSpec.model_validate({"name": "a", "command": attack, **fields})
    database = open_database(f"sqlite:///{workshop.home / 'jumar.db'}")
    service = JobService(database=database, engine=workshop.engine, home=workshop.home)
    service.start()
    try:
        job = service.submit(spec, user="ann").id
        wait_for(lambda: service.get(job).state.is_final, "the end of the job")
        assert (work / "b").is_symlink()
        shown = {file.path for file in service.job_files(job, "", after="", limit=1000).files}
        assert "out/c/model" in shown
        assert not [path for path in shown if path.endswith(("secret", "key.pkl"))]
        for path in ("out/b/secret", "ckpt/secret"):
            with pytest.raises(JobFileNotFound):
                service.open_file(job, path)
    finally:
        service.close()


def test_tensorboard_shows_nothing_outside_and_runs_nothing_of_the_job(
    workshop: Workshop, private: Path
) -> None:
    """The platform's own, which runs outside where the image has none: by links of all kinds, by files that the
    job's own name, by a pipe, and by modules where the job's Python looks for them."""
    pytest.importorskip("tensorboard")
    work, mark = private.parent / "work", private.parent / "mark"
    for folder, name in ((private, "sesame"), (work / "runs/own", "mine")):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "events.out.tfevents.1.h").write_bytes(_curve(name))
    attack = f"""
        {LN} {private} runs/folder; mkdir runs/file runs/pipe runs/named
        {LN} {private}/events.out.tfevents.1.h runs/file/events.out.tfevents.1.h
        {LN} {private} logs; {LN} {private} lightning_logs
        {LN} {work}/runs/own runs/again
        /bin/busybox mkfifo runs/pipe/events.out.tfevents.1.h
        cp runs/own/events* runs/named
        echo 'embeddings {{ tensor_name: "x" metadata_path: "{private}/secret" }}' > runs/named/projector_config.pbtxt
        mkdir lib; echo 'open("{mark}", "w")' > lib/sitecustomize.py; cp lib/sitecustomize.py lib/tensorboard.py
        echo up; sleep 600
    """
    fields = {
        "workdir": str(work),
        "environment": {"PYTHONPATH": str(work / "lib")},
    }
    made = workshop.attempt(attack, image=NAME, **fields)
    workshop.engine.start(made)
    wait_for(lambda: "up" in log_of(made), "the command runs")
    with workshop.engine.start_beside(made) as stream:
        host = Host(stream)
        stream.sendall(json_frame(frames.REQUEST, {"endpoint": "tensorboard", "idle_s": 0}))
        assert host.next()[0] == frames.ALIVE

        def told(path: str) -> str:
            connection = http.client.HTTPConnection("board", timeout=60)
            connection.sock = host.connect(1, "program")
            connection.request("GET", f"/data/plugin/{path}")
            with connection.getresponse() as answer:
                return answer.read().decode()

        wait_for(lambda: told("scalars/tags").count("mine") >= 3, "its own curves are shown")
        with (work / "runs/own/events.out.tfevents.1.h").open("ab") as file:
            file.write(record(event(2.0, 2, simple("later", 0.5))))
        # It has then looked at everything that was there before.
        wait_for(lambda: "later" in told("scalars/tags"), "it looks again")
        assert "sesame" not in told("scalars/tags")
        (run,) = [name for name in json.loads(told("scalars/tags")) if "named" in name]
        assert "sesame" not in told(f"projector/metadata?run={run}&name=x")
    assert not mark.exists()
    workshop.engine.stop(made, AttemptState.STOPPED)
    wait_final(workshop.engine, made)


def _curve(name: str) -> bytes:
    return version() + record(event(1.0, 1, simple(name, 0.5)))


def _sources(wrapping: Wrapping) -> set[str]:
    return {mount.source for mount in (*wrapping.mounts, *wrapping.read_only)}
