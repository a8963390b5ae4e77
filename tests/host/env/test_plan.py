"""Plans: what fits what was asked, and what is said when no table knows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.errors import BadInput
from jumar.host.env.plan import Here, Plan, Request, make_plan
from jumar.host.env.projects import versions_of
from jumar.host.fit import Fit, Installed, judge
from jumar.host.matrix import shipped
from jumar.host.versions import Version

V = Version.parse


def plan(cann: str | None = None, machine: str = "aarch64", **asked: str) -> Plan:
    here = Here(python=V("3.11.7"), machine=machine, cann=V(cann) if cann else None)
    version = {name: V(text) for name, text in asked.items()}
    request = Request(
        torch=version.get("torch"),
        mindspore=version.get("mindspore"),
        python=version.get("python"),
        cann=version.get("cann"),
    )
    return make_plan(request, here, shipped())


def requirements(made: Plan) -> list[str]:
    return [package.requirement for package in made.packages]


def test_torch_for_the_cann_that_is_here():
    made = plan(cann="8.5.0", torch="2.7")
    assert made.fit is Fit.FITS
    assert requirements(made)[:3] == [
        "torch==2.7.1",
        "torch_npu==2.7.1.post2",
        "torchvision==0.22.1",
    ]
    assert made.python == "3.11"
    assert all(package.source for package in made.packages)


def test_the_newest_torch_for_the_cann_that_is_here():
    assert plan(cann="8.0.RC3").text == "torch 2.4.0 with torch_npu 2.4.0 on CANN 8.0.RC3"


def test_the_vendors_own_row_goes_before_a_copy_with_a_higher_number():
    assert "torch_npu==2.7.1.post8" in requirements(plan(torch="2.7"))


def test_the_guide_for_torch_1_11_on_an_early_cann():
    made = plan(cann="7.0.RC1.alpha003", torch="1.11")
    assert made.fit is Fit.FITS
    assert made.python == "3.10"
    assert {"torch_npu==1.11.0.post4", "torchvision==0.12.0", "decorator", "numpy<2"} <= set(
        requirements(made)
    )
    assert {"pathlib2", "sympy", "attrs", "pyyaml", "absl-py"} <= set(requirements(made))
    assert any("pre-release of 7.0.RC1" in note for note in made.notes)
    (npu,) = (one for one in made.packages if one.name == "torch_npu")
    assert (npu.address or "").endswith("/torch_npu-1.11.0.post4-cp310-cp310-linux_aarch64.whl")


def test_a_wheel_that_nobody_is_known_to_have_is_told():
    made = plan(cann="6.3.RC3.1", torch="1.11")
    assert "torch_npu==1.11.0.post3" in requirements(made)
    assert any("no source names a wheel" in n and "--find-links" in n for n in made.notes)


@pytest.mark.parametrize(
    ("cann", "asked", "fit", "words"),
    [
        ("8.5.9", {"torch": "2.7"}, Fit.UNKNOWN, "CANN 8.5.9 is not listed"),
        ("8.1.RC1", {"torch": "2.7"}, Fit.CLASHES, "no table pairs torch 2.7 with CANN 8.1.RC1"),
        (None, {"torch": "2.99"}, Fit.UNKNOWN, "torch 2.99 is not listed"),
        ("8.5.0", {"torch": "2.13"}, Fit.UNKNOWN, "no table lists its CANN"),
        ("3.3.0", {}, Fit.UNKNOWN, "jumar's tables do not list torch for CANN 3.3.0"),
        ("8.1.RC1", {"mindspore": "2.10"}, Fit.CLASHES, "no table pairs mindspore 2.10"),
        (None, {"mindspore": "2.8"}, Fit.UNKNOWN, "a CANN whose compiler is 8.2, 8.3, 8.5"),
        (None, {"torch": "2.6", "python": "3.13"}, Fit.CLASHES, "requires Python 3.9, 3.10, 3.11"),
        (None, {"torch": "1.5", "python": "3.7"}, Fit.UNKNOWN, "torch 1.5.0"),
    ],
)
def test_what_is_not_in_a_table_is_never_called_fitting(
    cann: str | None, asked: dict[str, str], fit: Fit, words: str
):
    made = plan(cann=cann, **asked)
    assert made.fit is fit
    assert words in made.text


def test_mindspore_for_its_listed_cann():
    made = plan(cann="8.0.RC2", mindspore="2.3")
    assert (made.fit, made.version) == (Fit.FITS, "2.3.1")
    assert made.python is None
    assert any("no table lists the Python versions" in note for note in made.notes)


def test_a_final_mindspore_goes_before_its_candidate():
    assert plan(mindspore="2.3").version == "2.3.1"


def test_on_x86_the_size_of_torch_is_mentioned():
    assert any("CPU builds" in note for note in plan(machine="x86_64", torch="2.7").notes)


def test_nothing_asked_and_no_cann_says_what_to_say():
    with pytest.raises(BadInput, match="no CANN was found") as caught:
        plan()
    assert caught.value.hint is not None
    assert "--torch" in caught.value.hint


def test_two_frameworks_are_refused():
    with pytest.raises(BadInput, match="not both"):
        plan(torch="2.7", mindspore="2.6")


@given(
    torch=st.sampled_from([row.torch.text for row in shipped().torch]),
    cann=st.sampled_from([row.cann for row in shipped().torch if row.cann]),
    python=st.sampled_from([None, "3.7", "3.9", "3.11.4", "3.13"]),
)
def test_a_plan_that_fits_is_judged_as_fitting_once_installed(
    torch: str, cann: str, python: str | None
):
    release = cann.replace(".X", ".2")
    asked = {"torch": torch} | ({"python": python} if python else {})
    made = plan(cann=release, **asked)
    if made.fit is not Fit.FITS or made.python is None:
        return
    packages = dict(
        requirement.replace("_", "-").split("==", 1)
        for requirement in requirements(made)
        if "==" in requirement
    )
    installed = Installed.of(V(made.python), packages, V(release))
    judged = judge(installed, shipped())
    assert len(judged) == 4
    assert {one.fit for one in judged} == {Fit.FITS}


@pytest.mark.parametrize(
    ("cann", "torch_npu"), [("8.3.RC2", "2.8.0"), ("8.5.1", "2.9.0"), ("9.0.1", "2.10.0.post2")]
)
def test_releases_of_cann_that_only_others_tables_list(cann: str, torch_npu: str):
    made = plan(cann=cann)
    assert made.fit is Fit.FITS
    assert made.cann == cann
    assert f"torch_npu=={torch_npu}" in requirements(made)
    assert "2026-11-16" in made.packages[0].source


def test_every_listed_version_of_a_project_is_itself_in_the_plan():
    for name in ("verl", "ms-swift", "llamafactory", "mindspeed", "vllm-ascend"):
        for one in versions_of(name):
            assert name in {package.name for package in one.packages}, (name, one.version)
            for package in one.packages:
                assert package.address is None or "@ git+https://" in package.installable


@pytest.mark.parametrize("name", ["verl", "ms-swift", "LLaMA_Factory", "MindSpeed", "vllm-ascend"])
def test_what_a_project_asks_for(name: str):
    made = make_plan(Request(project=name), Here(python=V("3.8"), machine="aarch64"), shipped())
    assert made.fit is Fit.FITS
    assert made.cann
    assert made.python in made.pythons
    assert requirements(made)[1].startswith("torch_npu==")


def test_a_project_on_the_cann_that_is_here():
    here = Here(python=V("3.11"), machine="aarch64", cann=V("8.5.0"))
    made = make_plan(Request(project="vllm-ascend"), here, shipped())
    assert "vllm-ascend==0.15.0rc1" in requirements(made)
    made = make_plan(Request(project="ms-swift", cann=V("8.5.1")), here, shipped())
    assert "torch_npu==2.9.0" in requirements(made)
    made = make_plan(Request(project="verl", cann=V("7.0.0")), here, shipped())
    assert made.fit is Fit.CLASHES
    assert [one.cann for one in made.others] == ["9.1.0", "9.0.0"]


def test_a_project_or_version_that_is_not_known():
    here = Here(python=V("3.11"), machine="aarch64")
    for asked, known in (("megatron", "mindspeed"), ("verl==0.1", "0.8.0")):
        with pytest.raises(BadInput) as caught:
            make_plan(Request(project=asked), here, shipped())
        assert known in (caught.value.hint or "")
    with pytest.raises(BadInput, match="--for already says"):
        make_plan(Request(project="verl", torch=V("2.7")), here, shipped())
