"""The reference pages name everything there is."""

import inspect
import json
import os
import re
import subprocess
import sys
import urllib.request
from dataclasses import fields
from pathlib import Path

import pytest

from jumar.client import Client
from jumar.settings import Settings
from jumar.spec.job import JobSpec
from jumar.spec.states import JobState

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
MARK = "<!-- Below: written by python tests/docs/cli_page.py --write -->\n"


@pytest.mark.parametrize(
    ("page", "locale"), [("cli.md", "C.UTF-8"), ("cli.zh-CN.md", "zh_CN.UTF-8")]
)
def test_cli_page_is_what_the_commands_say(page: str, locale: str) -> None:
    generator = Path(__file__).with_name("cli_page.py")
    said = subprocess.run(
        [sys.executable, generator],
        env={**os.environ, "LC_ALL": locale},
        check=True,
        capture_output=True,
        text=True,
        timeout=180,
    )
    _, mark, shown = (REFERENCE / page).read_text("utf-8").partition(MARK)
    assert mark, "the page has lost the line that its generated part begins with"
    assert shown == said.stdout, f"write it anew: python {generator} --write"


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


def test_api_page_has_every_method_of_the_client() -> None:
    page = (REFERENCE / "api.md").read_text("utf-8")
    methods = {name for name, _ in inspect.getmembers(Client, callable) if name[0] != "_"}
    assert methods
    assert methods <= set(re.findall(r"`(\w+)\(", page))


def test_api_page_has_every_call(live_home: Path) -> None:
    url = json.loads((live_home / "client.json").read_text())["url"]
    with urllib.request.urlopen(f"{url}/api/v1/openapi.json", timeout=180) as answer:
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
