"""Processes, commands and shell scripts, and near cases in which nothing may be told."""

from pathlib import Path

import pytest
from tests.why.script.code import LOG, judged, ran, said, write

_ITERABLE = "TypeError: Value after * must be an iterable, not int"
_POOL = "import multiprocessing as mp\nT = None\ndef work(x):\n    return T.real\ndef main():\n    global T\n    T = 5\n    with mp.get_context('{}').Pool(1{}) as pool:\n        pool.map(work, [1])\nif __name__ == '__main__':\n    main()\n"


def test_arguments_that_are_no_tuple(tmp_path: Path) -> None:
    files = {"a.py": "mp.spawn(train, args=(n), nprocs=n)\n"}
    assert "`args=(n,)`" in said(tmp_path, files, _ITERABLE).remedy["en"]
    files = {"a.py": "mp.spawn(train, args=(n,), nprocs=n)\n"}
    assert "is no tuple" not in said(tmp_path, files, _ITERABLE).what["en"]


def test_a_worker_without_a_place_for_its_rank(tmp_path: Path) -> None:
    error = "TypeError: train() takes 1 positional argument but 2 were given"
    files = {"a.py": "def train(n): pass\nmp.spawn(train, args=(n,), nprocs=n)\n"}
    assert "number of the process first" in said(tmp_path, files, error).what["en"]
    files = {"a.py": "def train(r, n): pass\nmp.spawn(train, args=(n, 2, 3), nprocs=n)\n"}
    assert "number of the process" not in said(tmp_path, files, error).what["en"]


def test_fewer_processes_than_are_waited_for(tmp_path: Path) -> None:
    error = "torch.distributed.DistStoreError: wait timeout after 20000ms, keys: /default_pg/0//cpu//0/0"
    script = "p.add_argument('--world', default=4)\ndef setup(rank, world):\n    dist.init_process_group('gloo', rank=rank, world_size=world)\nmp.spawn(f, args=(a,), nprocs={})\n"
    at = "dist.init_process_group"
    told = said(tmp_path, {"a.py": script.format("os.cpu_count()")}, error, at).what["en"]
    assert "nprocs=`os.cpu_count()`" in told
    told = said(tmp_path, {"a.py": script.format("args.world")}, error, at).what["en"]
    assert "nprocs" not in told
    # Another machine starts the rest.
    many = script.format("n") + "nnodes = 2\n"
    assert "nprocs" not in said(tmp_path, {"a.py": many}, error, at).what["en"]


@pytest.mark.parametrize(
    ("method", "more", "is_told"), [("spawn", "", True), ("spawn", ", initializer=main", False)]
)
def test_a_global_that_a_worker_does_not_have(
    tmp_path: Path, method: str, more: str, is_told: bool
) -> None:
    files = {"train.py": _POOL.format(method, more)}
    error = "AttributeError: 'NoneType' object has no attribute 'real'"
    verdict = said(tmp_path, files, error, "T.real")
    assert ("only the main process runs" in verdict.what["en"]) is is_told


def test_a_join_before_the_queue_is_read(tmp_path: Path) -> None:
    script = "def main():\n    q = mp.Queue()\n    p = mp.Process(target=f, args=(q,))\n    p.start()\n    {}\n    {}\nmain()\n"
    over = "exit code 124"
    early = {"train.py": script.format("p.join()", "q.get()")}
    assert "before `q.get()`" in said(tmp_path, early, over).what["en"]
    late = {"train.py": script.format("q.get()", "p.join()")}
    assert "before `q.get()`" not in said(tmp_path, late, over).what["en"]


def test_a_command_line_as_one_text(tmp_path: Path) -> None:
    script = "import subprocess\ncmd = 'python-of-mine eval.py'\nsubprocess.run(cmd{})\n"
    assert "shlex.split(cmd)" in ran(tmp_path, script.format("")).remedy["en"]
    told = ran(tmp_path, script.format(", shell=True, check=True"))
    assert "shlex" not in told.remedy["en"]


def test_an_option_that_the_child_does_not_have(tmp_path: Path) -> None:
    child = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--layers')\np.parse_args()\n"
    script = "import subprocess, sys\nsubprocess.check_call([sys.executable, 'child.py', '{}', '1'], stderr=subprocess.DEVNULL)\n"
    told = ran(tmp_path, script.format("--n-layers"), child_py=child).what["en"]
    assert "an option that it does not have" in told
    lost = "import sys\nimport argparse\np = argparse.ArgumentParser()\np.add_argument('--layers')\nsys.exit(2)\n"
    told = ran(tmp_path, script.format("--layers"), child_py=lost).what["en"]
    assert "an option that it does not have" not in told


def test_a_child_that_gets_no_environment(tmp_path: Path) -> None:
    child = "import os\nprint(os.environ['TOKEN'])\n"
    script = "import os, subprocess, sys\nos.environ['TOKEN'] = 'a'\nenv = {}\nsubprocess.run([sys.executable, 'child.py'], env=env, check=True)\n"
    told = ran(tmp_path, script.format("{'SEED': '1'}"), child_py=child).what["en"]
    assert "all that the program has then" in told
    other = child.replace("TOKEN", "MISSING")
    told = ran(tmp_path, script.format("{**os.environ, 'SEED': '1'}"), child_py=other).what["en"]
    assert "all that the program has then" not in told


def test_what_main_returns_is_no_exit_code(tmp_path: Path) -> None:
    script = "import sys\ndef main():\n    return {}\nsys.exit(main())\n"
    write(
        tmp_path, {"train.py": script.format("good / total"), LOG: "training exited with code 1\n"}
    )
    assert "That is no exit code" in judged(tmp_path).what["en"]
    write(tmp_path, {"train.py": script.format("0 if good else 1")})
    assert "That is no exit code" not in judged(tmp_path).what["en"]


@pytest.mark.parametrize(
    ("shell", "error", "says"),
    [
        ("CMD='run c/$EXP.json'\n", "No such file or directory: 'c/$EXP.json'", "double quotes"),
        ("EPOCHS=5\npython train.py\n", "EPOCHS", "`export EPOCHS="),
        ("export EPOCHS=5\n", "EPOCHS", "is not set"),
    ],
)
def test_a_variable_of_the_shell(tmp_path: Path, shell: str, error: str, says: str) -> None:
    line = "f = open(p)" if "file" in error else "n = os.environ['EPOCHS']"
    said_of = f"FileNotFoundError: [Errno 2] {error}" if "file" in error else f"KeyError: '{error}'"
    verdict = said(tmp_path, {"train.py": f"{line}\n", "run.sh": shell}, said_of, line)
    assert says in f"{verdict.what['en']} {verdict.remedy['en']}"


def test_a_path_behind_a_variable_that_is_not_set(tmp_path: Path) -> None:
    error = "FileNotFoundError: [Errno 2] No such file or directory: '/train.csv'"
    files = {
        "train.py": "open(p)\n",
        "run.sh": "DATADIR=/d\ntouch $DATADIR/train.csv\npython train.py $DATA_DIR/train.csv\n",
    }
    assert "`$DATA_DIR` in the shell script" in said(tmp_path, files, error, "open(").what["en"]
    files["run.sh"] = "DATA_DIR=$1\npython train.py $DATA_DIR/train.csv\n"
    assert "shell script" not in said(tmp_path, files, error, "open(").what["en"]


def test_an_exit_that_hides_the_exception(tmp_path: Path) -> None:
    script = "import sys, logging\ntry:\n    int('x')\nexcept ValueError as e:\n    {}\n    sys.exit(1)\n"
    write(tmp_path, {"train.py": script.format("logging.debug(e)"), LOG: "start\nexit code 1\n"})
    assert "shows nothing of it" in judged(tmp_path).what["en"]
    write(tmp_path, {"train.py": script.format("print(e)")})
    assert "shows nothing of it" not in judged(tmp_path).what["en"]


def test_a_rank_without_a_launcher(tmp_path: Path) -> None:
    line = "r = int(os.environ['LOCAL_RANK'])"
    verdict = said(tmp_path, {"train.py": f"{line}\n"}, "KeyError: 'LOCAL_RANK'", line)
    assert "torchrun" in verdict.remedy["en"]


def test_a_worker_that_ends_its_process(tmp_path: Path) -> None:
    error = "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while the future was running or pending."
    script = (
        "def work(x):\n    {}\nwith ProcessPoolExecutor() as pool:\n    list(pool.map(work, [1]))\n"
    )
    told = said(tmp_path, {"a.py": script.format("os._exit(3)")}, error, "list(").what["en"]
    assert "`os._exit(3)` at" in told
    told = said(tmp_path, {"a.py": script.format("return x")}, error, "list(").what["en"]
    assert "_exit" not in told


def test_a_file_in_place_of_a_module(tmp_path: Path) -> None:
    error = "/v/bin/python: Error while finding module specification for 'tools/{}' (ModuleNotFoundError: __path__ attribute not found)"
    told = said(tmp_path, {"a.py": ""}, error.format("train.py")).remedy["en"]
    assert "`python -m tools.train`" in told


def test_an_argument_that_is_empty(tmp_path: Path) -> None:
    error = "FileNotFoundError: [Errno 2] No such file or directory: ''"
    line = "with open(sys.argv[2]) as f:"
    files = {"a.py": f"{line}\n    pass\n"}
    assert "argument 2 of the command line" in said(tmp_path, files, error, line).what["en"]
    files = {"a.py": "open(path)\n"}
    assert "of the command line is" not in said(tmp_path, files, error, "open(").what["en"]


def test_a_wait_without_an_end(tmp_path: Path) -> None:
    script = "def wait():\n    print('waiting for stage 1')\n    while not os.path.exists(FLAG):\n        time.sleep(1)\nwait()\n"
    over = "exit code 124"
    before = "waiting for stage 1\n"
    told = said(tmp_path, {"a.py": script}, over, before=before).what["en"]
    assert "this loop has no other end" in told
    told = said(tmp_path, {"a.py": script}, over, before=before + "epoch 1\n" * 9).what["en"]
    assert "no other end" not in told


def test_a_blank_behind_a_backslash(tmp_path: Path) -> None:
    error = "train.py: error: the following arguments are required: --epochs"
    files = {"train.py": "", "run.sh": "python train.py \\\n  --data d \\ \n  --epochs 3\n"}
    assert "run.sh:2" in said(tmp_path, files, error).what["en"]
    files["run.sh"] = "python train.py \\\n  --data d\n"
    assert "run.sh" not in said(tmp_path, files, error).what["en"]


def test_a_shell_script_that_ended_without_a_word(tmp_path: Path) -> None:
    shell = "set -e\necho 'looking for files'\nLAST=$(ls out | grep pt){}\npython train.py\n"
    write(tmp_path, {"run.sh": shell.format(""), "train.py": "", LOG: "looking for files\n"})
    assert "run.sh:3" in judged(tmp_path).what["en"]
    write(tmp_path, {"run.sh": shell.format(" || true")})
    assert "run.sh" not in judged(tmp_path).what["en"]
