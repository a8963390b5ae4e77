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
        return started(words, macros[option["WORKING_DIRECTORY"]], machine, home)


@pytest.fixture
def ide(jumar: Jumar, tmp_path: Path) -> Ide:
    """After `jumar ide pycharm` and a restart."""
    settings = tmp_path / ".config"
    folder = settings / "JetBrains" / "PyCharm2025.2"
    folder.mkdir(parents=True)
    project = tmp_path / "my project"
    project.mkdir()
    words = ("ide", "pycharm", "--device", "sim:1", "--project", str(project))
    jumar(*words, XDG_CONFIG_HOME=str(settings))
    return Ide(folder, project)


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


def started(words: list[str], folder: str, machine: Machine, home: Path) -> str:
    """What a command of an IDE prints."""
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment_for(home, **machine.variables),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# What PyCharm writes itself for a Python module, without what it leaves to its defaults.
OPTIONS = [
    "INTERPRETER_OPTIONS",
    "PARENT_ENVS",
    "SDK_HOME",
    "WORKING_DIRECTORY",
    "IS_MODULE_SDK",
    "ADD_CONTENT_ROOTS",
    "ADD_SOURCE_ROOTS",
    "SCRIPT_NAME",
    "PARAMETERS",
    "SHOW_COMMAND_LINE",
    "EMULATE_TERMINAL",
    "MODULE_MODE",
    "REDIRECT_INPUT",
    "INPUT_FILE",
]


def test_a_pycharm_project_has_run_configurations_that_submit_open_and_fetch(
    jumar: Jumar, machine: Machine, platform: Served, tmp_path: Path
) -> None:
    # Names that would be taken for our own modules, were the project on the path.
    files = {
        "my train.py": "open('made.txt', 'w').write('seven')",
        "click.py": "raise SystemExit(9)",
    }
    project = write(tmp_path / "my project", files)
    write(project, {".idea/misc.xml": "<project />"})
    jumar("ide", "pycharm", "--device", "cpu", "--project", str(project))

    def run(name: str, job: str = "") -> str:
        path = project / ".idea" / "runConfigurations" / f"jumar_{name.replace(' ', '_')}.xml"
        root = ElementTree.parse(path).getroot()
        assert (root.tag, root.get("name")) == ("component", "ProjectRunConfigurationManager")
        (one,) = root
        assert (one.get("type"), one.get("factoryName")) == ("PythonConfigurationType", "Python")
        assert one.get("name") == f"jumar: {name}"
        option = {each.get("name", ""): each.get("value", "") for each in one.findall("option")}
        assert (list(option), option["MODULE_MODE"]) == (OPTIONS, "true")
        macros = {
            "$PROJECT_DIR$": str(project),
            "$FilePathRelativeToProjectRoot$": "my train.py",
            "$Prompt$": job,
        }
        line = f"{option['INTERPRETER_OPTIONS']} -m {option['SCRIPT_NAME']} {option['PARAMETERS']}"
        words = [option["SDK_HOME"], *shlex.split(line)]
        for macro, value in macros.items():
            words = [word.replace(macro, value) for word in words]
        folder = option["WORKING_DIRECTORY"].replace("$PROJECT_DIR$", str(project))
        return started(words, folder, machine, platform.home)

    run("Submit")
    (job,) = json.loads(jumar("jobs", "--json").stdout)[:1]
    assert "/login?code=" in run("Web pages")
    assert job["id"] in run("Jobs")
    run("Fetch results", job["id"])
    assert (tmp_path / job["id"] / "code/made.txt").read_text() == "seven"


REMARKS = """\
    // See https://go.microsoft.com/fwlink/?LinkId=733558
    // for the documentation about the tasks.json format
"""


def test_tasks_of_vs_code_are_added_beside_others_and_run(
    jumar: Jumar, machine: Machine, platform: Served, tmp_path: Path
) -> None:
    project = write(tmp_path / "project", {"train.py": "open('made.txt', 'w').write('seven')"})
    file = project / ".vscode" / "tasks.json"
    file.parent.mkdir()
    # As VS Code makes it.
    file.write_text(f'{{\n{REMARKS}"version": "2.0.0", "tasks": [{{"label": "lint"}}]}}')
    for _ in range(2):
        jumar("ide", "vscode", "--device", "cpu", "--project", str(project))
    text = file.read_text()
    assert text.startswith("{\n" + REMARKS)
    document = json.loads(text.replace(REMARKS, ""))
    tasks = {task["label"]: task for task in document["tasks"]}
    assert len(tasks) == len(document["tasks"])
    assert "lint" in tasks
    (asked,) = document["inputs"]
    assert asked["type"] == "promptString"

    def run(name: str, job: str = "") -> str:
        task = tasks[f"jumar: {name}"]
        assert task["type"] == "process"
        values = {
            "${workspaceFolder}": str(project),
            "${relativeFile}": "train.py",
            f"${{input:{asked['id']}}}": job,
        }
        words: list[str] = [task["command"], *task["args"], task["options"]["cwd"]]
        for variable, value in values.items():
            words = [word.replace(variable, value) for word in words]
        return started(words[:-1], words[-1], machine, platform.home)

    run("Submit")
    (job,) = json.loads(jumar("jobs", "--json").stdout)[:1]
    assert "/login?code=" in run("Web pages")
    run("Fetch results", job["id"])
    assert (tmp_path / job["id"] / "code/made.txt").read_text() == "seven"
    file.write_text("// mine\n{}")
    refused = jumar("ide", "vscode", "--project", str(project), rc=2)
    assert "hint:" in refused.stderr
    assert file.read_text() == "// mine\n{}"
