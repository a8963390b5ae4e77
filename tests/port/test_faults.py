"""Faults that a widely used porting tool has, each one a promise here that it does not happen."""

import ast
from pathlib import Path

import pytest

from jumar.port import Mode, Options, port_text, port_tree

MODES = [pytest.param(mode, id=str(mode)) for mode in Mode]


def port(text: str, mode: Mode) -> str:
    return port_text(text, Options(mode=mode)).text


def codes(text: str, mode: Mode) -> set[str]:
    return {f.code for f in port_text(text, Options(mode=mode)).findings}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "text",
    [
        'import torch\nhasattr(m.module, "weight")\n',
        "import torch\nx = x.to(f(it))\n",
        "import torch\nx = x.to(other=y)\n",
        'import torch\nkernels = {"cuda": fast, "cpu": slow}\nkernels["cuda"]\n',
        "import torch\nparser.add_argument('--cuda', action='store_true')\nif args.cuda: pass\n",
    ],
)
def test_code_that_only_looks_like_a_device_stays(text: str, mode: Mode) -> None:
    assert port(text, mode) == text


@pytest.mark.parametrize("mode", MODES)
def test_no_expression_is_evaluated_twice(mode: Mode) -> None:
    text = 'import torch\nx = x.to(next(it))\ny = y.cuda(pick())\nif "cuda" in str(where()): pass\n'
    calls = [n for n in ast.walk(ast.parse(port(text, mode))) if isinstance(n, ast.Call)]
    for name in ("next", "pick", "where"):
        assert sum(isinstance(c.func, ast.Name) and c.func.id == name for c in calls) == 1
    assert not any(isinstance(n, ast.IfExp) for n in ast.walk(ast.parse(port(text, mode))))


@pytest.mark.parametrize("mode", MODES)
def test_a_class_with_its_own_cuda_method_keeps_it_at_call_and_definition(mode: Mode) -> None:
    text = (
        "import torch\n\n\nclass Batch:\n    def cuda(self):\n        return self\n\n\n"
        "batch = Batch()\nbatch.cuda()\n"
    )
    assert port(text, mode) == text


@pytest.mark.parametrize("mode", MODES)
def test_a_class_of_another_module_keeps_its_cuda_method(tmp_path: Path, mode: Mode) -> None:
    (tmp_path / "data.py").write_text("class Batch:\n    def cuda(self):\n        return self\n")
    (tmp_path / "lib.py").write_text("from data import Batch as B\n")
    text = "import torch\nfrom lib import B\nb = B()\nb.cuda()\nx.cuda()\n"
    (tmp_path / "train.py").write_text(text)
    results = port_tree(tmp_path, Options(mode=mode)).results
    result = next(r for r in results if r.path == "train.py")
    assert result.ported is not None
    lines = result.ported.decode().splitlines()
    assert "b.cuda()" in lines
    assert "x.cuda()" not in lines


def test_a_batch_of_a_loop_keeps_its_cuda_method(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text(
        "class Packed:\n    def cuda(self, device):\n        self.ids = self.ids.to(device)\n"
        "        return self\n    def to_dict(self):\n        return {}\n    def size(self): ...\n"
    )
    text = (
        "import torch\n\n\ndef train(loader, net, device):\n    for data in loader:\n"
        "        net(**data.cuda(device).to_dict())\n\n\ndef test(loader, net):\n"
        "    for data in loader:\n        data.cuda(0)\n        net(data.ids)\n\n\n"
        "def plain(loader, net):\n    for data in loader:\n        net(data.cuda(0)).size()\n"
    )
    (tmp_path / "train.py").write_text(text)
    results = port_tree(tmp_path, Options()).results
    ported = next(r.ported for r in results if r.path == "train.py")
    assert ported is not None
    assert ported.decode().count(".cuda(") == 2
    assert "data.to(" in ported.decode().partition("def plain")[2]


def test_names_imported_from_torch_cuda_are_followed() -> None:
    text = "from torch import cuda\ncuda.synchronize()\n"
    assert "torch.accelerator.synchronize()" in port(text, Mode.PORTABLE)
    assert "from torch_npu import npu as cuda" in port(text, Mode.NPU_ONLY)


def test_nccl_is_asked_for_and_paired_as_hccl() -> None:
    text = "import torch.distributed as dist\nok = dist.is_nccl_available()\n"
    assert "is_nccl_available" not in port(text, Mode.NPU_ONLY)
    assert "is_nccl_available" not in port(text, Mode.PORTABLE)
    pair = 'import torch.distributed as dist\ndist.init_process_group("cpu:gloo,cuda:nccl")\n'
    assert '"cpu:gloo,npu:hccl"' in port(pair, Mode.NPU_ONLY)


@pytest.mark.parametrize("mode", MODES)
def test_names_that_the_plugin_lacks_are_never_written(mode: Mode) -> None:
    text = (
        "import torch\ntorch.cuda.nvtx.mark('x')\ntorch.cuda.cudart()\ng = torch.cuda.CUDAGraph()\n"
    )
    ported = port(text, mode)
    for name in ("npu.nvtx", "npu.cudart", "npu.CUDAGraph", "MODULE.nvtx", "MODULE.CUDAGraph"):
        assert name not in ported
    assert "JP203" in codes(text, mode)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("torch.cuda.get_device_capability()[0] >= 8", "JP701"),
        ("x = x.to(torch.float64)", "JP702"),
        ("m = torch.compile(m)", "JP703"),
        ("m = torch.jit.script(m)", "JP704"),
        ("torch.backends.cuda.matmul.allow_tf32 = True", "JP705"),
        ("torch.utils.cpp_extension.CUDAExtension('k', ['k.cu'])", "JP708"),
        ("import flash_attn", "JP601"),
        ("import apex", "JP603"),
        ("import bitsandbytes", "JP604"),
        ("import triton", "JP605"),
    ],
)
def test_what_spelling_cannot_show_is_reported(line: str, code: str) -> None:
    assert code in codes(f"import torch\n{line}\n", Mode.PORTABLE)


@pytest.mark.parametrize("mode", MODES)
def test_files_beside_python_are_ported_and_odd_paths_are_not_skipped(
    tmp_path: Path, mode: Mode
) -> None:
    folder = tmp_path / "代码 é"
    folder.mkdir()
    (folder / "训练.py").write_text("import torch\nx.cuda()\n", "utf-8")
    (folder / "run.sh").write_text("CUDA_VISIBLE_DEVICES=0 python train.py --device cuda\n")
    (folder / "conf.yaml").write_text("device: cuda\n")
    (folder / "requirements.txt").write_text("flash-attn==2.5\n")
    results = {Path(r.path).name: r for r in port_tree(tmp_path, Options(mode=mode)).results}
    assert set(results) == {"训练.py", "run.sh", "conf.yaml", "requirements.txt"}
    run = (results["run.sh"].ported or b"").decode()
    assert "ASCEND_RT_VISIBLE_DEVICES=0" in run
    assert ("--device npu" if mode is Mode.NPU_ONLY else "--device $(python -c") in run
    is_npu = mode is Mode.NPU_ONLY
    assert results["conf.yaml"].ported == (b"device: npu\n" if is_npu else None)
    assert [f.code for f in results["requirements.txt"].findings] == ["JP506"]


@pytest.mark.parametrize("mode", MODES)
def test_ordinary_torch_code_is_neither_unsupported_nor_unknown(mode: Mode) -> None:
    text = (
        "import torch\nfrom torch import nn\nw = nn.Parameter(torch.zeros(3))\n"
        "opt = torch.optim.Adam([w])\nopt.step()\nopt.zero_grad()\n"
    )
    assert codes(text, mode) == set()


@pytest.mark.parametrize("mode", MODES)
def test_a_second_run_inserts_no_second_import(mode: Mode) -> None:
    once = port("import torch\nx.cuda()\ntorch.cuda.empty_cache()\n", mode)
    assert port(once, mode) == once
    assert once.count("import torch_npu") == (mode is Mode.NPU_ONLY)
    assert once.count("ACCELERATOR =") == (mode is Mode.PORTABLE)


def test_a_configuration_in_python_gets_no_names_that_readers_take_for_settings() -> None:
    text = "device = 'cuda'\nenv = dict(dist_cfg=dict(backend='nccl'))\n"
    ported = port(text, Mode.PORTABLE)
    kept = [n.split(" = ")[0] for n in ported.splitlines() if n]
    assert kept == ["import torch", "device", "env"]
    assert "'npu'" not in ported


def test_a_program_without_torch_runs_on_every_device_too() -> None:
    text = "from transformers import pipeline\nrun = pipeline('text-generation', device='cuda')\n"
    ported = port(text, Mode.PORTABLE)
    assert "import torch\n" in ported
    assert ported.endswith("device=ACCELERATOR.type)\n")


@pytest.mark.parametrize(
    "text",
    [
        "import os\ntry:\n    import torch\nexcept ImportError:\n    torch = None\n\ndef f(x):\n    return x.cuda()\n",
        "import os\nif os:\n    import torch\n    import torch.nn as nn\nx = torch.zeros(1, device='cuda')\n",
        "import os\nif os:\n    import torch\n    x = torch.ones(1).cuda()\n",
        "import torch; x = torch.ones(1).cuda()\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\ndef f(x):\n    return x.cuda()\n",
        "def f():\n    import torch\n    return torch.ones(1).cuda()\n",
    ],
)  # fmt: skip
def test_what_ported_code_needs_stands_below_the_import_of_torch(text: str) -> None:
    lines = port(text, Mode.PORTABLE).split("\n")
    defined = next(n for n, line in enumerate(lines) if line.strip().startswith("ACCELERATOR ="))
    used = next(n for n, line in enumerate(lines) if "ACCELERATOR" in line and n != defined)
    margin = len(lines[defined]) - len(lines[defined].lstrip())
    imports = [n for n, line in enumerate(lines) if line == " " * margin + "import torch"]
    assert imports
    assert imports[0] < defined < used


def test_a_line_is_told_once_of_each_thing() -> None:
    text = "import torch\ny = torch.add(a.double(), b.double(), c.double())\n"
    assert [f.code for f in port_text(text).findings].count("JP702") == 1


def test_a_file_of_python_2_that_uses_cuda_is_work_left() -> None:
    found = [port_text(f"print 'x'\n{line}\n").findings[0] for line in ("net.cuda()", "net.cpu()")]
    assert [f.severity.value for f in found] == ["work", "limit"]


def test_every_session_of_a_script_gets_the_bridge_and_one_import() -> None:
    text = "import tensorflow as tf\na = tf.Session()\nb = tf.Session(graph=g)\n"
    once = port(text, Mode.NPU_ONLY)
    assert once.count("npu_config_proto()") == 2
    assert once.count("import npu_config_proto") == 1
    assert port(once, Mode.NPU_ONLY) == once


def test_code_for_torch_0_3_that_says_async_is_read_and_mended() -> None:
    text = "import torch\nx = x.cuda(async=True)\ny = y.cuda(gpu, async = True)\n"
    for mode in Mode:
        ported = port_text(text, Options(mode=mode))
        ast.parse(ported.text)
        assert ported.text.count("non_blocking") == 2
        assert ported.findings == ()
        assert port(ported.text, mode) == ported.text


def test_another_argument_called_async_is_told() -> None:
    text = "import torch\nreplay = Replay(async=True)\nx = x.cuda()\n"
    ported = port_text(text)
    assert "Replay(async=True)" in ported.text
    assert "x.to(ACCELERATOR)" in ported.text
    assert [(f.code, f.subject, f.severity.value) for f in ported.findings] == [
        ("JP001", "async", "work")
    ]
