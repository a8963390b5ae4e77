"""Which line counts: what is shown beside a fault, what follows from it, and what announces it."""

import pytest
from tests.why.logs import verdict_of

STACK = 'Traceback (most recent call last):\n  File "/u/fit.py", line 4, in <module>\n    begin()\n'
HEADER = "/opt/cuda/include/crt/host_config.h:121:2: error: #error -- unsupported GNU version! gcc versions later than 9 are not supported!\n"
DIED = "[2024-05-01 10:00:09,101] torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: 1) local_rank: 0 (pid: 33) of binary: /usr/bin/python\n"


@pytest.mark.parametrize(
    "command",
    [
        "x86_64-linux-gnu-gcc -Wno-unused-result -DNDEBUG -I/opt/e/torch/include -DTORCH_API_INCLUDE_EXTENSION_H -c a.cpp -o a.o -D_GLIBCXX_USE_CXX11_ABI=0",
        "/usr/local/cuda/bin/nvcc -I/opt/e/torch/include -c b.cu -o b.o -D_GLIBCXX_USE_CXX11_ABI=0 -gencode=arch=compute_86,code=sm_86",
        "[2/3] c++ -MMD -MF c.o.d -Werror -fno-exceptions -I/opt/e/undefined symbol -c c.cpp -o c.o -D_GLIBCXX_USE_CXX11_ABI=0",
        "/usr/bin/g++-9 -shared -B /opt/e/compiler_compat d.o -L/opt/e/lib -lcudart -o d.so -D_GLIBCXX_USE_CXX11_ABI=1",
    ],
)
def test_a_call_of_a_compiler_is_no_fault(command: str) -> None:
    assert verdict_of(f"{command}\n").cause is None
    verdict = verdict_of(f"{command}\n{HEADER}error: command '/opt/cuda/bin/nvcc' failed\n")
    assert verdict.evidence[0].line == 2
    assert "gcc 9" in verdict.what["en"]


@pytest.mark.parametrize(
    "line",
    [
        "gcc: error: unrecognized command line option '-std=c++20'",
        "nvcc fatal   : Unsupported gpu architecture 'compute_120'",
        "g++ -c a.cpp: fatal error: Killed signal terminated program cc1plus",
    ],
)
def test_what_a_compiler_says_is_one(line: str) -> None:
    assert verdict_of(f"{line}\n").cause is not None


LACKS = STACK + "ModuleNotFoundError: No module named 'torch'\n"
ABSENT = STACK + "FileNotFoundError: [Errno 2] No such file or directory: 'set/a.json'\n"
REFUSED = STACK + "ValueError: data is empty, please give one\n"


@pytest.mark.parametrize(
    ("log", "line"),
    [
        # What a missing environment lacks.
        (f"fit.sh: 3: source: not found\nstarting\n{LACKS}", 1),
        (f"fit.sh: line 3: module: command not found\n{LACKS}", 1),
        (f"fit.sh: line 3: /opt/e/bin/activate: No such file or directory\n{LACKS}", 1),
        (f"EnvironmentNameNotFound: Could not find conda environment: fit\n{LACKS}", 1),
        # What was not fetched.
        (f"fit.sh: line 3: wget: command not found\n{ABSENT}", 1),
        # The options that the command above did not get.
        (f"{REFUSED}fit.sh: line 7: --data: command not found\n", 5),
        (f"{REFUSED}fit.sh: 7: --data: not found\n", 5),
        # Nothing of that follows.
        (f"fit.sh: 3: source: not found\n{REFUSED}", 5),
        (f"fit.sh: line 3: wget: command not found\n{LACKS}", 5),
        (
            f"fit.sh: line 3: module: command not found\n{STACK}ModuleNotFoundError: No module named 'wandb'\n",
            5,
        ),
        (f"fit.sh: line 3: nvidia-smi: command not found\n{ABSENT}", 5),
        (f"{LACKS}fit.sh: line 9: module: command not found\n", 4),
        (
            f"{STACK}RuntimeError: CUDA out of memory. Tried to allocate 2 GiB\nfit.sh: line 7: --data: command not found\n",
            4,
        ),
    ],
)
def test_what_follows_from_a_command_that_the_shell_could_not_run(log: str, line: int) -> None:
    verdict = verdict_of(log)
    assert verdict.evidence[0].line == line
    if verdict.evidence[0].text.startswith("fit.sh"):
        effect = next(text for text in log.splitlines() if "Error: " in text)
        assert effect in verdict.remedy["en"]
        assert effect in verdict.remedy["zh"]


def test_a_carriage_return_inside_a_value_does_not_end_its_line() -> None:
    told = verdict_of(f"{STACK}RuntimeError: Invalid device string: 'cuda:1\r'\n").what["en"]
    assert "“cuda:1” ends with an invisible carriage return" in told
    # A bar that is drawn over itself is none.
    assert verdict_of("10%|# | 1/9\r'20%|## | 2/9'\r\n").cause is None


def test_a_version_that_git_does_not_know_is_mostly_done_without() -> None:
    said = "fatal: No names found, cannot describe anything.\n"
    assert verdict_of(said).cause == "not-there"
    assert verdict_of(f"{said}step 1\nKilled\n").cause == "killed"
    assert verdict_of(f"{said}step 1\n{REFUSED}").evidence[0].line == 6


def test_a_quoted_message_that_begins_with_a_line_end_is_read_on() -> None:
    log = f"{STACK}torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nRuntimeError: The fit failed:\nthe tile is too wide\n"
    assert "The fit failed: the tile is too wide" in verdict_of(log).what["en"]


def test_what_calls_itself_an_error_right_above_a_launchers_word_is_shown() -> None:
    told = verdict_of(f"step 1\nError while packing the row set\n{DIED}").what
    assert "“Error while packing the row set”" in told["en"]
    assert "“Error while packing the row set”" in told["zh"]
    # What the program went on after is not.
    assert "packing" not in verdict_of(f"Error while packing it\nstep 1\n{DIED}").what["en"]


COLUMNS = (
    "10:21:52 INFO     3 folders are read.                     loading.py:12\n"
    "         ERROR    No rows were found in                   loading.py:14\n"
    "                  /data/toys.                                          \n"
    "10:21:55 INFO     The end.                                fit.py:99\n"
)


def test_a_message_in_columns_is_read_whole() -> None:
    verdict = verdict_of(COLUMNS)
    assert verdict.evidence[0].line == 2
    assert verdict.evidence[0].text == "ERROR    No rows were found in /data/toys."


def test_a_line_that_is_no_column_is_left_as_it_is() -> None:
    verdict = verdict_of(
        "10:21:52 ERROR no rows were read by loading.py:14\n" + 20 * " " + "toys\n"
    )
    assert verdict.evidence[0].text.endswith("loading.py:14")


def test_a_log_that_ends_without_a_word_shows_where() -> None:
    verdict = verdict_of(
        "[10:00:01] the rows are counted\n[10:00:02] looking for the best rate\n\n"
    )
    assert verdict.cause is None
    assert "“[10:00:02] looking for the best rate”" in verdict.what["en"]
    assert "“[10:00:02] looking for the best rate”" in verdict.what["zh"]
    assert "bash -x" in verdict.remedy["en"]
    assert "The log ends with" not in verdict_of("").what["en"]


CALLED = (
    f"{STACK}RuntimeError: Exception thrown from user defined Python function in dataset. \n\n"
    f"{'-' * 66}\n- Python Call Stack: \n{'-' * 66}\n"
    'Traceback (most recent call last):\n  File "/u/fit.py", line 19, in __getitem__\n    return self.rows[at]\n'
)


def test_what_the_scripts_own_code_raised_counts_more_than_that_it_did() -> None:
    above = "- Dataset Pipeline Error Message: \n[ERROR] Execute user Python code failed, check above.\n"
    verdict = verdict_of(f"{CALLED}KeyError: 31\n\n{'-' * 66}\n{above}")
    assert (verdict.evidence[0].text, verdict.place) == ("KeyError: 31", "/u/fit.py:19")
    assert verdict.what["en"] == "An entry of the data (rows) has no field 31."
    # Where it is not shown, all is told that is known.
    assert verdict_of(CALLED.partition("\n-")[0]).cause == "data-pipeline"


LOST = (
    "[rank0]: Traceback (most recent call last):\n"
    '[rank0]:   File "/u/fit.py", line 9, in <module>\n[rank0]:     loss.backward()\n'
    "[rank0]: RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:5264\n"
)


@pytest.mark.parametrize(
    "said", ["rank 1 done", "[rank1]: training finished.", "[rank 1] Done!", "Rank 1: exiting"]
)
def test_a_rank_that_had_finished_is_named(said: str) -> None:
    verdict = verdict_of(f"step 5\n{said}\n{LOST}{DIED}")
    assert (verdict.cause, verdict.whose, verdict.rank) == ("peer-finished", "script", 1)
    assert "Rank 1 had finished" in verdict.what["en"]


@pytest.mark.parametrize(
    "said",
    [
        "rank 1 done with epoch 3",
        "rank 1: loading done",
        "rank 0 done",
        "done",
        "rank 1 saved, rank 2 done",
    ],
)
def test_what_is_done_besides_is_no_end(said: str) -> None:
    verdict = verdict_of(f"step 5\n{said}\n{LOST}{DIED}")
    assert (verdict.cause, verdict.whose) == ("peer-lost", "unknown")
    assert "had finished" not in verdict.what["en"]


AGENT = "W0501 10:00:{at}.500000 71 torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal, shutting down workers\n"
CLOSED = "E0501 10:00:09.903000 33 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 34) of binary: /usr/bin/python\n"


def test_an_agent_that_was_told_to_end_counts_where_that_was_before_its_ranks_were_lost() -> None:
    verdict = verdict_of(f"{LOST}{CLOSED}{AGENT.format(at='09')}")
    assert verdict.cause == "asked-to-end"
    assert "Connection closed by peer" in verdict.remedy["en"]
    # Told afterwards, by a scheduler that saw the job fail, and when is not known.
    assert verdict_of(f"{LOST}{CLOSED}{AGENT.format(at='11')}").cause == "peer-lost"
    assert verdict_of(f"{AGENT.format(at='09')}{LOST}").cause == "peer-lost"
    # A fault says more than either.
    assert verdict_of(f"{REFUSED}{LOST}{CLOSED}{AGENT.format(at='09')}").cause == "refused"


@pytest.mark.parametrize(
    ("sent", "is_shown"),
    [
        ("Two rows are wrong. Please check the output above.", True),
        ("The set cannot be used, see the messages above", True),
        ("The set cannot be used, see the stack trace above", False),
        ("The set cannot be used, check the log file /u/fit.log", False),
        ("The set cannot be used", False),
    ],
)
def test_what_a_message_sends_up_to_is_shown(sent: str, is_shown: bool) -> None:
    log = f"reading the rows\nrow 7 of toys.csv does not have a label\nrows: 12\n{STACK}RuntimeError: {sent}\n"
    verdict = verdict_of(log)
    for language in ("en", "zh"):
        assert ("“row 7 of toys.csv does not have a label”" in verdict.what[language]) is is_shown


_CAUGHT = """{said}
No module named 'plotnet'

{after}
Traceback (most recent call last):
  File "/home/ann/train.py", line 8, in <module>
    augment()
RuntimeError: One or more background workers are no longer alive. Exiting.
"""


@pytest.mark.parametrize(
    ("after", "cause"), [("Epoch 0", "worker-died"), ("loading data", "module-missing")]
)
def test_what_was_caught_before_the_training_went_on_is_no_end(after: str, cause: str) -> None:
    log = _CAUGHT.format(said="Unable to draw the network:", after=after)
    assert verdict_of(log).cause == cause


def test_a_program_that_runs_from_its_source_names_the_other_python() -> None:
    log = """Traceback (most recent call last):
  File "/data/ann/tuner/src/tuner/launcher.py", line 15, in <module>
    from tuner.train import run
ModuleNotFoundError: No module named 'tuner'
"""
    assert "runs from its own source" in verdict_of(log).what["en"]


def test_an_empty_polygon_is_told_by_the_frames() -> None:
    log = """Traceback (most recent call last):
  File "/home/ann/det/loading.py", line 38, in to_mask
    rles = masks.frPyObjects(mask, height, width)
  File "pycocotools/_mask.pyx", line 292, in pycocotools._mask.frPyObjects
IndexError: list index out of range
"""
    assert "segmentation" in verdict_of(log).what["en"]


@pytest.mark.parametrize(
    ("line", "is_hedged"),
    [
        ("failed (exitcode: -7) local_rank: 0 (pid: 27) of binary: /usr/bin/python3", True),
        ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error.", False),
    ],
)
def test_a_bus_error_is_of_shared_memory_only_where_that_is_said(
    line: str, is_hedged: bool
) -> None:
    verdict = verdict_of(line + "\n")
    assert verdict.cause == "shared-memory"
    assert ("SIGBUS" in verdict.what["en"]) is is_hedged


def test_data_that_came_late_are_told_where_a_graph_then_fails() -> None:
    log = """[WARNING] MD(7,ff,python):2026-04-02-11:04:22 [minddata/data_queue_op.cc:32] DetectPerBatchTime] Bad performance attention, it takes more than 25 seconds to fetch a batch of data from dataset pipeline
[ERROR] DEVICE(7,ff,python):2026-04-02-11:04:51 [ascend_kernel_runtime.cc:45] DumpTaskExceptionInfo] Task fail infos task_id: 2, stream_id: 9, tid: 7, device_id: 0, retcode: 507011 ( model execute failed)
"""
    verdict = verdict_of(log)
    assert "more than 25 seconds" in verdict.what["en"]
    assert "num_parallel_workers" in verdict.remedy["zh"]
