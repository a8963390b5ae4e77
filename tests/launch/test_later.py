"""What is loaded before the ranks of a job start, and what after."""

import json
import subprocess
import sys
from pathlib import Path

import jumar
from jumar.launch import later

_SOURCES = Path(jumar.__file__).parents[1]
_START = "import jumar.launch.__main__, jumar.launch.slurm.batch, jumar.launch.node.keeper"

_SAVES = "until [ -e loaded ]; do sleep 0.05; done; echo torn > $JUMAR_CKPT_DIR/step-1.pt; exit 3"


def _python(program: str, *arguments: str) -> str:
    # Without `site`: what other packages load at every start is not ours.
    words = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import sys; sys.path.append(sys.argv[1])\n{program}",
    ]
    done = subprocess.run(
        [*words, str(_SOURCES), *arguments],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ranks_wait_for_none_of_what_is_needed_later() -> None:
    loaded = json.loads(_python(f"{_START}\nimport json; print(json.dumps(list(sys.modules)))"))
    assert "jumar.launch.node.attempt" in loaded
    assert not set(loaded) & {*later.MODULES, "importlib.util", "pathlib", "pkgutil", "platform"}


def test_all_of_it_can_be_loaded_and_is_then_there() -> None:
    program = f"{_START}\nfrom jumar.launch import later\nlater.load()\nprint(*sys.modules)"
    assert set(later.MODULES) <= set(_python(program).split())


def test_no_module_of_ours_is_loaded_once_the_ranks_run(tmp_path: Path) -> None:
    """It may be of another version by then."""
    job = {
        "format": 1, "job_id": "k7x2m9q4tb", "name": "n", "user": "ann", "command": _SAVES, "code": "none",
        "device": {"kind": "sim", "count": 1}, "ranks": "node", "environment": {}, "inputs": {},
        "outputs": {}, "grace_s": 5.0, "env_cache": str(tmp_path / "envs"),
    }  # fmt: skip
    root = tmp_path / "k7x2m9q4tb"
    (root / "attempts/1").mkdir(parents=True)
    (root / "job.json").write_text(json.dumps(job))
    (root / "attempts/1/request.json").write_text(json.dumps({"cards": [0]}))
    program = f"""{_START}
from jumar.launch import later
from jumar.launch.node.attempt import Attempt
load, run = later.load, Attempt.run_to_the_end
def loading():
    load()
    before.update(sys.modules)
    open(sys.argv[2] + "/code/loaded", "w").close()
def running(attempt):
    ending = run(attempt)
    print(ending.state, *(name for name in set(sys.modules) - before if name.startswith("jumar")), flush=True)
    return ending
before = set()
later.load, Attempt.run_to_the_end = loading, running
sys.exit(jumar.launch.__main__.main([sys.argv[2], "--attempt", "1"]))
"""
    assert _python(program, str(root)).split() == ["failed"]
