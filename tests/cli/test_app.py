import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import click
import pytest

from jumar import __version__
from jumar.cli.app import COMMANDS

Jumar = Callable[..., "subprocess.CompletedProcess[str]"]
HEAVY = ("pydantic", "rich", "yaml", "fastapi", "sqlalchemy", "asyncio", "torch", "tarfile")


def imported_by(*arguments: str, environment: dict[str, str]) -> set[str]:
    """The modules that one command has loaded when it is done."""
    program = (
        "import sys, json; sys.argv = ['jumar', *sys.argv[1:]]\n"
        "from jumar.cli import main\n"
        "try: main()\n"
        "except SystemExit: print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("--help",),
        ("jobs",),
        ("jobs", "--json", "--all"),
        ("top", "--once"),
        ("run", "--name", "quick", "--", "true"),
    ],
    ids=" ".join,
)
def test_common_commands_import_nothing_heavy(
    arguments: tuple[str, ...], live_home: object
) -> None:
    environment = {**os.environ, "JUMAR_HOME": str(live_home)}
    assert imported_by(*arguments, environment=environment).isdisjoint(HEAVY)


@pytest.mark.parametrize("arguments", [("--help",), ("version",), ("port", "--help")], ids=" ".join)
def test_commands_that_show_no_job_load_neither_words_nor_records(
    arguments: tuple[str, ...],
) -> None:
    loaded = imported_by(*arguments, environment=dict(os.environ))
    assert loaded.isdisjoint({"jumar.words.reasons", "jumar.spec.causes", "jumar.spec.records"})


def test_a_check_of_a_port_loads_nothing_for_writing_or_for_files_that_are_not_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text("import torch\nmodel.cuda()\n")
    loaded = imported_by("port", str(tmp_path), "--check", environment=dict(os.environ))
    unneeded = {"hashlib", "tempfile", "tomllib", "configparser", "difflib", "multiprocessing"}
    assert "jumar.port.tree" in loaded
    assert loaded.isdisjoint({*unneeded, "jumar.port.write", "jumar.port.report.as_html"})


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("jobs",)], ids=" ".join)
def test_starts_in_a_quarter_of_a_second_or_soon_after_a_slow_python(
    jumar: Jumar, arguments: tuple[str, ...]
) -> None:
    # Processor time, the best of some in turns: other tests run beside this one.
    pairs = [(cpu_s(lambda: jumar(*arguments)), cpu_s(start_python)) for _ in range(5)]
    assert any(ours < max(0.25, 20 * bare) for ours, bare in pairs)


def start_python() -> None:
    subprocess.run([sys.executable, "-c", ""], check=True, timeout=180)


def cpu_s(run: Callable[[], object]) -> float:
    """The processor time of the processes that `run` starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_tells_of_each_command_what_it_tells_itself(name: str) -> None:
    entry = COMMANDS[name]
    command = cast("click.Command", cast("Any", import_module(entry.module)).command)
    assert command.get_short_help_str(limit=100) == entry.help


def subcommands() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name, entry in COMMANDS.items():
        command = cast("click.Command", cast("Any", import_module(entry.module)).command)
        # `launch` hands all its arguments to a parser of its own, for Python 3.8.
        if command.add_help_option:
            found.append((name,))
        if isinstance(command, click.Group):
            found.extend((name, below) for below in command.commands)
    return found


@pytest.mark.parametrize("words", subcommands(), ids=" ".join)
def test_help_of_every_command_has_an_example(jumar: Jumar, words: tuple[str, ...]) -> None:
    shown = jumar(*words, "--help").stdout
    assert f"jumar {' '.join(words)}" in shown.partition("Example")[2]


def test_version_on_stdout(jumar: Jumar) -> None:
    assert jumar("--version").stdout == f"jumar {__version__}\n"
    assert json.loads(jumar("version", "--json").stdout)["jumar"] == __version__


@pytest.mark.parametrize(
    "arguments", [("nonsense",), ("jobs", "--nonsense"), ("jobs", "--state", "sleeping"), ("show",)]
)
def test_wrong_usage_is_exit_code_2_with_a_hint(jumar: Jumar, arguments: tuple[str, ...]) -> None:
    done = jumar(*arguments, rc=2)
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first.startswith("error: ")
    assert second.startswith(("hint: jumar", "hint: did you mean: jumar"))


def test_a_port_that_cannot_be_is_refused_in_words(jumar: Jumar) -> None:
    done = jumar("jobs", JUMAR_PORT="99999", rc=2)
    assert done.stderr == "error: JUMAR_PORT: 99999 is not a port; ports go up to 65535\n"


def test_a_reader_that_leaves_gets_no_traceback(jumar_program: str, live_home: object) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{jumar_program} spec schema | head -c 10; echo; echo ${{PIPESTATUS[0]}}"],
        env={**os.environ, "JUMAR_HOME": str(live_home)},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.stderr == ""
    # The schema may fit into the pipe before its reader is gone.
    assert done.stdout.splitlines()[-1] in ("0", "141")


@pytest.mark.parametrize("words", [("version",), ("jobs", "--json"), ("spec", "schema")])
def test_a_reader_that_has_left_is_told_by_the_exit_code(
    jumar_program: str, live_home: object, words: tuple[str, ...]
) -> None:
    unread, pipe = os.pipe()
    os.close(unread)
    done = subprocess.run(
        [jumar_program, *words],
        env={**os.environ, "JUMAR_HOME": str(live_home)},
        stdout=pipe,
        stderr=subprocess.PIPE,
        timeout=180,
    )
    os.close(pipe)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_mistyped_command_of_a_group_is_said_once_in_chinese(jumar: Jumar) -> None:
    told = jumar("data", "pul", LC_ALL="zh_CN.UTF-8", rc=2).stderr.splitlines()
    assert told == ["错误：没有命令“pul”。", "提示：是否想用：jumar data pull 或 jumar data url"]


def test_completion_knows_the_commands(jumar: Jumar) -> None:
    done = jumar(_JUMAR_COMPLETE="bash_complete", COMP_WORDS="jumar rer", COMP_CWORD="1", rc=None)
    assert done.stdout == "plain,rerun\n"


IGNORED = """
import signal
from jumar import cli
signal.signal(signal.SIGINT, signal.SIG_IGN)
cli._run(["data", "nothing-of-this-name"])
print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
"""


def test_a_copy_that_a_script_starts_in_the_background_still_ignores_ctrl_c() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IGNORED], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "True\n", done.stderr
