"""`modelarts_entry_train.py` of the tutorials, in a form that tells when the training failed."""

from collections.abc import Sequence

_SCRIPT = '''\
"""Runs {script} on ModelArts or jumar: install, look, train, keep the code and what it wrote."""

import argparse
import os
import subprocess
import sys

SCRIPT = {script!r}
PACKAGES = {packages!r}
CODE = os.path.dirname(os.path.abspath(__file__))

parser = argparse.ArgumentParser()
parser.add_argument("--data_url", default="/home/ma-user/modelarts/inputs/data_url_0")
parser.add_argument("--train_url", default="/home/ma-user/modelarts/outputs/train_url_0/")
given, others = parser.parse_known_args()


def run(*words):
    """Run a command in the code folder, showing its output as it comes; gives its exit code."""
    print("> " + " ".join(words), flush=True)
    try:
        return subprocess.call(words, cwd=CODE)
    except OSError as error:
        print(error, flush=True)
        return 127


def keep():
    """Copy the code folder, with what the training wrote there, to train_url."""
    os.makedirs(given.train_url, exist_ok=True)
    run("cp", "-r", CODE, given.train_url)
    run("ls", "-al", given.train_url)


for package in PACKAGES:
    if run(sys.executable, "-m", "pip", "install", package) != 0:
        sys.exit("cannot install " + package)
run("ls", "-ahl", CODE)
run("ls", "-ahl", given.data_url)
run("npu-smi", "info")
code = 1
try:
    code = run(sys.executable, "-u", SCRIPT, "--data_url=" + given.data_url, *others)
finally:
    keep()
# A training that a signal ended is told as shells tell it.
sys.exit(128 - code if code < 0 else code)
'''


def entry_script(script: str, packages: Sequence[str]) -> str:
    """The text of an entry script for `script`, which lies beside it."""
    return _SCRIPT.format(script=script, packages=list(packages))
