"""What is told where a log only says that another process failed: who, how, and which log holds the fault."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.why.logs import verdict_of

from jumar.cli.why import command
from jumar.spec.verdicts import CONSEQUENCE, FAULT, NOTHING, Verdict
from jumar.why.judging import judge
from jumar.why.signs import Source


def _of(*texts: str) -> Verdict:
    logs = [os.memfd_create("log") for _ in texts]
    try:
        for fd, text in zip(logs, texts, strict=True):
            os.write(fd, text.encode())
        sources = [
            Source(f"rank{rank}.log", lambda fd=fd: os.dup(fd), rank if len(logs) > 1 else None)
            for rank, fd in enumerate(logs)
        ]
        return judge(sources)
    finally:
        for fd in logs:
            os.close(fd)


ELASTIC = """\
E0101 10:00:00.1 2606 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: {code}) local_rank: 5 (pid: 2630) of binary: /usr/bin/python
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============
train.py FAILED
Root Cause (first observed failure):
[0]:
  time      : 2026-01-01_10:00:00
  host      : node-3
  rank      : 13 (local_rank: 5)
  exitcode  : {code} (pid: 2630)
  error_file: <N/A>
"""
LAUNCH = """\
[rank 0] no metric, giving up
[rank 1] RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:57222
jumar launch: rank 0 exited with code 3
    no metric, giving up
  log: logs/node0/rank0.log
"""
RAY = """\
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
	class_name: Worker
	actor_id: 17f730ef
	pid: 16424
	namespace: bd54
	ip: 10.0.0.9
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR
"""


@pytest.mark.parametrize(
    ("log", "cause", "said", "next_"),
    [
        (LAUNCH, "peer-lost", "rank 0 exited with code 3. Its last line: “no metric, giving up”.", "jumar why "),
        (ELASTIC.format(code=1), "child-failed", "rank 13 on node-3 (pid 2630), with exit code 1. Exit code 1 means", "--tee 3"),
        (ELASTIC.format(code=-9), "killed", "rank 13 on node-3 (pid 2630), with exit code -9.", "dmesg -T"),
        (ELASTIC.format(code=-11), "crash", "rank 13 on node-3", "PYTHONFAULTHANDLER"),
        (ELASTIC.format(code=-6), "aborted", "That code means that it ended itself", "terminate called"),
        ("[ERROR] [launch.py:321:sigkill_handler] ['python', '-u', 'a.py', '--local_rank=4', '--x'] exits with return code = 1\n", "child-failed", "local rank 4, with exit code 1", "--enable_each_rank_log"),
        (RAY, "ray-died", "the actor Worker (pid 16424 on 10.0.0.9)", "/tmp/ray/session_latest/logs"),
        ("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_0': 1}\n", "child-failed", "EngineCore_0, with exit code 1", "VLLM_LOGGING_LEVEL"),
        ("job-master-0   0/2   CrashLoopBackOff   8   2m\n", "child-failed", "the pod job-master-0 (CrashLoopBackOff)", "kubectl logs POD --previous"),
        ("srun: error: node7: task 4: Exited with exit code 2\n", "child-failed", "task 4 on node7, with exit code 2. Exit code 2 mostly means", "sacct"),
    ],
)  # fmt: skip
def test_who_failed_how_and_where_to_look(log: str, cause: str, said: str, next_: str) -> None:
    verdict = _of(log)
    assert (verdict.cause, verdict.kind) == (cause, CONSEQUENCE)
    assert said in verdict.what["en"]
    assert next_ in verdict.remedy["en"]
    assert next_ in verdict.remedy["zh"]


def test_a_file_that_the_log_names_is_told() -> None:
    named = "no error file defined for parent, to copy child error file (/tmp/e/attempt_0/0/error.json)\n"
    assert "/tmp/e/attempt_0/0/error.json" in _of(ELASTIC.format(code=1) + named).remedy["en"]


WATCHDOG = (
    "[E1206 18:44:12.7 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, NumelIn=544, NumelOut=544, Timeout(ms)=600000) ran for 600061 milliseconds before timing out.\n"
)


def test_the_operation_and_the_ranks_that_wait_for_it_are_told() -> None:
    log = "".join(WATCHDOG.format(rank=rank, number=7753) for rank in (0, 1, 3))
    verdict = _of(log)
    assert verdict.kind == CONSEQUENCE
    assert "ALLREDUCE (number 7753 of its group, elements: 544)" in verdict.what["en"]
    assert "Rank 0, 1, 3 waited 10 min" in verdict.what["en"]
    assert "first operations" not in verdict.remedy["en"]
    assert "first operations" in _of(WATCHDOG.format(rank=0, number=2)).what["en"]


def test_the_rank_that_a_barrier_names_is_told() -> None:
    text = "[E ProcessGroupGloo.cpp:138] Rank 3 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.\n"
    assert "It waited for rank 0" in _of(text).what["en"]


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ("Indexing.cu:1146: indexSelectLargeIndex: block: [3,0,0] Assertion `srcIndex < srcSelectDimSize` failed.", "an embedding or index_select"),
        ("Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d: Assertion `t >= 0 && t < n_classes` failed.", "A label is not between 0"),
        ("Loss.cu:118: operator(): Assertion `input_val >= zero && input_val <= one` failed.", "not between 0 and 1"),
    ],
)  # fmt: skip
def test_the_check_of_a_kernel_says_what_was_out_of_range(check: str, said: str) -> None:
    text = f"../aten/src/ATen/native/cuda/{check}\nRuntimeError: CUDA error: device-side assert triggered\n"
    verdict = _of(text)
    assert (verdict.cause, verdict.kind) == ("gpu-assert", FAULT)
    assert said in verdict.what["en"]


def test_what_cann_says_is_quoted() -> None:
    text = (
        "RuntimeError: call aclnnX failed, detail:E69999: Inner Error!\n"
        "E69999: [PID: 30] 2026-07-08-19:23:04.799.485 op[MatmulV3], this platform only support transpose_x2 true[FUNC:A][FILE:b.cc]\n"
        "        Tiling failed\n"
    )
    verdict = _of(text)
    assert verdict.cause == "kernel-arguments"
    assert "this platform only support transpose_x2 true" in verdict.what["zh"]


def test_an_empty_log_is_no_consequence() -> None:
    assert _of("step 1\n").kind == NOTHING


def test_the_command_says_where_to_look_next(tmp_path: Path) -> None:
    log = tmp_path / "torchrun.log"
    log.write_text(ELASTIC.format(code=1))
    shown = CliRunner().invoke(command, [str(log)]).output
    assert "look next: Another log" in shown
    log.write_text("MemoryError\n")
    assert "remedy: " in CliRunner().invoke(command, [str(log)]).output


def test_an_event_that_passed_loses_to_what_ended_the_job() -> None:
    waited = "Warning FailedScheduling 40s default-scheduler 0/2 nodes are available: 1 Insufficient nvidia.com/gpu\n"
    assert _of(waited).cause == "pod-waiting"
    assert _of(f"{waited}MemoryError\n").cause == "host-allocation"


def test_a_command_of_windows_is_named_by_its_script() -> None:
    said = _of(
        "subprocess.CalledProcessError: Command '['C:\\\\Py\\\\python.exe', 'D:/x/train_lora.py', '--a']' "
        "returned non-zero exit status 3221225477.\n"
    ).what["en"]
    assert "the command `D:/x/train_lora.py`" in said


_SHARED = "[rank4]:[E421 02:05:38.7 ProcessGroupGloo.cpp:143] Gloo connectFullMesh failed with [pair.cc:144] no error\n"
_IN_VLLM = """\
Traceback (most recent call last):
  File "/opt/lib/python3.12/site-packages/vllm/v1/core/{file}.py", line 9, in f
    assert {condition}
AssertionError
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "extension: Setup FAILED for CUDA 12\nTraceback (most recent call last):\n"
            '  File "/u/a.py", line 1, in <module>\n    import b\n  File "/u/b.py", line 2, in <module>\n',
            "“extension: Setup FAILED for CUDA 12”",
        ),
        ("step 7 loss_cls: nan lr: 0.1\naclrtSynchronizeStream failed : 507015 at x.cc\n", "was NaN"),
        (_SHARED + _SHARED.replace("4", "6", 1), "GLOO_SOCKET_IFNAME"),
        (
            "train.py: error: the following arguments are required: --out\n"
            "run.sh: line 7: --out: command not found\n",
            "takes the option --out for a command of its own",
        ),
        (
            "Back-off restarting failed container init-pytorch in pod a-worker-0\n",
            "master's service can be resolved",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/data/shard_03.npy'\n",
            "shard_03.npy is one of a numbered series",
        ),
        ("[ERROR] blarg of the npu quux\n", "CANN's plog"),
        ("[ERROR] rank 3: blarg quux\n", "logs of all ranks"),
        (
            "Traceback (most recent call last):\n"
            '  File "/root/foo/foo/__init__.py", line 3, in <module>\n    from ._native import run\n'
            "ModuleNotFoundError: No module named 'foo._native'\n",
            "from its sources in /root/foo/foo",
        ),
        (_IN_VLLM.format(file="kv_cache_utils", condition="a.page_size == b"), "the KV cache"),
        (_IN_VLLM.format(file="sched", condition="a.order == b"), "a check of its own code"),
    ],
)  # fmt: skip
def test_what_stands_around_the_line_is_told_as_well(text: str, said: str) -> None:
    verdict = _of(text)
    assert said in f"{verdict.what['en']} {verdict.remedy['en']}"


def test_ranks_that_never_met_are_not_counted() -> None:
    told = _of(_SHARED + _SHARED.replace("4", "6", 1)).what["en"]
    assert "These ranks say so" not in told


def test_a_line_that_nobody_knows_asks_only_for_logs_that_there_are() -> None:
    told = _of("[ERROR] blarg quux\n").remedy["en"]
    assert "plog" not in told
    assert "ranks" not in told


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (
            "master_addr is only used for static rdzv_backend and when rdzv_endpoint is not specified.\n"
            "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n",
            "--master-addr does not count with this backend",
        ),
        (
            "+ torchrun --standalone --nnodes=2 --nproc-per-node 8 t.py\n"
            "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n",
            "--standalone, which makes each node a group of its own",
        ),
        (
            "config has no run_id, generated a random run_id: 17458\n"
            "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n",
            "give the same --rdzv-id on all",
        ),
        (
            "UserWarning: CUDA initialization: CUDA unknown error - this may be due to an incorrectly set up environment\n"
            "RuntimeError: No CUDA GPUs are available\n",
            "modprobe nvidia_uvm",
        ),
        (
            "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 803: system has "
            "unsupported display driver / cuda driver combination (Triggered internally)\n"
            "RuntimeError: No CUDA GPUs are available\n",
            "does not belong to the loaded driver",
        ),
        (
            "'(MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /a/b "
            "(Caused by NewConnectionError('x: [Errno 101] Network is unreachable'))\"))' thrown while requesting HEAD x\n"
            "OSError: Can't load tokenizer for 'a/b'. If you were trying to load it from 'https://huggingface.co/models', "
            "make sure you don't have a local directory with the same name.\n",
            "the hub was not reached (Network is unreachable)",
        ),
        (
            "xFormers can't load C++/CUDA extensions. xFormers was built for:\n"
            "    PyTorch 2.1.2+cu121 with CUDA 1201 (you have 2.1.0+cpu)\n",
            "built for torch 2.1.2+cu121, and torch 2.1.0+cpu is here",
        ),
        (
            "[rank3]:[E507 02:18:10.6 ProcessGroupNCCL.cpp:1743] [Rank 3] ProcessGroupNCCL's watchdog got stuck for 480 "
            "seconds without making progress in monitoring enqueued collectives.\n",
            "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
        ),
        (
            "NVIDIA GeForce RTX 5080 with CUDA capability sm_120 is not compatible with the current PyTorch installation.\n"
            "RuntimeError: CUDA error: no kernel image is available for execution on the device\n",
            "RTX 5080, is sm_120",
        ),
    ],
)
def test_what_is_warned_of_above_is_told_too(log: str, told: str) -> None:
    verdict = _of(log)
    assert told in verdict.what["en"] + verdict.remedy["en"]


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (
            "AssertionError: Torch not compiled with CUDA enabled\n"
            "[ERROR] 2026-03-20-10:00:00 (PID:7, Device:0, RankID:0) ERR99999 UNKNOWN application exception\n",
            "a machine with NPUs",
        ),
        (
            "INFO worker.py:133] Sleep mode freed 0.00 GiB memory, 60.15 GiB memory is still in use.\n"
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
            "sleep mode freed nothing",
        ),
        (
            "ray.exceptions.RayTaskError: ray::Actor.run() (pid=3)\nRuntimeError: CUDA error: invalid device ordinal\n",
            "Under Ray a worker sees",
        ),
        (
            "(autoscaler +1s) Error: No available node types can fulfill resource request "
            "{'node:10.6.1.2': 0.001, 'GPU': 1.0}. Add suitable node types.\n",
            "Compare 10.6.1.2 with",
        ),
        (
            "(raylet) [2026-04-02 15:02:00,117 E 13 13] (raylet) node_manager.cc:3069: 1 Workers (tasks / actors) "
            "killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: 35, IP: 10.9.1.7)\n",
            "RAY_memory_usage_threshold",
        ),
        (
            "RuntimeError: call aclnnCast failed, detail:EZ1001: [PID: 4] 2026-01-01-10:00:00.000.000 "
            "self not implemented for DT_BFLOAT16, should be in dtype support list [DT_FLOAT,DT_FLOAT16].\n",
            "have no bfloat16",
        ),
        (
            "RuntimeError: call aclnnRepeat failed, detail:EZ1001: [PID: 4] 2026-01-01-10:00:00.000.000 "
            "self not implemented for DT_DOUBLE, should be in dtype support list [DT_FLOAT,DT_FLOAT16].\n",
            "do not have float64",
        ),
        (
            "ERROR: Cannot install vllm-ascend==0.11.0 and vllm==0.11.0 because these package versions have "
            "conflicting dependencies.\n",
            "vllm first, then vllm-ascend",
        ),
        (
            "[WARNING] ME(1:2,MainProcess):2026-10-12-09:19:19.764.384 [mindspore/run_check/_check_version.py:357] "
            "MindSpore version 2.4.1 and Ascend AI software package (Ascend Data Center Solution)version 7.1 does not "
            "match, the version of software package expect one of ['7.5'].\n"
            "RuntimeError: Ascend kernel runtime initialization failed.\n",
            "2.4.1 and the CANN that is installed (7.1)",
        ),
    ],
)
def test_what_stands_around_it_on_npus_and_under_ray(log: str, said: str) -> None:
    verdict = _of(log)
    assert said in verdict.what["en"] + verdict.remedy["en"]


_MIXED = (
    'Traceback (most recent call last):\n  File "/u/run.py", line 8, in f\n    x = mix(x)\n'
    '  File "/opt/lib/python3.11/site-packages/mix/x.py", line 3, in mix\n    assert ok\n'
    "AssertionError: batch size must be even\n"
)


@pytest.mark.parametrize(
    ("bar", "is_last"),
    [
        ("99%|## | 57/58 [00:10<00:01, 5.0it/s]", True),
        # The end of the first of two epochs.
        ("50%|## | 28/58 [00:10<00:11, 5.0it/s]", True),
        ("48%|## | 27/58 [00:10<00:11, 5.0it/s]", False),
        ("0%|  | 0/1 [00:00<?, ?it/s]", False),
        ("loss 57/58 of it", False),
    ],
)
def test_the_progress_bar_tells_the_last_batch(bar: str, *, is_last: bool) -> None:
    verdict = verdict_of(f"{bar}\n{_MIXED}")
    assert ("the last batch of " in verdict.what["en"]) is is_last
    assert ("drop_last=True" in verdict.remedy["en"]) is is_last
    # What is not about sizes has nothing to do with it.
    other = verdict_of(f"{bar}\n{_MIXED.replace('batch size must be even', 'the moon is down')}")
    assert "the last batch of " not in other.what["en"]


@pytest.mark.parametrize(
    ("shown", "option"),
    [
        ("  store_kind ................ lazy", "store_kind = lazy"),
        ("python run.py --store-kind lazy --lr 3", "--store-kind = lazy"),
        ("store_kind: lazy", "store_kind = lazy"),
        ("  model_name ................ lazy", ""),
        ("  store_kind ................ eager", ""),
        ("it is lazy today", ""),
    ],
)
def test_the_option_that_chose_a_class_is_told(shown: str, option: str) -> None:
    verdict = verdict_of(
        f'{shown}\nTraceback (most recent call last):\n  File "/u/run.py", line 8, in f\n    s.flush()\n'
        "AttributeError: 'LazyStore' object has no attribute 'flush'\n"
    )
    assert ("The log shows" in verdict.what["en"]) is bool(option)
    assert option in verdict.what["en"]


@pytest.mark.parametrize(
    ("command", "is_told"),
    [
        ("python run.py conf/a.yaml --resume yes", True),
        ("llamafactory-cli train conf/a.yaml --resume yes", True),
        ("python run.py conf/a.yaml", False),
        ("accelerate launch --config_file conf/a.yaml run.py --resume yes", False),
    ],
)
def test_a_file_of_options_that_does_not_stand_alone_is_told(
    command: str, *, is_told: bool
) -> None:
    verdict = verdict_of(
        f'{command}\nTraceback (most recent call last):\n  File "/u/run.py", line 8, in f\n    parse()\n'
        '  File "/opt/lib/python3.11/site-packages/transformers/hf_argparser.py", line 3, in parse\n    x()\n'
        "ValueError: Please provide `frob_path`.\n"
    )
    assert ("HfArgumentParser" in verdict.what["en"]) is is_told
