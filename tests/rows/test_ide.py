"""Tutorial 000 in its IDE: the commands are in PyCharm's menus, and send code and submit from there."""

import json
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.cli.conftest import Jumar, environment_for
from tests.rows.conftest import LIMIT_S, Machine, write
from tests.store.served import Served


@dataclass(frozen=True)
class Ide:
    """PyCharm with one project open, as far as its external tools go."""

    configuration: Path
    project: Path

    def run(self, name: str, file: str, machine: Machine, home: Path) -> str:
        (tool,) = (
            tool
            for path in self.configuration.glob("tools/*.xml")
            for tool in ElementTree.parse(path).iter("tool")
            if tool.get("name") == name
        )
        option = {one.get("name"): one.get("value", "") for one in tool.iter("option")}
        macros = {"$ContentRoot$": str(self.project), "$FilePathRelativeToProjectRoot$": file}
        # PyCharm splits the line first and then puts in what the macros stand for.
        words = shlex.split(f'"{option["COMMAND"]}" {option["PARAMETERS"]}')
        for macro, value in macros.items():
            words = [word.replace(macro, value) for word in words]
        done = subprocess.run(
            words,
            cwd=macros[option["WORKING_DIRECTORY"]],
            env=environment_for(home, **machine.variables),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def ide(jumar: Jumar, tmp_path: Path) -> Ide:
    """After `jumar ide pycharm` and a restart."""
    settings = tmp_path / ".config"
    folder = settings / "JetBrains" / "PyCharm2025.2"
    folder.mkdir(parents=True)
    jumar("ide", "pycharm", "--device", "sim:1", XDG_CONFIG_HOME=str(settings))
    return Ide(folder, tmp_path / "my project")


def test_row_06_the_ide_has_the_commands(ide: Ide, machine: Machine, platform: Served) -> None:
    write(ide.project, {"job.yaml": "name: from-the-ide\ncommand: echo started\n"})
    assert "started" in ide.run("Submit job file", "job.yaml", machine, platform.home)
    assert "from-the-ide" in ide.run("Jobs", "job.yaml", machine, platform.home)


def test_row_09_code_is_sent_and_submitted_from_the_ide(
    ide: Ide, machine: Machine, platform: Served
) -> None:
    write(ide.project, {"src/my train.py": "import util; util.train()"})
    write(ide.project, {"src/util.py": "def train(): print('epoch 1 loss 0.5')"})
    printed = ide.run("Submit", "src/my train.py", machine, platform.home)
    assert "epoch 1 loss 0.5" in printed


def test_tasks_of_vs_code_are_added_beside_others_and_run(
    jumar: Jumar, machine: Machine, platform: Served, tmp_path: Path
) -> None:
    file = write(tmp_path, {"train.py": "print('trained')"}) / ".vscode" / "tasks.json"
    file.parent.mkdir()
    file.write_text('{"version": "2.0.0", "tasks": [{"label": "lint"}], "inputs": []}')
    for _ in range(2):
        jumar("ide", "vscode", "--device", "cpu")
    document = json.loads(file.read_text())
    tasks = {task["label"]: task for task in document["tasks"]}
    assert len(tasks) == len(document["tasks"])
    assert ("lint" in tasks, document["inputs"]) == (True, [])
    task = tasks["jumar: Submit"]
    values = {"${workspaceFolder}": str(tmp_path), "${relativeFile}": "train.py"}
    asked: list[str] = [task["command"], *task["args"]]
    words = [values.get(word, word) for word in asked]
    done = subprocess.run(
        words,
        cwd=values[task["options"]["cwd"]],
        env=environment_for(platform.home, **machine.variables),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert (done.returncode, "trained" in done.stdout) == (0, True), done.stderr
    file.write_text("// mine\n{}")
    refused = jumar("ide", "vscode", rc=2)
    assert "hint:" in refused.stderr
    assert file.read_text() == "// mine\n{}"
