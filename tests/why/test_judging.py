"""Which fault was the first: waits, chains, lost peers, what was survived, and logs made to mislead."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.why.logs import verdict_of

from jumar.errors import BadInput
from jumar.spec.verdicts import Verdict
from jumar.why.gather import from_path, from_paths
from jumar.why.judging import judge
from jumar.why.scan import regions
from jumar.why.signs import Source

TRACEBACK = (
    'Traceback (most recent call last):\n  File "/u/train.py", line {line}, in <module>\n    x()\n'
)
SHAPE = TRACEBACK + "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)\n"
WATCHDOG = (
    "[rank{rank}]:[E816 10:{minute}:01.133 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=3) ran for 600004 milliseconds before timing out.\n"
)


def why(folder: Path, **logs: str) -> Verdict:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text)
    return judge(from_paths([str(folder)]))


def test_a_stray_nul_does_not_hide_a_log(tmp_path: Path) -> None:
    # What torch writes when a data loader's worker crashes ends with one.
    crash = "ERROR: Unexpected segmentation fault encountered in worker.\n\0" + TRACEBACK
    verdict = why(
        tmp_path,
        rank0=crash.format(line=3)
        + "RuntimeError: DataLoader worker (pid 7) is killed by signal: Segmentation fault. \n",
    )
    assert verdict.cause == "crash"


def test_a_lost_peer_loses_to_anything_else(tmp_path: Path) -> None:
    verdict = why(
        tmp_path,
        rank0=WATCHDOG.format(rank=0, minute="00"),
        rank1="2026-08-16 11:00:00,000 INFO late\n" + SHAPE.format(line=7),
    )
    assert (verdict.cause, verdict.rank, verdict.place) == ("shape", 1, "/u/train.py:7")


def test_the_one_that_all_wait_for_is_named(tmp_path: Path) -> None:
    logs = {f"rank{rank}": WATCHDOG.format(rank=rank, minute="00") for rank in (0, 1, 3)}
    verdict = why(tmp_path, rank2="step 5\n", **logs)
    assert (verdict.whose, verdict.rank) == ("unknown", 2)
    assert "rank 2" in verdict.what["en"]


def test_the_first_by_time_wins_less_what_it_waited(tmp_path: Path) -> None:
    verdict = why(
        tmp_path,
        a="2026-01-01 10:10:00,000 ERROR E30008: AI CPU operator execution time out. ran for 600000 milliseconds\n",
        b="2026-01-01 10:05:00,000 ERROR uncorrectable ECC error encountered\n",
    )
    assert verdict.cause == "kernel-aicpu"
    assert [one.cause for one in verdict.followed] == ["device-ecc"]


def test_a_fault_that_was_survived_is_not_the_cause(tmp_path: Path) -> None:
    went_on = "".join(f"step {number} loss 0.1\n" for number in range(10_000))
    verdict = why(tmp_path, rank0=f"{SHAPE.format(line=1)}{went_on}OSError: [Errno 28] No space\n")
    assert verdict.cause == "disk-full"


def test_quoted_source_lines_are_not_what_happened(tmp_path: Path) -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/u/train.py", line 3, in main\n'
        '    raise OSError("[Errno 28] No space left on device")\n'
        "KeyError: 'lr'\n"
    )
    verdict = why(tmp_path, rank0=text)
    assert verdict.cause == "key-missing"
    assert "'lr'" in verdict.what["zh"]


def test_chains(tmp_path: Path) -> None:
    direct = "\nThe above exception was the direct cause of the following exception:\n\n"
    during = "\nDuring handling of the above exception, another exception occurred:\n\n"
    file = (
        TRACEBACK.format(line=1) + "FileNotFoundError: [Errno 2] No such file or directory: 'a'\n"
    )
    own = TRACEBACK.format(line=9) + "ValueError: no data\n"
    assert why(tmp_path, rank0=file + direct + own).cause == "file-missing"
    lost = TRACEBACK.format(line=9) + "RuntimeError: Connection closed by peer [127.0.0.1]:5\n"
    assert why(tmp_path, rank0=file + during + lost).cause == "file-missing"
    key = TRACEBACK.format(line=1) + "KeyError: 'x'\n"
    assert why(tmp_path, rank0=key + during + own).place == "/u/train.py:9"


@pytest.mark.parametrize("name", ["E", "OOM", "__main__.E"])
def test_an_exception_may_have_any_name(tmp_path: Path, name: str) -> None:
    verdict = why(tmp_path, rank0=f"step 1\n{TRACEBACK.format(line=9)}{name}: boom 3\nbye\n")
    assert (verdict.cause, verdict.place) == ("python-error", "/u/train.py:9")
    assert verdict.evidence[0].text == f"{name}: boom 3"


MIXED = """\
(Actor pid=7, ip=10.0.0.7) (Worker_TP0 pid=4) ERROR 01-16 11:51:23 [executor.py:671] Traceback (most recent call last):
(Actor pid=7, ip=10.0.0.7) (Worker_TP1 pid=5) ERROR 01-16 11:51:23 [executor.py:671] Traceback (most recent call last):
(Actor pid=7, ip=10.0.0.7) (Worker_TP0 pid=4) ERROR 01-16 11:51:23 [executor.py:671]   File "/u/train.py", line 3, in main
(Actor pid=7, ip=10.0.0.7) (Worker_TP1 pid=5) ERROR 01-16 11:51:23 [executor.py:671]   File "/u/other.py", line 9, in main
(Actor pid=7, ip=10.0.0.7) (Worker_TP0 pid=4) ERROR 01-16 11:51:23 [executor.py:671]     raise OSError("disk full")
(Actor pid=7, ip=10.0.0.7) (Worker_TP0 pid=4) ERROR 01-16 11:51:23 [executor.py:671] ValueError: batch is empty
(Actor pid=7, ip=10.0.0.7) (Worker_TP1 pid=5) ERROR 01-16 11:51:23 [executor.py:671] RuntimeError: Connection closed by peer [::1]:3
"""
BOXED = """\
╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /u/train.py:12 in main                                                       │
│ ❱ 12 │   raise RuntimeError("CUDA out of memory")                            │
╰──────────────────────────────────────────────────────────────────────────────╯
KeyError: 'lr'
"""
WRAPPED_BOX = """\
╭───────────────────── Traceback (most recent call last) ──────────────────────╮
│ /opt/lib/python3.10/site-packages/transformers/trainer.py:2474 in            │
│ _inner_training_loop                                                         │
│ ❱ 2474 │   │   │   loss = self.training_step(model, inputs, items)           │
╰──────────────────────────────────────────────────────────────────────────────╯
TypeError: MyTrainer.training_step() takes 3 positional arguments but 4 were given
"""


@pytest.mark.parametrize(
    ("text", "cause", "place"),
    [
        (MIXED, "not-there", "/u/train.py:3"),
        (BOXED, "key-missing", "/u/train.py:12"),
        (WRAPPED_BOX, "library-mismatch", "/opt/lib/python3.10/site-packages/transformers/trainer.py:2474"),
        ("".join(f"2026-07-03T14:20:51.565839352Z {line}\n" for line in SHAPE.format(line=4).splitlines()), "shape", "/u/train.py:4"),
        ("".join(f"10.0.1.96: {line}\n" for line in SHAPE.format(line=4).splitlines()), "shape", "/u/train.py:4"),
        ("".join(f"worker-3: {line}\n" for line in SHAPE.format(line=4).splitlines()), "shape", "/u/train.py:4"),
    ],
)  # fmt: skip
def test_prefixes_and_frames_of_many_writers_are_told_apart(
    tmp_path: Path, text: str, cause: str, place: str
) -> None:
    verdict = why(tmp_path, log=text)
    assert (verdict.cause, verdict.place) == (cause, place)


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        # A code is a whole number, whatever layer wrote it.
        ("HCCL function error: hcclAllReduce, error code is 1", "collective-argument"),
        ("HCCL function error: hcclAllReduce, error code is 19", "network-connect"),
        ("NPU function error: aclrtSynchronizeStream, error code is 507048", "peer-late"),
        ("NPU function error: aclrtX, error code is 5070481234", "kernel-async"),
        ("call aclnnAdd failed, retcode: 161002", "kernel-arguments"),
        ("ERR01007 OPS feature not supported", "kernel-missing"),
        # What no signature knows is told by its kind.
        ("the hidden dimension of key must equal that of query", "shape"),
        ("frobnication needs package frob>=2.3", "library-mismatch"),
        ("this optimizer does not support sparse gradients", "unsupported"),
        ("group_size must be given", "refused"),
        ("frobnicated", "library-error"),
    ],
)
def test_codes_and_kinds(tmp_path: Path, words: str, cause: str) -> None:
    frame = '  File "/x/site-packages/lib.py", line 3, in f\n    f()\n'
    text = f"Traceback (most recent call last):\n{frame}RuntimeError: {words}\n"
    assert why(tmp_path, log=text).cause == cause


def test_what_is_known_only_by_its_kind_loses_to_a_fault(tmp_path: Path) -> None:
    general = '  File "/x/site-packages/lib.py", line 3, in f\nRuntimeError: it must be given\n'
    ecc = "2026-01-01 10:05:00,000 ERROR uncorrectable ECC error encountered\n"
    first = "2026-01-01 10:00:00,000 INFO on\nTraceback (most recent call last):\n"
    assert why(tmp_path, a=first + general, b=ecc).cause == "device-ecc"


def test_nothing_known_is_unknown(tmp_path: Path) -> None:
    verdict = why(
        tmp_path, rank0="step 1 loss 0.3\nstep 2 loss 0.2\n", data="\0\1Error: not text\n"
    )
    assert (verdict.cause, verdict.whose, verdict.evidence) == (None, "unknown", ())
    assert verdict.files == 2


def test_a_fault_among_many_lines_of_errors_is_found(tmp_path: Path) -> None:
    # More than what is searched for all marks.
    noise = "".join(
        f"[ERROR] retry {number} of a very slow disk that is left\n" for number in range(250_000)
    )
    verdict = why(tmp_path, rank0=noise + SHAPE.format(line=5) + noise[:5000])
    assert verdict.cause == "shape"
    assert verdict.evidence[0].line == 250_004


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=3000), st.integers(0, 3000))
def test_any_bytes_give_a_verdict(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.log"
    path.write_bytes(
        noise[:at] + b"\nTraceback (most recent call last):\r" + noise[at:] + b"\nEI0006\n"
    )
    verdict = judge([from_path(str(path))])
    json.dumps([verdict.what, verdict.remedy])
    fd = os.open(path, os.O_RDONLY)
    try:
        for region in regions(fd, path.stat().st_size):
            assert os.pread(fd, len(region.text), region.start) == region.text
    finally:
        os.close(fd)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "gone.log"):
        with pytest.raises(BadInput):
            from_paths([str(tmp_path / name)])
    # In a folder, they are passed over.
    (tmp_path / "loop").symlink_to(tmp_path)
    assert from_paths([str(tmp_path)]) == []


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "rank3.log").write_text(SHAPE.format(line=5) + "\x1b]0;title\x07\n")
    program = Path(sys.executable).with_name("jumar")

    def run(*words: str, language: str = "C", stdin: str = "") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "LANG": language, "LC_ALL": language}
        return subprocess.run(
            [program, "why", *words],
            input=stdin,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )

    found = json.loads(run("--json", str(tmp_path)).stdout)
    assert (found["cause"], found["whose"], found["rank"]) == ("shape", "script", 3)
    assert found["evidence"][0]["line"] == 4
    told = run(str(tmp_path), language="zh_CN.UTF-8")
    assert told.returncode == 0
    assert "某层需要 4 个特征，实际收到 3 个" in told.stdout
    assert "  rank 3，/u/train.py:5\n" in told.stdout
    kernel = "Out of memory: Killed process 77 (python3) total-vm:9kB"
    assert run("-", stdin=f"[  12.5] {kernel}\n").stdout.startswith("memory: ")
    missing = run(str(tmp_path / "none.log"))
    assert missing.returncode == 2
    assert "none.log cannot be read: No such file or directory" in missing.stderr


def test_a_library_that_is_done_without_loses_to_the_exception_that_ended_it(
    tmp_path: Path,
) -> None:
    missing = (
        "W dso_loader.cc:59] Could not load 'libcudart.so.10.1'; dlerror: libcudart.so.10.1: "
        "cannot open shared object file: No such file or directory\n"
    )
    assert why(tmp_path, alone=missing).cause == "library-missing"
    (tmp_path / "alone.log").unlink()
    assert why(tmp_path, both=missing + SHAPE.format(line=7)).cause == "shape"


LIBRARY = '  File "/opt/lib/python3.11/site-packages/{path}", line 7, in {name}\n    y()\n'


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # What is raised while cleaning up is not why.
        (
            TRACEBACK.format(line=7)
            + "MemoryError\n\nDuring handling of the above exception, another exception occurred:\n\n"
            + TRACEBACK.format(line=7)
            + LIBRARY.format(path="torch/serialization.py", name="__exit__")
            + "RuntimeError: [enforce fail at inline_container.cc:300] . unexpected pos 64 vs 8\n",
            "host-allocation",
        ),
        # What the launcher says below is not the message.
        (
            TRACEBACK.format(line=7).replace("x()", "assert batch % cards == 0")
            + "AssertionError\nERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1)\n",
            "parallel-plan",
        ),
        (
            TRACEBACK.format(line=7).replace("x()", "assert img is not None") + "AssertionError\n",
            "data-broken",
        ),
        # The file that raised it tells what its words do not.
        (
            TRACEBACK.format(line=7)
            + LIBRARY.format(path="torch/autograd/__init__.py", name="backward")
            + "RuntimeError: blarg 17\n",
            "autograd",
        ),
        # A worker's exception, not what reports it.
        (
            TRACEBACK.format(line=7)
            + "KeyError: Caught KeyError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
            + '  File "/u/data.py", line 9, in load\n    return rows["label"]\nKeyError: \'label\'\n',
            "data-columns",
        ),
        # `Empty` of a queue says nothing.
        (
            TRACEBACK.format(line=7)
            + "_queue.Empty\n\nThe above exception was the direct cause of the following exception:\n\n"
            + TRACEBACK.format(line=8)
            + "RuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly\n",
            "worker-died",
        ),
        # Nobody waits for what is ignored.
        (
            "Exception ignored in: <function Env.__del__ at 0x7f>\n"
            + TRACEBACK.format(line=7)
            + "AttributeError: 'NoneType' object has no attribute 'dumps'\n",
            "error-line",
        ),
    ],
)
def test_what_was_raised_is_told_by_what_says_most(tmp_path: Path, text: str, cause: str) -> None:
    assert why(tmp_path, rank0="step 1\n" + text).cause == cause


def test_a_notebooks_traceback_is_read_with_its_frames(tmp_path: Path) -> None:
    verdict = why(
        tmp_path,
        cell="-----\nNameError                    Traceback (most recent call last)\n"
        "Cell In[10], line 18\n     14 raise CUDA out of memory\n---> 18 trainer = Trainer(\n\n"
        "File ~/env/lib/python3.10/site-packages/lib/trainer.py:150, in Trainer.__init__(self)\n"
        "--> 150         isinstance(model, PeftModel)\n\nNameError: name 'PeftModel' is not defined\n",
    )
    assert (verdict.cause, verdict.whose) == ("optional-missing", "script")
    assert (verdict.place or "").endswith("lib/trainer.py:150")


def test_the_end_of_a_log_is_read_without_a_mark(tmp_path: Path) -> None:
    line = "n1:7:9 [0] bootstrap.cc:7 NCCL WARN Bootstrap Root : rank 1 of 8 ranks has already checked in\n"
    assert why(tmp_path, rank0="step\n" * 50_000 + line).cause == "rank-setup"


@pytest.mark.parametrize(
    "line",
    [
        "env {'HOSTNAME': 'n1', 'ASCEND_OPP_PATH': '/opp', 'HCCL_IF_IP': '10.0.0.7'}\n",
        "export ASCEND_OPP_PATH=/usr/local/Ascend/opp\n",
        "+ python train.py --plan 'must be divisible by' --size 7 --nproc_per_node 8\n",
        "x.py:7: WARNING: foo is deprecated and was removed in bar 2.0\n",
    ],
)
def test_settings_that_are_shown_are_no_faults(tmp_path: Path, line: str) -> None:
    assert why(tmp_path, rank0=line).cause is None


PIECES = (
    *("│ x │\n", "╭─ Traceback (most recent call last) ─╮\n", "Traceback (most recent call last):\n"),
    *('  File "/a/t.py", line 3, in f\n', "    x()\n", "KeyError: 'a'\n", "assert x\n", "AssertionError\n"),
    *("KeyError    Traceback (most recent call last)\n", "  what():  boom {x}\n", "[rank0]: ", "\n"),
    *("F0925 14:07:56.489186 14091 a.cu:79] Check failed: x\n", "exits with return code = -9\n"),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=10).map("".join))
def test_any_mix_of_lines_gives_a_verdict(text: str) -> None:
    fd = os.memfd_create("log")
    try:
        os.write(fd, text.encode())
        assert judge([Source("log", lambda: os.dup(fd))]).files == 1
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        # Nothing that is known: only its words are read.
        ("ValueError: No anchors found in the pyramid", "unsure"),
        ("ValueError: the widths of both branches do not agree", "unsure"),
        # A bound of a number, which is no version.
        ("ValueError: nucleus requires a value > 0.0 and <= 1.0", "unsure"),
        # Its rule, or what to do, is in the message itself.
        ("ValueError: `mode` must be one of 'fast', 'slow'", "fault"),
        ("ValueError: No anchors found in the pyramid. Please check `anchor_sizes`.", "fault"),
        ("ZeroDivisionError: division by zero", "fault"),
    ],
)
def test_what_is_only_read_literally_is_called_so(tmp_path: Path, message: str, kind: str) -> None:
    verdict = why(tmp_path, rank0=f"{TRACEBACK.format(line=9)}{message}\n")
    assert (verdict.kind, verdict.whose == "unknown") == (kind, kind == "unsure")
    assert verdict.what["en"].startswith("This message is not known") == (kind == "unsure")
    assert verdict.what["zh"].startswith("这条消息不在已知之列") == (kind == "unsure")


@pytest.mark.parametrize(
    "message", ["KeyError: 'fusion.pool'", "TypeError: 'NoneType' object is not iterable"]
)
def test_what_restates_its_class_is_sure_only_at_a_line_of_the_script(
    tmp_path: Path, message: str
) -> None:
    in_script = TRACEBACK.format(line=9)
    in_library = in_script + LIBRARY.format(path="fusion/core.py", name="pool")
    kinds = [
        why(tmp_path, rank0=f"{where}{message}\n").kind for where in (in_script, in_library, "")
    ]
    assert kinds == ["fault", "unsure", "unsure"]


PY_SPY = """\
step 20 | loss 3.42
Process 812: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 900 (idle): "Thread-1"
    wait (threading.py:327)
Thread 812 (idle): "MainThread"
    {inner}
    step (loop.py:25)
    <module> (train.py:67)
"""
FAULTHANDLER = """\
Timeout (0:00:30)!
Thread 0x00007f0000000000 (most recent call first):
  File "/usr/lib/python3.11/multiprocessing/connection.py", line 395 in _recv
  File "/usr/lib/python3.11/multiprocessing/queues.py", line 103 in get
  File "/u/loop.py", line 25 in step
  File "/u/train.py", line 67 in <module>
"""


@pytest.mark.parametrize(
    ("text", "told", "place"),
    [
        (PY_SPY.format(inner="all_reduce (torch/distributed/distributed_c10d.py:2501)"), "all ranks take part", "loop.py:25"),
        (PY_SPY.format(inner="_recv (multiprocessing/connection.py:395)"), "another process or thread", "loop.py:25"),
        (PY_SPY.format(inner="read (ssl.py:1166)"), "from the network", "loop.py:25"),
        (PY_SPY.format(inner="slowly (model.py:3)"), "stood at slowly (model.py:3).", "model.py:3"),
        (FAULTHANDLER, "another process or thread", "/u/loop.py:25"),
    ],
)  # fmt: skip
def test_a_stack_dump_tells_where_a_program_stands(
    tmp_path: Path, text: str, told: str, place: str
) -> None:
    verdict = why(tmp_path, rank0=text)
    assert (verdict.cause, verdict.whose, verdict.kind) == ("stalled", "unknown", "consequence")
    assert told in verdict.what["en"]
    assert verdict.place == place


def test_an_error_counts_more_than_a_stack_dump(tmp_path: Path) -> None:
    text = f"{SHAPE.format(line=4)}{PY_SPY.format(inner='wait (threading.py:3)')}"
    assert why(tmp_path, rank0=text).cause == "shape"


def test_what_the_shell_says_below_an_exception_is_not_its_message(tmp_path: Path) -> None:
    text = f"{TRACEBACK.format(line=9)}KeyError: 'lr'\nSegmentation fault (core dumped)\n"
    assert why(tmp_path, rank0=text).cause == "key-missing"


def test_what_pip_and_tables_show_around_it_is_told(tmp_path: Path) -> None:
    pip = (
        "ERROR: Cannot install a and numpy==1.26 because these package versions have conflicting dependencies.\n\n"
        "The conflict is caused by:\n    The user requested numpy==1.26\n    a 4.1 depends on numpy>=2\n\n"
    )
    told = why(tmp_path, rank0=pip).what["en"]
    assert told == "a 4.1 needs numpy>=2, but numpy==1.26 is asked for."
    told = why(tmp_path, rank0=pip.replace("numpy>=2", "scipy>=2")).what["en"]
    assert "“The user requested numpy==1.26; a 4.1 depends on scipy>=2”" in told
    table = f"columns: ['id;age;income']\n{TRACEBACK.format(line=9)}KeyError: 'age'\n"
    assert "id;age;income" in why(tmp_path, rank0=table).what["zh"]


def test_values_before_a_loss_that_is_no_number_are_told(tmp_path: Path) -> None:
    steps = "".join(
        f"step {at} loss {loss} lr 3.0e-4\n" for at, loss in enumerate((1.9, 2.5, 5.9, 9.1))
    )
    stack = 'Traceback (most recent call last):\n  File "/w/train.py", line 9, in f\n    assert ok, "loss is nan"\nAssertionError: loss is nan\n'
    verdict = why(tmp_path, rank0=steps + stack)
    assert "The last values of loss before it: 2.5, 5.9, 9.1." in verdict.what["en"]
    assert verdict.remedy["en"].startswith("The learning rate was 3.0e-4 there")
    # What fell did not diverge by its learning rate.
    steps = "step 1 loss 3.0 lr 1e-3\nstep 2 loss 2.0 lr 1e-3\nstep 3 loss 1.5 lr 1e-3\n"
    verdict = why(tmp_path, rank0=steps + stack)
    assert "3.0, 2.0, 1.5" in verdict.what["en"]
    assert "was 1e-3 there" not in verdict.remedy["en"]


def test_what_a_training_measures_is_no_fault() -> None:
    verdict = verdict_of(
        "Max error: 2.000000\nepoch 3 test error: 3\nrelative error: 1.2e-05\nerror: 0.31%\n"
    )
    assert verdict.kind == "nothing"
