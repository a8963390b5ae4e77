"""Which code a stack speaks of, and what is not believed."""

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.why.script.code import LOG, judged, ran, write

from jumar.why.apart import JobCode, judge_apart
from jumar.why.gather import code_beside, from_path
from jumar.why.judging import judge
from jumar.why.raised import Frame
from jumar.why.script.checks import CHECKS
from jumar.why.script.code import Folders, text_of
from jumar.why.script.reading import Fault, Script, parsed

_LOOP = "def run(items):\n    for one in items:\n        loss = one\n    return loss\nrun([])\n"
_FOUND = "only inside a loop"


def test_code_that_was_changed_since_is_not_read(tmp_path: Path) -> None:
    assert _FOUND in ran(tmp_path, _LOOP).what["en"]
    write(tmp_path, {"train.py": "\n\n" + _LOOP})
    assert _FOUND not in judged(tmp_path).what["en"]


def test_a_log_of_another_machine_is_read_with_the_code_beside_it(tmp_path: Path) -> None:
    ran(tmp_path, _LOOP)
    log = (tmp_path / LOG).read_text().replace(str(tmp_path), "/home/ann/project")
    (tmp_path / LOG).write_text(log.replace('"train.py"', '"/home/ann/project/train.py"'))
    assert _FOUND in judged(tmp_path).what["en"]


def test_the_command_reads_the_code_beside_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(tmp_path, _LOOP)
    monkeypatch.chdir(tmp_path)
    for paths, given in (([LOG], None), ([str(tmp_path / LOG)], None), ([LOG], str(tmp_path))):
        code = code_beside(paths, given)
        assert code.is_sure
        assert _FOUND in judge([from_path(LOG)], code=code).what["en"]
    (tmp_path / "logs").mkdir()
    # The code is where one is, but who knows whether it is that log's.
    assert not code_beside(["logs/a.log"], None).is_sure


def test_what_lies_beside_the_code_is_listed(tmp_path: Path) -> None:
    write(tmp_path, {"src/train.py": "", "conf/a.yaml": "", ".git/hook.py": "", "data/x.bin": ""})
    write(tmp_path, {"env/pyvenv.cfg": "", "env/lib.py": ""})
    listed = {str(tmp_path / name) for name in ("src/train.py", "conf/a.yaml")}
    given = Folders([str(tmp_path)], is_sure=True)
    assert {*given.names("")} == {*given.names(str(tmp_path / "src/train.py"))} == listed
    elsewhere = Folders([str(tmp_path / "conf")], is_sure=False)
    assert elsewhere.names(str(tmp_path / "src/train.py")) == [str(tmp_path / "src/train.py")]


def test_a_child_asks_for_the_files_of_a_job(tmp_path: Path) -> None:
    ran(tmp_path, _LOOP)
    asked: list[str] = []

    def opens(name: str) -> int:
        asked.append(name)
        return os.open(tmp_path / name, os.O_RDONLY)

    log = tmp_path / "job.log"
    log.write_text((tmp_path / LOG).read_text().replace(f"{tmp_path}/", "/srv/jobs/j1/code/"))
    code = JobCode(["train.py"], "/srv/jobs/j1/code", ["python", "train.py"], opens)
    verdict = judge_apart([from_path(str(log))], code=code)
    assert _FOUND in verdict.what["en"]
    assert asked == ["train.py"]
    assert verdict.evidence[1].file == "train.py"


def test_files_that_are_no_code_are_not_read(tmp_path: Path) -> None:
    code = Folders([str(tmp_path)], is_sure=True)
    (tmp_path / "nul.py").write_bytes(b"a = 1\0")
    (tmp_path / "large.py").write_bytes(b"#" * (1 << 21))
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    for name in ("nul.py", "large.py", "pipe.py", "folder.py", "missing.py"):
        assert text_of(code, str(tmp_path / name)) in (None, ""), name


@pytest.mark.parametrize(
    "text",
    ["(" * 3000, "x = " + "-" * 30_000 + "1", "x = " + "+".join("1" * 30_000), "if\x01"],
    ids=["brackets", "signs", "sum", "no Python"],
)
def test_code_that_was_made_to_hold_up_its_reader_is_given_up(text: str) -> None:
    assert parsed(text) is None


class _Known:
    """The code of Python itself, of which any line may be blamed."""

    is_sure = True
    command = ("python", "train.py")

    def __init__(self, name: str, text: str) -> None:
        self._name, self._text = name, text

    def meant(self, path: str) -> Iterator[str]:
        yield self._name

    def names(self, near: str) -> list[str]:
        return [self._name]

    def open(self, name: str) -> int:
        fd = os.memfd_create(name)
        os.write(fd, self._text.encode())
        os.lseek(fd, 0, os.SEEK_SET)
        return fd


_MESSAGES = (
    "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
    "RuntimeError: epoch 2: replicas out of sync at backbone.0.weight",
    "ValueError: Tried to step 283 times. The specified number of total steps is 282",
    "AssertionError: the restored model is not the best",
    "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
    "RuntimeError: index 660 is out of bounds for dimension 0 with size 524",
    "ValueError: num_samples should be a positive integer value, but got num_samples=0",
    "IndexError: Target -1 is out of bounds.",
    "TypeError: empty(): argument 'size' must be tuple of ints, but found element of type str at pos 0",
    "ValueError: Target size (torch.Size([1])) must be the same as input size (torch.Size([]))",
    "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 6400000000 bytes.",
    "AttributeError: 'int' object has no attribute 'port'",
    "ZeroDivisionError: division by zero",
    "UnboundLocalError: cannot access local variable 'self' where it is not associated with a value",
    "NameError: name 'self' is not defined",
    "KeyError: 'name'",
    "TypeError: f() missing 1 required positional argument: 'x'",
    "TypeError: '<' not supported between instances of 'str' and 'float'",
    "AttributeError: 'Net' object has no attribute 'fc'",
    "AttributeError: 'NoneType' object has no attribute 'shape'",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x100 and 128x10)",
    "IndexError: list index out of range",
    "ValueError: not enough values to unpack (expected 2, got 1)",
    "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.csv'",
    "ImportError: cannot import name 'a' from partially initialized module 'b'",
    "KeyError: False",
    "KeyError: 'RANK'",
    "KeyError: 3",
    "ValueError: invalid literal for int() with base 10: ','",
    "ZeroDivisionError: division by zero",
    "TypeError: Value after * must be an iterable, not int",
    "TypeError: parse_args() takes 1 positional argument but 2 were given",
    "ModuleNotFoundError: No module named 'models.net'",
    "subprocess.CalledProcessError: Command '['python', 'm.py', '--x']' returned non-zero exit status 2.",
    "ValueError: The model did not return a loss from the inputs, only the following keys: logits.",
    "RuntimeError: Connection closed by peer [127.0.0.1]:3",
    "TypeError: 'AcceleratedOptimizer' object is not iterable",
    "TypeError: 'tuple' object is not callable",
    "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
    "RuntimeError: Boolean value of Tensor with more than one value is ambiguous",
    "RuntimeError: The size of tensor a (9) must match the size of tensor b (10)",
    "RuntimeError: stack expects each tensor to be equal size, but got [12] at entry 0",
    "RuntimeError: Only Tensors created explicitly by the user support the deepcopy protocol",
    "ValueError: loss is nan",
)


@pytest.mark.parametrize("module", ["argparse", "dataclasses", "json/decoder", "ast", "tarfile"])
def test_no_check_fails_whatever_the_code_is(module: str) -> None:
    """Every check, for every cause that it is for, at many lines of real code."""
    text = (Path(ast.__file__).parent / f"{module}.py").read_text("utf-8")
    lines = text.splitlines()
    for turn, at in enumerate(range(0, len(lines), max(len(lines) // len(_MESSAGES), 1))):
        stack = [Frame("/u/m.py", at + 1, "f", lines[at].strip())]
        script = Script(_Known("m.py", text), stack)
        error = _MESSAGES[turn % len(_MESSAGES)]
        for causes, look in CHECKS:
            # One cause at a line is enough: the lines go through all of them.
            cause = sorted(causes)[turn % len(causes)]
            found = look(Fault(cause, None, error, {}, error), script)
            assert found is None or found.values is not None
