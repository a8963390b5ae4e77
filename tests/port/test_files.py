"""Files beside Python: only what is surely a device changes, nothing else of the file."""

import json
import re
from pathlib import Path

import pytest

from jumar.port import Mode, Options, port_text, port_tree
from jumar.port.files import (
    config,
    docker,
    document,
    make,
    notebook,
    requirements,
    shell,
)
from jumar.port.project import Project
from jumar.port.scan import FileKind, kind_of

NPU = Options(mode=Mode.NPU_ONLY)
ANY = Options()
_ITS = 'torch.accelerator.current_accelerator() or "cuda"'
ITS = f"$(python -c 'import torch; print({_ITS})' || echo cuda)"
BACKEND = (
    "$(python -c 'import torch; print(torch.distributed.get_default_backend_for_device("
    f"{_ITS}))' || echo nccl)"
)


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
        "cmake -DUSE_DEVICE=cuda -B build",
        "docker build --build-arg DEVICE=cuda .",
        "make DEVICE=cuda",
        "accelerate launch --multi_gpu train.py",
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
        ("python t.py --device cuda", f"python t.py --device {ITS}", "python t.py --device npu"),
        ("python3 t.py --device cuda", f"python3 t.py --device {ITS.replace('python', 'python3')}",
         "python3 t.py --device npu"),
        ('python t.py --cuda_device "cuda"', f'python t.py --cuda_device "{ITS}"', 'python t.py --cuda_device "npu"'),
        ("DEVICE=${1:-cuda}", f"DEVICE=${{1:-{ITS}}}", "DEVICE=${1:-npu}"),
        ("export DEVICE='cuda:1'", f'export DEVICE="{ITS}:1"', "export DEVICE='npu:1'"),
        ("CUDA_VISIBLE_DEVICES=$(seq -s, 0 $((N-1)))",
         'CUDA_VISIBLE_DEVICES=$(seq -s, 0 $((N-1))) ASCEND_RT_VISIBLE_DEVICES="$CUDA_VISIBLE_DEVICES"',
         "ASCEND_RT_VISIBLE_DEVICES=$(seq -s, 0 $((N-1)))"),
        ("export CUDA_VISIBLE_DEVICES=`pick 2` && go",
         'export CUDA_VISIBLE_DEVICES=`pick 2`; export ASCEND_RT_VISIBLE_DEVICES="$CUDA_VISIBLE_DEVICES" && go',
         "export ASCEND_RT_VISIBLE_DEVICES=`pick 2` && go"),
        ("CUDA_VISIBLE_DEVICES=${GPUS:-0,1} A=1 python t.py",
         "CUDA_VISIBLE_DEVICES=${GPUS:-0,1} ASCEND_RT_VISIBLE_DEVICES=${GPUS:-0,1} A=1 python t.py",
         "ASCEND_RT_VISIBLE_DEVICES=${GPUS:-0,1} A=1 python t.py"),
        ('CUDA_VISIBLE_DEVICES="${A[*]} 1"x python t.py',
         'CUDA_VISIBLE_DEVICES="${A[*]} 1"x ASCEND_RT_VISIBLE_DEVICES="${A[*]} 1"x python t.py',
         'ASCEND_RT_VISIBLE_DEVICES="${A[*]} 1"x python t.py'),
        ("env CUDA_VISIBLE_DEVICES=$(pick) python t.py",
         "env CUDA_VISIBLE_DEVICES=$(pick) ASCEND_RT_VISIBLE_DEVICES=$(pick) python t.py",
         "env ASCEND_RT_VISIBLE_DEVICES=$(pick) python t.py"),
        ("export CUDA_VISIBLE_DEVICES", "export CUDA_VISIBLE_DEVICES ASCEND_RT_VISIBLE_DEVICES",
         "export ASCEND_RT_VISIBLE_DEVICES"),
        (
            'screen -X stuff "CUDA_VISIBLE_DEVICES=1 python3 t.py"',
            'screen -X stuff "CUDA_VISIBLE_DEVICES=1 ASCEND_RT_VISIBLE_DEVICES=1 python3 t.py"',
            'screen -X stuff "ASCEND_RT_VISIBLE_DEVICES=1 python3 t.py"',
        ),
        ("python t.py --device=cuda:1", f"python t.py --device={ITS}:1", "python t.py --device=npu:1"),
        ("python t.py --devices cuda:0 cuda:1 -x", "python t.py --devices cuda:0 cuda:1 -x",
         "python t.py --devices npu:0 npu:1 -x"),
        (
            "python t.py --dist-backend 'nccl' \\",
            f'python t.py --dist-backend "{BACKEND}" \\',
            "python t.py --dist-backend 'hccl' \\",
        ),
        ("python t.py train.device=cuda", f"python t.py train.device={ITS}", "python t.py train.device=npu"),
        ("  --backend nccl \\", f"  --backend {BACKEND} \\", "  --backend hccl \\"),
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
        ('list="${CUDA_VISIBLE_DEVICES:-0}"',
         'list="${ASCEND_RT_VISIBLE_DEVICES:-${CUDA_VISIBLE_DEVICES:-0}}"',
         'list="${ASCEND_RT_VISIBLE_DEVICES:-0}"'),
        ("n=`$PYTHON -c 'import torch; print(torch.cuda.device_count())'`",
         "n=`$PYTHON -c 'import torch; print(torch.accelerator.device_count())'`",
         "n=`$PYTHON -c 'import torch; print(torch.npu.device_count())'`"),
    ],
)  # fmt: skip
def test_shell_lines_with_a_device(line: str, portable: str, npu: str) -> None:
    assert shell.port(f"{line}\n", ANY)[0] == f"{portable}\n"
    assert shell.port(f"{line}\n", NPU)[0] == f"{npu}\n"
    assert shell.port(f"{portable}\n", ANY)[0] == f"{portable}\n"


@pytest.mark.parametrize(
    "text",
    [
        "ssh node 'python t.py --device cuda'\n",
        "bash -c '\n  python t.py --device cuda\n'\n",
        "python t.py --devices cuda:0 cuda:1\n",
        "CUDA_VISIBLE_DEVICES=$(cat <<END\n0\nEND\n) python t.py\n",
    ],
)
def test_shell_text_that_cannot_ask_for_the_device_stays_and_is_told(text: str) -> None:
    ported, edits = shell.port(text, ANY)
    assert ported == text
    assert [f.severity.value for f in edits.findings] == ["work"]


def test_a_script_asks_for_the_device_after_quotes_comments_and_documents() -> None:
    text = "# don't\necho \"it's\"\ncat <<'END'\ndon't\nEND\npython t.py --device cuda\n"
    ported, edits = shell.port(text, ANY)
    assert ported == text.replace("device cuda", f"device {ITS}")
    assert not edits.findings
    older, edits = shell.port(text, Options(torch=(2, 1)))
    assert older == text
    assert [(f.line, f.advice.en) for f in edits.findings] == [(6, "on NPUs: --device npu")]


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
    assert config.port(before, NPU, suffix)[0] == after
    same, edits = config.port(before, ANY, suffix)
    assert same == before
    assert [f.severity.value for f in edits.findings] == (["work"] if before != after else [])


def test_a_configuration_tells_what_to_write_for_npus() -> None:
    text = "train: {device: cuda:1, dist_backend: nccl}\ncmd: torchrun t.py --device cuda\n"
    _, edits = config.port(text, ANY, ".yaml")
    assert [f.advice.en for f in edits.findings] == [
        "on NPUs: device: npu:1",
        "on NPUs: dist_backend: hccl",
        "on NPUs: --device npu",
    ]


def test_settings_written_in_python_ask_torch_without_further_names() -> None:
    text = "n = 1\ndevice = 'cuda'\nrun = dict(device=f'cuda:{n}', backend='nccl')\n"
    ported = port_text(text, ANY).text
    asked = '(torch.accelerator.current_accelerator() or torch.device("cpu")).type'
    assert ported.split("\n")[2:5] == [
        "n = 1",
        f"device = {asked}",
        f"run = dict(device={asked} + f':{{n}}', "
        "backend=torch.distributed.get_default_backend_for_device("
        'torch.accelerator.current_accelerator() or "cpu"))',
    ]
    assert port_text(ported, ANY).text == ported
    old = port_text(text, Options(torch=(2, 1)))
    assert old.text == text
    assert [f.advice.en for f in old.findings] == [
        "on NPUs: 'npu'",
        "on NPUs: f'npu:{n}'",
        "on NPUs: 'hccl'",
    ]


def test_a_build_server_names_its_jobs_as_it_likes(tmp_path: Path) -> None:
    text = "matrix:\n  - device: cuda\n"
    paths = (".github/workflows/docker.yml", ".gitlab-ci.yml", "train.yml")
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    for options in (NPU, ANY):
        assert [r.path for r in port_tree(tmp_path, options).results] == ["train.yml"]


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
    ported, edits = document.port(text, NPU)
    assert ported == text.replace(
        "```bash\npython train.py --device cuda", "```bash\npython train.py --device npu"
    )
    assert len(edits.changes) == 1


def test_documents_of_portable_code_keep_the_device_and_are_listed() -> None:
    text = (
        "Or `--device cuda:0`.\n\n```sh\nlab train \\\n  --device cuda\n```\n\n"
        '```python\nrun("--device cuda")\n```\n\nImpl is cuda.\n'
    )
    same, edits = document.port(text, ANY)
    assert same == text
    assert sorted((f.line, f.severity.value, f.advice.en) for f in edits.findings) == [
        (1, "info", "on NPUs: --device npu:0"),
        (5, "info", "on NPUs: --device npu"),
    ]


def test_requirements_are_reported_not_changed() -> None:
    lines = [
        "numpy",
        "flash-attn>=2",
        "# xformers",
        "torch==2.1.0+cu118",
        "onnxruntime-gpu",
        "spconv-cu118",
        "jax[cuda12]==0.5.3",
        "jax==0.5.3",
        "adam-atan2",
        "jaxlib[cuda11_cudnn82]==0.4.1",
        "jaxlib==0.4.1",
    ]
    edits = requirements.findings("\n".join(lines) + "\n")
    assert [f.line for f in edits.findings] == [2, 4, 5, 6, 7, 9, 10]


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
        "[metadata]\nname = apex\n[options]\ninstall_requires =\n    deepspeed<0.12\n    numpy\n"
        "[options.extras_require]\nbnb =\n    bitsandbytes\n"
    )
    found = [(f.line, f.subject, f.severity.value) for f in requirements.of_setup(text).findings]
    assert found == [(5, "deepspeed", "limit"), (9, "bitsandbytes", "info")]
    assert requirements.of_setup("no section\n").findings == []


def test_every_tool_of_cuda_in_a_conda_environment_is_told() -> None:
    tools = ["cuda-cudart", "cuda-cupti", "cuda-nvrtc-dev", "cuda-command-line-tools", "libcublas"]
    tools += ["libnpp-dev", "gds-tools", "nsight-compute"]
    text = "dependencies:\n" + "".join(f"  - {tool}=12.1\n" for tool in (*tools, "libpng"))
    assert [f.subject for f in requirements.findings(text).findings] == tools


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
    assert f"!python t.py --device {ITS}" in json.loads(once)["cells"][3]["source"]
    assert _port_book(once, ANY) == once


@pytest.mark.parametrize("indent", [None, 1, 3])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_only_the_changed_sources_of_a_notebook_are_written(
    indent: int | None, ascii_only: bool
) -> None:
    book = json.loads(_book("import torch\nx.cuda()", "y = '显卡'\ny.cuda()"))
    book["cells"][1]["outputs"] = [{"data": {"source": ["x"]}, "n": 1e-05}]
    text = json.dumps(book, indent=indent, ensure_ascii=ascii_only)
    text = text.replace('"nbformat": 4', '"nbformat":   4').replace("1e-05", "0.00001")
    ported = _port_book(text, NPU)
    added = re.compile(r'"import torch_npu\\n",\s*')
    assert len(added.findall(ported)) == 1
    assert added.sub("", ported) == text.replace(".cuda()", ".npu()")


def test_cells_with_magic_are_code_shell_or_told() -> None:
    text = _book(
        "%%time\nimport torch\nx.cuda()",
        "%%bash\nCUDA_VISIBLE_DEVICES=0 python t.py --device cuda",
        "%env CUDA_VISIBLE_DEVICES=1\n%run t.py --device cuda",
        "%%writefile net.py\ny.cuda()",
        "pip install cuda-thing\n",
    )
    done, result = notebook.port(text, NPU, "n.ipynb", Project(Path(), []))
    assert ["".join(c["source"]) for c in json.loads(done)["cells"]][1:] == [
        "%%time\nimport torch\nimport torch_npu\nx.npu()",
        "%%bash\nASCEND_RT_VISIBLE_DEVICES=0 python t.py --device npu",
        "%env ASCEND_RT_VISIBLE_DEVICES=1\n%run t.py --device npu",
        "%%writefile net.py\ny.cuda()",
        "pip install cuda-thing\n",
    ]
    assert [f.source for f in result.findings] == [
        "cell 5, line 1: %%writefile net.py",
        "cell 6, line 1: pip install cuda-thing",
    ]
    portable, result = notebook.port(text, ANY, "n.ipynb", Project(Path(), []))
    assert "%env CUDA_VISIBLE_DEVICES=1\n%env ASCEND_RT_VISIBLE_DEVICES=1\n" in [
        "".join(c["source"][:2]) for c in json.loads(portable)["cells"]
    ]
    assert "cell 4, line 2: %run t.py --device cuda" in [f.source for f in result.findings]
    assert _port_book(portable, ANY) == portable


def test_a_notebook_with_cuda_is_always_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "broken.ipynb").write_text("not json torch cuda")
    (tmp_path / "words.ipynb").write_text(_book("import torch\nname = 'my cuda notes'"))
    (tmp_path / "pictures.ipynb").write_text(
        _book("import torch\nx.cuda()").replace(
            '"outputs": []', f'"outputs": ["{"p" * 5_000_000}"]'
        )
    )
    (tmp_path / "other.ipynb").write_text(_book("import torch\nx = 1"))
    results = {r.path: r for r in port_tree(tmp_path, ANY).results if r.changes or r.findings}
    assert sorted(results) == ["broken.ipynb", "pictures.ipynb", "words.ipynb"]
    assert results["pictures.ipynb"].ported is not None


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
        ("conda install pytorch cudatoolkit=10.2 -c pytorch", "torch"),
        ("pip install torch==2.1.0+cu118", "torch"),
        ("pip install torch", ""),
        ("pip3 install .[dali] --extra-index-url https://x.nvidia.com/compute", "CUDA build"),
        ("conda install -c nvidia/label/cuda-11.4.0 cuda-nvcc", "cuda-nvcc"),
        ("conda install nvidia/label/cuda-12.1::cuda-nvcc", "cuda-nvcc"),
        ("conda create -n x pytorch pytorch-cuda=12.1 -c pytorch -c nvidia", "torch"),
        ("pip install xformers --index-url https://x/whl/cu124", "xformers"),
        ("pip install https://x/y/mamba_ssm-2.2+cu12torch2.3-cp310-linux.whl", "mamba-ssm"),
        ("uv pip install onnxruntime-gpu", "onnxruntime-gpu"),
        ("pip install paddlepaddle-gpu==3.0", "paddlepaddle-gpu"),
        ("pip install -U git+https://x.com/Dao-AILab/flash-attention.git@v2", "flash_attn"),
        ("pip install git+https://x.com/state-spaces/mamba", "mamba_ssm"),
        ("pip install git+https://x.com/Ascend/apex", ""),
        ("pip install git+https://x.com/pytorch/pytorch", ""),
        ("pip install git+https://x.com/me/mine.git", ""),
        ("docker container run -it --gpus all image", "docker --gpus"),
        ("docker run -it \\\n  --gpus all \\\n  image", "docker --gpus"),
        ("pip install \\\n  einops \\\n  flash-attn", "flash-attn"),
        ("apptainer exec --nv image.sif python train.py", "apptainer --nv"),
        ("singularity run --bind /data image.sif python train.py", ""),
        ("nsys profile -t nvtx python train.py", "nsys"),
        ("trtexec --onnx=model.onnx", "trtexec"),
        ("lightning run model --accelerator=cuda --devices=2 t.py", "accelerator: gpu"),
        ("lightning run model --accelerator=cpu t.py", ""),
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
        ("pip install 'colbert-ai[torch,faiss-gpu]'", "faiss-gpu"),
        ("pip install faiss-cpu", ""),
        ("pip install https://x.org/lmdeploy-${V}+cu118-cp310-linux.whl", "lmdeploy"),
        ("pip install --no-build-isolation ./submodules/simple-knn/", "simple-knn"),
        ("pip install kaolin -f https://x.org/torch-2.4.0_cu121.html", "kaolin"),
        ("pip install torch --index-url https://x/whl/nightly/cu126", "torch"),
        ("  --optim paged_adamw_32bit \\", "bitsandbytes: optim"),
        ("  --optim adamw_torch \\", ""),
        ("python t.py --load_in_4bit --lr 1", "bitsandbytes: load_in"),
        ("python t.py --load_in_4bit False", ""),
        ("python t.py --attn_implementation=flash_attention_2", "flash_attention_2"),
        ('readonly IMAGE="nvcr.io/nvidia/pytorch:26.03-py3"', "CUDA image"),
        ("PARENT=mambaorg/micromamba:2.0-cuda12.6.3-ubuntu24.04", "CUDA image"),
        ("TAG=${TORCH}-cuda${CUDA}-cudnn9-devel", "CUDA image"),
        ("IMAGE=ubuntu:24.04", ""),
        ("CUDA_VERSION=12.4", ""),
        ('CARDS="--gpus all"', "docker --gpus"),
    ],
)
def test_what_a_script_asks_of_its_surroundings_is_told(line: str, subject: str) -> None:
    ported, edits = shell.port(f"#!/bin/sh\n{line}\n", ANY)
    assert ported == f"#!/bin/sh\n{line}\n"
    assert [f.subject for f in edits.findings] == ([subject] if subject else [])


@pytest.mark.parametrize(
    ("line", "ported", "subject"),
    [
        ("distributed_type: MULTI_GPU", "distributed_type: MULTI_GPU", ""),
        ("distributed_type: FSDP", "distributed_type: FSDP", ""),
        ("    nvidia.com/gpu: 1", "    nvidia.com/gpu: 1", "nvidia.com/gpu"),
        ("  - driver: nvidia", "  - driver: nvidia", "nvidia"),
        ("_target_: lightning.pytorch.Trainer", "_target_: lightning.pytorch.Trainer", "lightning.Trainer"),
        ("_target_: mine.Trainer", "_target_: mine.Trainer", ""),
        ('  - "/dev/nvidia0:/dev/nvidia0"', '  - "/dev/nvidia0:/dev/nvidia0"', "/dev/nvidia"),
        ('  - "/dev/shm:/dev/shm"', '  - "/dev/shm:/dev/shm"', ""),
        ("a: !apply:torch.cuda.manual_seed [1]", "a: !apply:torch.cuda.manual_seed [1]", "torch.cuda.manual_seed"),
        ("a: !apply:torch.manual_seed [1]", "a: !apply:torch.manual_seed [1]", ""),
        ("_target_: torch.cuda.Stream", "_target_: torch.cuda.Stream", "torch.cuda.Stream"),
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


def test_recipes_of_makefiles_are_ported_and_nothing_else_there() -> None:
    text = (
        "GPU = cuda\nall: cuda\n\t@echo CUDA_VISIBLE_DEVICES=0\n"
        "\t@CUDA_VISIBLE_DEVICES=$(IDS) python train.py\n\tdocker run --gpus all image\n"
        "CUDA_VISIBLE_DEVICES=0\n\tpython train.py --device cuda\n"
        "\tCUDA_VISIBLE_DEVICES=$(shell pick card) python train.py\n"
    )
    ported, edits = make.port(text, ANY)
    assert ported == text.replace(
        "\t@CUDA_VISIBLE_DEVICES=$(IDS)",
        "\t@CUDA_VISIBLE_DEVICES=$(IDS) ASCEND_RT_VISIBLE_DEVICES=$(IDS)",
    )
    assert [(f.line, f.subject) for f in edits.findings] == [
        (7, "--device cuda"),
        (5, "docker --gpus"),
    ]
    assert make.port(ported, ANY)[0] == ported


def test_a_makefile_of_a_repository_is_ported(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("a:\n\tCUDA_VISIBLE_DEVICES=1 python a.py\n", "utf-8")
    (result,) = (f for f in port_tree(tmp_path, Options()).results if f.path == "Makefile")
    assert result.ported is not None
    assert b"ASCEND_RT_VISIBLE_DEVICES=1" in result.ported


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a/run.sh.j2", FileKind.SHELL),
        ("a/job.sbatch.jinja", FileKind.SHELL),
        ("a/deployment.yaml.j2", FileKind.OTHER),
        ("a/page.j2", FileKind.OTHER),
        ("tools.mk", FileKind.MAKE),
        ("GNUmakefile", FileKind.MAKE),
    ],
)
def test_templates_of_shell_scripts_are_scripts(name: str, kind: FileKind) -> None:
    assert kind_of(name) is kind


def test_accelerate_starts_npus_by_either_name() -> None:
    assert (
        config.port("distributed_type: MULTI_GPU\n", NPU, ".yaml")[0]
        == "distributed_type: MULTI_NPU\n"
    )


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
    assert [(f.subject, f.source) for f in ported.findings] == [
        ("nvidia-smi", "cell 2, line 2: !nvidia-smi -L")
    ]


def test_each_install_gets_the_advice_of_its_package() -> None:
    advice = {
        "pip install onnxruntime-gpu": "install onnxruntime-cann",
        "pip install faiss-gpu": "install faiss-cpu",
        "pip install torch==2.1+cu121 torchvision": "install the CPU build of torch and the matching torch_npu",
        "conda install cuda-toolkit": "remove it: CANN takes the place of CUDA's libraries",
    }
    for line, expected in advice.items():
        _, edits = shell.port(f"{line}\n", ANY)
        assert [f.advice.en for f in edits.findings] == [expected]


def test_fences_quotes_and_spans_of_documents_are_read() -> None:
    text = (
        "```powershell\n$env:CUDA_VISIBLE_DEVICES=0\npip install flash-attn\n```\n"
        "> ```bash\n> pip install xformers\n> ```\n"
        "First run `pip install apex` once; `apex` is a package.\n"
    )
    ported, edits = document.port(text, ANY)
    assert ported == text
    assert [(f.line, f.subject) for f in edits.findings] == [
        (3, "flash-attn"),
        (6, "xformers"),
        (8, "apex"),
    ]


def test_images_and_their_settings_are_told(tmp_path: Path) -> None:
    files = {
        "Dockerfile": "FROM python:3.11\nENV NVIDIA_VISIBLE_DEVICES=all\nRUN pip install \\\n  flash-attn\n",
        "image.def": "Bootstrap: docker\nFrom: nvcr.io/nvidia/pytorch:24.01-py3\n",
        "cog.yaml": 'build:\n  gpu: true\n  cuda: "11.8"\n',
        "compose.yaml": "services:\n  a:\n    environment:\n      - NVIDIA_VISIBLE_DEVICES=all\n",
        "pyproject-gpu.toml": '[project]\ndependencies = ["flash-attn"]\n',
        "requirements.txt": "git+https://x.com/Dao-AILab/flash-attention.git\nonnxruntime-gpu==1.18\n",
        "other.yaml": "gpu: true\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    told = {
        r.path: [(f.line, f.subject) for f in r.findings]
        for r in port_tree(tmp_path, Options()).results
    }
    assert told == {
        "Dockerfile": [(2, "NVIDIA_VISIBLE_DEVICES"), (3, "flash-attn")],
        "image.def": [(2, "nvcr.io/nvidia/pytorch:24.01-py3")],
        "cog.yaml": [(2, "gpu"), (3, "cuda")],
        "compose.yaml": [(4, "NVIDIA_VISIBLE_DEVICES")],
        "pyproject-gpu.toml": [(2, "flash-attn")],
        "requirements.txt": [(1, "flash_attn"), (2, "onnxruntime-gpu")],
    }


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = 1\n", [("a.yaml", "backend: nccl", "info")]),
        ("config['backend'] = 'gloo'\n", [("a.yaml", "backend: nccl", "info")]),
        ("start(config['backend'])\n", [("a.yaml", "backend: nccl", "work")]),
        (
            "import lightning\nstart(args.backend)\n",
            [("a.yaml", "accelerator: gpu", "work"), ("a.yaml", "backend: nccl", "work")],
        ),
    ],
)
def test_a_setting_is_judged_by_the_code_that_reads_it(
    tmp_path: Path, code: str, expected: list[tuple[str, str, str]]
) -> None:
    (tmp_path / "train.py").write_text(code)
    (tmp_path / "a.yaml").write_text("accelerator: cuda\nbackend: nccl\n")
    assert [
        (r.path, f.subject, str(f.severity))
        for r in port_tree(tmp_path, Options()).results
        for f in r.findings
    ] == expected


def test_lists_of_conda_are_known_by_their_names() -> None:
    names = ("environment.yml", "docker/env.yaml", "conda.yml", "settings.yml")
    kinds = [kind_of(name) for name in names]
    assert kinds == [FileKind.REQUIREMENTS] * 3 + [FileKind.CONFIG]


def test_places_in_a_notebook_are_those_of_the_file_and_name_the_cell() -> None:
    cells: list[dict[str, object]] = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# CUDA\n"]},
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["import torch\n", "x = 1"]},
        {
            "cell_type": "code",
            "metadata": {},
            "outputs": [],
            "source": ["import cupy\n", "\n", "!nvidia-smi\n", "m = m.cuda()"],
        },
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["CUDA Version: 12.1 |"]},
    ]
    text = json.dumps({"cells": cells, "nbformat": 4}, indent=1)
    _, ported = notebook.port(text, ANY, "n.ipynb", Project(Path(), []))
    lines = text.split("\n")
    places = {f.subject: (f.source.partition(":")[0], lines[f.line - 1]) for f in ported.findings}
    assert places["cupy"][0] == "cell 3, line 1"
    assert "import cupy" in places["cupy"][1]
    assert places["nvidia-smi"][0] == "cell 3, line 3"
    assert "!nvidia-smi" in places["nvidia-smi"][1]
    assert places["notebook"][0] == "cell 4, line 1"
    assert "CUDA Version" in places["notebook"][1]
    assert {str(f.severity) for f in ported.findings if f.subject == "notebook"} == {"info"}
    assert any(
        "m = m.cuda()" in lines[c.line - 1] for c in ported.changes if c.before == "m.cuda()"
    )


def test_a_text_for_a_newer_python_is_told_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jumar.port.file_remarks._NEW_SYNTAX", (9, 0))
    found = port_text('import torch\nx = f"{torch.cuda(}"\n').findings
    assert [f.advice.en for f in found] == [
        "the file was copied unchanged; run jumar port with Python 9.0 or later"
    ]
    found = port_text("import torch\nprint torch.cuda\n").findings
    assert "Python 2" in found[0].advice.en


def test_what_the_repository_adds_to_cuda_and_support_for_xpus(tmp_path: Path) -> None:
    (tmp_path / "ipex").mkdir()
    (tmp_path / "ipex/hijacks.py").write_text("import torch\nimport cupy\n")
    (tmp_path / "add.py").write_text("import torch\ntorch.cuda.my_name = 1\n")
    (tmp_path / "use.py").write_text("import torch\ntorch.cuda.my_name\ntorch.cuda.cudart()\n")
    told = [
        (r.path, f.subject, str(f.severity))
        for r in port_tree(tmp_path, Options()).results
        for f in r.findings
    ]
    assert told == [
        ("ipex/hijacks.py", "cupy", "info"),
        ("use.py", "torch.cuda.cudart", "work"),
    ]
