"""What a user does with `huggingface_hub`; run as a program of its own, with HF_ENDPOINT set."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
import os
from array import array
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

ID = "ann/tiny"
api = HfApi()
assert api.whoami()["name"] == "ann"
url = api.create_repo(ID, private=True)
assert url == api.create_repo(ID, exist_ok=True)

folder = Path("upload")
(folder / "sub").mkdir(parents=True)
(folder / "config.json").write_text('{"model_type": "bert", "hidden_size": 8}')
# Xet packs the two halves in different ways.
weights = array("f", (number / 7 for number in range(100_000))).tobytes()
(folder / "model.safetensors").write_bytes(os.urandom(300_000) + weights + b"\0" * 100_001)
(folder / "odd name [1].xyz").write_bytes(b"\0" * 2000)
(folder / "README.md").write_text("---\ntags: [vision]\nlicense: mit\n---\n# Tiny\n")
first = api.upload_folder(repo_id=ID, folder_path=folder)
again = api.upload_folder(repo_id=ID, folder_path=folder)
assert again.oid == first.oid, "the same files once more are no new commit"

place = Path(snapshot_download(ID))
assert place.name == first.oid
for name in ("config.json", "model.safetensors", "odd name [1].xyz"):
    assert (place / name).read_bytes() == (folder / name).read_bytes(), name

api.create_branch(ID, branch="dev/x")
api.create_tag(ID, tag="v1")
api.upload_file(path_or_fileobj=b"dev", path_in_repo="sub/x.txt", repo_id=ID, revision="dev/x")
assert Path(hf_hub_download(ID, "sub/x.txt", revision="dev/x")).read_bytes() == b"dev"
refs = api.list_repo_refs(ID)
assert {ref.name for ref in refs.branches} == {"main", "dev/x"}
api.delete_branch(ID, branch="dev/x")
api.delete_file("odd name [1].xyz", ID)
assert "odd name [1].xyz" not in api.list_repo_files(ID)
assert "odd name [1].xyz" in api.list_repo_files(ID, revision="v1")

info = api.model_info(ID, files_metadata=True)
assert info.tags is not None
assert info.tags[:1] == ["vision"]
sizes = {one.rfilename: one.size for one in info.siblings or ()}
assert sizes["model.safetensors"] == 800_001
assert [one.id for one in api.list_models(author="ann", search="tiny")] == [ID]
assert next(iter(api.list_repo_commits(ID))).title.startswith("Delete")

for kind, ask in (
    (RepositoryNotFoundError, lambda: api.model_info("ann/none")),
    (RepositoryNotFoundError, lambda: HfApi(token=False).model_info(ID)),
    (EntryNotFoundError, lambda: hf_hub_download(ID, "none.txt")),
    (RevisionNotFoundError, lambda: api.model_info(ID, revision="none")),
    (HfHubHTTPError, lambda: HfApi(token="wrong").model_info(ID)),
    (HfHubHTTPError, lambda: api.create_repo("bob/theirs")),
):
    try:
        ask()
    except kind:
        continue
    raise AssertionError(f"no {kind.__name__}")

# The other kind; rows as people keep them.
api.create_repo("ann/rows", repo_type="dataset")
rows = b'{"text": "a"}\n{"text": "b"}\n'
api.upload_file(
    path_or_fileobj=rows, path_in_repo="train.jsonl", repo_id="ann/rows", repo_type="dataset"
)
anonymous = hf_hub_download("ann/rows", "train.jsonl", repo_type="dataset", token=False)
assert Path(anonymous).read_bytes() == rows
api.delete_repo("ann/rows", repo_type="dataset")
Path("done").touch()
