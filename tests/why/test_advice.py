"""What an answer takes from the log itself: advice, packages, versions, and tracebacks however they are drawn."""

import re

import pytest
from tests.why.logs import verdict_of as _of

from jumar.why.advice import advice, packages_of
from jumar.why.apis import api_of
from jumar.why.knowledge import rows


def test_the_advice_of_a_message_comes_first_in_the_remedy() -> None:
    verdict = _of(
        "ValueError: LabelEncoder has not been trained. Call fit() with train=True first."
    )
    assert verdict.remedy["en"].startswith(
        "The message itself says: “Call fit() with train=True first.”"
    )
    assert verdict.remedy["zh"].startswith("消息本身写道：“Call fit() with train=True first.”")


@pytest.mark.parametrize(
    ("message", "advised"),
    [
        ("RuntimeError: x is bad. Please set `num_workers=0`.", "Please set `num_workers=0`."),
        ("ValueError: Unknown backend 'A'. Valid options are: B, C", "Valid options are: B, C"),
        ("RuntimeError: a\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1", ""),
        ("RuntimeError: internal. Please report a bug to the authors.", ""),
        ("KeyError: 'lr'", ""),
        # Whole sentences only, and none that announces what is not quoted.
        (f"ValueError: no. Please set a=1. Please set {'b ' * 200}.", "Please set a=1."),
        ("ValueError: no. Please choose one of these options:\n  a\n  b", ""),
    ],
)
def test_only_what_says_what_to_do_is_advice(message: str, advised: str) -> None:
    assert advice(message) == advised


def test_the_package_that_raised_it_is_named_but_not_a_tool_that_was_called() -> None:
    own, package, tool = (
        'File "/home/ann/train.py", line 3, in f',
        'File "/opt/lib/python3.11/site-packages/peft/x.py", line 3, in g',
        'File "/opt/lib/python3.11/site-packages/torch/nn/x.py", line 3, in h',
    )
    assert packages_of(f"{own}\n{package}\n{tool}") == ["peft"]
    assert packages_of(f"{package}\n{own}\n{tool}") == []
    assert packages_of("") == []
    verdict = _of(f"Traceback (most recent call last):\n  {own}\n  {package}\nKeyError: 'a'\n")
    assert "pip show peft" in verdict.remedy["en"]
    assert verdict.place == "/home/ann/train.py:3"


def test_two_packages_that_do_not_fit_each_other_are_both_named() -> None:
    own, caller, called = (
        '  File "/home/ann/train.py", line 3, in f\n',
        '  File "/opt/lib/python3.11/site-packages/trl/x.py", line 3, in g\n',
        '  File "/opt/lib/python3.11/site-packages/peft/x.py", line 3, in h\n',
    )
    above = f"Traceback (most recent call last):\n{own}{caller}"
    assert "`pip show peft trl`" in _of(f"{above}{called}KeyError: 'a'\n").remedy["en"]
    # The function that does not fit has no frame: its name tells whose it is.
    verdict = _of(f"{above}TypeError: Trainer.__init__() got an unexpected keyword argument 'a'\n")
    assert "`pip show transformers trl`" in verdict.remedy["en"]


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        # About values, about shapes, and what a form calls something else.
        ("peft/x.py g", "IndexError: index out of range in self"),
        ("peft/x.py g", "RuntimeError: a view was modified by an in-place operation"),
        (
            "sklearn/x.py g",
            "ImportError: /e/libgomp.so.1: cannot allocate memory in static TLS block",
        ),
        ("transformers/x.py g", "AttributeError: 'DummyOptim' object has no attribute 'step'"),
        # Who answers that there is no such attribute was only asked; made code is nobody's file.
        ("dgl/frame.py __getattr__", "AttributeError: 'Frame' object has no attribute 'speed'"),
        ("peft/x.py g|<string> h", "AttributeError: 'Frame' object has no attribute 'speed'"),
    ],
)
def test_of_versions_only_speaks_what_a_library_lacks(frames: str, message: str) -> None:
    above = 'Traceback (most recent call last):\n  File "/home/ann/train.py", line 3, in f\n'
    for frame in frames.split("|"):
        path, _, function = frame.partition(" ")
        whole = path if path == "<string>" else f"/opt/lib/python3.11/site-packages/{path}"
        above += f'  File "{whole}", line 3, in {function}\n'
    verdict = _of(f"{above}{message}\n")
    assert "It was raised inside" not in verdict.remedy["en"]
    assert verdict.place == "/home/ann/train.py:3"


def test_an_argument_that_a_package_hands_on_is_told_as_such() -> None:
    verdict = _of(
        'Traceback (most recent call last):\n  File "/home/ann/train.py", line 3, in f\n'
        "    model = Net.from_pretrained(name, use_x=True)\n"
        '  File "/opt/lib/python3.11/site-packages/transformers/modeling_utils.py", line 3, in g\n'
        "    model = cls(config, *args, **kwargs)\n"
        "TypeError: Net.__init__() got an unexpected keyword argument 'use_x'\n"
    )
    assert verdict.what["en"].startswith("from_pretrained handed the argument use_x on")


def test_what_torch_compile_stopped_at_is_told_as_the_place() -> None:
    verdict = _of(
        'Traceback (most recent call last):\n  File "/home/ann/train.py", line 3, in f\n    y = model(x)\n'
        '  File "/opt/lib/python3.11/site-packages/torch/_dynamo/eval_frame.py", line 3, in g\n    raise e\n'
        "torch._dynamo.exc.Unsupported: Data-dependent branching\n"
        "  Hint: This graph break is fundamental. Consider finding a workaround.\n\nfrom user code:\n"
        '   File "/home/ann/model.py", line 8, in forward\n    if mask.any():\n'
        '  File "/opt/lib/python3.11/site-packages/torch/x.py", line 9, in h\n    return y\n\nSet TORCHDYNAMO_VERBOSE=1\n'
    )
    assert verdict.place == "/home/ann/model.py:8"
    assert "Consider finding" not in verdict.remedy["en"]


def test_names_are_told_with_the_versions_that_have_them() -> None:
    verdict = _of("AttributeError: module 'numpy' has no attribute 'float'")
    assert (
        verdict.what["en"]
        == "numpy.float is not in numpy from version 1.24 on, and the code uses it."
    )
    assert 'pip install "numpy<1.24"' in verdict.remedy["zh"]
    assert verdict.remedy["en"].endswith("New versions call it float.")
    trainer = api_of(
        "TypeError: __init__() got an unexpected keyword argument 'gpus'", "t = Trainer(gpus=1)"
    )
    assert trainer is not None
    assert (trainer.package, trainer.install) == (
        "pytorch_lightning",
        'pip install "pytorch_lightning<2.0"',
    )
    # What is not there in a module that is known says nothing of versions.
    assert api_of("AttributeError: module 'torch.amp' has no attribute 'foo'", "") is None
    assert api_of("ModuleNotFoundError: No module named 'mmcv.runner.x.y'", "") is not None


@pytest.mark.parametrize(
    ("message", "name", "versions"),
    [
        (
            "AttributeError: BertTokenizer has no attribute batch_encode_plus. Did you mean: '_encode_plus'?",
            "BertTokenizer.batch_encode_plus",
            "<5.0",
        ),
        (
            "TypeError: SFTConfig.__init__() got an unexpected keyword argument 'warmup_ratio'",
            "SFTConfig.__init__(warmup_ratio)",
            "<5.15",
        ),
        (
            "ValueError: Some specified arguments are not used by the HfArgumentParser: ['--overwrite_output_dir']",
            "TrainingArguments.__init__(overwrite_output_dir)",
            "<5.0",
        ),
        (
            "AttributeError: 'LlavaForConditionalGeneration' object has no attribute 'language_model'",
            "LlavaForConditionalGeneration.language_model",
            "<5.0",
        ),
        (
            "AttributeError: 'Qwen3Config' object has no attribute 'rope_theta'",
            "Qwen3Config.rope_theta",
            "<5.0",
        ),
    ],
)
def test_a_class_has_the_names_of_what_it_is_made_of(
    message: str, name: str, versions: str
) -> None:
    known = api_of(message, "", "/opt/lib/python3.12/site-packages/transformers/x.py")
    assert known is not None
    assert (known.name, known.install) == (name, f'pip install "transformers{versions}"')


def test_a_version_that_needs_a_newer_python_is_not_the_installed_one() -> None:
    message = (
        "TypeError: OPTForCausalLM.__init__() got an unexpected keyword argument 'load_in_8bit'"
    )
    assert api_of(message, "", "/opt/lib/python3.8/site-packages/transformers/x.py") is None
    assert api_of(message, "", "/opt/lib/python3.10/site-packages/transformers/x.py") is not None
    # Other configurations never had it.
    assert (
        api_of("AttributeError: 'GPT2Config' object has no attribute 'rope_theta'", "", "") is None
    )


def test_an_argument_that_nothing_replaces_is_left_out() -> None:
    verdict = _of(
        "TypeError: GRPOConfig.__init__() got an unexpected keyword argument 'max_prompt_length'"
    )
    assert "leave it out of the call" in verdict.remedy["en"]


def test_the_table_of_names_is_well_formed() -> None:
    table = list(rows("jumar.why", "apis.tsv"))
    assert len(table) > 500
    assert len({name for _, name, *_ in table}) == len(table)
    for package, name, versions, instead in table:
        assert re.fullmatch(r"(?:<|>=)\d+(?:\.\d+)*", versions), name
        assert package == package.strip() != ""
        assert instead


_FRAMES = 'File "/home/ann/train.py", line 3, in <module>\n{0}main()\nFile "/home/ann/x.py", line 7, in main\n{0}d["a"]'


@pytest.mark.parametrize(
    "text",
    [
        # Without any indent.
        "Traceback (most recent call last):\n" + _FRAMES.format("") + "\nKeyError: 'a'\n",
        # As launchers show an error file.
        "  traceback : Traceback (most recent call last):\n    "
        + _FRAMES.format("  ").replace("\n", "\n    ")
        + "\n  KeyError: 'a'\n",
        # Behind what somebody puts before each line.
        "\n".join(
            f"trainer_web | {line}"
            for line in (
                "Traceback (most recent call last):\n  "
                + _FRAMES.format("  ").replace("\n", "\n  ")
                + "\nKeyError: 'a'"
            ).split("\n")
        ),
        # In one line.
        "Traceback (most recent call last):    "
        + _FRAMES.format("").replace("\n", " ")
        + " KeyError: 'a'",
    ],
)  # fmt: skip
def test_a_traceback_is_read_however_it_is_drawn(text: str) -> None:
    verdict = _of(text)
    assert (verdict.cause, verdict.place) == ("key-missing", "/home/ann/x.py:7")


def test_a_line_that_tells_most_is_taken_where_there_are_only_lines() -> None:
    verdict = _of("ERROR: step 1 odd\nERROR: Failed to open file /data/a.bin\nERROR: step 2 odd\n")
    assert verdict.cause == "file-missing"
    assert verdict.evidence[0].line == 2


def test_what_a_script_says_in_a_line_loses_to_what_ended_it() -> None:
    warned = "FileNotFoundError while looking for a cache, made anew: No such file or directory\n"
    verdict = _of(
        f'{warned}Traceback (most recent call last):\n  File "/a/t.py", line 1, in f\n    x\nKeyError: 3\n'
    )
    assert verdict.cause == "key-missing"


def test_a_log_that_ends_in_a_box_or_in_frames_is_read() -> None:
    assert _of("│ ray.exceptions.RayTaskError(RuntimeError): x() │\n").cause is None
    frames = 'x\n  File "/a/t.py", line 1, in f\n    g()\n  File "/a/t.py", line 5, in g\n    h()\n'
    assert _of(frames).cause == "cut-off"


def test_when_something_may_be_called_is_not_told_as_the_value_of_a_setting() -> None:
    verdict = _of("RuntimeError: tracer can only be called inside a transform\n")
    assert verdict.cause == "refused"
    assert "grep -rn" not in verdict.remedy["en"]


def test_a_module_whose_package_has_another_name_is_told_with_that() -> None:
    verdict = _of("ModuleNotFoundError: No module named 'swift'\n")
    assert "pip install ms-swift" in verdict.remedy["en"]


def test_what_no_registry_has_is_not_told_to_be_installed_from_one() -> None:
    assert (
        "pip install detectron2"
        not in _of("ModuleNotFoundError: No module named 'detectron2'").remedy["en"]
    )
    assert (
        "pip install pcdet" not in _of("ModuleNotFoundError: No module named 'pcdet'").remedy["en"]
    )


def test_what_torch_load_quotes_of_another_fault_is_not_answered_by_its_own_advice() -> None:
    verdict = _of(
        "UnpicklingError: Weights only load failed. Re-running `torch.load` with `weights_only` set to `False` will likely succeed.\n"
        " WeightsUnpickler error: CUDA error: CUDA-capable device(s) is/are busy or unavailable\n"
        "Check the documentation of torch.load to learn more about types accepted by default with weights_only\n"
    )
    assert (verdict.cause, "weights_only" in verdict.remedy["en"]) == ("device-busy", False)


def test_a_decorator_that_hands_a_call_on_is_no_party() -> None:
    above = '  File "/opt/lib/python3.10/site-packages/huggingface_hub/utils/_deprecation.py", line 101, in inner_f'
    raised = '  File "/opt/lib/python3.10/site-packages/trl/trainer/sft_trainer.py", line 152, in __init__'
    assert packages_of(f'  File "/u/train.py", line 3, in f\n{above}\n{raised}') == ["trl"]
