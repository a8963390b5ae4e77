"""A crash is told by its stack: whose code it was in, and how it came there."""

import re

import pytest
from tests.why.logs import verdict_of

from jumar.why.particulars import words

_NAME = re.compile(r"\{\w+\}")
_SITE = "/e/lib/python3.11/site-packages"
_OWN = '  File "/u/exp/fit.py", line 12 in main\n'
_WORKER = f'  File "{_SITE}/torch/utils/data/_utils/worker.py", line 340 in _worker_loop\n'
_LOADS = '  File "<frozen importlib._bootstrap_external>", line 1233 in create_module\n'


def _dump(*frames: str, said: str = "Segmentation fault", modules: str = "numpy") -> str:
    other = 'Thread 0x00007f01 (most recent call first):\n  File "/e/lib/python3.11/threading.py", line 3 in wait\n\n'
    stack = "".join(frames)
    return (
        f"Fatal Python error: {said}\n\n{other}Current thread 0x00007f02 (most recent call first):\n"
        f"{stack}\nExtension modules: {modules} (total: 2)\n"
    )


def _at(path: str, name: str = "f") -> str:
    return f'  File "{_SITE}/{path}", line 7 in {name}\n'


@pytest.mark.parametrize(
    ("form", "log"),
    [
        ("crash-data", _dump(_at("pyarrow/parquet/core.py", "read"), _OWN)),
        (
            "crash-arrow",
            _dump(_at("pyarrow/parquet/core.py"), _OWN, modules="pyarrow.lib, tensorflow.x"),
        ),
        ("crash-data-worker", _dump(_at("h5py/_hl/files.py"), _OWN, _WORKER)),
        ("crash-import", _dump(_LOADS, _at("flash_attn/flash_attn_interface.py", "<module>"), _OWN)),
        ("crash-import-own", _dump(_LOADS, _OWN)),
        ("crash-freed", _dump("  Garbage-collecting\n", _OWN)),
        ("crash-ctypes", _dump('  File "/e/lib/python3.11/ctypes/__init__.py", line 5 in string_at\n', _OWN)),
        ("crash-illegal", _dump(_at("faiss/loader.py"), _OWN, said="Illegal instruction")),
        ("crash-illegal-built", _dump(_at("deepspeed/ops/adam/cpu_adam.py"), _OWN, said="Illegal instruction")),
        ("crash-recursion", _dump(_OWN, _OWN, said="Cannot recover from stack overflow.")),
        ("crash-data", _dump(_at("pyarrow/parquet/core.py", "read").lstrip(), _OWN.lstrip())),
        ("crash-bus-worker", _dump(_OWN, _WORKER, said="Bus error")),
        ("crash-bus", _dump(_at("safetensors/torch.py"), _OWN, said="Bus error")),
        ("crash-extension", _dump(_at("torch/_ops.py", "__call__"), _at("spconv/pytorch/ops.py"), _OWN)),
        ("crash-backward", _dump(_at("torch/autograd/graph.py", "_engine_run_backward"), _OWN)),
        ("crash-collective", _dump(_at("torch/distributed/distributed_c10d.py", "all_reduce"), _OWN)),
        ("crash-card", _dump(_at("torch/cuda/__init__.py", "_lazy_init"), _OWN)),
        ("crash-torch", _dump(_at("torch/nn/functional.py", "linear"), _OWN)),
        ("crash-compile", _dump(_at("triton/compiler/compiler.py"), _OWN)),
        ("crash-npu", _dump(_at("torch_npu/npu/utils.py"), _OWN)),
        ("crash-math", _dump(_at("scipy/linalg/_basic.py"), _OWN)),
        ("crash-tokens", _dump(_at("sentencepiece/__init__.py", "LoadFromFile"), _OWN)),
        ("crash-window", _dump(_at("matplotlib/backends/backend_qt.py"), _OWN)),
        ("crash-package", _dump(_at("someones/thing.py"), _OWN)),
        ("crash-own", _dump(_OWN)),
        ("crash-own-worker", _dump(_OWN, _WORKER)),
        ("crash-native", "fit[31]: segfault at 8 ip 00007f01 sp 00007ffe error 4 in libarrow.so.1700[7f01+9000]\n"),
        ("crash-native-media", "pt_data_worker[7]: segfault at 8 ip 00007f01 sp 00007ffe error 4 in libavcodec-4e4b.so.59.37[7f01+9000]\n"),
        ("crash-native-net", "*** SIGSEGV received at time=17 on cpu 2 ***\nPC: @     0x7f81  (unknown)  ncclGroupEnd()\nFatal Python error: Segmentation fault\n"),
        (
            "crash-native-net",
            "[n3:31] *** Process received signal ***\n[n3:31] Signal: Segmentation fault (11)\n"
            "[n3:31] [ 0] /lib64/libpthread.so.0(+0x1)[0x7f]\n[n3:31] [ 1] /opt/n/libnccl.so.2(+0x2)[0x7f]\n",
        ),
        ("crash-native-driver", "fit[31]: segfault at 8 ip 00007f01 sp 00007ffe error 4 in libcuda.so.550.54[7f01+9000]\n"),
    ],
)  # fmt: skip
def test_the_stack_of_a_crash_says_whose_code_it_was_in(form: str, log: str) -> None:
    verdict = verdict_of(log)
    wanted = map(re.escape, _NAME.split(words("en")[form]["what"]))
    assert re.match(".+".join(wanted), verdict.what["en"]), verdict.what
    assert verdict.cause == "crash-located"
    assert not _NAME.search(verdict.remedy["en"] + verdict.remedy["zh"])
    # What is there already is not asked for.
    assert "PYTHONFAULTHANDLER" not in verdict.remedy["en"]
    if _OWN in log:
        assert verdict.place == "/u/exp/fit.py:12"


def test_a_crash_without_a_stack_is_told_as_before() -> None:
    verdict = verdict_of("step 3\nSegmentation fault (core dumped)\n")
    assert verdict.cause == "crash"
    assert "PYTHONFAULTHANDLER" in verdict.remedy["en"]


def test_of_a_worker_that_died_the_kernel_says_in_which_library() -> None:
    log = (
        "RuntimeError: DataLoader worker (pid(s) 2213) exited unexpectedly\n"
        "[99.1] pt_data_worker[2213]: segfault at 8 ip 00007f01 sp 00007ffe error 4 in libavcodec-4e4b.so.59.37[7f01+9000]\n"
    )
    assert "libavcodec" in verdict_of(log).what["en"]
