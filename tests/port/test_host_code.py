"""What is not reported because NPUs never run it, and what is, because they may."""

import pytest

from jumar.port import Options, port_text

HEAD = "import pytest\nimport torch\n"
SCRIPTED = "    f = torch.jit.script(model)\n"


def codes(text: str, path: str = "pkg/train.py") -> list[str]:
    return [finding.code for finding in port_text(HEAD + text, Options(), path=path).findings]


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        (f"def test_a():\n{SCRIPTED}", "tests/test_a.py", []),
        (f"def test_a(inputs):\n{SCRIPTED}x = 'cuda'\n", "tests/test_a.py", []),
        (f"def test_a(d='cuda'):\n{SCRIPTED}", "tests/test_a.py", ["JP704"]),
        (f"@pytest.mark.gpu\ndef test_a():\n{SCRIPTED}", "tests/test_a.py", ["JP704"]),
        (f"def make(d='cuda'):\n{SCRIPTED}", "tests/test_a.py", ["JP704"]),
        (f"def test_a():\n{SCRIPTED}", "pkg/train.py", ["JP704"]),
        ("x = torch.jit.trace(m, y)\n", "pkg/export/api.py", []),
        ("x = torch.jit.trace(m, y)\n", "tools/export_onnx.py", []),
        ("x = torch.jit.trace(m, y)\n", "pkg/explore/api.py", ["JP704"]),
    ],
)
def test_what_tests_and_exports_compile_is_not_reported(
    text: str, path: str, expected: list[str]
) -> None:
    assert codes(text, path) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if kind == 'cpu':\n    t = torch.float64\nelse:\n    t = torch.float32\n", []),
        ("t = torch.float64 if x.device.type == 'cpu' else torch.float32\n", []),
        ("if kind != 'cpu':\n    t = torch.float64\n", ["JP702"]),
        ("if kind == 'cpu' or slow:\n    t = torch.float64\n", ["JP702"]),
        ("if kind == 'cpu' and slow:\n    t = torch.float64\n", []),
        ("if not torch.cuda.is_available():\n    x = torch.mode(y)\n", []),
        ("if torch.cuda.is_available():\n    x = torch.mode(y)\n", ["JP802"]),
        ("class A(torch.utils.data.Sampler):\n    def f(self): return torch.mode(self.x)\n", []),
        ("class A(BaseDataset):\n    def f(self): return torch.mode(self.x)\n", []),
        ("class A(Loader):\n    def f(self): return torch.mode(self.x)\n", ["JP802"]),
        (
            "class A(BaseDataset):\n    def f(self): return torch.mode(self.x.to(device))\n",
            ["JP802"],
        ),
        ("x = torch.from_file('a', False, 8)\n", []),
        ("x = a ** (torch.arange(0, n, 2)[: n // 2].double() / n)\n", []),
        ("x = a[: n // 2].double()\n", ["JP702"]),
    ],
)
def test_limits_of_npus_do_not_matter_on_the_cpu(text: str, expected: list[str]) -> None:
    assert codes(text) == expected


def test_an_unsupported_name_with_a_kernel_is_not_called_composed() -> None:
    (told,) = port_text(f"{HEAD}y = torch.nn.functional.avg_pool3d(x, 2)\n", Options()).findings
    assert "kernels for it or its parts" in told.why.en


@pytest.mark.parametrize(
    ("where", "severity"),
    [("if version.parse(torch.__version__) < V: ", "info"), ("", "work")],
)
def test_a_package_that_only_an_old_torch_needs_is_optional(where: str, severity: str) -> None:
    text = (
        "import torch\ntry:\n    import cupy\n    HAS = True\nexcept ImportError:\n    HAS = False\n"
        f"def make():\n    {where}assert HAS\n"
    )
    (told,) = port_text(text, Options()).findings
    assert (told.code[:3], told.severity.value) == ("JP6", severity)


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("_cupy_available = is_cupy_available()\nif _cupy_available:\n    import cupy\n", "info"),
        ("import cupy\n", "work"),
        ("print(torch.cuda.get_arch_list())\n", "info"),
        ("archs = torch.cuda.get_arch_list()[0]\n", "work"),
    ],
)
def test_what_scripts_run_without_is_no_work(text: str, severity: str) -> None:
    (told,) = port_text(HEAD + text, Options()).findings
    assert told.severity.value == severity


def test_a_layout_stays_in_tests_that_stay_on_the_cpu() -> None:
    text = "import pytest\nimport torch\ndef test_it(x):\n    x.to(memory_format=torch.channels_last){}\n"
    on_cpu = text.format("")
    assert port_text(on_cpu, Options(), path="tests/test_it.py").text == on_cpu
    moved = port_text(text.format(".cuda()"), Options(), path="tests/test_it.py").text
    assert "contiguous_format" in moved
