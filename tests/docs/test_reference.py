"""The reference pages name everything there is."""

import json
import os
import re
import urllib.request
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import click

from jumar.cli.app import COMMANDS
from jumar.settings import Settings
from jumar.spec.job import JobSpec
from jumar.spec.states import JobState

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
MARK = "<!-- Below: written by JUMAR_UPDATE_DOCS=1 pytest tests/docs -->\n"


def help_of(words: tuple[str, ...], command: click.Command, parent: click.Context | None) -> str:
    with click.Context(
        command,
        info_name=words[-1] if parent else f"jumar {words[-1]}",
        parent=parent,
        terminal_width=100,
        help_option_names=["-h", "--help"],
    ) as context:
        text = f"\n## jumar {' '.join(words)}\n\n```text\n{command.get_help(context)}\n```\n"
        if isinstance(command, click.Group):
            for name, below in command.commands.items():
                text += help_of((*words, name), below, context)
    return text


def test_cli_page_is_what_the_commands_say() -> None:
    page = REFERENCE / "cli.md"
    before, mark, _ = page.read_text("utf-8").partition(MARK)
    assert mark, "the page has lost the line that its generated part begins with"
    commands = [
        (name, cast("click.Command", cast("Any", import_module(entry.module)).command))
        for name, entry in COMMANDS.items()
    ]
    wanted = before + mark + "".join(help_of((name,), command, None) for name, command in commands)
    if os.environ.get("JUMAR_UPDATE_DOCS"):
        page.write_text(wanted, "utf-8")
    assert page.read_text("utf-8") == wanted, "write it anew: JUMAR_UPDATE_DOCS=1 pytest tests/docs"


def test_settings_page_has_every_setting() -> None:
    page = (REFERENCE / "settings.md").read_text("utf-8")
    for setting in fields(Settings):
        assert f"`JUMAR_{setting.name.upper()}`" in page


def test_spec_page_has_every_field_and_state() -> None:
    page = (REFERENCE / "spec.md").read_text("utf-8")
    for name in JobSpec.model_fields:
        assert f"| `{name}` |" in page
    for state in JobState:
        assert f"`{state}`" in page


def test_api_page_has_every_call(live_home: Path) -> None:
    url = json.loads((live_home / "client.json").read_text())["url"]
    with urllib.request.urlopen(f"{url}/api/v1/openapi.json", timeout=20) as answer:
        paths = json.load(answer)["paths"]
    page = (REFERENCE / "api.md").read_text("utf-8")
    calls = {
        f"{method.upper()} {path.removeprefix('/api/v1')}"
        for path, methods in paths.items()
        if path.startswith("/api/v1")
        for method in methods
    }
    assert calls
    written = set(re.findall(r"^\| `([A-Z]+ /[^`]*)`", page, re.M))
    assert calls == written
