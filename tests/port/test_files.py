"""Files beside Python: only what is surely a device changes, nothing else of the file."""

import json
from pathlib import Path

import pytest

from jumar.port import Mode, Options
from jumar.port.files import (
    config,
    docker,
    document,
    notebook,
    requirements,
    shell,
)
from jumar.port.project import Project
from jumar.port.scan import FileKind, kind_of

NPU = Options(mode=Mode.NPU_ONLY)
ANY = Options()


@pytest.mark.parametrize(
    "line",
    [
        "# CUDA_VISIBLE_DEVICES=0 python train.py",
        "echo CUDA_VISIBLE_DEVICES=0",
        "export CUDA_HOME=/usr/local/cuda",
        "cd cuda && make",
        "python train.py --impl cuda",
        "python train.py --cuda",
        "pip install torch --index-url https://x/cu118",
        "CUDA_VISIBLE_DEVICES= python train.py",
        "CUDA_VISIBLE_DEVICES=-1 python train.py",
        "python train.py --name cuda-run",
        "python -m torch.distributed.launch --nproc_per_node=8 train.py",
        "torchrun --nproc_per_node 8 train.py --device cpu",
        "cp cuda.txt /tmp/device",
        "python x.py --data /mnt/device=cuda/images",
        'sbatch --export="CUDA_VISIBLE_DEVICES=0" run.sh',
        'cards="CUDA_VISIBLE_DEVICES=-1"',
        "torchrun --nproc_per_node gpus train.py",
    ],
)
def test_shell_lines_without_a_device_stay(line: str) -> None:
    for options in (NPU, ANY):
        ported, edits = shell.port(f"#!/bin/sh\n{line}\n", options)
        assert ported == f"#!/bin/sh\n{line}\n"
        assert not edits.changes


@pytest.mark.parametrize(
    ("line", "portable", "npu"),
    [
        (
            "CUDA_VISIBLE_DEVICES=0,1 python train.py",
            "CUDA_VISIBLE_DEVICES=0,1 ASCEND_RT_VISIBLE_DEVICES=0,1 python train.py",
            "ASCEND_RT_VISIBLE_DEVICES=0,1 python train.py",
        ),
        (
            'export CUDA_VISIBLE_DEVICES="$1"',
            'export CUDA_VISIBLE_DEVICES="$1" ASCEND_RT_VISIBLE_DEVICES="$1"',
            'export ASCEND_RT_VISIBLE_DEVICES="$1"',
        ),
        ("python t.py --device cuda", "python t.py --device npu", "python t.py --device npu"),
        (
            'screen -X stuff "CUDA_VISIBLE_DEVICES=1 python3 t.py"',
            'screen -X stuff "CUDA_VISIBLE_DEVICES=1 ASCEND_RT_VISIBLE_DEVICES=1 python3 t.py"',
            'screen -X stuff "ASCEND_RT_VISIBLE_DEVICES=1 python3 t.py"',
        ),
        ("python t.py --device=cuda:1", "python t.py --device=npu:1", "python t.py --device=npu:1"),
        ("python t.py --devices cuda:0 cuda:1 -x", "python t.py --devices npu:0 npu:1 -x",
         "python t.py --devices npu:0 npu:1 -x"),
        (
            "python t.py --dist-backend 'nccl' \\",
            "python t.py --dist-backend 'hccl' \\",
            "python t.py --dist-backend 'hccl' \\",
        ),
        ("python t.py train.device=cuda", "python t.py train.device=npu", "python t.py train.device=npu"),
        ("  --backend nccl \\", "  --backend hccl \\", "  --backend hccl \\"),
        ('cards="CUDA_VISIBLE_DEVICES=$ids"',
         'cards="CUDA_VISIBLE_DEVICES=$ids ASCEND_RT_VISIBLE_DEVICES=$ids"',
         'cards="ASCEND_RT_VISIBLE_DEVICES=$ids"'),
        ("run='CUDA_VISIBLE_DEVICES=0 ./go'",
         "run='CUDA_VISIBLE_DEVICES=0 ASCEND_RT_VISIBLE_DEVICES=0 ./go'",
         "run='ASCEND_RT_VISIBLE_DEVICES=0 ./go'"),
        ("torchrun --nproc_per_node=gpu t.py", "torchrun --nproc_per_node=auto t.py",
         "torchrun --nproc_per_node=auto t.py"),
        ("docker run -e CUDA_VISIBLE_DEVICES=0 image",
         "docker run -e CUDA_VISIBLE_DEVICES=0 -e ASCEND_RT_VISIBLE_DEVICES=0 image",
         "docker run -e ASCEND_RT_VISIBLE_DEVICES=0 image"),
        ("  --env PYTORCH_CUDA_ALLOC_CONF=a:True \\",
         "  --env PYTORCH_CUDA_ALLOC_CONF=a:True --env PYTORCH_NPU_ALLOC_CONF=a:True \\",
         "  --env PYTORCH_NPU_ALLOC_CONF=a:True \\"),
    ],
)  # fmt: skip
def test_shell_lines_with_a_device(line: str, portable: str, npu: str) -> None:
    assert shell.port(f"{line}\n", ANY)[0] == f"{portable}\n"
    assert shell.port(f"{line}\n", NPU)[0] == f"{npu}\n"
    assert shell.port(f"{portable}\n", ANY)[0] == f"{portable}\n"


def test_shell_reports_what_has_no_counterpart() -> None:
    _, edits = shell.port("export NCCL_DEBUG=INFO\nnvidia-smi\n", ANY)
    assert [f.subject for f in edits.findings] == ["NCCL_DEBUG", "nvidia-smi"]


@pytest.mark.parametrize(
    ("suffix", "before", "after"),
    [
        (".yaml", "device: cuda\n", "device: npu\n"),
        (".yaml", "device: cuda:0  # card\n", "device: npu:0  # card\n"),
        (".yaml", 'train:\n  device: "cuda"\n', 'train:\n  device: "npu"\n'),
        (".yaml", "dist_backend: 'nccl'\n", "dist_backend: 'hccl'\n"),
        (".yaml", "model: {device: cuda, size: 3}\n", "model: {device: npu, size: 3}\n"),
        (".toml", 'device = "cuda"\n', 'device = "npu"\n'),
        (".json", '{"device": "cuda", "n": 1}\n', '{"device": "npu", "n": 1}\n'),
        (".ini", "[run]\ndevice = cuda\n", "[run]\ndevice = npu\n"),
        (".yaml", "cmd: python t.py --device cuda\n", "cmd: python t.py --device npu\n"),
        (".yaml", "impl: cuda\n", "impl: cuda\n"),
        (".yaml", "# device: cuda\n", "# device: cuda\n"),
        (".yaml", "name: cuda\nversion: cuda:11\n", "name: cuda\nversion: cuda:11\n"),
        (".yaml", "device: cuda-toolkit\n", "device: cuda-toolkit\n"),
        (".yaml", "device_count: cuda\n", "device_count: cuda\n"),
        (".json", '{"cuda": true, "note": "device: cuda works"}', '{"cuda": true, "note": "device: cuda works"}'),
        (".toml", 'extras = ["cuda"]\n', 'extras = ["cuda"]\n'),
    ],
)  # fmt: skip
def test_configuration(suffix: str, before: str, after: str) -> None:
    for options in (NPU, ANY):
        assert config.port(before, options, suffix)[0] == after


def test_variables_in_a_configuration_are_set_for_both() -> None:
    text = "env:\n  CUDA_VISIBLE_DEVICES: 0,1\n"
    portable = config.port(text, ANY, ".yaml")[0]
    assert portable == text + "  ASCEND_RT_VISIBLE_DEVICES: 0,1\n"
    assert config.port(portable, ANY, ".yaml")[0] == portable
    assert config.port(text, NPU, ".yaml")[0] == "env:\n  ASCEND_RT_VISIBLE_DEVICES: 0,1\n"


def test_documents_change_in_shell_blocks_only() -> None:
    text = (
        "Run on cuda with --device cuda.\n\n```bash\npython train.py --device cuda\n```\n\n"
        '```python\nx.to("cuda")\n```\n\n```\nGPU output --device cuda\n```\n'
    )
    ported, edits = document.port(text, ANY)
    assert ported == text.replace(
        "```bash\npython train.py --device cuda", "```bash\npython train.py --device npu"
    )
    assert len(edits.changes) == 1


def test_requirements_are_reported_not_changed() -> None:
    lines = [
        "numpy",
        "flash-attn>=2",
        "# xformers",
        "torch==2.1.0+cu118",
        "onnxruntime-gpu",
        "spconv-cu118",
    ]
    edits = requirements.findings("\n".join(lines) + "\n")
    assert [f.line for f in edits.findings] == [2, 4, 5, 6]


def test_requirements_of_a_project_file_are_reported_and_extras_only_mentioned() -> None:
    text = """[project]
name = "apex"
dependencies = ["torch", "flash-attn>=2"]
[project.optional-dependencies]
fast = [
    "xformers",
]
all = ["xformers"]
[tool.poetry.dependencies]
deepspeed = "^0.9"
[tool.other]
triton = 1
"""
    found = [(f.line, f.subject, f.severity.value) for f in requirements.of_project(text).findings]
    assert found == [
        (3, "flash-attn", "work"),
        (6, "xformers", "info"),
        (8, "xformers", "info"),
        (10, "deepspeed", "work"),
    ]


@pytest.mark.parametrize(
    "text", ["[project", "project = 3\n", "[project]\ndependencies = [1]\n", "tool = 'xformers'\n"]
)
def test_a_project_file_of_another_kind_is_nothing_to_report(text: str) -> None:
    assert requirements.of_project(text).findings == []


def test_requirements_of_a_setup_file_are_reported_and_extras_only_mentioned() -> None:
    text = (
        "[metadata]\nname = apex\n[options]\ninstall_requires =\n    deepspeed>=0.8\n    numpy\n"
        "[options.extras_require]\nbnb =\n    bitsandbytes\n"
    )
    found = [(f.line, f.subject, f.severity.value) for f in requirements.of_setup(text).findings]
    assert found == [(5, "deepspeed", "info"), (9, "bitsandbytes", "info")]
    assert requirements.of_setup("no section\n").findings == []


def test_an_environment_of_conda_is_known_by_what_is_in_it() -> None:
    assert requirements.is_conda(
        "name: x\nchannels:\n  - nvidia\ndependencies:\n  - cudatoolkit=11.3\n"
    )
    assert not requirements.is_conda("dependencies:\n  - name: redis\n    version: 1\n")
    assert not requirements.is_conda("device: cuda\n")


def _book(*cells: str, indent: int = 1) -> str:
    made: list[dict[str, object]] = [
        {
            "cell_type": "code",
            "metadata": {},
            "outputs": [],
            "source": cell.splitlines(keepends=True),
        }
        for cell in cells
    ]
    made.insert(0, {"cell_type": "markdown", "metadata": {}, "source": ["on cuda 显卡\n"]})
    book = {"cells": made, "metadata": {"k": "cuda"}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=indent, ensure_ascii=False) + "\n"


def _port_book(text: str, options: Options) -> str:
    return notebook.port(text, options, "n.ipynb", Project(Path(), []))[0]


def test_notebook_cells_are_one_program_and_the_rest_stays() -> None:
    text = _book(
        "%matplotlib inline\nimport torch", "!pip list \\\n  -v\nx.cuda()", "print('cuda')"
    )
    ported = json.loads(_port_book(text, NPU))
    sources = ["".join(c["source"]) for c in ported["cells"]]
    assert sources == [
        "on cuda 显卡\n",
        "%matplotlib inline\nimport torch\nimport torch_npu",
        "!pip list \\\n  -v\nx.npu()",
        "print('cuda')",
    ]
    assert ported["metadata"] == {"k": "cuda"}


def test_notebook_without_a_device_is_byte_identical_and_porting_twice_is_once() -> None:
    plain = _book("import torch\nprint(1)")
    assert _port_book(plain, ANY) == plain
    once = _port_book(_book("import torch", "x.cuda()", "!python t.py --device cuda"), ANY)
    assert "--device npu" in once
    assert _port_book(once, ANY) == once


def test_notebook_in_a_layout_that_cannot_be_repeated_is_left_and_reported() -> None:
    odd = _book("import torch\nx.cuda()").replace('"nbformat": 4', '"nbformat":   4')
    text, result = notebook.port(odd, ANY, "n.ipynb", Project(Path(), []))
    assert text == odd
    assert "JP504" in {f.code for f in result.findings}
    assert (
        notebook.port("not json torch", ANY, "n.ipynb", Project(Path(), []))[0] == "not json torch"
    )


def test_what_a_command_of_a_notebook_gave_may_be_assigned() -> None:
    text = _book("import torch", "out = !CUDA_VISIBLE_DEVICES=0 python t.py \\\n  --x\nx.cuda()")
    sources = ["".join(c["source"]) for c in json.loads(_port_book(text, NPU))["cells"]]
    assert sources[2] == "out = !ASCEND_RT_VISIBLE_DEVICES=0 python t.py \\\n  --x\nx.npu()"


@pytest.mark.parametrize(
    ("line", "subject"),
    [
        ("#SBATCH --gres=gpu:8", "--gres=gpu"),
        ("#SBATCH --gpus-per-node=8", "--gres=gpu"),
        ("module load cuda/12.1", "module load cuda"),
        ("docker run --gpus all -it image", "docker --gpus"),
        ("#SBATCH --nodes=2", ""),
        ("# module load cuda", ""),
        ("docker run -it image", ""),
        ("apt-get install -y nvidia-docker2", ""),
        ("    --gres=gpu:${GPUS_PER_NODE} \\", "--gres=gpu"),
        ("cmd=nvidia-docker", "docker --gpus"),
        ("conda install pytorch cudatoolkit=10.2 -c pytorch", "install"),
        ("pip install torch==2.1.0+cu118", "install"),
        ("pip install torch", ""),
        ("pip3 install .[dali] --extra-index-url https://x.nvidia.com/compute", "install"),
        ("conda install -c nvidia/label/cuda-11.4.0 cuda-nvcc", "install"),
        ("conda install -c nvidia-fans numpy", ""),
        ("GPUS_PER_NODE=$SLURM_GPUS_ON_NODE", "SLURM_GPUS"),
        ("torchrun --nproc_per_node=${SLURM_GPUS_PER_NODE} train.py", "SLURM_GPUS"),
        ("N=${SLURM_GPUS_ON_NODE:-8}", ""),
        ("echo $SLURM_GPUS_ON_NODE", ""),
        ("N=$SLURM_NNODES", ""),
        ('bsub -q long -gpu num=1:gmem=1G "python train.py"', "bsub -gpu"),
        ("bsub -q gpu python train.py", ""),
        ("pip install flash-attn==2.5 --no-build-isolation", "flash-attn"),
        ("pip install -q einops 'xformers>=0.0.20' && python train.py", "xformers"),
        ("pip install -r xformers.txt; cd triton", ""),
        ("pip install -r triton/runner/requirements.txt", ""),
        ("# pip install xformers", ""),
        ("pip install 'colbert-ai[torch,faiss-gpu]'", "install"),
        ("pip install faiss-cpu", ""),
        ("pip install torch --index-url https://x/whl/nightly/cu126", "install"),
        ("  --optim paged_adamw_32bit \\", "bitsandbytes: optim"),
        ("  --optim adamw_torch \\", ""),
        ("python t.py --load_in_4bit --lr 1", "bitsandbytes: load_in"),
        ("python t.py --load_in_4bit False", ""),
        ("python t.py --attn_implementation=flash_attention_2", "flash_attention_2"),
    ],
)
def test_what_a_script_asks_of_its_surroundings_is_told(line: str, subject: str) -> None:
    ported, edits = shell.port(f"#!/bin/sh\n{line}\n", ANY)
    assert ported == f"#!/bin/sh\n{line}\n"
    assert [f.subject for f in edits.findings] == ([subject] if subject else [])


@pytest.mark.parametrize(
    ("line", "ported", "subject"),
    [
        ("distributed_type: MULTI_GPU", "distributed_type: MULTI_NPU", ""),
        ("distributed_type: FSDP", "distributed_type: FSDP", ""),
        ("    nvidia.com/gpu: 1", "    nvidia.com/gpu: 1", "nvidia.com/gpu"),
        ("  - driver: nvidia", "  - driver: nvidia", "nvidia"),
        ("_target_: lightning.pytorch.Trainer", "_target_: lightning.pytorch.Trainer", "lightning.Trainer"),
        ("_target_: mine.Trainer", "_target_: mine.Trainer", ""),
        ("accelerator: gpu", "accelerator: gpu", "accelerator: gpu"),
        ("accelerator: cpu", "accelerator: cpu", ""),
        ("optim: paged_adamw_8bit", "optim: paged_adamw_8bit", "bitsandbytes: optim"),
        ('  "optim": "paged_adamw_32bit",', '  "optim": "paged_adamw_32bit",', "bitsandbytes: optim"),
        ("optim: adamw_torch", "optim: adamw_torch", ""),
        ("load_in_4bit: true", "load_in_4bit: true", "bitsandbytes: load_in"),
        ("load_in_4bit: false", "load_in_4bit: false", ""),
        ("attn_implementation: flash_attention_2", "attn_implementation: flash_attention_2", "flash_attention_2"),
        ("attn_implementation: sdpa", "attn_implementation: sdpa", ""),
    ],
)  # fmt: skip
def test_configurations_of_other_tools(line: str, ported: str, subject: str) -> None:
    text, edits = config.port(f"a: 1\n{line}\n", ANY, ".yaml")
    assert text == f"a: 1\n{ported}\n"
    assert [f.subject for f in edits.findings] == ([subject] if subject else [])


def test_an_image_that_is_built_on_cuda_is_told() -> None:
    text = "FROM nvidia/cuda:12.1-devel AS base\nFROM python:3.11\nFROM x/pytorch:2.1-cuda12\n"
    assert [f.line for f in docker.findings(text).findings] == [1, 3]
    argument = "ARG BASE=x/pytorch:1.3-cuda10.1\nARG CUDA=12.1-cudnn8\nFROM ${BASE} AS run\n"
    assert [f.line for f in docker.findings(argument).findings] == [1]


def test_documents_quote_commands_and_ask_for_cards() -> None:
    text = "> CUDA_VISIBLE_DEVICES=0 \\\n> python train.py\n\nSet CUDA_VISIBLE_DEVICES=0 first.\n"
    ported, _ = document.port(text, ANY)
    assert ported.split("\n")[0] == "> CUDA_VISIBLE_DEVICES=0 ASCEND_RT_VISIBLE_DEVICES=0 \\"
    assert ported.split("\n")[1:] == text.split("\n")[1:]
    same, edits = document.port("```bash\ndocker run --gpus all image\n```\n", ANY)
    assert same == "```bash\ndocker run --gpus all image\n```\n"
    assert [(f.subject, f.severity.value) for f in edits.findings] == [("docker --gpus", "info")]


def test_commands_of_a_notebook_ask_for_cards_too() -> None:
    text = _book("import torch\n!nvidia-smi -L")
    _, ported = notebook.port(text, ANY, "n.ipynb", Project(Path(), []))
    assert [(f.line, f.subject) for f in ported.findings] == [(2, "nvidia-smi")]


def test_lists_of_conda_are_known_by_their_names() -> None:
    names = ("environment.yml", "docker/env.yaml", "conda.yml", "settings.yml")
    kinds = [kind_of(name) for name in names]
    assert kinds == [FileKind.REQUIREMENTS] * 3 + [FileKind.CONFIG]
