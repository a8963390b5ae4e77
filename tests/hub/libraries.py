"""What a user does with transformers and datasets; run as a program of its own, with HF_ENDPOINT set."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false, reportUnknownLambdaType=false, reportArgumentType=false
import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from huggingface_hub import HfApi, snapshot_download
from transformers import BertConfig, BertModel

api = HfApi()
torch.manual_seed(0)
small = BertConfig(
    vocab_size=30, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
)
model = BertModel(small)
model.push_to_hub("ann/tiny-bert", private=True)
again = BertModel.from_pretrained("ann/tiny-bert")
assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))

rows = [{"text": f"row {number}", "label": number % 3} for number in range(50)]
table = pa.Table.from_pylist(rows)
for name, write in (
    ("ann/rows-parquet", lambda path: pq.write_table(table, path.with_suffix(".parquet"))),
    (
        "ann/rows-jsonl",
        lambda path: path.with_suffix(".jsonl").write_text("\n".join(map(json.dumps, rows))),
    ),
):
    folder = Path(name.replace("/", "-"))
    folder.mkdir()
    write(folder / "train")
    api.create_repo(name, repo_type="dataset", private=name.endswith("jsonl"))
    # As people do it.
    program = [str(Path(sys.executable).parent / "hf"), "upload", name, str(folder), "."]
    subprocess.run([*program, "--repo-type", "dataset"], check=True, timeout=300)
    loaded = datasets.load_dataset(name, split="train")
    assert loaded.to_list() == rows, name
    streamed = datasets.load_dataset(name, split="train", streaming=True)
    assert list(streamed) == rows, name

token, home = os.environ.pop("HF_TOKEN"), os.environ["HF_HOME"]
refused = """
import sys, datasets
from transformers import BertModel
from huggingface_hub import snapshot_download
ask = {"m": BertModel.from_pretrained, "d": datasets.load_dataset, "s": snapshot_download}[sys.argv[1]]
try:
    ask(sys.argv[2])
except Exception as error:
    print(type(error).__name__, error)
    sys.exit(3)
"""
for given in ("", "jm_wrong"):
    for how, what in (("m", "ann/tiny-bert"), ("d", "ann/rows-jsonl"), ("s", "ann/tiny-bert")):
        environment = {**os.environ, "HF_HOME": f"{home}-nobody", "HF_TOKEN": given}
        done = subprocess.run(
            [sys.executable, "-c", refused, how, what], env=environment, timeout=300, check=False
        )
        assert done.returncode == 3, (given, how)
public = {**os.environ, "HF_HOME": f"{home}-anybody"}
code = "import datasets; assert len(datasets.load_dataset('ann/rows-parquet', split='train')) == 50"
subprocess.run([sys.executable, "-c", code], env=public, timeout=300, check=True)
os.environ["HF_TOKEN"] = token

large = Path("large")
large.mkdir()
size = int(os.environ["LARGE_MB"]) << 20
with (large / "model.safetensors").open("wb") as file:
    file.write(os.urandom(size // 2))
    file.write(torch.linspace(0, 1, size // 8).numpy().tobytes())
(large / "config.json").write_text("{}")
for name, environment in (("ann/by-xet", {}), ("ann/by-lfs", {"HF_HUB_DISABLE_XET": "1"})):
    program = [str(Path(sys.executable).parent / "hf"), "upload", name, str(large), "."]
    subprocess.run(program, env={**os.environ, **environment}, check=True, timeout=600)
# Cut, and gone on with: the one that is killed leaves what it has.
fetch = "from huggingface_hub import snapshot_download; snapshot_download('ann/by-xet')"
cut = subprocess.Popen([sys.executable, "-c", fetch])
blobs = Path(home) / "hub/models--ann--by-xet/blobs"
while cut.poll() is None:
    # Names come and go while it works.
    with suppress(FileNotFoundError):
        if sum(one.stat().st_size for one in blobs.glob("*")) > size // 10:
            break
    time.sleep(0.02)
cut.kill()
cut.wait()
place = Path(snapshot_download("ann/by-xet"))
assert (place / "model.safetensors").read_bytes() == (large / "model.safetensors").read_bytes()
Path("done").touch()
