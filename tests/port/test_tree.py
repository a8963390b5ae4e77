"""Whole folders: what is written, what stays byte for byte, and what bad input gets told."""

import ast
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from jumar.errors import BadInput
from jumar.port import Mode, Options, port_tree
from jumar.port.report.as_patch import unified
from jumar.port.run import Outcome, Target, port_repository
from jumar.port.tree import TreeResult


def make(root: Path, **files: str | bytes) -> Path:
    for name, content in files.items():
        path = root / name.replace("__", "/").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def write(source: Path, target: Path, options: Options | None = None) -> Outcome:
    return port_repository(source, options or Options(), target=Target(target))


def result_of(root: Path, path: str, options: Options | None = None) -> bytes:
    tree = port_tree(root, options or Options(mode=Mode.NPU_ONLY))
    found = next((r for r in tree.results if r.path == path), None)
    return (
        found.ported
        if found is not None and found.ported is not None
        else (root / path).read_bytes()
    )


def codes(tree: TreeResult) -> list[str]:
    return [f.code for r in tree.results for f in r.findings]


def test_output_is_complete_and_untouched_files_are_byte_identical(tmp_path: Path) -> None:
    source = make(
        tmp_path / "src", a_py="import torch\nx.cuda()\n", b_py="x = 1\n", data__raw=b"\0\xff\r\n"
    )
    (source / "data" / "run").write_text("#!/bin/sh\n")
    (source / "data" / "run").chmod(0o755)
    outcome = write(source, tmp_path / "out")
    assert outcome.changed_files == 1
    assert (tmp_path / "out/b.py").read_bytes() == b"x = 1\n"
    assert (tmp_path / "out/data/raw").read_bytes() == b"\0\xff\r\n"
    assert os.access(tmp_path / "out/data/run", os.X_OK)
    assert (source / "a.py").read_text() == "import torch\nx.cuda()\n"
    assert (tmp_path / "out/jumar-report/report.html").is_file()


def test_a_yaml_file_is_what_its_content_says(tmp_path: Path) -> None:
    conda = "name: x\ndependencies:\n  - python=3.8\n  - cudatoolkit=11.3\n"
    source = make(tmp_path, a_py="import torch\n")
    (source / "conda_env_gpu.yml").write_text(conda)
    (source / "env.yaml").write_text("device: cuda\n")
    (source / "pyproject.toml").write_text('[project]\ndependencies = ["flash-attn"]\n')
    assert codes(port_tree(source, Options())) == ["JP506", "JP503", "JP506"]
    assert result_of(source, "env.yaml") == b"device: npu\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\xef\xbb\xbfimport torch\nx.cuda()\n", b"\xef\xbb\xbfimport torch\nimport torch_npu\nx.npu()\n"),
        (b"import torch\r\nx.cuda()\r\n", b"import torch\r\nimport torch_npu\r\nx.npu()\r\n"),
        (b"import torch\nx.cuda()", b"import torch\nimport torch_npu\nx.npu()"),
        (b"import torch\n\tx = 1\n", b"import torch\n\tx = 1\n"),
        (
            "# -*- coding: gbk -*-\nimport torch\ns = '中文'; x.cuda()\n".encode("gbk"),
            "# -*- coding: gbk -*-\nimport torch\nimport torch_npu\ns = '中文'; x.npu()\n".encode("gbk"),
        ),
        (
            "import torch\ns = '中文'; x.cuda()  # 注释\n".encode("gbk"),
            "import torch\nimport torch_npu\ns = '中文'; x.npu()  # 注释\n".encode("gbk"),
        ),
        (
            "import torch\ns = '中é𝒳'; x.cuda(); y = 'ß'\n".encode(),
            "import torch\nimport torch_npu\ns = '中é𝒳'; x.npu(); y = 'ß'\n".encode(),
        ),
        (
            b"import torch\nx  =  x.cuda ( )   # keep\n\x0c\n",
            b"import torch\nimport torch_npu\nx  =  x.npu ( )   # keep\n\x0c\n",
        ),
    ],
)  # fmt: skip
def test_encodings_marks_line_ends_and_layout_survive(
    tmp_path: Path, before: bytes, after: bytes
) -> None:
    assert result_of(make(tmp_path, a_py=before), "a.py") == after


@pytest.mark.parametrize(
    "content",
    [
        "print 'cuda', torch\n",
        "import torch\n{{ template }}.cuda(\n",
        "import torch\n%load x.cuda()\n",
    ],
)
def test_a_file_that_does_not_parse_is_copied_and_reported(tmp_path: Path, content: str) -> None:
    source = make(tmp_path / "src", a_py=content, b_py="import torch\nx.cuda()\n")
    outcome = write(source, tmp_path / "out")
    assert (tmp_path / "out/a.py").read_text() == content
    assert outcome.report is not None
    assert [f.code for p, f in outcome.report.findings if p == "a.py"] == ["JP001"]
    assert outcome.changed_files == 1


def test_typographic_quotes_are_seen_through(tmp_path: Path) -> None:
    source = make(tmp_path, a_py="import torch\nDEVICE = “gpu:0”\ntorch.cuda.set_device(DEVICE)\n")
    text = result_of(source, "a.py").decode()
    assert "DEVICE = “npu:0”\ntorch.npu.set_device(DEVICE)" in text
    assert "JP002" in codes(port_tree(source, Options()))


def test_files_without_a_trace_are_never_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make(tmp_path, a_py="x = 1\n", b_py="import torch\nx.cuda()\n")
    parsed: list[str] = []
    real = ast.parse

    def spy(text: str) -> ast.Module:
        parsed.append(text)
        return real(text)

    monkeypatch.setattr("jumar.port.python.ast.parse", spy)
    port_tree(source, Options())
    assert parsed
    assert all("torch" in text for text in parsed)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            "import submitit\nsubmitit.AutoExecutor('x').update_parameters(gpus_per_node=8)\n",
            "JP632",
        ),
        ("from detectron2.engine import launch\nlaunch(main, 8)\n", "JP609"),
        ("from sync import DataParallelWithCallback\nDataParallelWithCallback(net)\n", "JP404"),
        ("from setuptools import setup\nsetup(install_requires=['flash-attn'])\n", "JP506"),
    ],
)
def test_scripts_that_only_ask_others_for_cards_are_read_too(
    tmp_path: Path, text: str, code: str
) -> None:
    assert codes(port_tree(make(tmp_path, a_py=text), Options())) == [code]


def test_a_variant_of_data_parallel_in_a_module_that_is_missing_is_told(tmp_path: Path) -> None:
    text = "from models.sync import DataParallelWithCallback\nDataParallelWithCallback(net)\n"
    source = make(tmp_path, models__net_py="", train_py=text)
    (source / "models" / "__init__.py").touch()
    assert codes(port_tree(source, Options())) == ["JP404"]


def test_names_are_followed_through_the_repository(tmp_path: Path) -> None:
    files = {
        "lib/__init__.py": "from .deps import *\nfrom .deps import T as TT\n",
        "lib/deps.py": "import torch as T\nfrom torch import cuda as gpu\n",
        "train.py": "from lib import TT, gpu\nTT.cuda.synchronize()\ngpu.empty_cache()\n",
    }
    (tmp_path / "lib").mkdir()
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    text = result_of(tmp_path, "train.py", Options()).decode()
    assert "torch.accelerator.synchronize()" in text
    assert "DEVICE_MODULE.empty_cache()" in text


def test_packages_below_src_are_known_to_tests_beside_them(tmp_path: Path) -> None:
    make(
        tmp_path,
        src__thing____init___py="",
        src__thing__pick_py="import torch\ndef pick(name, device): return torch.device(device)\n",
        tests__test_pick_py='import torch\nfrom thing.pick import pick\npick("cuda", "cuda")\n',
    )
    (tmp_path / "guide.mdx").write_text("```bash\nCUDA_VISIBLE_DEVICES=0 python t.py\n```\n")
    assert b'pick("cuda", "npu")' in result_of(tmp_path, "tests/test_pick.py")
    assert b"ASCEND_RT_VISIBLE_DEVICES=0" in result_of(tmp_path, "guide.mdx")


def test_a_method_of_an_object_that_is_not_known_is_found_by_its_name(tmp_path: Path) -> None:
    make(
        tmp_path,
        plan_py="class A:\n    def average(self, net, device='cpu'): return net.to(device)\n"
        "class B:\n    def name(self, kind): return kind\n    def pick(self, device): pass\n"
        "class C:\n    def pick(self, label): pass\n",
        train_py='import torch\ndef go(s, net):\n    s.average(net, "cuda")\n    s.name("cuda")\n'
        '    s.pick("cuda")\n',
    )
    text = result_of(tmp_path, "train.py").decode()
    assert 's.average(net, "npu")' in text
    assert 's.name("cuda")' in text
    assert 's.pick("cuda")' in text


def test_a_test_that_pretends_to_be_on_a_card_still_does(tmp_path: Path) -> None:
    text = 'import torch\ndef test_it(model):\n    model.device = torch.device("cuda")\n'
    make(tmp_path, tests__test_it_py=text, train_py=text)
    pretends = 'model.device = torch.device("npu" if hasattr(torch, "npu") else "cuda")'
    assert pretends in result_of(tmp_path, "tests/test_it.py", Options()).decode()
    assert "model.device = ACCELERATOR" in result_of(tmp_path, "train.py", Options()).decode()


def test_links_are_kept_and_a_loop_of_links_ends(tmp_path: Path) -> None:
    source = make(tmp_path / "src", a_py="import torch\nx.cuda()\n")
    (source / "loop").symlink_to(source, target_is_directory=True)
    (source / "gone").symlink_to("nowhere")
    write(source, tmp_path / "out")
    assert os.readlink(tmp_path / "out/gone") == "nowhere"
    assert os.readlink(tmp_path / "out/loop") == str(source)


def test_a_generated_file_of_50_mb_is_copied_and_reported(tmp_path: Path) -> None:
    source = make(tmp_path / "src", big_py=b"import torch\n" + b"x = 1234567890\n" * 3_400_000)
    outcome = write(source, tmp_path / "out")
    assert outcome.report is not None
    assert [f.code for _, f in outcome.report.findings] == ["JP006"]
    assert (tmp_path / "out/big.py").stat().st_size == (source / "big.py").stat().st_size


@pytest.mark.parametrize(
    "content",
    ["x = " + "(" * 5000 + "1" + ")" * 5000, "x = " + "+".join(["torch.cuda"] * 20000), "[" * 90 + "x.cuda()" + "]" * 90],
)  # fmt: skip
def test_deep_nesting_is_survived(tmp_path: Path, content: str) -> None:
    source = make(tmp_path, a_py=f"import torch\n{content}\n")
    tree = port_tree(source, Options())
    assert [r.path for r in tree.results] == ["a.py"]


def test_bytes_that_are_no_text_are_copied_and_reported(tmp_path: Path) -> None:
    source = make(tmp_path / "src", a_py=b"import torch\n\xff\xfe\x00\x81 cuda")
    outcome = write(source, tmp_path / "out")
    assert (tmp_path / "out/a.py").read_bytes() == (source / "a.py").read_bytes()
    assert outcome.report is not None
    assert [f.code for _, f in outcome.report.findings] == ["JP005"]


def test_bad_places_get_a_clear_word_and_nothing_is_written(tmp_path: Path) -> None:
    source = make(tmp_path / "src", a_py="import torch\n")
    full = make(tmp_path / "full", mine_py="keep\n")
    for bad, words in [
        (source / "out", "is inside"),
        (source, "is the source itself"),
        (tmp_path, "is inside"),
        (full, "is not empty"),
        (source / "a.py", "is inside"),
    ]:
        with pytest.raises(BadInput, match=words):
            write(source, bad)
    with pytest.raises(BadInput, match="no such folder"):
        write(tmp_path / "nope", tmp_path / "out")
    with pytest.raises(BadInput, match="not a folder"):
        write(source / "a.py", tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["full", "src"]
    assert (full / "mine.py").read_text() == "keep\n"


def test_a_second_run_takes_the_result_again_and_a_changed_source_is_ported_anew(
    tmp_path: Path,
) -> None:
    source, out = make(tmp_path / "src", a_py="import torch\nx.cuda()\n"), tmp_path / "out"
    first, second = write(source, out), write(source, out)
    assert first.report is not None
    assert second.report is None
    assert (second.verdict, second.changes) == (first.verdict, first.changes)
    (source / "b.py").write_text("import torch\ny.cuda()\n")
    assert write(source, out).changed_files == 2
    assert "y.to(ACCELERATOR)" in (out / "b.py").read_text()


def test_edits_of_the_user_in_an_earlier_output_are_not_lost(tmp_path: Path) -> None:
    source, out = make(tmp_path / "src", a_py="import torch\nx.cuda()\n"), tmp_path / "out"
    write(source, out)
    (out / "a.py").write_text("mine\n")
    (source / "b.py").write_text("import torch\n")
    with pytest.raises(BadInput, match=r"changed after the last port: a\.py"):
        write(source, out)
    assert (out / "a.py").read_text() == "mine\n"


def test_in_place_changes_only_what_needs_it_and_twice_is_once(tmp_path: Path) -> None:
    source = make(tmp_path, a_py="import torch\nx.cuda()\n", b_py="import torch\n")
    stamp = (source / "b.py").stat().st_mtime_ns
    target = Target(None, in_place=True)
    assert port_repository(source, Options(), target=target).changes == 2
    once = (source / "a.py").read_text()
    assert port_repository(source, Options(), target=target).changes == 0
    assert (source / "a.py").read_text() == once
    assert (source / "b.py").stat().st_mtime_ns == stamp
    assert sorted(p.name for p in source.iterdir()) == ["a.py", "b.py"]


def test_one_process_and_many_give_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        make(tmp_path, **{f"m{number}_py": f"import torch\nx{number}.cuda()\n"})
    alone = port_tree(tmp_path, Options(), workers=1)
    monkeypatch.setattr("jumar.port.tree.PARALLEL_BYTES", 0)
    assert port_tree(tmp_path, Options(), workers=2).results == alone.results


def test_an_older_torch_gets_a_helper_module_beside_the_script(tmp_path: Path) -> None:
    source = make(tmp_path / "src", a_py="import torch\nx.cuda()\ntorch.cuda.empty_cache()\n")
    options = Options(torch=(2, 1))
    write(source, tmp_path / "out", options)
    text = (tmp_path / "out/a.py").read_text()
    assert "from torch_device import ACCELERATOR, DEVICE_MODULE" in text
    helper = (tmp_path / "out/torch_device.py").read_bytes()
    again = port_tree(tmp_path / "out", options)
    assert not any(r.ported for r in again.results)
    assert result_of(tmp_path / "out", "torch_device.py", options) == helper


def test_the_patch_gives_the_port_when_git_applies_it(tmp_path: Path) -> None:
    source = make(
        tmp_path / "src",
        a_py="import torch\n" + "pad = 1\n" * 20 + "x.cuda()\n" + "pad = 2\n" * 20 + "y.cuda()",
        b_py=b"import torch\r\nx.cuda()\r\n",
        c_py="from flash_attn import flash_attn_func\nflash_attn_func(q, k, v)\n",
    )
    write(source, tmp_path / "out")
    patch = tmp_path / "out/jumar-report/port.patch"
    subprocess.run(["git", "apply", str(patch)], cwd=source, check=True, timeout=180)
    for name in ("a.py", "b.py", "c.py", "torch_attention.py"):
        assert (source / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


def test_suppression_selection_and_rules_of_the_project(tmp_path: Path) -> None:
    source = make(
        tmp_path,
        a_py="import torch\nimport lab\nx.cuda()  # jumar: ignore[JP104]\ny.cuda()  # jumar: ignore\n"
        "z.cuda()  # jumar: ignore[JP101]\nlab.fast(x)\nlab.old(x)\n",
        b_py="# jumar: ignore-file\nimport torch\nx.cuda()\n",
        c_py="import torch\nx.cuda()\n",
    )
    (source / "jumar-port.toml").write_text(
        'exclude = ["c.py"]\n[[rule]]\ncode = "LAB1"\nname = "lab.fast"\nreplace = "lab.npu_fast"\n'
        '[[rule]]\ncode = "LAB2"\nname = "lab.old"\nmessage = "gone"\nseverity = "work"\n'
    )
    outcome = port_repository(source, Options(mode=Mode.NPU_ONLY), target=Target(None))
    assert outcome.report is not None
    result = next(r for r in outcome.report.results if r.path == "a.py")
    assert [r.path for r in outcome.report.results if r.changes] == ["a.py"]
    assert result.ported is not None
    text = result.ported.decode()
    assert "x.cuda()" in text
    assert "y.cuda()" in text
    assert "z.npu()" in text
    assert "lab.npu_fast(x)" in text
    assert [f.code for f in result.findings] == ["LAB2"]
    chosen = port_tree(source, Options(mode=Mode.NPU_ONLY, ignore=("JP1",)))
    assert not any(c.code == "JP104" for r in chosen.results for c in r.changes)


def test_a_rule_of_the_project_changes_imports_and_reaches_its_own_modules(tmp_path: Path) -> None:
    ours = "from pkg.ops import fast, slow\nfrom .ops import fast as quick\nimport pkg.ops as o\n"
    root = make(
        tmp_path,
        main_py="from lab.ops import fast\nimport lab.ops\nfast(1)\nlab.ops.fast(2)\n",
        other_py="try: from lab.ops import slow, fast\nexcept ImportError: fast = None\n",
        far_py="import lab.ops\nlab.ops.far(1)\n",
    )
    (root / "pkg").mkdir()
    (root / "pkg/__init__.py").write_text("")
    (root / "pkg/ops.py").write_text("def fast(x): return x\ndef slow(x): return x\n")
    (root / "pkg/use.py").write_text(f"{ours}fast(1); quick(2); o.fast(3)\n")
    (root / "jumar-port.toml").write_text(
        '[[rule]]\ncode = "LAB1"\nname = "lab.ops.fast"\nreplace = "lab.ops.npu"\n'
        '[[rule]]\ncode = "LAB2"\nname = "pkg.ops.fast"\nreplace = "lab.npu.fast"\n'
        '[[rule]]\ncode = "LAB3"\nname = "lab.ops.far"\nreplace = "functools.partial(near, 1)"\n'
    )
    outcome = port_repository(root, Options(), target=Target(None))
    assert outcome.report is not None
    texts = {r.path: (r.ported or b"").decode() for r in outcome.report.results}
    assert texts["main.py"] == (
        "from lab.ops import npu as fast\nimport lab.ops\nfast(1)\nlab.ops.npu(2)\n"
    )
    assert texts["other.py"].startswith(
        "try: from lab.ops import slow; from lab.ops import npu as fast\n"
    )
    assert texts["far.py"] == ("import lab.ops\nimport functools\nfunctools.partial(near, 1)(1)\n")
    assert texts["pkg/use.py"] == (
        "from pkg.ops import slow\nfrom lab.npu import fast\nfrom lab.npu import fast as quick\n"
        "import pkg.ops as o\nimport lab.npu\nfast(1); quick(2); lab.npu.fast(3)\n"
    )
    compile(texts["pkg/use.py"], "use.py", "exec")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("select = 3", "not a list"),
        ("nope = 1", "unknown setting"),
        ('[[rule]]\nname = "a"', "`code` and `name`"),
        ('[[rule]]\ncode = "X1"\nname = "a"\nseverity = "bad"', "severity"),
        ('[[rule]]\ncode = "JP1"\nname = "a"\nmessage = "m"', "invalid rule code"),
        ('[[rule]]\ncode = "X1"\nname = "a.b"\nreplace = "c ="', "not an expression"),
        ("= broken", "is not TOML"),
    ],
)
def test_a_project_file_that_cannot_be_read_is_told(tmp_path: Path, text: str, words: str) -> None:
    source = make(tmp_path, a_py="import torch\na\n")
    (source / "jumar-port.toml").write_text(text)
    with pytest.raises(BadInput, match=words):
        port_repository(source, Options(), target=Target(None))


def test_an_object_named_after_a_class_with_its_own_cuda_keeps_the_call(tmp_path: Path) -> None:
    (tmp_path / "embed.py").write_text(
        "import torch\nclass SentenceEmbedder:\n    def cuda(self):\n        self.net.cuda()\n"
    )
    user = "import torch\ndef go(self, model):\n    self.embedder.cuda()\n    model.cuda()\n"
    (tmp_path / "use.py").write_text(user)
    result = port_tree(tmp_path, Options(mode=Mode.NPU_ONLY))
    ported = {r.path: (r.ported or b"").decode() for r in result.results}
    assert "self.embedder.cuda()" in ported["use.py"]
    assert "model.npu()" in ported["use.py"]
    assert "self.net.npu()" in ported["embed.py"]


def test_torch_that_comes_through_a_star_is_torch(tmp_path: Path) -> None:
    """Even where the repository has a module of that name behind the star."""
    make(
        tmp_path,
        utils__torch_py="import torch\n",
        train_py="from utils import *\ntorch.cuda.empty_cache()\n",
    )
    (tmp_path / "utils/__init__.py").write_text("from utils.torch import *\n")
    ported = result_of(tmp_path, "train.py").decode()
    assert "torch.npu.empty_cache()" in ported


def test_the_link_of_a_worktree_to_its_repository_is_not_copied(tmp_path: Path) -> None:
    source = make(tmp_path / "src", a_py="x = 1\n", sub__b_py="y = 1\n")
    for folder in (source, source / "sub"):
        (folder / ".git").write_text("gitdir: /elsewhere\n")
    write(source, tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").rglob(".git")) == []
    assert (tmp_path / "out/sub/b.py").is_file()


def test_submodules_that_are_not_here_are_told(tmp_path: Path) -> None:
    source = make(tmp_path, here__a_py="x = 1\n")
    (tmp_path / "gone").mkdir()
    (source / ".gitmodules").write_text(
        '[submodule "gone"]\n\tpath = gone\n\turl = x\n[submodule "here"]\n\tpath = here\n'
    )
    found = [f for r in port_tree(source, Options()).results for f in r.findings]
    assert [(f.code, f.line, f.subject) for f in found] == [("JP007", 2, "gone")]


def test_a_patch_holds_only_lines_that_change() -> None:
    before = "a\nx.cuda()\nb\ny.cuda()\nc\n"
    after = before.replace(".cuda()", ".npu()")
    changed = [line for line in unified("t.py", before, after).split("\n")[3:] if line[:1] in "+-"]
    assert changed[:4] == ["-x.cuda()", "+x.npu()", "-y.cuda()", "+y.npu()"]


def test_a_script_in_utf_16_is_told_of(tmp_path: Path) -> None:
    for encoding in ("utf-16", "utf-16-be", "utf-16-le"):
        text = "import torch\nx.cuda()\n".encode(encoding)
        source = make(tmp_path / encoding, a_py=text)
        assert codes(port_tree(source, Options())) == ["JP005"]
        assert result_of(source, "a.py") == text
    words = [
        f.why.en for r in port_tree(tmp_path / "utf-16", Options()).results for f in r.findings
    ]
    assert words == ["a.py is UTF-16, which Python does not accept."]


@pytest.mark.parametrize("tool", [["git", "apply"], ["patch", "-p1", "--quiet", "--input"]])
def test_the_patch_takes_odd_names_and_line_ends(tmp_path: Path, tool: list[str]) -> None:
    if shutil.which(tool[0]) is None:
        pytest.skip(f"no {tool[0]} here")
    source = tmp_path / "src"
    (source / "训练 代码").mkdir(parents=True)
    line = b"import torch\nx = torch.ones(1).cuda()\n"
    (source / "训练 代码/a b.py").write_bytes(line)
    (source / 'ta\tb"q.py').write_bytes(line)
    (source / "end.py").write_bytes(line.rstrip(b"\n"))
    (source / "crlf.py").write_bytes(line.replace(b"\n", b"\r\n"))
    (source / "bom.py").write_bytes(b"\xef\xbb\xbf" + line)
    write(source, tmp_path / "out")
    patch = tmp_path / "out/jumar-report/port.patch"
    subprocess.run([*tool, str(patch)], cwd=source, check=True, stdin=subprocess.DEVNULL)
    for path in (p for p in source.rglob("*") if p.is_file()):
        assert path.read_bytes() == (tmp_path / "out" / path.relative_to(source)).read_bytes()
