"""jumar's commands in the files that IDEs read: PyCharm's run configurations and external tools, VS Code's tasks.

Words are kept whole whatever they hold: PyCharm splits its line at spaces outside double quotes, VS Code
takes a list."""

import json
import os
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, cast
from xml.sax.saxutils import quoteattr

from jumar.errors import BadInput

_LABEL = "jumar: "
_PRODUCTS = ("PyCharm*", "IntelliJIdea*", "IdeaIC*", "DataSpell*")
_FILE = "$FilePathRelativeToProjectRoot$"
_PYCHARM = {"root": "$ContentRoot$", "file": _FILE, "job": "$Prompt$"}
_PROJECT = {"root": "$PROJECT_DIR$", "file": _FILE, "job": "$Prompt$"}
_JOB = "jumarJob"
_VSCODE = {"root": "${workspaceFolder}", "file": "${relativeFile}", "job": f"${{input:{_JOB}}}"}
_INPUT = {"id": _JOB, "type": "promptString", "description": "Job: its name or id"}
# What VS Code itself writes into a new file; of all other comments nothing would be left.
_REMARK = re.compile(
    r"^[ \t]*// (?:See https://go\.microsoft\.com/fwlink/|for the documentation about the tasks\.json).*\n",
    re.MULTILINE,
)
_MODULE = "jumar.cli"
_TOOL = """\
  <tool name={name} description={help} showInMainMenu="true" showInEditor="true" showInProject="true" \
showInSearchPopup="true" disabled="false" useConsole="true" showConsoleOnStdOut="true" \
showConsoleOnStdErr="true" synchronizeAfterRun="true">
    <exec>
      <option name="COMMAND" value={program} />
      <option name="PARAMETERS" value={words} />
      <option name="WORKING_DIRECTORY" value={folder} />
    </exec>
  </tool>
"""
# -P: what lies in the project is not taken for a module of ours.
_CONFIGURATION = """\
<component name="ProjectRunConfigurationManager">
  <configuration default="false" name={name} type="PythonConfigurationType" factoryName="Python" folderName="jumar">
    <option name="INTERPRETER_OPTIONS" value="-P" />
    <option name="PARENT_ENVS" value="true" />
    <envs>
      <env name="PYTHONUNBUFFERED" value="1" />
    </envs>
    <option name="SDK_HOME" value={python} />
    <option name="WORKING_DIRECTORY" value={folder} />
    <option name="IS_MODULE_SDK" value="false" />
    <option name="ADD_CONTENT_ROOTS" value="false" />
    <option name="ADD_SOURCE_ROOTS" value="false" />
    <option name="SCRIPT_NAME" value={module} />
    <option name="PARAMETERS" value={words} />
    <option name="SHOW_COMMAND_LINE" value="false" />
    <option name="EMULATE_TERMINAL" value="false" />
    <option name="MODULE_MODE" value="true" />
    <option name="REDIRECT_INPUT" value="false" />
    <option name="INPUT_FILE" value="" />
    <method v="2" />
  </configuration>
</component>
"""


@dataclass(frozen=True, slots=True)
class Tool:
    """One command of jumar in an IDE."""

    name: str
    help: str
    words: tuple[str, ...]
    folder: str

    def filled(self, values: Mapping[str, str]) -> list[str]:
        """Its words with what an IDE calls the project and the file."""
        return [word.format(**values) for word in self.words]


def tools() -> tuple[Tool, ...]:
    """All of them."""
    rows = tomllib.loads(files("jumar.cli").joinpath("ide_tools.toml").read_text("utf-8"))["tool"]
    return tuple(
        Tool(row["name"], row["help"], tuple(row["words"]), row.get("folder", "{root}"))
        for row in rows
    )


def pycharm_configurations(python: str, device: str) -> dict[str, str]:
    """Files for the folder `.idea/runConfigurations` of a project, by their names."""
    values = {**_PROJECT, "device": device}
    return {
        f"jumar_{tool.name.replace(' ', '_')}.xml": _CONFIGURATION.format(
            name=quoteattr(_LABEL + tool.name),
            python=quoteattr(python),
            module=quoteattr(_MODULE),
            folder=quoteattr(tool.folder.format(**values)),
            words=quoteattr(_line(tool.filled(values))),
        )
        for tool in tools()
    }


def _line(words: list[str]) -> str:
    return " ".join(f'"{word}"' for word in words)


def pycharm_text(program: str, device: str) -> str:
    """`jumar.xml` for the folder `tools` of PyCharm's configuration."""
    values = {**_PYCHARM, "device": device}
    shown = "".join(
        _TOOL.format(
            name=quoteattr(tool.name),
            help=quoteattr(tool.help),
            program=quoteattr(program),
            folder=quoteattr(tool.folder.format(**values)),
            words=quoteattr(_line(tool.filled(values))),
        )
        for tool in tools()
    )
    return f'<toolSet name="jumar">\n{shown}</toolSet>\n'


def vscode_text(program: str, device: str, existing: str = "") -> str:
    """`tasks.json` with our tasks, beside those of others in `existing`."""
    document = _tasks_of(existing)
    values = {**_VSCODE, "device": device}
    own = [
        {
            "label": _LABEL + tool.name,
            "detail": tool.help,
            "type": "process",
            "command": program,
            "args": tool.filled(values),
            "options": {"cwd": tool.folder.format(**values)},
            "problemMatcher": [],
            "presentation": {"panel": "dedicated"},
        }
        for tool in tools()
    ]
    others = [
        task for task in document["tasks"] if not str(task.get("label", "")).startswith(_LABEL)
    ]
    inputs = [one for one in document["inputs"] if one.get("id") != _JOB]
    made = {**document, "tasks": [*others, *own], "inputs": [*inputs, _INPUT]}
    text = json.dumps(made, indent=2, ensure_ascii=False) + "\n"
    return text.replace("{\n", "{\n" + "".join(_REMARK.findall(existing)), 1)


def _tasks_of(text: str) -> dict[str, Any]:
    if not text.strip():
        return {"version": "2.0.0", "tasks": [], "inputs": []}
    try:
        document = json.loads(_REMARK.sub("", text))
    except ValueError as error:
        document = error
    known = cast("dict[str, Any]", document) if _is(document, dict) else {"tasks": None}
    lists = {name: known.get(name, []) for name in ("tasks", "inputs")}
    if not all(
        _is(one, list) and all(_is(part, dict) for part in cast("list[Any]", one))
        for one in lists.values()
    ):
        raise BadInput(
            "tasks.json is not plain JSON with a list of tasks, so it is left as it is",
            hint="print the tasks and put them in by hand: jumar ide vscode --print",
        )
    return {**known, **lists}


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind)


def pycharm_folders(home: Path, variables: Mapping[str, str]) -> list[Path]:
    """The configuration folders of PyCharm and its kin on this machine."""
    if sys.platform == "darwin":
        above = home / "Library" / "Application Support"
    elif os.name == "nt":
        above = Path(variables.get("APPDATA", home / "AppData" / "Roaming"))
    else:
        above = Path(variables.get("XDG_CONFIG_HOME") or home / ".config")
    return sorted(path for name in _PRODUCTS for path in (above / "JetBrains").glob(name))
