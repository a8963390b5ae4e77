"""Memory that ran out: who fills it and how it came to that, by the numbers and frames in the log."""

import re

import pytest
from tests.why.logs import verdict_of

from jumar.why.particulars import words

_NAME = re.compile(r"\{\w+\}")
_SITE = "/e/lib/python3.11/site-packages"
_STACK = 'Traceback (most recent call last):\n  File "/u/fit.py", line 4, in main\n    go()\n'
_ASKED = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 44.40 GiB of which {free} is free. "
_OWN = _ASKED.format(free="90.00 MiB") + (
    "Including non-PyTorch memory, this process has 44.20 GiB memory in use. Of the allocated memory 43.00 GiB is allocated by PyTorch, "
    "and 600.00 MiB is reserved by PyTorch but unallocated.\n"
)


def _listed(held: list[str], used: str, spare: str) -> str:
    named = "".join(f"Process {7000 + at} has {one} memory in use. " for at, one in enumerate(held))
    return (
        _STACK
        + _ASKED.format(free="90.00 MiB")
        + f"{named}Of the allocated memory {used} is allocated by PyTorch, and {spare} is reserved by PyTorch but unallocated.\n"
    )


def _frame(path: str, name: str, source: str) -> str:
    return f'  File "{_SITE}/{path}", line 9, in {name}\n    {source}\n'


def _raised(*frames: str) -> str:
    return _STACK + "".join(frames) + _OWN


_STEPS = "".join(f"step {at} loss 2.{at} gpu_mem: {{}}\n" for at in range(1, 7))


@pytest.mark.parametrize(
    ("form", "log"),
    [
        ("memory-listed", _listed(["31.00 GiB", "13.00 GiB"], "12.50 GiB", "100.00 MiB")),
        ("memory-own-listed", _listed(["44.20 GiB"], "43.00 GiB", "100.00 MiB")),
        ("memory-gaps-listed", _listed(["44.20 GiB"], "30.00 GiB", "13.00 GiB")),
        ("memory-own", _raised()),
        ("memory-restore", _raised(_frame("torch/serialization.py", "restore_location", "return r(s)"))),
        ("memory-gather", _raised(_frame("torch/x/fsdp/api.py", "_full_post_state_dict_hook", "t = t.clone()"))),
        ("memory-optimizer", _raised(_frame("torch/optim/adamw.py", "_init_group", 'state["exp_avg"] = torch.zeros_like('))),
        ("memory-logits", _raised(_frame("torch/nn/functional.py", "cross_entropy", "return torch._C._nn.cross_entropy_loss("))),
        ("memory-logits", _raised(_frame("transformers/models/x/modeling_x.py", "forward", "logits = logits.float()"))),
        ("memory-attention", _raised(_frame("transformers/models/x/modeling_x.py", "forward", "attn_weights = torch.matmul(query_states, key_states.transpose(2, 3))"))),
        ("memory-model", _raised(_frame("transformers/modeling_utils.py", "from_pretrained", "return f("))),
        ("memory-model", _raised(_frame("torch/nn/modules/module.py", "to", "return self._apply(convert)"), _frame("torch/nn/modules/module.py", "convert", "return t.to("))),
        ("memory-model", _raised(_frame("torch/nn/modules/module.py", "<lambda>", "return self._apply(lambda t: t.cuda(device))"))),
        # A batch that is moved is no model.
        ("memory-own", _raised(_frame("accelerate/utils/operations.py", "send_to_device", "return tensor.to(device)"))),
        ("memory-later", "".join(f"step {at} loss 2.{at}\n" for at in range(1, 7)) + _raised()),
        ("memory-later", " 41%|###   | 41/100 [00:31<00:44, 1.3it/s, loss=0.3]\n" + _raised()),
        # What is loaded or prepared is counted, too.
        ("memory-own", "Loading shards:  41%|###   | 41/100 [00:31<00:44, 1.3it/s]\n" + _raised()),
        ("memory-grows", _STEPS.format("11.2 GB", "17.0 GB", "22.9 GB", "28.8 GB", "34.6 GB", "40.3 GB") + _raised()),
        ("memory-later", _STEPS.format(*["40.1 GB"] * 6) + _raised()),
        ("host-grows", "".join(f"it {at} rss: {at * 20}.1 GB\n" for at in range(1, 6)) + "fit.sh: line 3: 77 Killed                  python fit.py\n"),
        ("memory-resumed", "Resuming from checkpoint out/last.pt\nstep 900 loss 2.0\n" + _raised()),
        ("memory-later", "Resuming from checkpoint out/last.pt\n" + "".join(f"step {at} loss 2.{at}\n" for at in range(901, 907)) + _raised()),
        ("memory-zero", _raised(_frame("deepspeed/runtime/zero/stage_1_and_2.py", "__init__", "w.clone().float())"))),
        ("killed-later", "".join(f"step {at} loss 2.{at}\n" for at in range(60, 70)) + "fit.sh: line 3: 77 Killed                  python fit.py\n"),
        ("worker-killed", "step 810, loss: 2.1\nSystemError: (Fatal) DataLoader process (pid 3063) exited is killed by signal: Killed.\n"),
        ("host-preparing", "Map:  93%|#### | 93/100 [01:10<00:05, 9.3 examples/s]Killed\n"),
        ("array-small", _STACK + "numpy.core._exceptions.MemoryError: Unable to allocate 3.7 MiB for an array with shape (9, 70, 70, 3) and data type uint8\n"),
        ("memory-taken-first", "x.cc:15] Created device /job:localhost/replica:0/task:0/device:GPU:0 with 212 MB memory:  -> device: 0\n" + _STACK + "tensorflow.python.framework.errors_impl.ResourceExhaustedError: failed to allocate memory [Op:Add]\n"),
        ("host-loading", "Loading checkpoint shards:  50%|##### | 3/6 [00:09<00:09, 3.1s/it]fit.sh: line 3: 77 Killed                  python fit.py\n"),
        ("worker-killed", _STACK + "RuntimeError: DataLoader worker (pid 77) is killed by signal: Killed.\n"),
        ("killed-offload", "[x.py:1] zero.offload_optimizer.device: cpu\n['/e/bin/python', '-u', 'fit.py', '--offload_optimizer', 'cpu', '--local_rank=1'] exits with return code = -9\n"),
        ("oom-limit", "memory: usage 9437184kB, limit 9437184kB, failcnt 7\npython invoked oom-killer: gfp_mask=0x1\nMemory cgroup out of memory: Killed process 77 (python) total-vm:9000kB, anon-rss:8388608kB, file-rss:0kB\n"),
        ("oom-cgroup", "Memory cgroup out of memory: Killed process 77 (python) total-vm:9000kB, anon-rss:8388608kB, file-rss:0kB\n"),
        ("oom-node", "Out of memory: Killed process 77 (python) total-vm:9000kB, anon-rss:8388608kB, file-rss:0kB\n"),
        ("oom-pod", "fit-0  0/1  OOMKilled  0  4m\n  Reason:  OOMKilled\n  Limits:\n    cpu: 4\n    memory:  9Gi\n"),
        ("oom-step", "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.\n"),
    ],
)  # fmt: skip
def test_the_log_tells_how_memory_came_to_an_end(form: str, log: str) -> None:
    verdict = verdict_of(log)
    wanted = map(re.escape, _NAME.split(words("en")[form]["what"]))
    assert re.match(".+".join(wanted), verdict.what["en"]), verdict.what
    assert not _NAME.search(verdict.remedy["en"] + verdict.remedy["zh"])


def test_of_listed_processes_the_one_that_fits_is_its_own() -> None:
    told = verdict_of(_listed(["13.00 GiB", "31.00 GiB"], "12.50 GiB", "100.00 MiB")).what["en"]
    assert (
        "31.00 GiB are held by others (pid 7001: 31.00 GiB), about 13.00 GiB by this process"
        in told
    )


def test_the_kernels_numbers_are_told_in_gib() -> None:
    log = "Out of memory: Killed process 77 (python) total-vm:9000kB, anon-rss:8388608kB, file-rss:0kB\n"
    assert "held 8.00 GiB" in verdict_of(log).what["en"]


def test_what_a_rank_says_without_a_stack_is_told_by_that_of_another() -> None:
    said = "RuntimeError: CUDA error: an illegal memory access was encountered\n"
    stack = _STACK + _frame("spconv/pytorch/ops.py", "conv", "out = ext.run(x)") + said
    log = f"[rank0]: {said}" + "".join(f"[rank1]: {line}\n" for line in stack.splitlines())
    assert "A kernel of spconv" in verdict_of(log).what["en"]
