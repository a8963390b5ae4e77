"""`deterministic: true`: seeds for a script that sets none, and libraries that are told."""

import os
import subprocess
import sys

from jumar.inject.starting import START_PATH, first_on_path

SCRIPT = """
import random, numpy, torch
assert random.random() == random.Random(0).random()
assert numpy.random.rand() == numpy.random.RandomState(0).rand()
assert torch.equal(torch.rand(9), torch.rand(9, generator=torch.Generator().manual_seed(0)))
assert torch.are_deterministic_algorithms_enabled() and torch.is_deterministic_algorithms_warn_only_enabled()
assert torch.backends.cudnn.deterministic and not torch.backends.cudnn.benchmark
"""


def test_what_the_script_does_not_seed_is_seeded() -> None:
    environ = {**first_on_path(os.environ, START_PATH), "JUMAR_DETERMINISTIC": "1"}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
