"""torch.save in a job: into a file beside the old one, which takes its place when it is whole."""

import subprocess
import sys
from pathlib import Path

START = Path(__file__).parents[2] / "src" / "jumar" / "inject" / "start_path"
SCRIPT = """
import os, sys
from types import SimpleNamespace
from jumar_start import torch_save

def save(obj, path):
    with open(path, "w") as file:
        file.write(obj)

serialization = SimpleNamespace(save=save)
torch_save.install(serialization)
for name in sys.argv[1:]:
    serialization.save("old", name)
    before = os.stat(name).st_ino
    serialization.save("new", name)
    with open(name) as file:
        assert file.read() == "new" and os.stat(name).st_ino != before
    assert sorted(os.listdir(".")) == [name]
    os.unlink(name)
"""


def test_names_as_long_as_they_may_be(tmp_path: Path) -> None:
    names = ["last.pt", "a" * 252 + ".pt", "模" * 84 + ".pt"]
    subprocess.run(
        [sys.executable, "-c", SCRIPT, *names],
        cwd=tmp_path,
        env={"PYTHONPATH": str(START), "PYTHONUTF8": "1"},
        check=True,
    )
