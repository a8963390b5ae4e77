import os
from pathlib import Path

import pytest

from jumar.launch.ascend.cann import Cann, cann_environment, find_cann, is_sourced


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")


def test_a_machine_without_cann_has_none(tmp_path: Path):
    make(tmp_path, "usr/local/Ascend/driver/lib64/", "opt/")
    assert find_cann(tmp_path, {"HOME": "/home/ann"}) is None


@pytest.mark.parametrize(
    ("names", "home"),
    [
        (["usr/local/Ascend/cann/opp/"], "usr/local/Ascend/cann"),
        (
            ["usr/local/Ascend/cann-8.5.0/opp/", "usr/local/Ascend/cann-8.5.RC1/opp/"],
            "usr/local/Ascend/cann-8.5.0",
        ),
        (
            [
                "usr/local/Ascend/ascend-toolkit/8.0.0/opp/",
                "usr/local/Ascend/ascend-toolkit/set_env.sh",
            ],
            "usr/local/Ascend/ascend-toolkit/8.0.0",
        ),
        (["home/ann/Ascend/ascend-toolkit/7.0.1/opp/"], "home/ann/Ascend/ascend-toolkit/7.0.1"),
        (["opt/Ascend/ascend-toolkit/latest/opp/"], "opt/Ascend/ascend-toolkit/latest"),
        (
            ["opt/Ascend/cann/opp/", "usr/local/Ascend/nnae/latest/opp/"],
            "usr/local/Ascend/nnae/latest",
        ),
    ],
)
def test_the_root_is_found_in_the_known_order(tmp_path: Path, names: list[str], home: str):
    make(tmp_path, *names)
    cann = find_cann(tmp_path, {"HOME": "/home/ann"})
    assert cann is not None
    assert cann.home == tmp_path / home
    assert not cann.legacy


def test_the_variable_wins_over_the_usual_places(tmp_path: Path):
    make(tmp_path, "usr/local/Ascend/cann/opp/", "data/cann-9/opp/")
    cann = find_cann(tmp_path, {"ASCEND_HOME_PATH": "/data/cann-9"})
    assert cann is not None
    assert cann.home == tmp_path / "data/cann-9"


def test_a_variable_that_points_nowhere_is_passed_over(tmp_path: Path):
    make(tmp_path, "usr/local/Ascend/cann/opp/")
    cann = find_cann(tmp_path, {"ASCEND_HOME_PATH": "/gone"})
    assert cann is not None
    assert cann.home == tmp_path / "usr/local/Ascend/cann"


def test_the_version_of_the_install_file_is_taken_first(tmp_path: Path):
    home = tmp_path / "usr/local/Ascend/ascend-toolkit/latest"
    make(home, "opp/", "aarch64-linux/", "share/info/runtime/")
    (home / "aarch64-linux/ascend_toolkit_install.info").write_text(
        "package_name=Ascend-cann-toolkit\nversion=8.2.RC1\ninnerversion=V100R001C22B900\n"
    )
    (home / "share/info/runtime/version.info").write_text("Version=7.7.0.9\n")
    cann = find_cann(tmp_path, {}, machine="aarch64")
    assert cann is not None
    assert cann.version == "8.2.RC1"


def test_the_version_comes_from_version_info_then_from_the_folder(tmp_path: Path):
    home = tmp_path / "usr/local/Ascend/cann-8.5.1"
    make(home, "opp/", "share/info/runtime/")
    found = find_cann(tmp_path, {})
    assert found is not None
    assert found.version == "8.5.1"
    (home / "share/info/runtime/version.info").write_text("Version=7.9\nversion_dir=8.5.2\n")
    found = find_cann(tmp_path, {})
    assert found is not None
    assert found.version == "8.5.2"


def test_latest_tells_the_version_it_points_to(tmp_path: Path):
    toolkit = tmp_path / "opt/Ascend/ascend-toolkit"
    make(toolkit, "7.0.RC1.alpha003/opp/", "set_env.sh")
    (toolkit / "latest").symlink_to("7.0.RC1.alpha003")
    cann = find_cann(tmp_path, {})
    assert cann is not None
    assert (cann.home, cann.version) == (toolkit / "latest", "7.0.RC1.alpha003")
    assert cann.set_env == toolkit / "set_env.sh"


def test_a_toolkit_of_2020_gives_the_variables_its_scripts_were_written_with(tmp_path: Path):
    ascend = tmp_path / "usr/local/Ascend"
    deep = "20.0.0.B100/arm64-linux_gcc7.3.0"
    make(
        ascend,
        f"ascend-toolkit/{deep}/opp/op_impl/built-in/ai_core/tbe/",
        f"ascend-toolkit/{deep}/fwkacllib/ccec_compiler/bin/",
        f"nnae/{deep}/fwkacllib/lib64/",
        "add-ons/",
        "driver/lib64/common/",
        "driver/lib64/driver/",
    )
    cann = find_cann(tmp_path, {}, machine="aarch64")
    assert cann is not None
    home = ascend / "ascend-toolkit" / deep
    assert (cann.home, cann.version, cann.legacy) == (home, "20.0.0.B100", True)
    result = cann_environment(
        cann, {"PATH": "/usr/bin", "LD_LIBRARY_PATH": "/mine"}, root=tmp_path, machine="aarch64"
    )
    variables = result.variables
    tbe = str(home / "opp/op_impl/built-in/ai_core/tbe")
    assert variables["ASCEND_OPP_PATH"] == str(home / "opp")
    assert variables["TBE_IMPL_PATH"] == tbe
    assert variables["PYTHONPATH"] == tbe
    assert variables["PATH"] == f"{home}/fwkacllib/ccec_compiler/bin:/usr/bin"
    libraries = variables["LD_LIBRARY_PATH"].split(":")
    assert libraries[0] == f"{ascend}/nnae/{deep}/fwkacllib/lib64"
    assert libraries[-1] == "/mine"
    assert {f"{ascend}/add-ons", f"{ascend}/driver/lib64/common"} <= set(libraries)
    assert "no set_env.sh" in result.source


SCRIPT = """
echo noise; echo noise >&2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export ASCEND_HOME_PATH=$here
export ASCEND_OPP_PATH=$here/opp
export PYTHONPATH=$here/python/site-packages:$here/opp/built-in/op_impl/ai_core/tbe:$PYTHONPATH
export LD_LIBRARY_PATH=$here/lib64:$LD_LIBRARY_PATH
export MULTI='two
lines'
"""


def cann_with(root: Path, script: str) -> Cann:
    home = root / "usr/local/Ascend/cann"
    make(home, "opp/")
    (home / "set_env.sh").write_text(script)
    found = find_cann(root, {})
    assert found is not None
    return found


def test_the_script_is_sourced_and_only_what_it_changed_comes_back(tmp_path: Path):
    cann = cann_with(tmp_path, SCRIPT)
    before = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": "/mine", "ODD": "\udcff"}
    result = cann_environment(cann, before)
    assert result.source == str(cann.home / "set_env.sh")
    assert result.variables["LD_LIBRARY_PATH"] == f"{cann.home}/lib64:/mine"
    assert result.variables["MULTI"] == "two\nlines"
    assert set(result.variables) == {
        "ASCEND_HOME_PATH",
        "ASCEND_OPP_PATH",
        "PYTHONPATH",
        "LD_LIBRARY_PATH",
        "MULTI",
    }
    assert is_sourced({**before, **result.variables})
    assert cann_environment(cann, {**before, **result.variables}).variables == {}


@pytest.mark.parametrize("body", ["exit 3\n", "set -e\nfalse\n", "sleep 60\n", "true\n"])
def test_a_script_that_breaks_off_hangs_or_does_nothing_is_replaced_by_rule(
    tmp_path: Path, body: str
):
    cann = cann_with(tmp_path, body)
    result = cann_environment(cann, {"PATH": os.environ["PATH"]}, timeout_s=0.5)
    assert "computed" in result.source
    assert result.variables["ASCEND_HOME_PATH"] == str(cann.home)
    assert result.variables["ASCEND_OPP_PATH"] == f"{cann.home}/opp"
    assert f"{cann.home}/lib64" in result.variables["LD_LIBRARY_PATH"].split(":")
    assert result.variables["PYTHONPATH"].endswith("opp/built-in/op_impl/ai_core/tbe")


def test_without_a_shell_the_variables_are_computed(tmp_path: Path):
    cann = cann_with(tmp_path, SCRIPT)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "computed" in cann_environment(cann, {"PATH": str(empty)}).source
