"""jumar's commands in the files that IDEs read: PyCharm's external tools, VS Code's tasks.

Words are kept whole whatever they hold: PyCharm splits its line at spaces outside double quotes, VS Code
takes a list."""

import json
import os
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
_PYCHARM = {"root": "$ContentRoot$", "file": "$FilePathRelativeToProjectRoot$"}
_VSCODE = {"root": "${workspaceFolder}", "file": "${relativeFile}"}
_TOOL = """\
  <tool name={name} description={help} showInMainMenu="true" showInEditor="true" showInProject="true" \
showInSearchPopup="true" disabled="false" useConsole="true" showConsoleOnStdOut="true" \
showConsoleOnStdErr="true" synchronizeAfterRun="true">
    <exec>
      <option name="COMMAND" value={program} />
      <option name="PARAMETERS" value={words} />
      <option name="WORKING_DIRECTORY" value="$ContentRoot$" />
    </exec>
  </tool>
"""


@dataclass(frozen=True, slots=True)
class Tool:
    """One command of jumar in an IDE."""

    name: str
    help: str
    words: tuple[str, ...]

    def filled(self, values: Mapping[str, str]) -> list[str]:
        """Its words with what an IDE calls the project and the file."""
        return [word.format(**values) for word in self.words]


def tools() -> tuple[Tool, ...]:
    """All of them."""
    rows = tomllib.loads(files("jumar.cli").joinpath("ide_tools.toml").read_text("utf-8"))["tool"]
    return tuple(Tool(row["name"], row["help"], tuple(row["words"])) for row in rows)


def pycharm_text(program: str, device: str) -> str:
    """`jumar.xml` for the folder `tools` of PyCharm's configuration."""
    values = {**_PYCHARM, "device": device}
    shown = "".join(
        _TOOL.format(
            name=quoteattr(tool.name),
            help=quoteattr(tool.help),
            program=quoteattr(program),
            words=quoteattr(" ".join(f'"{word}"' for word in tool.filled(values))),
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
            "options": {"cwd": _VSCODE["root"]},
            "problemMatcher": [],
            "presentation": {"panel": "dedicated"},
        }
        for tool in tools()
    ]
    others = [
        task for task in document["tasks"] if not str(task.get("label", "")).startswith(_LABEL)
    ]
    return json.dumps({**document, "tasks": [*others, *own]}, indent=2, ensure_ascii=False) + "\n"


def _tasks_of(text: str) -> dict[str, Any]:
    if not text.strip():
        return {"version": "2.0.0", "tasks": []}
    try:
        document = json.loads(text)
    except ValueError as error:
        document = error
    tasks = cast("dict[str, Any]", document).get("tasks", []) if _is(document, dict) else None
    if not _is(tasks, list) or not all(_is(task, dict) for task in cast("list[Any]", tasks)):
        raise BadInput(
            "tasks.json is not plain JSON with a list of tasks, so it is left as it is",
            hint="print the tasks and put them in by hand: jumar ide vscode --print",
        )
    return {**cast("dict[str, Any]", document), "tasks": tasks}


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
