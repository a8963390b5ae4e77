"""Jobs with an image, in real containers of podman."""

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.containers import make_image, podman, write_config
from tests.engine.conftest import CARDS, Workshop, log_of, wait_final
from tests.engine.test_slurm_beside import Host
from tests.waiting import wait_for

from jumar.engine.local.containers import Containers
from jumar.engine.local.engine import LocalEngine
from jumar.engine.shared.mounts import Mounts
from jumar.errors import SubmitRefused
from jumar.launch.jobdir.claims import read_claim
from jumar.launch.jobdir.files import JobDir
from jumar.launch.node.side import PROGRAM
from jumar.launch.processes import frames
from jumar.launch.processes.frames import json_frame
from jumar.spec.devices import DeviceKind
from jumar.spec.job import JobSpec
from jumar.spec.states import AttemptState

NAME = f"tiny:{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """A file with the image; podman has it as NAME."""
    folder = tmp_path_factory.mktemp("image")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_CONF", write_config(folder))
        yield make_image(folder, NAME)
        subprocess.run(["podman", "rmi", "--force", NAME], capture_output=True, timeout=60)


def containers_left(job_id: str) -> str:
    return podman("ps", "--all", "--format", "{{.Names}}", "--filter", f"name=jumar-{job_id}")


def test_the_job_runs_in_its_image_with_its_own_files(
    workshop: Workshop, image: Path, tmp_path: Path
) -> None:
    for name in ("data", "out", "private"):
        (tmp_path / name).mkdir()
    (tmp_path / "data/a.txt").write_text("seven\n")
    script = (
        "cat /etc/os-release; source /pod.env && echo job $DLWS_JOB_ID; cat {data}/a.txt;"
        " echo saved > {model}/w; id -u; echo $FROM_IMAGE $SECRET_TOKEN $HOME; pwd;"
        f" ls {tmp_path}/private 2>/dev/null || echo closed; sudo -E echo $0 as ever;"
        " touch {data}/x 2>/dev/null || echo read-only; exit 3"
    )
    made, seen = workshop.run(
        script,
        image=NAME,
        inputs={"data": str(tmp_path / "data")},
        outputs={"model": str(tmp_path / "out")},
        environment={"SECRET_TOKEN": "multi\nline"},
    )
    lines = log_of(made).splitlines()
    assert lines[:4] == ["NAME=tiny", f"job {made.job_id}", "seven", str(os.getuid())]
    assert lines[4] == f"yes multi line {made.directory}/home"
    assert lines[5:] == [str(made.directory / "code"), "closed", "sh as ever", "read-only"]
    assert (seen.state, seen.exit_code) == (AttemptState.FAILED, 3)
    assert (tmp_path / "out/w").read_text() == "saved\n"
    assert containers_left(made.job_id) == ""


def test_a_stop_reaches_what_a_shell_runs_and_leaves_time_to_save(
    workshop: Workshop, image: Path
) -> None:
    save = (
        "trap 'sleep 0.3; echo saved > done.txt; exit 0' TERM; echo up; while :; do sleep 0.1; done"
    )
    command = ["sh", "-c", f'sh -c "{save}"; echo after']
    made = workshop.attempt(command, image=NAME, grace=60)
    workshop.engine.start(made)
    wait_for(lambda: "up" in log_of(made), "the command runs")
    workshop.engine.stop(made, AttemptState.STOPPED)
    assert wait_final(workshop.engine, made).state == AttemptState.STOPPED
    assert (made.directory / "code/done.txt").read_text() == "saved\n"
    assert containers_left(made.job_id) == ""


@pytest.mark.parametrize("whom", ["keeper", "supervisor"])
def test_nothing_is_left_when_the_launcher_is_killed(
    workshop: Workshop, image: Path, whom: str
) -> None:
    made = workshop.attempt("echo up; sleep 600", image=NAME)
    workshop.engine.start(made)
    wait_for(lambda: "up" in log_of(made), "the command runs")
    claim = read_claim(JobDir(str(made.directory), 1))
    assert claim is not None
    os.kill(getattr(claim, whom).pid, signal.SIGKILL)
    assert wait_final(workshop.engine, made).state.is_final
    wait_for(lambda: not workshop.left_over(), "no process is left")


def test_an_image_file_is_loaded_and_a_crash_is_named(workshop: Workshop, image: Path) -> None:
    made, seen = workshop.run("kill -SEGV $$", image=str(image))
    assert seen.state == AttemptState.FAILED
    assert "SIGSEGV" in str(seen.reason)
    broken = image.with_name("broken.tar")
    broken.write_text("no image")
    made, seen = workshop.run("true", image=str(broken))
    assert (seen.state, seen.cause) == (AttemptState.FAILED, "image"), log_of(made)


def test_two_ranks_run_in_a_container_each(workshop: Workshop, image: Path) -> None:
    command = ["sh", "-c", "echo $RANK of $WORLD_SIZE"]
    made, seen = workshop.run(command, image=NAME, device="sim:2", ranks="device", cards=(0, 1))
    assert seen.state == AttemptState.SUCCEEDED
    assert (log_of(made), log_of(made, 1)) == ("0 of 2\n", "1 of 2\n")


def test_images_that_cannot_be_run_are_refused(workshop: Workshop, image: Path) -> None:
    def refusal(**fields: str) -> str:
        spec = JobSpec.model_validate({"name": "x", "command": ["train"], **fields})
        with pytest.raises(SubmitRefused) as caught:
            workshop.engine.plan(spec, user="ann")
        return f"{caught.value.message} {caught.value.hint}"

    assert "podman pull none:1" in refusal(image="none:1")
    assert "does not exist on this machine" in refusal(image="/none.tar")
    assert "not the name" in refusal(image="--privileged")
    assert "pip install" in refusal(image=NAME, activate="torch")
    assert NAME in [one.name for one in workshop.engine.images()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "/nowhere")
        assert "neither podman nor docker" in refusal(image=NAME)


def test_a_container_gets_the_drivers_and_its_own_cards(tmp_path: Path, image: Path) -> None:
    for path in ("dev/davinci2", "dev/davinci3", "dev/davinci_manager", "usr/local/dcmi/x"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    spec = JobSpec.model_validate(
        {"name": "x", "command": ["t"], "device": f"{DeviceKind.NPU}:1", "image": NAME}
    )
    request = Containers(tmp_path).request(spec, [3])
    assert request is not None
    assert request["options"] == [
        *("--device=/dev/davinci3", "--device=/dev/davinci_manager"),
        "--volume=/usr/local/dcmi:/usr/local/dcmi:ro",
    ]


def test_ranks_in_containers_share_a_closed_network(image: Path, tmp_path: Path) -> None:
    closed = Workshop(tmp_path)
    closed.engine.close()
    closed.engine = LocalEngine(tmp_path, CARDS, stages=closed.stages, network="closed")
    show = "tail -n +3 /proc/net/dev | cut -d: -f1; readlink /proc/self/ns/net"
    two: dict[str, Any] = {"device": "cpu:2", "type": "distributed", "ranks": "device"}
    made, seen = closed.run(show, image=NAME, cards=(0, 1), **two)
    assert seen.state is AttemptState.SUCCEEDED
    own, *rest = log_of(made, 0).split()
    assert own == "lo"
    assert log_of(made, 1).split() == [own, *rest]
    assert rest != [os.readlink("/proc/self/ns/net")]
    closed.engine.close()


def test_what_runs_beside_a_container_s_command_holds_up_no_stop(
    workshop: Workshop, image: Path
) -> None:
    made = workshop.attempt("echo up; sleep 600", image=NAME, grace=3600)
    workshop.engine.start(made)
    wait_for(lambda: "up" in log_of(made), "the command runs")
    with workshop.engine.start_beside(made) as stream:
        words = ["sh", "-c", "cat /etc/os-release; sleep 600"]
        stream.sendall(json_frame(frames.REQUEST, {"command": words}))
        assert Host(stream).next()[:2] == (frames.OUTPUT, b"NAME=tiny\n")
        workshop.engine.stop(made, AttemptState.STOPPED)
        assert wait_final(workshop.engine, made).state == AttemptState.STOPPED
    wait_for(lambda: not workshop.left_over(), "all have ended")


@pytest.mark.full
def test_jupyter_is_that_of_the_container_and_ends_with_it(image: Path, tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    shop.engine.close()
    # The image has no Python: it gets this one.
    folders = ["/usr", "/lib", "/lib64", sys.base_prefix, sys.prefix]
    mounts = Mounts({folder: os.path.realpath(folder) for folder in folders})
    shop.engine = LocalEngine(tmp_path, CARDS, stages=shop.stages, mounts=mounts)
    path = {"PATH": f"{sys.prefix}/bin:/usr/bin:/bin"}
    made = shop.attempt("echo up; sleep 600", image=NAME, environment=path, grace=3600)
    shop.engine.start(made)
    wait_for(lambda: "up" in log_of(made), "the command runs")
    (made.directory / "code/release").symlink_to("/etc/os-release")
    with shop.engine.start_beside(made) as stream:
        host = Host(stream)
        stream.sendall(json_frame(frames.REQUEST, {"endpoint": "jupyter"}))
        assert host.next()[0] == frames.ALIVE
        with host.connect(1, PROGRAM) as asked:
            asked.sendall(b"GET /api/contents/release HTTP/1.0\r\nHost: localhost\r\n\r\n")
            with asked.makefile("rb") as answer:
                found = answer.read().partition(b"\r\n\r\n")[2]
        assert json.loads(found)["content"] == "NAME=tiny\n"
        # It holds up no stop, and nothing is left of it.
        shop.engine.stop(made, AttemptState.STOPPED)
        assert wait_final(shop.engine, made).state == AttemptState.STOPPED
    wait_for(lambda: not shop.left_over(), "Jupyter has ended")
    wait_for(lambda: not list(made.directory.glob("side-*")), "its folder is gone")
    shop.engine.close()
