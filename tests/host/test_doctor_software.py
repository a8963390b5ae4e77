"""Faults of CANN, Python and the frameworks: each is found, with the line that fixes it."""

import pytest
from tests.host.conftest import FakeMachine

from jumar.host.findings import Verdict

FAIL, WARN, OK, UNKNOWN = Verdict.FAIL, Verdict.WARN, Verdict.OK, Verdict.UNKNOWN
TOOLKIT = "/usr/local/Ascend/ascend-toolkit"


def test_cards_and_no_cann(bare: FakeMachine):
    bare.add_cards(1)
    seen, fix = bare.found("cann-root", FAIL)
    assert "no CANN in" in seen
    assert "Ascend-cann-toolkit" in fix


def test_a_latest_link_that_points_nowhere(well: FakeMachine):
    link = well.root / "usr/local/Ascend/ascend-toolkit/latest"
    link.unlink()
    link.symlink_to("8.3.RC1")
    seen, fix = well.found("cann-links", FAIL)
    assert f"{TOOLKIT}/latest points to 8.3.RC1, which does not exist" in seen
    assert fix == f"sudo ln -sfn {TOOLKIT}/8.5.0 {TOOLKIT}/latest"


def test_several_releases_and_none_chosen(bare: FakeMachine):
    bare.add_cann("8.3.RC1")
    bare.add_cann("8.5.0")
    seen, fix = bare.found("cann-version", WARN)
    assert "several CANN releases (8.5.0, 8.3.RC1)" in seen
    assert fix == f"select one: source {TOOLKIT}/set_env.sh"


def test_nothing_was_sourced(bare: FakeMachine):
    bare.add_cann("8.5.0")
    seen, fix = bare.found("set-env", WARN)
    assert "no set_env.sh was sourced" in seen
    assert fix == f"source {TOOLKIT}/set_env.sh"


def test_a_shell_that_sourced_a_cann_that_is_gone(bare: FakeMachine):
    bare.add_cann("8.5.0")
    bare.source(f"{TOOLKIT}/7.0.0")
    seen, fix = bare.found("set-env", FAIL)
    assert seen == f"ASCEND_HOME_PATH is {TOOLKIT}/7.0.0, which does not exist"
    assert fix == f"source {TOOLKIT}/set_env.sh"


def test_a_shell_that_uses_an_older_cann_than_there_is(bare: FakeMachine):
    old = bare.add_cann("8.3.RC1")
    bare.add_cann("8.5.0")
    bare.source(old)
    seen, fix = bare.found("set-env", WARN)
    assert seen == "this shell uses CANN 8.3.RC1, but 8.5.0 is also installed"
    assert "source" in fix


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("ASCEND_OPP_PATH", "ASCEND_OPP_PATH is not set"),
        ("PYTHONPATH", "PYTHONPATH does not include CANN's tbe"),
        ("LD_LIBRARY_PATH", "LD_LIBRARY_PATH does not include lib64"),
    ],
)
def test_a_variable_that_was_lost_after_sourcing(well: FakeMachine, variable: str, words: str):
    del well.environ[variable]
    seen, fix = well.found("set-env", WARN)
    assert words in seen
    assert fix.startswith("in a new shell: source")


def test_two_releases_mixed_in_one_shell(well: FakeMachine):
    old = well.add_cann("8.3.RC1", latest=False)
    well.environ["LD_LIBRARY_PATH"] += f":{old}/lib64"
    seen, _ = well.found("set-env", WARN)
    assert "LD_LIBRARY_PATH mixes several CANN" in seen


def test_sourced_through_the_latest_link(well: FakeMachine):
    well.source(f"{TOOLKIT}/latest")
    assert well.verdicts("set-env") == {OK}


def test_a_python_that_is_not_there(bare: FakeMachine):
    bare.python = "/nowhere/python"
    seen, fix = bare.found("python", FAIL)
    assert "no Python at '/nowhere/python'" in seen
    assert "--python" in fix


def test_a_python_that_is_something_else(bare: FakeMachine):
    bare.add_tool("fake-python", "echo no; exit 3")
    bare.python = str(bare.root / "usr/local/bin/fake-python")
    seen, _ = bare.found("python", FAIL)
    assert "does not work as a Python interpreter: no" in seen


def test_packages_that_cann_imports_are_missing(well: FakeMachine):
    well.add_python(torch="2.1.0", torch_npu="2.1.0", decorator="5.1", sympy="1.12")
    seen, fix = well.found("python-packages", WARN)
    assert "attrs" in seen
    assert "decorator" not in seen
    assert "pip install absl-py attrs" in fix
    assert "'numpy<2'" in fix


def test_torch_of_another_version_than_its_plugin(well: FakeMachine):
    well.add_python(torch="2.8.0", torch_npu="2.9.0")
    seen, fix = well.found("torch-fit", FAIL)
    assert seen == "torch_npu 2.9.0 requires torch 2.9.0, but torch is 2.8.0"
    assert fix == "pip install torch==2.9.0 torch_npu==2.9.0"


def test_a_plugin_for_a_newer_cann(bare: FakeMachine):
    bare.add_cann("8.3.RC1")
    bare.add_python(torch="2.8.0", torch_npu="2.8.0.post4")
    seen, fix = bare.found("torch-fit", FAIL)
    assert "requires CANN 9.0.0, but this machine has 8.3.RC1" in seen
    assert fix == "pip install torch_npu==2.8.0"


def test_a_plugin_for_an_older_cann_is_only_a_warning(well: FakeMachine):
    well.add_python(torch="2.8.0", torch_npu="2.8.0")
    seen, fix = well.found("torch-fit", WARN)
    assert "requires CANN 8.3.RC1, but this machine has 8.5.0" in seen
    assert fix == "pip install torch_npu==2.8.0.post2"


def test_a_cann_that_no_table_names_is_unknown(bare: FakeMachine):
    bare.add_cann("8.5.7")
    bare.add_python(torch="2.8.0", torch_npu="2.8.0")
    seen, _ = bare.found("torch-fit", UNKNOWN)
    assert "but this machine has 8.5.7, which no table lists" in seen


def test_a_python_that_the_plugin_was_not_made_for(bare: FakeMachine):
    bare.add_python(torch="2.2.0", torch_npu="2.2.0")
    seen, fix = bare.found("torch-fit", FAIL)
    assert "requires Python 3.8, 3.9, 3.10, but this is Python 3." in seen
    assert "--python 3.10" in fix


def test_torchvision_of_another_torch(bare: FakeMachine):
    bare.add_python(torch="2.7.1", torchvision="0.21.0")
    seen, fix = bare.found("torch-fit", FAIL)
    assert "requires torchvision 0.22.1" in seen
    assert fix == "pip install torchvision==0.22.1"


def test_torch_without_its_plugin_beside_cards(well: FakeMachine):
    well.add_python(torch="2.9.0")
    seen, fix = well.found("torch-fit", WARN)
    assert "without torch_npu" in seen
    assert fix == "pip install torch_npu==2.9.0"


def test_a_torch_built_for_other_cards(well: FakeMachine):
    well.add_python(torch="2.9.0+cu128", torch_npu="2.9.0")
    assert "built for other cards" in well.found("torch-fit", WARN)[0]


def test_a_mindspore_for_another_cann(well: FakeMachine):
    well.add_python(mindspore="2.7.1")
    seen, fix = well.found("mindspore-fit", FAIL)
    assert "MindSpore 2.7.1 requires CANN 8.3.RC1, but this machine has CANN 8.5.0" in seen
    assert fix == "pip install mindspore==2.10.0"


def test_the_plugin_breaks_import_torch(well: FakeMachine):
    site = well.add_python(torch="2.9.0", torch_npu="2.9.0")
    (site / "torch.py").write_text(
        "import os\nif os.environ.get('TORCH_DEVICE_BACKEND_AUTOLOAD') != '0': import torch_npu\n"
    )
    message = "libhccl.so: cannot open shared object file: No such file or directory"
    (site / "torch_npu.py").write_text(f"raise ImportError({message!r})\n")
    seen, fix = well.found("torch-import", FAIL)
    assert "torch_npu does not load: ImportError: libhccl.so" in seen
    assert f"source {well.root}{TOOLKIT}/set_env.sh" in fix
    assert "export TORCH_DEVICE_BACKEND_AUTOLOAD=0" in fix


def test_a_plugin_that_loads_once_set_env_is_sourced(bare: FakeMachine):
    home = bare.add_cann("8.5.0")
    bare.write(f"{home[1:]}/set_env.sh", f"export ASCEND_OPP_PATH={home}/opp READY=yes\n")
    site = bare.add_python(torch="2.9.0", torch_npu="2.9.0")
    (site / "torch.py").touch()
    (site / "torch_npu.py").write_text(
        "import os\nif 'READY' not in os.environ: raise ImportError('libhccl.so: cannot open "
        "shared object file')\n"
    )
    seen, fix = bare.found("torch-import", WARN)
    assert "loads only after sourcing set_env.sh (jumar does this for its own jobs)" in seen
    assert fix.endswith("/set_env.sh")


@pytest.mark.parametrize(
    ("program", "words", "fix"),
    [
        ("raise ImportError('libascend_hal.so: cannot open')", "libascend_hal", "driver/lib64"),
        ("import decorator", "No module named 'decorator'", "pip install decorator"),
        ("import yaml", "No module named 'yaml'", "pip install pyyaml"),
        ("raise ImportError('x.so: undefined symbol: _ZN2at')", "undefined", "jumar env check"),
        ("raise AttributeError('_ARRAY_API not found')", "_ARRAY_API", "numpy<2"),
        ("import os; os.kill(os.getpid(), 11)", "killed by signal 11", "jumar env create"),
        ("import os; os._exit(3)", "no answer", "jumar env create"),
    ],
)
def test_what_breaks_torch_itself(well: FakeMachine, program: str, words: str, fix: str):
    site = well.add_python(torch="2.9.0")
    (site / "torch.py").write_text(program + "\n")
    seen, told = well.found("torch-import", FAIL)
    assert words in seen
    assert fix in told


def test_an_import_that_hangs_is_ended(well: FakeMachine):
    site = well.add_python(torch="2.9.0")
    (site / "torch.py").write_text("import time; time.sleep(600)\n")
    well.shorter(import_s=0.5)
    seen, fix = well.found("torch-import", FAIL)
    assert "did not answer in time" in seen
    assert "importtime" in fix


def test_a_plugin_that_sees_no_card(well: FakeMachine):
    site = well.add_python(torch="2.9.0", torch_npu="2.9.0")
    (site / "torch.py").write_text("class npu:\n    is_available = staticmethod(lambda: False)\n")
    (site / "torch_npu.py").touch()
    seen, fix = well.found("torch-import", FAIL)
    assert seen == "torch_npu imports but sees no NPU"
    assert "npu-smi" in fix
