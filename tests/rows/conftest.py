"""What the tutorials' readers have: a machine with cards and CANN, a platform with object storage.

No card is needed: `npu-smi` and `hccn_tool` are stubs that answer as on a server with four Ascend
910B, and CANN is a folder with a `set_env.sh`. Everything of jumar is real, and so is the store."""

import json
import os
import secrets
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cli.conftest import Jumar, caller, environment_for
from tests.containers import write_config
from tests.store.served import Served, served

LIMIT_S = 180
CARDS, FOREIGN = 4, 3
RULE = "+===========================+===============+=========================================+\n"
HCCN_TOOL = '#!/bin/sh\n[ "$1 $3 $4" = "-i -ip -g" ] && echo "ipaddr:10.20.0.1$2"\n'
SET_ENV = """\
export ASCEND_TOOLKIT_HOME={toolkit}/latest
export ASCEND_HOME_PATH=$ASCEND_TOOLKIT_HOME
export ASCEND_OPP_PATH=$ASCEND_TOOLKIT_HOME/opp
export LD_LIBRARY_PATH=$ASCEND_TOOLKIT_HOME/lib64:$LD_LIBRARY_PATH
export PYTHONPATH=$ASCEND_TOOLKIT_HOME/opp/op_impl/built-in/ai_core/tbe:$PYTHONPATH
"""


@dataclass(frozen=True)
class Machine:
    """A server with Ascend cards, as far as a shell can tell."""

    variables: dict[str, str]
    toolkit: Path


def npu_smi_info() -> str:
    """Four cards, the last of which somebody uses without the platform."""
    text = "+-----------------+\n| npu-smi 23.0.rc3     Version: 23.0.rc3    |\n+------+------+------+\n"
    text += (
        "| NPU   Name      | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|\n"
    )
    text += (
        "| Chip            | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |\n"
    )
    text += RULE
    for card in range(CARDS):
        text += (
            f"| {card}     910B3     | OK            | 91.2        41                0    / 0   |\n"
        )
        text += (
            f"| 0               | 0000:C{card}:00.0  | 0         0    / 0       3391 / 65536    |\n"
        )
        text += RULE
    text += (
        "+-----------------+---------------+----------------------------------------------------+\n"
    )
    text += (
        "| NPU     Chip    | Process id    | Process name             | Process memory(MB)      |\n"
    )
    text += (
        f"{RULE}| {FOREIGN}       0       | 41005         | python3.7    | 28113       |\n{RULE}"
    )
    return text


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    folder = tmp_path_factory.mktemp("machine")
    programs = folder / "bin"
    programs.mkdir()
    (folder / "info.txt").write_text(npu_smi_info())
    stubs = {
        "npu-smi": f'#!/bin/sh\n[ "$*" = info ] && cat {folder / "info.txt"}\n',
        "hccn_tool": HCCN_TOOL,
    }
    for name, text in stubs.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    toolkit = folder / "Ascend/ascend-toolkit"
    (toolkit / "7.0.RC1.alpha003/opp").mkdir(parents=True)
    (toolkit / "latest").symlink_to("7.0.RC1.alpha003")
    (toolkit / "set_env.sh").write_text(SET_ENV.format(toolkit=toolkit))
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return Machine({"PATH": path, "HOME": str(folder)}, toolkit)


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory, machine: Machine) -> Generator[Served]:
    """`jumar up --s3` on that machine; obs:// is SeaweedFS."""
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in machine.variables.items():
                patch.setenv(name, value)
            folder = tmp_path_factory.mktemp("rows")
            (folder / "nfs").mkdir()
            patch.setenv("JUMAR_MOUNTS", f"/data={folder}/nfs")
            patch.setenv("CONTAINERS_CONF", write_config(folder))
            made = stack.enter_context(served(folder / "home"))
        yield made


@dataclass(frozen=True)
class Shell:
    """Calls `jumar` on that machine; checks the exit code."""

    plain: Jumar
    machine: Machine

    def __call__(
        self, *words: str, rc: int | None = 0, text: str = "", **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        return self.plain(*words, rc=rc, text=text, **{**self.machine.variables, **variables})


@pytest.fixture
def jumar(jumar_program: str, platform: Served, machine: Machine, tmp_path: Path) -> Jumar:
    """In an empty folder."""
    return Shell(caller(jumar_program, platform.home, tmp_path), machine)


@pytest.fixture
def follow(
    jumar_program: str, platform: Served, machine: Machine, tmp_path: Path
) -> Generator[Callable[..., "subprocess.Popen[str]"]]:
    """Starts a `jumar` that goes on; ends what is left."""
    with ExitStack() as stack:

        def start(*words: str) -> "subprocess.Popen[str]":
            process = subprocess.Popen(
                [jumar_program, *words],
                env=environment_for(platform.home, **machine.variables),
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.callback(process.communicate, timeout=LIMIT_S)
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def bucket(jumar: Jumar) -> str:
    return new_bucket(jumar)


def new_bucket(jumar: Jumar) -> str:
    """The URL of a bucket as `jumar store layout` makes it."""
    url = f"obs://lab-{secrets.token_hex(5)}"
    jumar("store", "layout", url)
    return url


def wait_for_state(jumar: Jumar, job: str, *states: str) -> str:
    give_up_at = time.monotonic() + LIMIT_S
    while (state := json.loads(jumar("show", job, "--json").stdout)["state"]) not in states:
        assert time.monotonic() < give_up_at, f"{job} is {state}, not {states}"
        time.sleep(0.1)
    return state


def fetch(platform: Served, path: str, user: str = "admin") -> str:
    """A page as the browser of a user who has signed in gets it."""
    request = urllib.request.Request(
        platform.url + path, headers={"Cookie": f"jumar_session={platform.tokens[user]}"}
    )
    with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
        return answer.read().decode()


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def offline(wheels: Path) -> tuple[str, ...]:
    """Flags of `jumar run` with which pip finds packages in this folder only."""
    values = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": str(wheels)}
    return tuple(word for name, value in values.items() for word in ("--env", f"{name}={value}"))


def commit_all(repository: Path) -> str:
    """Make a repository of a folder; `git+URL@COMMIT` of it."""
    git = ["git", "-C", str(repository), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "code"]):
        subprocess.run([*git, *words], check=True, timeout=LIMIT_S)
    head = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True, timeout=LIMIT_S
    )
    return f"git+file://{repository}@{head.stdout.strip()}"
