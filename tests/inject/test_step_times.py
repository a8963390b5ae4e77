"""Which rank is the slow one: seen before the backward pass, since all share the time of a whole step."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from jumar.inject.starting import START_PATH, first_on_path
from jumar.spec.recovery import read_advance
from jumar.track.steps import noted, picture

SCRIPT = """
import os, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
until = time.monotonic() + 2.6
going = torch.ones(1)
while going.item():
    loss = model(torch.ones(2, 4)).mean()
    if dist.get_rank() == 1:
        time.sleep(0.03)
    loss.backward()
    optimizer.step()
    going.fill_(float(time.monotonic() < until))
    dist.all_reduce(going, dist.ReduceOp.MIN)
"""


def test_the_slow_rank_of_two_stands_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    plain = {"JUMAR_JOB_DIR": str(tmp_path), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    plain |= {"WORLD_SIZE": "2", "OMP_NUM_THREADS": "1", "JUMAR_ATTEMPT": "1"}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            env=first_on_path({**os.environ, **plain, "RANK": str(rank)}, START_PATH),
        )
        for rank in range(2)
    ]
    try:
        assert [one.wait(240) for one in both] == [0, 0]
    finally:
        for one in both:
            one.kill()
            one.wait(60)
    told = {n: noted((tmp_path / "steps" / f"rank{n}.txt").read_bytes()) for n in range(2)}
    seen = picture(told)
    assert seen.ranks == (0, 1)
    first, second = (min(took for _, took in rows) for rows in told.values())
    assert second >= 30
    assert second > first
    # The Python that it ran in is noted, too, once for both.
    (note,) = (tmp_path / "ran-in").iterdir()
    lines = note.read_text().splitlines()
    assert f"executable {sys.executable}" in lines
    assert any(line.startswith("package torch ") for line in lines)


def test_what_a_job_writes_there_is_read_with_care() -> None:
    spoilt = (
        b"nan 3 1\n1e999 2 1\n5 -1 1\nx\n\xff\xfe\n7 inf 1\n10 2.5 4\n" + b"9" * 500 + b"\n11 3"
    )
    assert noted(spoilt) == [(10.0, 2.5), (11.0, 3.0)]
    assert picture({0: [], 3: []}).ranks == ()
    wide = picture({n: [(float(t), float(n)) for t in range(5000)] for n in range(3)})
    assert len(wide.times) == 120
    assert {cell for row in wide.cells for cell in row} == {0.0, 1.0, 2.0}
    assert picture({0: [(4.0, 1.0)], 1: [(4.0, 9.0)]}).cells == ((1.0,), (9.0,))


COMPILED = """
import time, torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters())
step = torch.compile(lambda: optimizer.step(), backend="eager")
for _ in range(4):
    model(torch.ones(2, 4)).sum().backward()
    step()
    optimizer.zero_grad()
    time.sleep(0.1)
"""


@pytest.mark.full
def test_a_compiled_step_is_counted_and_not_compiled_again(tmp_path: Path) -> None:
    variables = {"JUMAR_JOB_DIR": str(tmp_path), "JUMAR_ATTEMPT": "1", "TORCH_LOGS": "recompiles"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILED],
        env=first_on_path({**os.environ, **variables}, START_PATH),
        capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    assert "jumar" not in done.stderr
    assert "Dynamo does not know" not in done.stderr
    told = read_advance((tmp_path / "steps" / "attempt-1.json").read_bytes())
    assert (told.made, told.counter) == (4, None)
