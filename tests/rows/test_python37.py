"""Tutorial 001: an environment of Python 3.7, as PyTorch 1.11 for Ascend has it."""

import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import Jumar

from jumar import inject, launch

ROOMS = [str(Path(str(room.__file__)).parent) for room in (launch, inject)]
# What the tutorial installs with pip, without versions.
TOLD = "attrs cffi decorator numpy pathlib2 protobuf psutil pyyaml requests scipy sympy wheel"


def test_row_24_python_37_is_planned_for_and_gets_moxing_and_launch(jumar: Jumar) -> None:
    """Where a Python 3.7 is installed, `test_pyz` and `test_moxing` also run with it."""
    words = ("--torch", "1.11", "--cann", "7.0.RC1.alpha003", "--python", "3.7")
    plan = jumar("env", "plan", *words).stdout
    assert "python 3.7 (fits" in plan
    assert all(f"\n{package}" in plan for package in TOLD.split())
    vermin = str(Path(sys.executable).parent / "vermin")
    command = [vermin, "--quiet", "--no-tips", "--violations", "--eval-annotations", "-t=3.7-"]
    checked = subprocess.run(
        [*command, *ROOMS], capture_output=True, text=True, check=False, timeout=180
    )
    assert (checked.returncode, checked.stdout.strip()) == (0, "")
