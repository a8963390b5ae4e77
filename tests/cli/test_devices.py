"""`jumar devices`, `jumar ranktable` and `jumar top` on a machine with a stub npu-smi on PATH."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from jumar.cli import devices, ranktable, top
from jumar.errors import BadInput, JumarError

SAMPLES = Path(__file__).parents[1] / "devices" / "samples"
Call = Callable[..., Result]


def stub_npu_smi(folder: Path, answer: Path) -> Path:
    """A folder for PATH whose npu-smi gives this answer to `info`."""
    folder.mkdir(exist_ok=True)
    tool = folder / "npu-smi"
    tool.write_text(f'#!/bin/sh\n[ "$*" = info ] && cat {answer}\n')
    tool.chmod(0o755)
    return folder


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Calls a command in this process with a home of its own and the answers of a sample."""
    for name in ("JUMAR_SERVER", "JUMAR_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JUMAR_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("JUMAR_SIM_CARDS", "1")

    def run(command: click.Command, *arguments: str, sample: str | None = None) -> Result:
        if sample is not None:
            folder = stub_npu_smi(tmp_path / "bin", SAMPLES / sample)
            monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        return CliRunner().invoke(command, list(arguments), standalone_mode=False)

    return run


def listed(result: Result) -> Any:
    assert result.exception is None
    return json.loads(result.stdout)


def test_devices_lists_one_entry_a_chip(call: Call):
    found = listed(call(devices.command, "--json", sample="info_a3.txt"))
    assert [(card["kind"], card["id"]) for card in found] == [
        ("npu", 10),
        ("npu", 11),
        ("npu", 12),
        ("npu", 13),
        ("sim", 0),
    ]
    assert found[0]["name"] == "Ascend910"
    assert (found[0]["memory_used_mb"], found[0]["memory_total_mb"]) == (61002, 65536)
    assert [card["health"] for card in found] == ["OK", "OK", "Alarm", "UNKNOWN", "OK"]


def test_devices_for_people(call: Call):
    lines = call(devices.command, sample="info_310p_duo.txt").stdout.splitlines()
    assert lines[0].split()[:4] == ["CARD", "NAME", "CHIP", "HEALTH"]
    assert lines[1].split()[:4] == ["npu:0", "310P3", "310P", "OK"]
    assert "2101 / 44280 MB" in lines[1]


def test_top_without_a_server_shows_the_cards_and_marks_foreign_processes(call: Call):
    lines = call(top.command, "--once", sample="info_a2_container.txt").stdout.splitlines()
    assert lines[1].startswith("npu:9 ")
    assert "█████████░  92% 58.7/64 GB" in lines[1]
    assert "in use" in lines[1]
    assert "python3.10 41005 FOREIGN" in lines[1]
    assert "free" in lines[2]


def test_top_in_json(call: Call):
    found = listed(call(top.command, "--json", sample="info_a5.txt"))
    assert [(card["kind"], card["id"]) for card in found] == [("npu", 3), ("npu", 4), ("sim", 0)]
    assert found[0]["processes"][0]["foreign"] is True
    assert found[1]["processes"] == []


def read_until(screen: int, words: bytes, limit_s: float = 180) -> bytes:
    """What the terminal shows up to `words`, or up to its end."""
    shown = b""
    deadline = time.monotonic() + limit_s
    while words not in shown and time.monotonic() < deadline:
        if select.select([screen], [], [], 0.2)[0]:
            try:
                shown += os.read(screen, 65536)
            except OSError:  # the program has left its terminal
                break
    return shown


def test_top_is_a_full_screen_until_interrupted(tmp_path: Path):
    program = "from jumar.cli.top import command; command.main([], prog_name='top')"
    answer = tmp_path / "info.txt"
    # Anybody may give a process a name that looks like the markup of the drawing library.
    answer.write_text((SAMPLES / "info_a5.txt").read_text().replace("python", "a[/b]x", 1))
    variables = {
        "PATH": f"{stub_npu_smi(tmp_path / 'bin', answer)}:{os.environ['PATH']}",
        "JUMAR_HOME": str(tmp_path),
        "JUMAR_SIM_CARDS": "2",
        "TERM": "xterm",
        "COLUMNS": "200",
    }
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, **variables},
        start_new_session=True,
    )
    os.close(terminal)
    shown = read_until(screen, b"sim:1")
    process.send_signal(signal.SIGINT)
    shown += read_until(screen, b"\x1b[?1049l")
    process.wait(180)
    os.close(screen)
    assert b"sim:1" in shown
    assert b"a[/b]x" in shown
    assert b"\x1b[?1049h" in shown
    assert b"\x1b[?1049l" in shown
    assert b"Traceback" not in shown


def test_a_rank_table_is_made_merged_shown_and_checked(call: Call, tmp_path: Path):
    first, second, whole = (str(tmp_path / name) for name in ("a.json", "b.json", "all.json"))
    command = ranktable.command
    made = call(command, "make", "--server-id", "n0", "-o", first, sample="info_a2_container.txt")
    assert made.exception is None
    text = Path(first).read_text().replace('"n0"', '"n1"')
    Path(second).write_text(text)
    refused = call(command, "merge", first, second, "-o", whole)
    assert isinstance(refused.exception, BadInput)
    assert "missing-device-ip" in refused.exception.message
    assert not Path(whole).exists()

    for at, path in enumerate((first, second)):
        found = json.loads(Path(path).read_text())
        for device in found["server_list"][0]["device"]:
            device["device_ip"] = f"10.{at}.0.{device['device_id']}"
        Path(path).write_text(json.dumps(found))
    assert call(command, "merge", first, second, "-o", whole).exception is None
    shown = listed(call(command, "show", whole, "--json"))
    assert [(rank["rank"], rank["server_id"], rank["device_id"]) for rank in shown["ranks"]] == [
        (0, "n0", 9),
        (1, "n0", 10),
        (2, "n1", 9),
        (3, "n1", 10),
    ]
    assert "rank" in call(command, "show", whole).stdout.lower()
    lab = listed(call(command, "show", whole, "--format", "lab"))
    assert lab["deploy_mode"] == "lab"
    good = call(command, "check", whole, "--chip", "A2")
    assert (good.return_value, good.stdout) == (0, "0 errors, 0 warnings\n")
    bad = call(command, "check", whole, "--chip", "A5", "--json")
    assert bad.return_value == 1
    assert [finding["name"] for finding in json.loads(bad.stdout)] == ["wrong-version"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("make", "--ids", "x"),
        ("make", "--ids", "0", "--chip", "910"),
        ("check", "none.json"),
        ("merge", "none.json"),
        ("show", "none.json"),
        ("show", "/", "--format", "1.0"),
        ("make", "--ids", "0", "--chip", "A2", "-o", "/no/such/folder/hccl.json"),
    ],
)
def test_what_cannot_be_done_is_one_error(call: Call, arguments: tuple[str, ...]):
    assert isinstance(call(ranktable.command, *arguments).exception, JumarError)
