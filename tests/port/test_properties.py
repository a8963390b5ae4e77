"""Promises about any code: twice is once, the result parses, what is not edited stays."""

import ast

from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.port import Mode, Options, port_text

NAMES = ["x", "model", "device", "args.gpu", "rank", "self.net", "batch[0]", "f(x)"]
DEVICES = [
    '"cuda"',
    "'cuda:0'",
    '"cpu"',
    'f"cuda:{rank}"',
    '"cuda:%d" % rank',
    '"cuda toolkit"',
    "0",
]
name = st.sampled_from(NAMES)
device = st.sampled_from(DEVICES)
expression = st.one_of(
    st.builds("{}.cuda()".format, name),
    st.builds("{}.cuda({})".format, name, name),
    st.builds("{}.to({})".format, name, device),
    st.builds("torch.device({})".format, device),
    st.builds("torch.zeros(3, device={})".format, device),
    st.builds('"cuda" if {} else "cpu"'.format, name),
    st.builds("{}.is_cuda".format, name),
    st.builds("{}.device.type == {}".format, name, device),
    st.builds('"cuda" in {}'.format, name),
    st.builds(
        "torch.cuda.{}()".format, st.sampled_from(["is_available", "empty_cache", "nvtx", "Stream"])
    ),
    st.builds(
        "torch.cuda.amp.{}".format,
        st.sampled_from(["autocast()", "autocast(True)", "GradScaler()"]),
    ),
    st.builds(
        "dist.init_process_group({})".format, st.sampled_from(['"nccl"', '"gloo"', "backend"])
    ),
    st.builds("print({})".format, device),
    st.sampled_from(
        [
            "amp.autocast(False)",
            "scaler()",
            'patch("torch.cuda.is_available", return_value=True)',
            'patch.object(torch.cuda, "device_count", new=f)',
            "x.to(memory_format=torch.channels_last)",
            "torch.cuda.get_device_capability()[0] > 7",
            "torch.version.cuda",
        ]
    ),
    st.builds("{{{}: {}}}".format, device, name),
)
nested = st.recursive(
    expression,
    lambda inner: st.one_of(
        st.builds("g({}, {})".format, inner, inner),
        st.builds("({}) and ({})".format, inner, inner),
        st.builds("[{}]".format, inner),
        st.builds("({}) if ({}) else ({})".format, inner, inner, inner),
        st.builds("not ({})".format, inner),
        st.builds("lambda q=({}): q".format, inner),
    ),
    max_leaves=4,
)
statement = st.one_of(
    nested,
    st.builds("device = {}".format, nested),
    st.builds("if {}: pass".format, nested),
    st.builds("if {}: {}".format, nested, nested),
    st.builds("with {}: pass".format, nested),
    st.builds("match device.type:\n    case {}: {}".format, st.just('"cuda"'), nested),
    st.builds("class K(Enum):\n    A = {}\n    B = 'cpu'".format, device),
    st.sampled_from(
        [
            "from torch.cuda import amp, nvtx",
            "from torch.cuda.amp import GradScaler as scaler, autocast",
            "from torch.cuda.amp import *",
            "torch.cuda.is_available = lambda: False",
        ]
    ),
    st.builds("def h(a, device={}): return a".format, device),
    st.builds("# a comment about cuda {}".format, st.text("abc中文é\t", max_size=8)),
    st.builds("y = {}  # 注释 cuda".format, nested),
    st.builds('s = """cuda {}"""'.format, st.text("ab\n \f中", max_size=6)),
)
heads = st.sampled_from(
    ["import torch\n", "import torch as th\nimport torch\n", '"""Doc."""\nimport os\nimport torch\nimport torch.distributed as dist\n', ""]
)  # fmt: skip
modes = st.sampled_from(list(Mode))
versions = st.sampled_from([(1, 11), (2, 1), (2, 7), (2, 13)])


@settings(max_examples=150, deadline=None)
@given(heads, st.lists(statement, max_size=5), modes, versions, st.sampled_from(["\n", "\r\n"]))
def test_the_result_parses_and_porting_it_again_changes_nothing(
    head: str, body: list[str], mode: Mode, torch: tuple[int, int], newline: str
) -> None:
    text = (head + "\n".join(body) + "\n").replace("\n", newline)
    options = Options(mode=mode, torch=torch)
    once = port_text(text, options).text
    ast.parse(once)
    assert port_text(once, options).text == once


@settings(max_examples=100, deadline=None)
@given(st.lists(statement, max_size=5), modes)
def test_what_is_not_edited_stays_as_it_was(body: list[str], mode: Mode) -> None:
    text = "import torch\n" + "\n".join(body) + "\n"
    result = port_text(text, Options(mode=mode))
    touched = {line for c in result.changes for line in range(c.line, c.end_line + 1)}
    kept = [row for n, row in enumerate(text.split("\n"), start=1) if n not in touched]
    ported = iter(result.text.split("\n"))
    assert all(any(row == other for other in ported) for row in kept)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_text_at_all_is_survived(text: str) -> None:
    for mode in Mode:
        result = port_text(text, Options(mode=mode))
        assert result.text == text or result.changes
