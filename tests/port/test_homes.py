"""Helper modules are found from the repository's root and after `pip install`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jumar.port import Options, port_tree
from jumar.port.write import write_copy

OLD = Options(torch=(2, 1))
CUDA = "import torch\nDEVICE = torch.device('cuda')\n"
ATTENTION = "from flash_attn import flash_attn_func\nflash = flash_attn_func\n"
SETUPTOOLS = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
PROJECT = '[project]\nname = "thing"\nversion = "1"\n'
HATCH = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
TORCH = {
    "torch/__init__.py": "from types import SimpleNamespace\nclass Tensor: ...\n"
    "class device:\n    def __init__(self, type): self.type = type\n"
    "version = SimpleNamespace(cuda='12')\ncuda = SimpleNamespace(is_available=lambda: True)\n",
    "torch/nn/__init__.py": "",
    "torch/nn/functional.py": "",
}
"""Enough of torch for an import, which is all that is tried here."""

INSTALLED: dict[str, tuple[dict[str, str], list[str]]] = {
    "src layout, relative imports": (
        {
            "pyproject.toml": PROJECT + SETUPTOOLS,
            "src/thing/__init__.py": "",
            "src/thing/net.py": ATTENTION + "from . import sub\n",
            "src/thing/sub/__init__.py": CUDA,
            "src/thing/sub/deep.py": CUDA + "from ..sub import DEVICE as D\n",
        },
        ["thing.net", "thing.sub.deep"],
    ),
    "src layout without __init__": (
        {
            "pyproject.toml": PROJECT + SETUPTOOLS,
            "src/space/part/net.py": CUDA + "import flash_attn\nf = flash_attn.flash_attn_func\n",
        },
        ["space.part.net"],
    ),
    "flat layout, absolute imports": (
        {
            "setup.py": "from setuptools import find_packages, setup\n"
            "setup(name='thing', version='1', packages=find_packages())\n",
            "thing/__init__.py": "",
            "thing/net.py": CUDA + "from thing.sub.deep import DEVICE as D\n",
            "thing/sub/__init__.py": "",
            "thing/sub/deep.py": CUDA,
            "train.py": CUDA + "import thing.net\n",
        },
        ["thing.net", "thing.sub.deep"],
    ),
    "list of packages without __init__": (
        {
            "setup.py": "from setuptools import setup\n"
            "setup(name='thing', version='1', packages=['models', 'models.parts'])\n",
            "models/net.py": CUDA,
            "models/parts/head.py": CUDA + ATTENTION,
        },
        ["models.net", "models.parts.head"],
    ),
    "list of packages below another folder": (
        {
            "setup.cfg": "[metadata]\nname = thing\nversion = 1\n[options]\n"
            "package_dir =\n    = lib\npackages =\n    thing\n    thing.sub\n",
            "pyproject.toml": SETUPTOOLS,
            "lib/thing/net.py": CUDA,
            "lib/thing/sub/deep.py": CUDA,
        },
        ["thing.net", "thing.sub.deep"],
    ),
    "hatch": (
        {
            "pyproject.toml": PROJECT
            + HATCH
            + '[tool.hatch.build.targets.wheel]\npackages = ["code/thing"]\n',
            "code/thing/__init__.py": "",
            "code/thing/net.py": CUDA,
        },
        ["thing.net"],
    ),
}


def fill(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def ported(tmp_path: Path, files: dict[str, str]) -> Path:
    result = port_tree(fill(tmp_path / "source", files), OLD)
    (tmp_path / "out").mkdir()
    write_copy(result, tmp_path / "out", ported=True)
    again = port_tree(tmp_path / "out", OLD)
    assert not [r.path for r in again.results if r.ported]
    return tmp_path / "out"


def python(folder: Path, *arguments: str, path: str = "") -> None:
    torch = fill(folder.parent / "stand-in", TORCH)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (path, str(torch))))}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("layout", INSTALLED)
def test_an_installed_package_has_its_helper(tmp_path: Path, layout: str) -> None:
    files, modules = INSTALLED[layout]
    out = ported(tmp_path, files)
    target = tmp_path / "site"
    elsewhere = fill(tmp_path / "elsewhere", {"here.txt": ""})
    pip = ("-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index")
    python(elsewhere, *pip, "--target", str(target), str(out))
    python(elsewhere, "-c", f"import {', '.join(modules)}", path=str(target))
    root = next(p for p in (out, *out.iterdir()) if (p / modules[0].split(".")[0]).is_dir())
    python(root, "-c", f"import {', '.join(modules)}")


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("train.py", {"train.py": CUDA + "import models.net\n", "models/net.py": CUDA}),
        ("tools/train.py", {"tools/train.py": CUDA + "import common\n", "tools/common.py": CUDA}),
        # A folder that has an __init__.py, though its scripts start there.
        (
            "run/train.py",
            {
                "run/__init__.py": "",
                "run/train.py": CUDA + "import common\nfrom parts.head import DEVICE as D\n",
                "run/common.py": CUDA,
                "run/parts/__init__.py": "",
                "run/parts/head.py": CUDA + ATTENTION,
            },
        ),
        (
            "run/alone.py",
            {"run/__init__.py": "", "run/alone.py": CUDA + "if __name__ == '__main__':\n    1\n"},
        ),
        (
            "train.py",
            {
                "train.py": "from lab.models.net import DEVICE\n",
                "lab/models/__init__.py": "",
                "lab/models/net.py": CUDA + "from lab.models.head import DEVICE as D\n",
                "lab/models/head.py": CUDA + "import logging\n",
                "lab/models/logging.py": "",
            },
        ),
    ],
)
def test_a_script_finds_its_helper_where_it_starts(
    tmp_path: Path, command: str, files: dict[str, str]
) -> None:
    python(ported(tmp_path, files), command)


def test_a_list_of_single_modules_does_not_list_the_helper(tmp_path: Path) -> None:
    setup = "from setuptools import setup\nsetup(name='net', version='1', py_modules=['net'])\n"
    source = fill(tmp_path, {"setup.py": setup, "net.py": CUDA, "tool.py": CUDA})
    found = {r.path: [f.subject for f in r.findings] for r in port_tree(source, OLD).results}
    assert found == {"net.py": ["torch_device"], "tool.py": []}


def test_a_folder_of_a_package_is_not_what_an_absolute_import_means(tmp_path: Path) -> None:
    ids = "import torch, ray\nfrom lab.trainer import net\nids = ray.get_gpu_ids()\n"
    source = fill(
        tmp_path,
        {
            "lab/__init__.py": "",
            "lab/trainer/__init__.py": "",
            "lab/trainer/net.py": ids,
            "lab/trainer/ray/__init__.py": "",
            "lab/trainer/ray/worker.py": ids,
        },
    )
    changed = [r.path for r in port_tree(source, Options()).results if r.changes]
    assert changed == ["lab/trainer/net.py", "lab/trainer/ray/worker.py"]
