"""The table of packages, the versions that lists allow, and what is a repository's own."""

import re
from datetime import date
from pathlib import Path

import pytest

from jumar.port import Options, port_text, port_tree
from jumar.port.packages import PACKAGES, TABLE, newest, of_distribution, package_of, version
from jumar.port.report.summary import make

COLUMNS = [
    "module",
    "before",
    "code",
    "severity",
    "effort",
    "distributions",
    "marks",
    "only",
    "source",
    "checked",
    "why_en",
    "why_zh",
    "advice_en",
    "advice_zh",
]
OPTIONAL = {"before", "distributions", "marks", "only", "why_en", "why_zh"}


def rows() -> list[dict[str, str]]:
    header, *lines = (line.split("\t") for line in TABLE.read_text("utf-8").splitlines())
    assert header == COLUMNS
    return [dict(zip(header, line, strict=True)) for line in lines]


def test_every_row_of_the_table_is_complete_and_in_two_languages() -> None:
    for row in rows():
        assert all(row[column] for column in COLUMNS if column not in OPTIONAL), row["module"]
        assert bool(row["why_en"]) == bool(row["why_zh"]), row["module"]
        assert not row["before"] or (version(row["before"]) and row["why_en"]), row["module"]
        assert date(2026, 11, 15) <= date.fromisoformat(row["checked"])
        owner, _, name = row["source"].partition("/")
        # A repository's name, not an address.
        assert re.fullmatch(r"[\w-]+", owner), row["source"]
        assert re.fullmatch(r"[\w.-]+", name), row["source"]
        assert row["advice_en"].isascii()
        assert not row["advice_zh"].isascii()
        assert set(row["marks"].split()) <= {"runs", "installs_anywhere", "guards_cuda"}


def test_the_rows_of_a_package_are_in_order_and_found() -> None:
    modules = [package.module for package in PACKAGES]
    assert len(modules) == len(set(modules))
    for package in PACKAGES:
        limits = [limit for limit, _ in package.before]
        assert limits == sorted(limits)
        names = [f"{package.module}.{part}" for part in package.only] or [package.module]
        assert all(package_of(name) is package for name in names)
        assert all(of_distribution(name) is package for name in package.distributions)


@pytest.mark.parametrize(
    "module",
    [
        "megatron",
        "mindspeed",
        "fla",
        "flashinfer",
        "grouped_gemm",
        "deep_ep",
        "tilelang",
        "colossalai",
        "horovod",
        "transformer_engine",
        "vllm",
        "verl",
        "trl",
        "ray",
        "torchao",
    ],
)
def test_the_table_covers(module: str) -> None:
    assert package_of(module) is not None


@pytest.mark.parametrize(
    ("requirement", "limit", "is_before"),
    [
        ("==0.7.0", "0.8", True),
        ("==0.8", "0.8.0", False),
        (">=0.7", "0.8", False),
        (">=0.5,<0.8", "0.8", True),
        ("<=0.8", "0.8", False),
        ("~=0.7.1", "0.8", True),
        ("~=0.7", "0.8", False),
        ("==0.7.*", "0.8", True),
        ("^0.7", "0.8", True),
        ("^1.2", "1.9", False),
        ("=0.7.1", "0.8", True),
        ("!=0.7", "0.8", False),
        ("", "0.8", False),
    ],
)
def test_the_newest_allowed_version_decides(requirement: str, limit: str, is_before: bool) -> None:
    found = newest(requirement)
    assert (found is not None and found.is_before(version(limit))) == is_before


def findings(root: Path) -> list[tuple[str, str, str]]:
    results = port_tree(root, Options()).results
    return [(r.path, f.subject, str(f.severity)) for r in results for f in r.findings]


@pytest.mark.parametrize(
    ("asked", "severity"),
    [("liger-kernel==0.5.2", "work"), ("liger-kernel==0.7.0", "limit"), ("liger-kernel", "limit")],
)
def test_an_import_is_judged_by_the_version_that_a_list_pins(
    tmp_path: Path, asked: str, severity: str
) -> None:
    (tmp_path / "requirements.txt").write_text(f"torch\n{asked}\n")
    (tmp_path / "train.py").write_text("import torch\nimport liger_kernel\n")
    assert findings(tmp_path) == [
        ("requirements.txt", "liger-kernel", severity),
        ("train.py", "liger_kernel", severity),
    ]


def test_packages_that_run_are_only_reported_in_old_versions(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nimport ray, trl\n")
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["ray>=2", "trl==0.9"]\n')
    assert findings(tmp_path) == []
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["ray[train]==2.7.1"]\n')
    assert [(path, subject) for path, subject, _ in findings(tmp_path)] == [
        ("pyproject.toml", "ray"),
        ("train.py", "ray"),
    ]


IMPORT = "import torch\nfrom flash_attn import flash_attn_func\nimport flash_attn.losses\n"


@pytest.mark.parametrize(
    "package", ["flash_attn", "src/flash_attn", "third_party/flash-attention/flash_attn"]
)
def test_a_repository_does_not_need_its_own_package_or_its_copies(
    tmp_path: Path, package: str
) -> None:
    (tmp_path / package).mkdir(parents=True)
    (tmp_path / package / "__init__.py").write_text("from .f import flash_attn_func\n")
    (tmp_path / package / "f.py").write_text("import torch\nfrom flash_attn import losses\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_it.py").write_text(IMPORT)
    (tmp_path / "requirements.txt").write_text("flash-attn\n")
    (tmp_path / "README.md").write_text("```bash\npip install flash-attn # cuda\n```\n")
    result = port_tree(tmp_path, Options())
    assert [f.subject for r in result.results for f in r.findings] == []
    assert all(r.ported is None for r in result.results)


def test_a_project_inside_a_package_does_not_need_itself(tmp_path: Path) -> None:
    for path in ("tools/__init__.py", "tools/gptq/setup.py", "tools/gptq/auto_gptq/__init__.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    for path in ("tools/gptq/auto_gptq/base.py", "tools/gptq/example.py", "tools/quantize.py"):
        (tmp_path / path).write_text("import torch\nfrom auto_gptq import __version__\n")
    assert [(path, subject) for path, subject, _ in findings(tmp_path)] == [
        ("tools/quantize.py", "auto_gptq")
    ]


def test_a_part_with_the_name_of_a_package_does_not_hide_the_package(tmp_path: Path) -> None:
    for folder in ("mine", "mine/kernels", "mine/kernels/triton"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
    (tmp_path / "mine/kernels/triton/a.py").write_text("import torch\nimport triton\n")
    (tmp_path / "mine/kernels/norm.py").write_text("import torch\nimport triton\n")
    assert {subject for _, subject, _ in findings(tmp_path)} == {"triton"}
    assert len(findings(tmp_path)) == 2


def test_a_script_finds_the_package_beside_it(tmp_path: Path) -> None:
    for folder in ("ext", "ext/thunder", "ext/thunder/unsloth"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
    (tmp_path / "ext/thunder/train.py").write_text(
        "import sys\nimport torch\nsys.path.append('.')\nfrom unsloth.executor import x\n"
    )
    assert findings(tmp_path) == []


def test_findings_are_grouped_by_decision_with_tests_apart(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "a.py").write_text("import torch\nimport xformers.components\n")
    (tmp_path / "b.py").write_text("import torch\nfrom xformers import x\nimport cupy\n")
    (tmp_path / "tests/test_a.py").write_text("import torch\nimport xformers.x\nimport pycuda\n")
    (tmp_path / "requirements.txt").write_text("xformers\n")
    report = make(port_tree(tmp_path, Options()), 0.1)
    told = [(d.title.en, d.in_tests, len(d.places)) for d in report.decisions]
    assert told == [("xformers", False, 4), ("cupy", False, 1), ("pycuda", True, 1)]
    assert [p.in_tests for p in report.decisions[0].places] == [False, False, False, True]
    assert report.work_outside_tests == 4
    assert report.in_tests == 2


def test_work_in_tests_alone_does_not_make_a_port_need_work(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text("import torch\nimport pycuda\n")
    (tmp_path / "test_b.py").write_text("import torch\nimport pytest\nimport pycuda\n")
    assert make(port_tree(tmp_path, Options()), 0.1).work_outside_tests == 0
    # An evaluation script of this name is no test.
    (tmp_path / "test_net.py").write_text("import torch\nimport pycuda\n")
    assert make(port_tree(tmp_path, Options()), 0.1).work_outside_tests == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "import bitsandbytes as bnb\nbnb.optim.AdamW8bit(p)\n",
            [(3, "work", "bitsandbytes.optim")],
        ),
        (
            "import bitsandbytes\nbitsandbytes.adam.Adam8bit(p)\n",
            [(3, "work", "bitsandbytes.adam")],
        ),
        (
            "import bitsandbytes as bnb\nbnb.nn.Linear8bitLt(8, 8)\n",
            [(3, "limit", "bitsandbytes.nn")],
        ),
        ("import bitsandbytes as bnb\n", [(2, "limit", "bitsandbytes")]),
        (
            "import bitsandbytes as bnb\nbnb.nn.Linear4bit(8, 8)\nbnb.optim.Lion8bit(p)\n",
            [(3, "limit", "bitsandbytes.nn"), (4, "work", "bitsandbytes.optim")],
        ),
        (
            "try:\n    from apex.contrib import x\nexcept ImportError:\n    x = None\n"
            "from apex.normalization import MixedFusedLayerNorm\n",
            [(6, "limit", "apex")],
        ),
        (
            "from flash_attn.layers.rotary import apply_rotary_emb\n"
            "from flash_attn.ops.triton.layer_norm import RMSNorm\n",
            [
                (2, "work", "flash_attn.layers.rotary"),
                (3, "work", "flash_attn.ops.triton.layer_norm"),
            ],
        ),
        (
            "import xformers.profiler\nfrom xformers.ops import SwiGLU\n",
            [(2, "work", "xformers.profiler"), (3, "work", "xformers.ops")],
        ),
    ],
)
def test_what_a_file_uses_of_a_package_decides(
    text: str, expected: list[tuple[int, str, str]]
) -> None:
    found = port_text(f"import torch\n{text}").findings
    assert [(f.line, str(f.severity), f.subject) for f in found] == expected


@pytest.mark.parametrize(
    ("handler", "rest", "severity"),
    [
        ("print('install it')", "scan(x)", "work"),
        ("pass", "def f(x):\n    return scan(x)", "work"),
        ("raise", "scan(x)", "work"),
        ("scan = None", "scan(x)", "work"),
        ("scan = None", "y = scan(x) if scan else run(x)", "info"),
        ("from mine import scan", "scan(x)", "info"),
        ("pass", "if 'scan' in globals():\n    scan(x)", "info"),
        ("print('slower')", "run(x)", "info"),
        ("HAS_SCAN = False", "if HAS_SCAN:\n    scan(x)", "info"),
    ],
)
def test_a_script_runs_without_a_package_only_if_it_has_another_way(
    handler: str, rest: str, severity: str
) -> None:
    text = (
        "import torch\ntry:\n    from mamba_ssm.ops import scan\n"
        f"except ModuleNotFoundError:\n    {handler}\n{rest}\n"
    )
    assert [str(f.severity) for f in port_text(text).findings] == [severity]


def test_a_file_without_torch_is_read_for_every_package_of_the_table(tmp_path: Path) -> None:
    (tmp_path / "engine.py").write_text("import tensorrt as trt\n")
    (tmp_path / "text.py").write_text("from faster_whisper import WhisperModel\n")
    (tmp_path / "own.py").write_text("import arrays\nfrom flask import x\n")
    assert {subject for _, subject, _ in findings(tmp_path)} == {"tensorrt", "faster_whisper"}


@pytest.mark.parametrize(
    ("files", "line"),
    [
        ({"requirements.txt": "numpy\ntorch==1.13.1\n"}, ("requirements.txt", 2, "--torch 1.13")),
        ({"requirements.txt": "torch>=1.13\n"}, None),
        ({"requirements.txt": "torch\n"}, None),
        ({"requirements.txt": "torch>=2.0,<2.5\n"}, ("requirements.txt", 1, "--torch 2.4")),
        ({"requirements.txt": "torch==2.1\n", "setup.cfg": "x = torch>=2\n"}, None),
        ({"Dockerfile": "FROM pytorch/pytorch:2.4.1-cuda12\n"}, ("Dockerfile", 1, "--torch 2.4")),
        ({"environment.yml": "dependencies:\n  - pytorch=1.12\n"}, ("environment.yml", 2, "1.12")),
        ({"requirements.txt": "torchvision==0.15\n"}, None),
    ],
)
def test_a_pin_that_is_too_old_for_the_port_is_told_once(
    tmp_path: Path, files: dict[str, str], line: tuple[str, int, str] | None
) -> None:
    (tmp_path / "train.py").write_text("import torch\nm = net.cuda()\nd = torch.device('cuda')\n")
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    told = [
        (r.path, f.line, f.advice.en)
        for r in port_tree(tmp_path, Options()).results
        for f in r.findings
        if f.subject == "torch" and "torch.accelerator" in f.why.en
    ]
    if line is None:
        assert told == []
    else:
        assert [one[:2] for one in told] == [line[:2]]
        assert line[2] in told[0][2]
    older = port_tree(tmp_path, Options(torch=(1, 13))).results
    assert not any("torch.accelerator" in f.why.en for r in older for f in r.findings)


@pytest.mark.parametrize(
    ("imports", "effort"), [("torch_geometric", "hours"), ("torch", "minutes")]
)
def test_what_pyg_imports_itself_is_not_said_to_be_unneeded(
    tmp_path: Path, imports: str, effort: str
) -> None:
    (tmp_path / "requirements.txt").write_text("torch-sparse\n")
    (tmp_path / "train.py").write_text(f"import torch\nimport {imports}\nx.cuda()\n")
    found = [f for r in port_tree(tmp_path, Options()).results for f in r.findings]
    assert [(f.subject, f.effort.value) for f in found] == [("torch-sparse", effort)]
