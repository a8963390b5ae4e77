"""`jumar repo` and `jumar eval` on the shared server: files without git, results published, evaluated."""

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.cli.conftest import Jumar

# A job reads the hub with what it was given, and cannot write with it.
TRAIN = """\
import json, os, sys, urllib.error, urllib.request

def ask(path, method="GET", body=None):
    request = urllib.request.Request(os.environ["HF_ENDPOINT"] + path, body, method=method)
    request.add_header("Authorization", "Bearer " + os.environ["HF_TOKEN"])
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()

owner = json.loads(ask("/api/whoami-v2")[1])["name"]
print("private", ask(f"/datasets/{owner}/rows/resolve/main/a.txt"))
print("create", ask("/api/repos/create", "POST", json.dumps({"name": "stolen"}).encode())[0])
print("delete", ask("/api/repos/delete", "DELETE", json.dumps({"name": "rows", "type": "dataset"}).encode())[0])
print("push", ask(f"/datasets/{owner}/rows.git/info/refs?service=git-receive-pack")[0])
print("commit", ask(f"/api/datasets/{owner}/rows/commit/main", "POST", b"{}")[0])
os.makedirs("output")
with open("output/model.ckpt", "wb") as file:
    file.write(bytes(2000))
with open("token", "w") as file:
    file.write(os.environ["HF_TOKEN"])
for epoch in range(3):
    print(f"epoch {epoch} loss: {1 / (epoch + 1):.3f}")
"""
EVALUATE = """\
import os, sys
place = [word.partition("=")[2] for word in sys.argv if word.startswith("--trained_url=")][0]
assert os.path.getsize(os.path.join(place, "model.ckpt")) == 2000
print("epoch 1 accuracy: 0.875")
"""
REPORT = {
    "proof": {"verdict": "proven", "equal": True, "steps": 7, "largest": 0.0, "bitwise": True}
}


def test_from_files_to_a_published_model(jumar: Jumar, tmp_path: Path) -> None:
    data = tmp_path / "rows"
    (data / "sub").mkdir(parents=True)
    (data / "a.txt").write_text("secret row")
    (data / "sub/b.csv").write_text("a,b\n1,2\n")
    (tmp_path / "newer").mkdir()
    (tmp_path / "newer/b.csv").write_text("a,b\n3,4\n")
    made = json.loads(jumar("repo", "import", "rows", "--private", "--json").stdout)
    assert made["kind"] == "dataset"
    again = json.loads(jumar("repo", "import", "rows", "--json").stdout)
    assert again["commit"] == made["commit"]
    one = jumar("repo", "upload", "dataset", "rows", "rows/a.txt", "more").stdout
    assert one.startswith(f"hub://dataset/{made['owner']}/rows@")
    for words, hint in (
        (("upload", "dataset", "none", "rows"), "jumar repo list"),
        (("import", "rows/sub", "--kind", "model", "--name", ".."), "up to 96 letters"),
        (("publish", "no-such-job", "x"), ""),
    ):
        assert hint in jumar("repo", *words, rc=2).stderr
    _read_like_a_store(jumar, tmp_path, f"hub://dataset/{made['owner']}/rows", made["commit"])
    code = tmp_path / "code"
    (code / "jumar-report").mkdir(parents=True)
    (code / "train.py").write_text(TRAIN)
    (code / "eval.py").write_text(EVALUATE)
    (code / "jumar-report/report.json").write_text(json.dumps(REPORT))
    source = (
        "--code",
        "code",
        "--input",
        f"data_url=hub://dataset/{made['owner']}/rows@{made['commit']}",
    )
    words = ("run", *source, "--", "python", "train.py", "--lr", "0.1")
    job = jumar(*words).stdout.strip()
    log = jumar("logs", "-f", job).stdout
    assert "private (200, b'secret row')" in log
    for what in ("create", "delete", "push", "commit"):
        assert f"{what} 403" in log, log
    published = json.loads(jumar("repo", "publish", job, "trained", "--private", "--json").stdout)
    jumar("repo", "clone", "model", "trained", "clone")
    card = (tmp_path / "clone/README.md").read_text()
    for words_ in (
        f"rows@{made['commit']}", "| lr | 0.1 |", "| loss | 0.333 | 0.333 |", "Proof of the port", job,
    ):  # fmt: skip
        assert words_ in card, card
    # Whether git-lfs is installed for the user of the tests is not known.
    assert (tmp_path / "clone/model.ckpt").stat().st_size in (130, 2000)
    # Published again, nothing is new but what the card says.
    assert json.loads(jumar("repo", "publish", job, "trained", "--json").stdout)["commit"] == published["commit"]  # fmt: skip
    evaluation = jumar("eval", job, "--", "python", "eval.py").stdout.strip()
    jumar("logs", "-f", evaluation)
    table = jumar("eval", job).stdout
    assert "eval_accuracy" in table
    assert "0.875" in table
    # A token ends with its job.
    jumar("get", job, "code/token", "-o", "token")
    kept = next(path for path in (tmp_path / "token").rglob("*") if path.is_file()).read_text()
    clone_url = json.loads(jumar("repo", "show", "dataset", "rows", "--json").stdout)["clone_url"]
    request = urllib.request.Request(f"{clone_url.partition('/git/')[0]}/hf/api/whoami-v2")
    request.add_header("Authorization", f"Bearer {kept}")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(request, timeout=60)
    found = json.loads(jumar("repo", "gc", "--json").stdout)
    assert found["skipped"] == 0
    jumar("repo", "delete", "model", "trained", "--yes")
    assert json.loads(jumar("repo", "gc", "--json").stdout)["objects"] >= 1


def _read_like_a_store(jumar: Jumar, tmp_path: Path, place: str, commit: str) -> None:
    assert jumar("data", "cat", f"{place}:sub/b.csv").stdout == "a,b\n1,2\n"
    assert "more/" in jumar("data", "ls", place).stdout
    assert "more/" not in jumar("data", "ls", f"{place}@{commit}").stdout
    assert "copied 4 files" in jumar("data", "cp", place, "pulled").stdout
    assert (tmp_path / "pulled/more/a.txt").read_text() == "secret row"
    assert "copied 0 files" in jumar("data", "pull", place, "pulled").stdout
    jumar("data", "cp", f"{place}:sub", "obs://row-hub/sub")
    assert jumar("data", "cat", "obs://row-hub/sub/b.csv").stdout == "a,b\n1,2\n"
    # Of an older commit, in the same size: the time of a commit says nothing about a copy.
    jumar("repo", "upload", "dataset", "rows", "newer/b.csv", "sub")
    for revision, rows in (("main", "a,b\n3,4\n"), (commit, "a,b\n1,2\n")):
        jumar("data", "cp", f"{place}@{revision}:sub", "obs://row-hub/sub")
        assert jumar("data", "cat", "obs://row-hub/sub/b.csv").stdout == rows
    for wrong in ("hub://model/nobody/none", f"{place}@none", f"{place}:none", "hub://x"):
        jumar("data", "cp", wrong, "none", rc=2)
    assert "jumar repo upload" in jumar("data", "cp", "pulled", place, rc=2).stderr
