"""Tutorial 002: a TensorFlow job on two NPUs of an Apulis platform."""

import json
import os
import platform as python_platform
import re
import secrets
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.cli.conftest import Jumar, caller, environment_for
from tests.containers import make_image
from tests.rows.conftest import LIMIT_S, Machine, fetch, wait_for_state, write
from tests.store.served import Served

PASSWORD = "correct horse"
DOCS = Path(__file__).parents[2] / "docs"
NAMES = ("PYTHONPATH", "LD_LIBRARY_PATH", "TBE_IMPL_PATH", "PATH", "ASCEND_OPP_PATH")


def test_row_35_hccl_json_of_two_cards(jumar: Jumar, tmp_path: Path) -> None:
    made = ("ranktable", "make", "--ids", "0-1", "--format", "lab", "--chip", "910")
    jumar(*made, "-o", "hccl.json")
    table = json.loads((tmp_path / "hccl.json").read_text())
    (group,) = table["group_list"]
    assert (table["deploy_mode"], group["device_num"], group["server_num"]) == ("lab", "2", "1")
    assert [
        (rank["rank_id"], rank["devices"][0]["device_id"], rank["devices"][0]["device_ip"])
        for rank in group["instance_list"]
    ] == [("0", "0", "10.20.0.10"), ("1", "1", "10.20.0.11")]
    jumar("ranktable", "check", "hccl.json", "--chip", "910")


def test_row_36_the_variables_of_cann_20(
    jumar: Jumar, jumar_program: str, machine: Machine, tmp_path: Path
) -> None:
    arch = {"aarch64": "arm64"}.get(python_platform.machine(), python_platform.machine())
    home = f"Ascend/ascend-toolkit/20.0.0.B035/{arch}-linux_gcc7.3.0"
    operators = f"{home}/opp/op_impl/built-in/ai_core/tbe"
    for folder in (operators, f"{home}/fwkacllib/lib64", f"{home}/fwkacllib/ccec_compiler/bin"):
        (tmp_path / folder).mkdir(parents=True)
    script = f"import json, os; print(json.dumps({{n: os.environ.get(n) for n in {NAMES!r}}}))"
    write(tmp_path, {"show.py": script, "cards.json": jumar("devices", "--json").stdout})
    own = {**machine.variables, "HOME": str(tmp_path)}
    done = subprocess.run(
        [jumar_program, "launch", "--cards", "cards.json", "--devices", "npu:1", "show.py"],
        env=environment_for(tmp_path / "home", **own),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout[done.stdout.index("{") :])
    assert found["ASCEND_OPP_PATH"] == f"{tmp_path}/{home}/opp"
    assert found["TBE_IMPL_PATH"] == f"{tmp_path}/{operators}"
    assert f"{tmp_path}/{operators}" in found["PYTHONPATH"].split(":")
    assert f"{tmp_path}/{home}/fwkacllib/lib64" in found["LD_LIBRARY_PATH"].split(":")
    assert f"{tmp_path}/{home}/fwkacllib/ccec_compiler/bin" in found["PATH"].split(":")


def test_row_37_a_user_registers_and_an_administrator_approves(
    jumar: Jumar, jumar_program: str, platform: Served, tmp_path: Path
) -> None:
    name = f"zoe-{secrets.token_hex(4)}"
    form = {"name": name, "password": PASSWORD, "repeat": PASSWORD}
    page = urllib.request.Request(
        f"{platform.url}/register",
        data=urllib.parse.urlencode(form).encode(),
        headers={"Origin": platform.url},
    )
    with urllib.request.urlopen(page, timeout=LIMIT_S) as answer:
        assert answer.status == 200
    zoe = caller(jumar_program, tmp_path / "zoe-home", tmp_path)
    zoe("login", platform.url, "--user", name, text=f"{PASSWORD}\n", rc=None)
    assert zoe("run", "--", "true", rc=None).returncode != 0
    assert re.search(rf"{name} +pending", jumar("users").stdout)
    jumar("users", "approve", name)
    zoe("login", platform.url, "--user", name, text=f"{PASSWORD}\n")
    assert zoe("run", "--follow", "--", "echo", "let in").stdout == "let in\n"


def test_row_39_name_type_and_two_devices(jumar: Jumar) -> None:
    words = ("--name", "tf115_npu_2p", "--device", "npu:2", "--framework", "tensorflow")
    script = "echo $RANK_SIZE $ASCEND_RT_VISIBLE_DEVICES; cat $RANK_TABLE_FILE"
    done = jumar("run", "-F", "--json", *words, "--", "bash", "-c", script)
    job = json.loads(done.stdout)
    assert (job["name"], job["device"], job["nodes"], job["state"]) == (
        *("tf115_npu_2p", "npu:2", 1, "succeeded"),
    )
    log = jumar("logs", job["id"]).stdout
    size, visible = log.splitlines()[0].split()
    assert (size, len(visible.split(","))) == ("2", 2)
    assert log.count('"device_id"') == 2


def test_row_47_logs_are_read_on_the_page_and_downloaded(jumar: Jumar, platform: Served) -> None:
    job = jumar("run", "--", "sh", "-c", "echo step 1; echo loss 0.5").stdout.strip()
    jumar("logs", "-f", job)
    page = fetch(platform, f"/jobs/{job}")
    assert "loss 0.5" in page
    link = re.search(r'class="download" href="([^"]+)"', page)
    assert link is not None
    assert fetch(platform, link[1]) == jumar("logs", job).stdout == "step 1\nloss 0.5\n"


APULIS_SCRIPT = """
echo npu $DLWS_IS_NPU_JOB devices $DLWS_NUM_GPU_PER_WORKER ids $VISIBLE_IDS size $RANK_SIZE
for id in ${VISIBLE_IDS//,/ }; do echo "start device $id"; done
"""


def test_row_43_the_command_is_rehearsed_on_simulated_cards(jumar: Jumar, tmp_path: Path) -> None:
    write(tmp_path, {"Resnet50_HC/run_apulis.sh": APULIS_SCRIPT})
    command = "source /pod.env && cp -r Resnet50_HC work && cd work && bash run_apulis.sh"
    words = ("run", "--follow", "--device", "sim:2", "--code", ".")
    done = jumar(*words, "--", "bash", "-c", command)
    lines = done.stdout.splitlines()
    assert "npu true devices 2 ids 0,1 size 2" in lines
    assert lines[-2:] == ["start device 0", "start device 1"]
    show = "cat $RANK_TABLE_FILE"
    table = json.loads(jumar(*words, "--", "bash", "-c", show).stdout)
    assert [d["device_id"] for d in table["server_list"][0]["device"]] == ["0", "1"]


def test_the_example_finds_itself_in_the_rank_table(jumar: Jumar) -> None:
    file = Path(__file__).parents[2] / "examples/ranktable/job.yaml"
    lines = jumar("run", "-f", str(file), "--follow").stdout.splitlines()
    assert {"rank 0 of 2 on device 0", "rank 1 of 2 on device 1"} <= set(lines)
    assert lines[-1] == "y = 3.000 x + 1.000"


def test_row_49_a_shell_in_the_running_job(jumar: Jumar, tmp_path: Path) -> None:
    run = ("run", "--device", "sim:2", "--env", "STEP=12", "--", "sleep", "600")
    job = jumar(*run).stdout.strip()
    assert wait_for_state(jumar, job, "running", "failed") == "running"
    script = "pwd; echo step $STEP; npu-smi info | grep -c 910; echo noted > notes.txt; exit 3\n"
    seen = jumar("shell", job, text=script, rc=3).stdout.splitlines()
    assert seen[:2] == [str(tmp_path), "step 12"]
    assert int(seen[2]) >= 2
    assert (tmp_path / "notes.txt").read_text() == "noted\n"
    assert jumar("exec", job, "--", "cat", "notes.txt").stdout == "noted\n"
    jumar("stop", job)


def test_row_40_a_job_is_preemptible_or_not(jumar: Jumar, tmp_path: Path) -> None:
    write(tmp_path, {"wait.sh": "trap 'exit 75' TERM\nwhile [ ! -e $1 ]; do sleep 0.1; done\n"})
    jobs = {"no": (), "yes": ("--preemptible",)}
    for name, option in jobs.items():
        jumar("run", "--name", name, "--device", "sim:4", *option, "--", "sh", "wait.sh", name)
        wait_for_state(jumar, name, "running")
    jumar("run", "--name", "urgent", "--device", "sim:4", "--follow", "--", "true")
    assert wait_for_state(jumar, "yes", "running") == "running"
    (tmp_path / "yes").touch()
    (tmp_path / "no").touch()
    for name in jobs:
        assert wait_for_state(jumar, name, "succeeded", "failed") == "succeeded"
    shown = {name: json.loads(jumar("show", name, "--json").stdout)["attempts"] for name in jobs}
    assert [one["state"] for one in shown["yes"]] == ["preempted", "succeeded"]
    assert [one["state"] for one in shown["no"]] == ["succeeded"]


def test_row_38_the_page_submit_training_job(jumar: Jumar, platform: Served) -> None:
    page = fetch(platform, "/submit")
    for label in ("Job Name", "Job Type", "Preemptible Job", "Device Type", "Number of Devices"):
        assert f">{label}</label>" in page
    form = {
        "name": "tf115_npu_2p",
        "type": "regular",
        "preemptible": "no",
        "device_kind": "npu",
        "device_count": "2",
        "command": "source /pod.env && echo devices $DLWS_NUM_GPU_PER_WORKER",
    }
    request = urllib.request.Request(
        f"{platform.url}/submit",
        data=urllib.parse.urlencode(form).encode(),
        headers={
            "Origin": platform.url,
            "Cookie": f"jumar_session={platform.tokens['admin']}",
        },
    )
    with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
        job = answer.url.rpartition("/")[2]
    assert wait_for_state(jumar, job, "succeeded", "failed") == "succeeded"
    assert jumar("logs", job).stdout == "devices 2\n"


def test_row_50_the_use_of_the_jobs_cards(jumar: Jumar, platform: Served, tmp_path: Path) -> None:
    busy = 'until test -e "$GO"; do :; done'
    go = tmp_path / "go"
    words = ("--device", "npu:2", "--env", f"GO={go}", "--", "sh", "-c", busy)
    job = jumar("run", *words).stdout.strip()
    until = time.monotonic() + LIMIT_S
    while True:
        used = json.loads(fetch(platform, f"/api/v1/jobs/{job}/usage"))
        measured = {(curve["name"], curve["card"]): curve["y"] for curve in used["curves"]}
        # On a busy machine the first samples may lack one of them.
        is_all = {card for _, card in measured} >= {None, "0", "1"}
        if is_all and len(used["times"]) > 1 and measured.get(("memory_gb", "1")):
            break
        assert time.monotonic() < until, used
        time.sleep(0.5)
    told = fetch(platform, "/metrics")
    dashboard = (DOCS / "reference" / "grafana.json").read_text()
    go.touch()
    assert wait_for_state(jumar, job, "succeeded", "failed") == "succeeded"
    # As npu-smi tells it of each of its cards: 3391 MB in use, 41 degrees.
    assert {card for _, card in measured} == {None, "0", "1"}
    assert measured["memory_gb", "0"][-1] == 3.39
    assert measured["temperature_c", "1"][-1] == 41
    assert measured["cpu_cores", None][-1] > 0.05
    assert re.search(rf'jumar_card_held{{kind="npu",node="[^"]*",card="0",job="{job}"', told)
    for name in set(re.findall(r"jumar_\w+", dashboard)):
        assert f"# TYPE {name} gauge" in told
    # After the job as well.
    assert len(json.loads(fetch(platform, f"/api/v1/jobs/{job}/usage"))["times"]) > 1
    assert "npu" in jumar("usage").stdout


SEEDED = "source /pod.env && cp -r /data/{name} /tmp/ && cd /tmp/{name}/ && ./run_apulis.sh"


def test_row_42_the_command_with_sudo_as_it_stands(jumar: Jumar, platform: Served) -> None:
    name = f"Resnet50_{secrets.token_hex(4)}"
    script = f"#!/bin/bash\n{APULIS_SCRIPT}\nrm -r /tmp/{name}\n"
    path = write(platform.home.parent / "nfs", {f"{name}/run_apulis.sh": script})
    (path / name / "run_apulis.sh").chmod(0o755)
    command = f"sudo -E bash -c '{SEEDED.format(name=name)}'"
    first = jumar("run", "--follow", "--device", "sim:2", "--", "bash", "-c", command)
    words = ("sudo", "-E", "-u", "root", "A=3", "bash", "-c", "echo $A $(id -u)")
    second = jumar("run", "--follow", "--device", "sim:2", "--", *words)
    assert first.stdout.splitlines()[-2:] == ["start device 0", "start device 1"]
    assert second.stdout.split() == ["3", str(os.getuid())]


def test_row_44_data_means_a_folder_of_the_site(jumar: Jumar, platform: Served) -> None:
    name = f"set-{secrets.token_hex(4)}"
    write(platform.home.parent / "nfs", {f"{name}/a.txt": "seven\n"})
    shown = jumar(*("run", "--follow", "--workdir", f"/data/{name}", "--"), "cat", "a.txt")
    given = ("run", "--follow", "--input", f"data=/data/{name}")
    listed = jumar(*given, "--", "sh", "-c", "ls {data} && ls /data")
    assert (shown.stdout, listed.stdout.split()[0]) == ("seven\n", "a.txt")
    assert name in listed.stdout.split()
    missing = jumar("run", "--input", "data=/data/none", "--", "true", rc=2)
    assert "does not exist" in missing.stderr


@pytest.fixture(scope="module")
def tf_image(platform: Served, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """An image as the platform's administrator has loaded it."""
    name = f"tf:1.15-rc1-{secrets.token_hex(4)}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_CONF", str(platform.home.parent / "containers.conf"))
        make_image(tmp_path_factory.mktemp("tf"), name)
        yield name
        subprocess.run(["podman", "rmi", "--force", name], capture_output=True, timeout=LIMIT_S)


def test_row_34_a_docker_image_beside_the_driver(jumar: Jumar, tf_image: str) -> None:
    names = [image["name"] for image in json.loads(jumar("images", "--json").stdout)]
    assert tf_image in names
    script = "cat /etc/os-release; echo $ASCEND_RT_VISIBLE_DEVICES; cat $RANK_TABLE_FILE"
    words = ("--device", "npu:2", "--framework", "tensorflow", "--image", tf_image)
    shown = jumar("run", "--follow", *words, "--", "sh", "-c", script).stdout
    assert shown.splitlines()[:2] == ["NAME=tiny", "0,1"]
    assert shown.count('"device_id"') == 2


def test_row_41_the_image_that_is_named_is_used(
    jumar: Jumar, platform: Served, tf_image: str
) -> None:
    name = f"Resnet50_{secrets.token_hex(4)}"
    script = "#!/bin/sh\necho npu $DLWS_IS_NPU_JOB devices $DLWS_NUM_GPU_PER_WORKER\n"
    path = write(platform.home.parent / "nfs", {f"{name}/run_apulis.sh": script})
    (path / name / "run_apulis.sh").chmod(0o755)
    command = f"sudo -E sh -c '{SEEDED.format(name=name).replace('source', '.')}'"
    done = jumar("run", "-F", "--device", "sim:2", "--image", tf_image, "--", "sh", "-c", command)
    assert done.stdout.splitlines()[-1] == "npu true devices 2"
    path = jumar("run", "-F", "--image", tf_image, "--", "sh", "-c", "echo $PATH").stdout
    assert path.strip().endswith(":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    refused = jumar("run", "--image", "tf:none", "--", "true", rc=2)
    assert "the image tf:none does not exist on this machine" in refused.stderr


def test_row_49_in_the_container_too(jumar: Jumar, tf_image: str) -> None:
    job = jumar("run", "--image", tf_image, "--", "sleep", "600").stdout.strip()
    assert wait_for_state(jumar, job, "running", "failed") == "running"
    assert jumar("exec", job, "--", "cat", "/etc/os-release").stdout == "NAME=tiny\n"
    assert jumar("shell", job, text="cat /etc/os-release; exit 5\n", rc=5).stdout == "NAME=tiny\n"
    jumar("stop", job)
