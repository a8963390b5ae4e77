"""What the form of a message tells beyond its class, and what is read of logs that are cut, wrapped or drawn oddly."""

import ast
import re
from pathlib import Path

import pytest
from tests.why.logs import verdict_of as _of

import jumar.why.script
from jumar.why.knowledge import LANGUAGES, causes, texts
from jumar.why.measures import COUNTED
from jumar.why.particulars import below, fits_all, particulars, read, words
from jumar.why.settling import settled
from jumar.why.statements import statements
from jumar.why.symbols import cut

_STACK = 'Traceback (most recent call last):\n  File "/u/train.py", line 3, in f\n    {}\n'
_NAME = re.compile(r"\{\w+\}")


def _rows() -> list[list[str]]:
    tables = (Path(__file__).with_name(f"{table}.tsv") for table in ("particulars", "programs"))
    lines = [line for table in tables for line in table.read_text("utf-8").splitlines()]
    return [line.split("\t", 2) for line in lines if not line.startswith(("#", "name\t"))]


@pytest.mark.parametrize(("name", "source", "message"), _rows())
def test_each_form_is_told_with_its_names(name: str, source: str, message: str) -> None:
    above = "" if source == "-" else _STACK.format(source)
    text = message.replace("\\n", "\n").replace("\\t", "\t")
    verdict = _of(f"{above}{text}\n")
    # All that its words say between the names.
    wanted = map(re.escape, _NAME.split(words("en")[name]["what"]))
    # What stands around the line may say more.
    told = verdict.what["en"].removeprefix(f"{texts('en')['also']['literal-what']} ")
    assert re.match(".+".join(wanted), told, re.DOTALL), verdict.what
    assert not _NAME.search(verdict.remedy["en"] + verdict.remedy["zh"])


def test_the_table_and_its_words_are_whole() -> None:
    further = [one for forms in below().values() for one in forms]
    narrow = [one for forms in settled().values() for one in forms]
    named = {one.name for one in (*particulars(), *statements(), *fits_all(), *further, *narrow)}
    # What stands beside a message tells these, not its form.
    named |= {
        "diverged",
        "diverged-at-once",
        "gone-inside",
        "gone-remote",
        "gone-last",
        "gone-default",
        "new-inside",
    }
    # What the script shows is found by code: each name that this has as a text.
    named |= _named_by_checks() & set(words("en"))
    for language in LANGUAGES:
        told = words(language)
        assert named == set(told)
        for name, sentences in told.items():
            assert sentences.keys() == {"what", "remedy"}
            for key, sentence in sentences.items():
                assert sentence.strip() == sentence != ""
                assert set(_NAME.findall(sentence)) == set(_NAME.findall(words("en")[name][key]))
    for one in statements():
        found = {*one.pattern.groupindex, "said", "error"}
        told = "".join(words("en")[one.name].values())
        assert {name[1:-1] for name in _NAME.findall(told)} <= found
    # What announces others is a form or a cause.
    assert {*below()} <= {one.name for one in particulars()} | {*causes()}
    for one in (*particulars(), *fits_all(), *further):
        found = set(one.message.compiled.groupindex) | set(one.values) | {"error", *COUNTED}
        found |= set(re.compile(one.where).groupindex) if one.where else set()
        sentences = words("en")[one.name]
        assert {name[1:-1] for name in _NAME.findall("".join(sentences.values()))} <= found
        assert one.over <= set(causes())


def _named_by_checks() -> set[str]:
    folder = Path(jumar.why.script.__path__[0])
    trees = (ast.parse(path.read_text("utf-8")) for path in folder.glob("*.py"))
    texts = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {node.value for node in texts if isinstance(node.value, str)}


def test_a_form_belongs_to_its_causes_and_has_all_its_names() -> None:
    assert read("device-memory", "TypeError: list indices must be integers, not str") is None
    # Neither the message nor the source says what is imported from.
    assert read("import-name", "ImportError: cannot import name 'x'") is None


@pytest.mark.parametrize(
    ("text", "cause", "evidence"),
    [
        # A worker's stack as the message of what its parent raised.
        (
            _STACK.format("for x in loader:")
            + "TypeError: "
            + _STACK.format("img = img[96:]")
            + "TypeError: 'NoneType' object is not subscriptable\n",
            "none-value",
            "TypeError: 'NoneType' object is not subscriptable",
        ),
        # Frames of compiled code, without lines of source, below none of Python's own.
        (
            '  File "pyarrow/error.pxi", line 91, in pyarrow.lib.check_status\n'
            "pyarrow.lib.ArrowInvalid: Invalid null value\n",
            "data-columns",
            "pyarrow.lib.ArrowInvalid: Invalid null value",
        ),
        # The time before each line.
        (
            "".join(
                f"2023-03-23 19:14:23 {line}\n"
                for line in (
                    "TypeError: Caught TypeError in DataLoader worker process 1.\n"
                    + "Original "
                    + _STACK.format("img = raw[:, :, :3]")
                    + "TypeError: 'NoneType' object is not subscriptable"
                ).split("\n")
            ),
            "none-value",
            "TypeError: 'NoneType' object is not subscriptable",
        ),
        # What the compiler said first, not who called it.
        (
            "FAILED: a.o\n/u/a.cu(12): error: identifier \"AT_CHECK\" is undefined\n"
            "/u/a.cu(19): error: expected a ;\nninja: build stopped: subcommand failed.\n"
            "RuntimeError: Error compiling objects for extension\n",
            "extension-build",
            '/u/a.cu(12): error: identifier "AT_CHECK" is undefined',
        ),
        # What a package's setup raised, not pip's word that it did.
        (
            "  error: subprocess-exited-with-error\n  × python setup.py egg_info did not run successfully.\n"
            '      Traceback (most recent call last):\n        File "/t/setup.py", line 3, in <module>\n'
            "      RuntimeError: Foo is only supported on CUDA 11.7 and above.\n",
            "extension-build",
            "RuntimeError: Foo is only supported on CUDA 11.7 and above.",
        ),
        # Pasted as a quotation.
        (
            "> ValueError          Traceback (most recent call last)\n> ----> 3 raise ValueError(\n"
            ">\n> ValueError: num_samples should be a positive integer value, but got num_samples=0\n",
            "data-empty",
            "ValueError: num_samples should be a positive integer value, but got num_samples=0",
        ),
        # Quotes as a forum draws them.
        ("name \u2018PeftModel\u2019 is not defined\n", "optional-missing", "name 'PeftModel' is not defined"),
        # A few lines that call themselves nothing.
        ("NoneType  object is not iterable\n", "none-value", "NoneType  object is not iterable"),
        # A box that ends the log.
        ("error: metadata-generation-failed\n│ exit code: 1\n╰─> See above\n", "extension-build", "error: metadata-generation-failed"),
    ],
)  # fmt: skip
def test_logs_that_are_wrapped_or_cut(text: str, cause: str, evidence: str) -> None:
    verdict = _of(text)
    assert (verdict.cause, verdict.evidence[0].text) == (cause, evidence)


def test_a_healthy_log_has_no_fault_by_its_forms() -> None:
    healthy = "".join(
        f"step {number}: the shape is [3, 4], 20 of 80 classes seen, nothing is required\n"
        for number in range(40)
    )
    assert _of(healthy).cause is None


@pytest.mark.parametrize(
    ("message", "said"),
    [
        # What stands before `must` is not the setting, nor is a word behind `in` a choice.
        (
            "ValueError: Chips that do not support Mega must have cores=1, but got cpu.",
            "and is cpu",
        ),
        ("ValueError: When p is None, four arrays should be in X, got 0", "0 is not among"),
        (
            "ValueError: Argument a must be in the following shape BxN. Got (32, 10)",
            "(32 is not among",
        ),
        ("ValueError: Both `token` and `auth` are specified.", "auth has to be given"),
        # A rule for a number is none for the version of a package, nor a list of one for tensors.
        ("ValueError: Matmul needs rank >= 2: (4, 3)", "is needed, and another version"),
        ("AssertionError: Invalid block size 16", "shape"),
        ("KeyError: 'fusion mode must be auto, index or size, but got 3'", "shape"),
        ("RuntimeError: invalid engine type", "type is no engine"),
        ("ValueError: File '/a/b.json' is not a valid TsFile (bad magic).", "no allowed value"),
        (
            "RuntimeError: Expected key 'a.b' not found in /home/ann/out/ckpt",
            "out/ckpt is not found",
        ),
        ("RuntimeError: Number of samples is smaller than world_size", "who they are"),
        ("ImportError: Error: webvad is not properly installed.", "the name that is imported"),
        ("NotADirectoryError: Path: `/data/model` exists, but is a file.", "does not exist"),
        ("ValueError: Multiple modes found, keep one.", "multiple of another"),
        ("ValueError: labels must be 1-D with shape [512], got [8, 128]", "1 is expected"),
        ("ValueError: `dims` must be either 2 or 3 but is 128", "2 is expected"),
        ("OSError: Unable to read /home/ann/.netrc: the server closed it", "is not found"),
        (
            "ValueError: Could not find a pre-defined 'edge_mask' to explain.",
            "a pre-defined called",
        ),
        ("AssertionError: num_iters=1 <= 0, nothing will be made", "shape"),
        ("Epoch 1: loss 0.3, the maximum is 7", "outside what the code allows"),
        ("ValueError: fill must be True if sort is True.", "and is True"),
        ("AssertionError: Unknown block type ([1, 2]) while building.", "of another type"),
        ("ValueError: empty separator", "found nothing"),
        ("AssertionError: `pack` in `f` should be set to True if `fast` is.", "has to be given"),
        ("ValueError: `rate` must be in (0.0, 1.0] but got p['a']['rate']=x", "is not among"),
        ("ValueError: This does not support DoRA yet, please set it to False", "has to be given"),
        # What pyarrow raises is not always a damaged file, nor is every embedding one of tokens.
        ("pyarrow.lib.ArrowInvalid: Can only convert 1-dimensional array values", "decoded"),
        (
            "RuntimeError: Error(s) in loading state_dict for G:\n\tsize mismatch for shared.weight:"
            " copying a param with shape torch.Size([9, 4]) from checkpoint, the shape in current"
            " model is torch.Size([2, 4]).",
            "vocabularies",
        ),
        # Boxes of two samples differ in number, not in channels.
        (
            "RuntimeError: stack expects each tensor to be equal size, but got [2, 4] at entry 0"
            " and [3, 4] at entry 1",
            "channels",
        ),
        ("ValueError: its leader lives on another stage and is unreachable.", "a fault of its own"),
        # A number that a rule names is no version, nor is all that is opened audio.
        ("ValueError: A target of this kind needs value > 1.5 to work", "is needed, and another"),
        ("OSError: Error opening /data/a.h5: unable to lock", "audio"),
        ("ValueError: Invalid model path: /data/foo", "is no model path"),
    ],
)
def test_a_form_does_not_reach_for_what_only_looks_alike(message: str, said: str) -> None:
    assert said not in _of(f"{message}\n").what["en"]


def _called(file: str, function: str, source: str) -> str:
    return f'  File "/e/lib/python3.11/site-packages/{file}", line 9, in {function}\n    {source}\n'


def test_what_the_frames_tell_of_a_sample_and_of_a_wait() -> None:
    collate = _called("torch/utils/data/_utils/collate.py", "f", "n = sum(x.numel() for x in b)")
    sample = _of(
        f"{_STACK.format('for x in loader:')}{collate}"
        "AttributeError: 'NoneType' object has no attribute 'numel'\n"
    )
    assert "A sample of the batch is None" in sample.what["en"]
    first = _called("transformers/training_args.py", "main_process_first", "dist.barrier()")
    waits = _of(
        f"{_STACK.format('with args.main_process_first():')}{first}"
        "RuntimeError: NPU function error: aclrtSynchronizeDevice, error code is 507046\n"
    )
    assert "wait in main_process_first" in waits.what["en"]


@pytest.mark.parametrize(
    ("file", "function", "source", "message", "what"),
    [
        # A table of names in the project's own optimizer.py is no checkpoint's state.
        ("x/optimizer.py", "build", "c = section['decay']", "KeyError: 'decay'", "section has no entry"),
        ("torch/optim/adam.py", "step", "a, b = group['betas']", "KeyError: 'betas'", "The checkpoint has no betas"),
        (
            "torch/nn/functional.py",
            "mse_loss",
            "a, b = torch.broadcast_tensors(input, target)",
            "RuntimeError: The size of tensor a (10) must match the size of tensor b (32) at non-singleton dimension 1",
            "Predictions and targets of the loss differ",
        ),
        (
            "torch/optim/adam.py",
            "_single_tensor_adam",
            "exp_avg.lerp_(grad, 1 - beta1)",
            "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
            "The optimizer's state lies on another device",
        ),
    ],
)  # fmt: skip
def test_what_the_file_that_raised_it_tells(
    file: str, function: str, source: str, message: str, what: str
) -> None:
    log = f"{_STACK.format('run(net)')}{_called(file, function, source)}{message}\n"
    assert what in _of(log).what["en"]


def test_a_quotation_ends_once_and_between_words() -> None:
    told = _of("RuntimeError: bus error. Please try to raise your shared memory limit.\n")
    assert "limit.”" in told.remedy["en"]
    assert "”." not in told.remedy["en"]
    assert cut("one two three", 9) == "one two…"
    assert cut("one two", 7) == "one two"
    assert cut("/a/long/path", 7) == "/a/long…"


def test_the_message_below_a_name_may_be_ruled_off() -> None:
    ruled = "-" * 30
    verdict = _of(
        f"{_STACK.format('net(x)')}NotImplementedError: \n\n{ruled}\nC++ Traceback (most recent call last):\n{ruled}\n"
        f"0   lib::Tracer::Trace()\n\n{ruled}\nError Message Summary:\n{ruled}\n"
        "InvalidArgumentError: The gate blarg must be open. Please open the gate first.\n"
        "  [operator < blarg > error]\n"
    )
    assert "Please open the gate first." in verdict.remedy["en"]
    assert ruled not in verdict.what["en"]


def test_what_the_script_itself_refuses_is_taken_at_its_word() -> None:
    own = _of(
        f"{_STACK.format('raise ValueError(text)')}ValueError: dim 3 of the plan is odd here\n"
    )
    assert (own.kind, own.whose) == ("fault", "script")
    assert own.what["en"].endswith("dim 3 of the plan is odd here")
    # A word or two is no sentence.
    assert _of(f"{_STACK.format('raise ValueError(x)')}ValueError: bad dim\n").kind == "unsure"
