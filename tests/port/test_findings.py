"""What findings say: their words, effort and number, where the codes alone do not show it."""

from pathlib import Path

from jumar.port import Options, port_text, port_tree
from jumar.port.records import Effort, Finding, Severity
from jumar.port.report.summary import make

ATTENTION = "from flash_attn import flash_attn_func\ndef f(q): return flash_attn_func(q, q, q)\n"
NO_WAY = "def g(q): return flash_attn_func(q, q, q, softcap=1.0)\n"


def found(text: str, code: str) -> list[Finding]:
    findings = port_text("import torch\n" + text, Options()).findings
    return [finding for finding in findings if finding.code == code]


def in_tree(root: Path, files: dict[str, str]) -> dict[str, list[Finding]]:
    for name, text in files.items():
        (root / name).write_text(text)
    return {r.path: list(r.findings) for r in port_tree(root, Options()).results}


def test_a_check_without_another_branch_is_said_to_raise_an_error() -> None:
    import_it = "from pkg import _C\ndef f(x):\n"
    for check in ("assert x.is_cuda", "if not x.is_cuda: raise TypeError('GPU only')"):
        (one,) = found(f"{import_it}    {check}\n    return _C.run(x)\n", "JP709")
        assert "raises an error on NPUs" in one.why.en
        assert "other branch" not in one.why.en
        assert "报错" in one.why.zh
    (one,) = found(f"{import_it}    if not x.is_cuda: return x\n    return _C.run(x)\n", "JP709")
    assert "take the other branch" in one.why.en


def test_a_function_that_is_handed_on_is_reported_where_it_was_bound() -> None:
    text = (
        "def main():\n"
        "    cast = torch.cuda.amp.autocast\n"
        "    train(cast)\n"
        "    validate(model, amp=cast)\n"
    )
    assert [one.line for one in found(text, "JP301")] == [3]


def test_tf32_that_is_turned_off_is_not_told_how_to_turn_it_on() -> None:
    off = found("torch.backends.cudnn.allow_tf32 = False\n", "JP705")
    assert "conv.allow_hf32 = False" in off[0].advice.en
    off = found("torch.backends.cuda.matmul.allow_tf32 = False\n", "JP705")
    assert "nothing to do" in off[0].advice.en
    on = found("torch.backends.cuda.matmul.allow_tf32 = True\n", "JP705")
    assert "to allow it" in on[0].advice.en


def test_a_script_that_fails_later_does_not_run_without_a_package() -> None:
    attempt = (
        "try: from flash_attn import flash_attn_func\nexcept ImportError: flash_attn_func = None\n"
    )
    flagged = "try:\n    import flash_attn\n    HAS = True\nexcept ImportError: HAS = False\n"
    needed = [
        attempt + "def f(q): return flash_attn_func(q, q, q)\n",
        flagged + "def f(q):\n    assert HAS\n    return flash_attn.flash_attn_func(q, q, q)\n",
    ]
    optional = [
        attempt + "def f(q):\n    if flash_attn_func is None: return g(q)\n"
        "    return flash_attn_func(q, q, q)\n",
        attempt + "def f(q, mode):\n    if mode == 'flash': return flash_attn_func(q, q, q)\n",
        flagged + "def f(q): return flash_attn.flash_attn_func(q, q, q) if HAS else g(q)\n",
    ]
    assert {found(text, "JP601")[0].severity for text in needed} == {Severity.WORK}
    assert {found(text, "JP601")[0].severity for text in optional} == {Severity.INFO}
    chosen = [
        "class FlashProcessor:\n    def __call__(self, q): return flash_attn_func(q, q, q)\n",
        "class Attention:\n    def __call__(self, q):\n        assert flash_attn_func is not None\n"
        "        return flash_attn_func(q, q, q)\n",
    ]
    told = [found(attempt + text, "JP601")[0] for text in chosen]
    assert [one.severity for one in told] == [Severity.LIMIT, Severity.LIMIT]
    assert [one.advice.en.partition(" needs")[0] for one in told] == [
        "only FlashProcessor",
        "only Attention",
    ]


def test_a_comment_about_cuda_does_not_make_scripted_code_name_it() -> None:
    text = "@torch.jit.script\ndef f(x):\n    # without a cuda synchronization\n    return x + {}\n"
    (one,) = found(text.format("1"), "JP704")
    assert one.severity is Severity.LIMIT
    (one,) = found(text.format("torch.ones(1, device='cuda')"), "JP704")
    assert one.severity is Severity.WORK


def test_a_requirement_that_the_port_no_longer_needs_only_has_to_be_removed(tmp_path: Path) -> None:
    lists = {
        "requirements.txt": "flash-attn==2.7\n",
        "conda_env_macos.yaml": "dependencies:\n- ray=2.2\n",
    }
    replaced = in_tree(tmp_path, {**lists, "train.py": ATTENTION})
    (one,) = replaced["requirements.txt"]
    assert (one.severity, one.effort) == (Severity.WORK, Effort.MINUTES)
    assert "remove it" in one.advice.en
    # A list for machines that have no NPU is nobody's work.
    assert "conda_env_macos.yaml" not in replaced
    (one,) = in_tree(tmp_path, {"train.py": ATTENTION + NO_WAY})["requirements.txt"]
    assert one.effort is Effort.HOURS


def test_extras_and_functions_that_install_are_read(tmp_path: Path) -> None:
    setup = (
        "from setuptools import setup\nextra = {}\n"
        "extra['gpu'] = ['flash-attn==2.7']\nsetup(extras_require=extra)\n"
    )
    install = "quiet_pip torch --index-url https://download.pytorch.org/whl/cu128\n"
    told = in_tree(tmp_path, {"setup.py": setup, "install.sh": install})
    assert [one.severity for one in told["setup.py"]] == [Severity.INFO]
    assert [one.subject for one in told["install.sh"]] == ["torch"]


def test_a_selection_holds_for_every_kind_of_file(tmp_path: Path) -> None:
    (tmp_path / "op.cu").write_text("__global__ void f() {}\n")
    (tmp_path / "train.py").write_text("import torch, flash_attn\nx.cuda()\n")
    chosen = port_tree(tmp_path, Options(select=("JP6",)))
    assert {f.code for r in chosen.results for f in r.findings} == {"JP601"}
    (decision,) = make(port_tree(tmp_path, Options(select=("JP507",))), 0.1).decisions
    assert decision.title.en == "CUDA source file"
