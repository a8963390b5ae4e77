"""What a function or a library takes otherwise than it is given, each with a near case."""

from pathlib import Path

import pytest
from tests.why.script.code import said

_NAN = "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0"


@pytest.mark.parametrize(
    ("given", "log", "is_told"),
    [
        ("F.softmax(a, -1)", "epoch 1 loss -30.17", True),
        ("F.log_softmax(a, -1)", "epoch 1 loss -30.17", False),
        ("F.softmax(a, -1)", "epoch 1 loss 30.17", False),
    ],
)
def test_probabilities_for_a_divergence(
    tmp_path: Path, given: str, log: str, is_told: bool
) -> None:
    train = f"import torch.nn.functional as F\ndef loss(a, b):\n    p = {given}\n    return F.kl_div(p, F.softmax(b, -1))\n"
    told = said(tmp_path, {"train.py": train}, log).what["en"]
    assert ("kl_div() at" in told) is is_told


@pytest.mark.parametrize(
    ("layer", "mask", "is_told"),
    [
        ("nn.TransformerEncoder(one, 2)", "torch.tril(torch.ones(n, n)).bool()", True),
        ("nn.TransformerEncoder(one, 2)", "torch.triu(torch.ones(n, n), 1).bool()", False),
        ("nn.TransformerEncoder(one, 2)", "~torch.tril(torch.ones(n, n)).bool()", False),
        ("Attention(one)", "torch.tril(torch.ones(n, n)).bool()", False),
    ],
)
def test_a_mask_the_other_way_round(tmp_path: Path, layer: str, mask: str, is_told: bool) -> None:
    train = (
        "import torch\nfrom torch import nn\nclass Net(nn.Module):\n    def __init__(self):\n"
        f"        self.body = {layer}\n        self.register_buffer('mask', {mask})\n"
        "    def forward(self, x):\n        return self.body(x, mask=self.mask[:3, :3])\n"
        "x = torch.multinomial(Net()(x), 1)\n"
    )
    told = said(tmp_path, {"train.py": train}, _NAN, "multinomial").what["en"]
    assert ("the other way round" in told) is is_told


@pytest.mark.parametrize(
    ("more", "column", "is_told"),
    [
        ("", "text", True),
        ("remove_unused_columns=False, ", "text", False),
        ("", "body", False),
    ],
)
def test_a_column_that_the_trainer_takes_away(
    tmp_path: Path, more: str, column: str, is_told: bool
) -> None:
    files = {
        "collate.py": "class Collator:\n    def __call__(self, rows):\n        return [one['text'] for one in rows]\n",
        "train.py": "from transformers import Trainer, TrainingArguments\nfrom collate import Collator\n"
        f"data = Dataset.from_dict({{'{column}': texts}})\nargs = TrainingArguments({more}output_dir='out')\n"
        "trainer = Trainer(model=model, args=args, train_dataset=data, data_collator=Collator())\ntrainer.train()\n",
    }
    told = said(tmp_path, files, "KeyError: 'text'", "trainer.train", "one['text']").what["en"]
    assert ("takes away all columns" in told) is is_told


def test_a_column_that_a_model_takes_is_not_taken_away(tmp_path: Path) -> None:
    train = (
        "from transformers import Trainer\nclass Net(nn.Module):\n    def forward(self, text):\n        return text\n"
        "def join(rows):\n    return [one['text'] for one in rows]\ndata = Dataset.from_dict({'text': texts})\n"
        "trainer = Trainer(model=Net(), train_dataset=data, data_collator=join)\ntrainer.train()\n"
    )
    at = ("trainer.train", "one['text']")
    told = said(tmp_path, {"train.py": train}, "KeyError: 'text'", *at).what["en"]
    assert "takes away all columns" not in told


@pytest.mark.parametrize(
    ("code", "last", "is_told"),
    [
        ("hash(s) % 8192", "auc 0.4669 on test is below the release gate 0.60", True),
        (
            "zlib.crc32(s.encode()) % 8192",
            "auc 0.4669 on test is below the release gate 0.60",
            False,
        ),
        ("hash(s) % 8192", "auc 0.9 on test", False),
    ],
)
def test_a_hash_that_each_process_salts(
    tmp_path: Path, code: str, last: str, is_told: bool
) -> None:
    files = {
        "features.py": f"def bucket(s):\n    return {code}\n",
        "train.py": "from features import bucket\ntorch.save(model.state_dict(), 'm.pt')\n",
        "evaluate.py": "from features import bucket\nmodel.load_state_dict(torch.load('m.pt'))\n",
    }
    told = said(tmp_path, files, last).what["en"]
    assert ("salts hash()" in told) is is_told


@pytest.mark.parametrize(
    ("second", "draw", "is_told"),
    [
        ("self.aug(mask)", "random.random() < 0.5", True),
        ("self.aug(img)", "random.random() < 0.5", False),
        ("self.aug(mask)", "self.is_on", False),
    ],
)
def test_a_mask_that_is_turned_by_another_draw(
    tmp_path: Path, second: str, draw: str, is_told: bool
) -> None:
    train = (
        f"import random\nclass Flip:\n    def __call__(self, t):\n        return t.flip(-1) if {draw} else t\n"
        "class Data:\n    def __init__(self, train):\n        self.aug = Flip() if train else None\n"
        "    def __getitem__(self, i):\n        img, mask = self.data[i]\n        img = self.aug(img)\n"
        f"        mask = {second}\n        return img, mask\nassert good(model)\n"
    )
    error = "AssertionError: val mIoU 0.274 below the baseline 0.70, not exporting"
    told = said(tmp_path, {"train.py": train}, error, "assert good").what["en"]
    assert ("draw at random each for itself" in told) is is_told
