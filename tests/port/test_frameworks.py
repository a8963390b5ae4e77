"""Files of other frameworks: what looks like torch's there is not."""

from pathlib import Path

import pytest

from jumar.port import Mode, Options, port_text
from jumar.port.project import Project

OTHERS = [
    'import paddle\nx = paddle.ones([1]).cuda(0)\npaddle.device.set_device("gpu:0")\n',
    "import paddle\ndef f(x, rank): return x.cuda(rank)\n",
    'import jax\ndevice = "cuda"\nx = jax.device_put(y, device=device)\n',
    "import mxnet as mx\nx = net.cuda()\n",
    'import cupy\nx = array.cuda()\nkind = "cuda:0"\n',
    "import tensorflow as tf\ndef f(x): return x.cuda()\n",
]


@pytest.mark.parametrize("text", OTHERS)
@pytest.mark.parametrize("mode", Mode)
def test_another_framework_keeps_its_devices(text: str, mode: Mode) -> None:
    result = port_text(text, Options(mode=mode))
    assert result.text == text
    assert not [f for f in result.findings if f.code < "JP5"]


@pytest.mark.parametrize("also", ["import torch", "from transformers import AutoModel"])
def test_a_file_that_also_uses_torch_is_ported(also: str) -> None:
    text = f"{also}\nimport tensorflow as tf\nmodel = make().cuda()\n"
    assert ".to(ACCELERATOR)" in port_text(text).text


@pytest.mark.parametrize(("framework", "is_ported"), [("paddle", False), ("torch", True)])
def test_the_repositorys_own_module_says_which_framework_it_is(
    framework: str, *, is_ported: bool, tmp_path: Path
) -> None:
    (tmp_path / "net.py").write_text(f"import {framework}\nclass Net: pass\n", "utf-8")
    text = "from net import Net\nnet = Net().cuda()\n"
    (tmp_path / "train.py").write_text(text, "utf-8")
    project = Project(tmp_path, ["net.py", "train.py"])
    assert (port_text(text, path="train.py", project=project).text != text) is is_ported
