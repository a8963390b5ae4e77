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
net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Dropout(0.3), torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(net.parameters())
for _ in range(5):
    at = torch.randint(0, 50, (4000,))
    table = torch.zeros(50, 8).index_add_(0, at, torch.randn(4000, 8))
    optimizer.zero_grad()
    net(table).square().mean().backward()
    optimizer.step()
print(*(value.numpy().tobytes().hex() for value in net.state_dict().values()))
"""


def test_what_the_script_does_not_seed_is_seeded_and_two_runs_are_alike() -> None:
    environ = {**first_on_path(os.environ, START_PATH), "JUMAR_DETERMINISTIC": "1"}
    command = [sys.executable, "-c", SCRIPT]
    runs = [
        subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120)
        for _ in range(2)
    ]
    assert [done.returncode for done in runs] == [0, 0], runs[0].stderr
    # The same to the bit: threads, dropout and sums into the same places included.
    assert runs[0].stdout == runs[1].stdout != ""
