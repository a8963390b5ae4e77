"""What a rule does not reach: messages that share words with another fault are told as what they are."""

import pytest
from tests.why.logs import verdict_of as _of

from jumar.why.particulars import words

_OWN = 'Traceback (most recent call last):\n  File "/u/train.py", line 3, in f\n    {}\n'
_PACKAGE = '  File "/v/lib/python3.11/site-packages/{}", line 9, in g\n    {}\n'
_PYTHON = '  File "/v/lib/python3.11/{}", line 9, in g\n    {}\n'
_THREAD = (
    "Exception in thread Thread-2 (_pin_memory_loop):\nTraceback (most recent call last):\n"
    + _PACKAGE.format("torch/utils/data/_utils/pin_memory.py", "r = in_queue.get(timeout=5)")
    + _PYTHON.format("multiprocessing/connection.py", "c = SocketClient(address)")
    + "ConnectionRefusedError: [Errno 111] Connection refused\n"
)


@pytest.mark.parametrize(
    ("form", "own", "package", "source", "message"),
    [
        # An assertion about weights is not about pictures.
        (
            "bnb-unquantized",
            "out = model(x)",
            "bitsandbytes/nn/modules.py",
            "assert self.weight.shape[1] == 1",
            "AssertionError",
        ),
        # -100 in labels is not a vocabulary that is too small.
        (
            "decode-ids",
            "t = tok.batch_decode(labels)",
            "transformers/tokenization_utils_fast.py",
            "text = self._tokenizer.decode(token_ids)",
            "OverflowError: out of range integral type conversion attempted",
        ),
        # Who is refused by a mirror needs no other role.
        (
            "mirror-refused",
            'MNIST("d", download=True)',
            "torchvision/datasets/utils.py",
            "with urllib.request.urlopen(request) as response:",
            "urllib.error.HTTPError: HTTP Error 403: Forbidden",
        ),
        # A placeholder for any class says nothing of which.
        (
            "keyword",
            "net = instantiate(cfg.model)",
            "hydra/_internal/instantiate/_instantiate2.py",
            "return _target_(*args, **kwargs)",
            "TypeError: Net.__init__() got an unexpected keyword argument 'widht'",
        ),
        # A reader's syntax error is that of a file, anybody else's that of an argument.
        (
            "not-that-file",
            "im = Image.open(p)",
            "PIL/PngImagePlugin.py",
            "raise SyntaxError(msg)",
            "SyntaxError: no such chunk here",
        ),
        (
            "syntax-raised",
            "model.train(epoch=3)",
            "ultralytics/cfg/__init__.py",
            "raise SyntaxError(string + CLI_HELP_MSG) from e",
            "SyntaxError: 'epoch' is not a valid YOLO argument.",
        ),
    ],
)
def test_words_that_two_faults_share(
    form: str, own: str, package: str, source: str, message: str
) -> None:
    text = _OWN.format(own) + _PACKAGE.format(package, source) + message + "\n"
    begins = words("en")[form]["what"].partition("{")[0]
    assert begins in _of(text).what["en"]


def test_a_pipe_that_broke_is_no_network() -> None:
    stack = _OWN.format("for b in loader:") + _PYTHON.format(
        "multiprocessing/connection.py", "chunk = read(handle, remaining)"
    )
    verdict = _of(f"{stack}ConnectionResetError: [Errno 104] Connection reset by peer\n")
    assert verdict.kind == "consequence"
    assert verdict.what["en"].startswith(words("en")["pipe-gone"]["what"][:60])


@pytest.mark.parametrize("is_first", [True, False])
def test_what_ended_the_program_counts_more_than_its_threads(*, is_first: bool) -> None:
    own = _OWN.format("run()") + "ValueError: fold 7 has no test subjects\n"
    text = _THREAD + own if is_first else own + _THREAD
    assert "fold 7" in _of(text).what["en"]


def test_a_gloo_rank_is_no_host() -> None:
    said = "RuntimeError: received errors while waiting for send/recv from rank 3. Connection closed by peer [10.0.0.9]:33"
    assert "other side was rank" not in _of(_OWN.format("dist.barrier()") + said).what["en"]


def test_a_quoted_sentence_is_ended_before_the_next() -> None:
    verdict = _of(_OWN.format("check(cfg)") + "ValueError: class weights do not match: 9 for 10\n")
    assert "9 for 10. The script" in verdict.what["en"]
    assert "9 for 10。脚本" in verdict.what["zh"]


def test_names_that_every_project_has_are_not_searched_for() -> None:
    said = "RuntimeError: foo wants 'cuda' and bar has 'cpu' with some_option"
    remedy = _of(_OWN.format("go()") + said).remedy["en"]
    assert 'grep -rn "cuda"' not in remedy


_DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"


def test_what_is_raised_while_an_interrupt_is_handled_is_not_why() -> None:
    text = (
        _OWN.format("trainer.fit(net)")
        + "KeyboardInterrupt\n"
        + _DURING
        + _OWN.format("trainer.fit(net)")
        + _PACKAGE.format("pytorch_lightning/trainer/call.py", "exit(1)")
        + "NameError: name 'exit' is not defined\n"
    )
    assert _of(text).cause == "asked-to-end"


def test_a_slip_in_a_handler_does_not_hide_what_it_handled() -> None:
    text = (
        _OWN.format("cfg = open(p)")
        + "FileNotFoundError: [Errno 2] No such file or directory: 'cfg/base.json'\n"
        + _DURING
        + _OWN.format('logger.error("none: %s", e)')
        + "NameError: name 'logger' is not defined\n"
    )
    assert "cfg/base.json" in _of(text).what["en"]


def test_a_card_without_memory_inside_ray_is_no_host_without() -> None:
    text = (
        _OWN.format("trainer.fit()")
        + "ray.exceptions.RayTaskError(OutOfMemoryError): ray::run() (pid=7, ip=10.0.0.3)\n"
        + '  File "/u/train.py", line 30, in loop\n    out = model(x)\n'
        + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB.\n"
    )
    assert _of(text).cause == "device-memory"
