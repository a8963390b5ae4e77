"""The hub's pages: what is shown, and that nothing pushed is taken for a page of ours."""

import re
from pathlib import Path

from tests.hub.conftest import Hubbed
from tests.server.conftest import Answer

README = b"""---
license: apache-2.0
tags: [lenet, "<b>bold</b>"]
---
# LeNet <script>alert(1)</script>

[safe](https://example.com) [bad](javascript:alert(1)) <img src=x onerror=alert(1)>

<!-- unsaid
--> <!-- unsaid -->
"""


def page(hub: Hubbed, path: str, user: str = "ann") -> Answer:
    return hub.running.ask("GET", path, user=user)


def test_the_catalogue_finds_public_ones_of_others_and_shows_them_safely(hub: Hubbed) -> None:
    repo = hub.repo("lenet", kind="model", user="bob")
    hub.repo("unseen", kind="model", user="bob", private=True)
    work = hub.clone(repo, "page", "bob")
    hub.commit(work, {"README.md": README, "src/a.html": b"<script>x</script>", "w.dat": b"\0\1"})
    hub.git("push", "-q", cwd=work)
    for words in ("lenet", "LENET%20apache", "bob%20len"):
        assert "bob/lenet" in page(hub, f"/repos?search={words}").text
    listed = page(hub, "/repos").text
    assert "unseen" not in listed
    assert "<b>bold</b>" not in listed
    shown = page(hub, "/repos/model/bob/lenet").text
    for evil in ("<script>alert", "<img src=x", 'href="javascript:', "unsaid"):
        assert evil not in shown
    for words in ("LeNet &lt;script&gt;", 'href="https://example.com"', "git clone", "w.dat"):
        assert words in shown
    inner = page(hub, "/repos/model/bob/lenet?path=src/a.html").text
    assert "&lt;script&gt;x" in inner
    raw = page(hub, "/repos/model/bob/lenet/file?path=src/a.html")
    assert raw.body == b"<script>x</script>"
    assert raw.headers["Content-Disposition"].startswith("attachment")
    assert "sandbox" in raw.headers["Content-Security-Policy"]
    for path in ("/repos/model/bob/unseen", "/repos/model/bob/unseen/file?path=README.md"):
        assert page(hub, path).status == 404
    assert page(hub, "/repos/model/bob/lenet?path=none").status == 404
    assert page(hub, "/repos/model/bob/lenet?path=../../x").status == 422
    # A stranger is sent to the login.
    assert hub.running.ask("GET", "/repos", user=None).status == 303


def test_a_repository_is_made_on_the_page_and_a_bad_name_is_explained(hub: Hubbed) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    made = hub.running.ask(
        "POST", "/repos", body=b"kind=project&name=made&private=true", headers=form
    )
    assert made.headers["Location"] == "/repos/project/ann/made"
    assert "is empty" in page(hub, "/repos/project/ann/made").text
    refused = hub.running.ask("POST", "/repos", body=b"kind=project&name=..", headers=form)
    assert refused.status == 422
    assert "not a name for a repository" in refused.text


def test_the_training_form_makes_a_job_of_three_repositories(hub: Hubbed) -> None:
    works: dict[str, Path] = {}
    for kind, files in (
        ("project", {"train/train.py": b"print(1)\n"}),
        ("model", {"lenet/a.txt": b"weights"}),
        ("dataset", {"train/b.txt": b"data"}),
    ):
        repo = hub.repo("seed", kind=kind)
        works[kind] = hub.clone(repo, f"seed-{kind}")
        hub.commit(works[kind], files)
        hub.git("push", "-q", "origin", "HEAD:main", cwd=works[kind])
    address = "/repos/project/ann/seed/train"
    assert 'value="ann/seed"' in page(hub, address).text
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    body = b"instance=lenet5-mnist&boot_file=train/train.py&model=ann/seed@main:lenet&dataset=ann/seed:train&parameters=epochs%3D10%0A--lr+0.01&device=sim:1"
    made = hub.running.ask("POST", address, body=body, headers=form)
    assert made.status == 303, made.text
    job = hub.running.site.service.get(made.headers["Location"].rpartition("/")[2])
    assert job.spec["command"] == [
        "python", "train/train.py", "--epochs=10", "--lr", "0.01", "--output_path=output",
    ]  # fmt: skip
    commit = hub.git("rev-parse", "HEAD", cwd=works["dataset"]).stdout.strip()
    assert job.spec["environment"]["JUMAR_HUB_data_url"] == f"hub://dataset/ann/seed@{commit}:train"
    folder = job.spec["inputs"]["data_url"]
    with open(f"{folder}/b.txt", "rb") as file:
        assert file.read() == b"data"
    # A framework is one of the catalogue that has an environment here.
    (hub.running.home / "modelarts.toml").write_text(
        '[[engines]]\nid = "mindspore_2"\nnumber = 901\nactivate = "ms2"\n'
    )
    shown = page(hub, address).text
    assert '<option value="mindspore_2">' in shown
    assert re.search(r'<option value="mindspore_1\.7[^"]*" disabled>', shown)
    more = body + b"&engine=mindspore_2&environment=A%3D1%0AB%3Dx%3Dy"
    chosen = hub.running.ask("POST", address, body=more, headers=form)
    job = hub.running.site.service.get(chosen.headers["Location"].rpartition("/")[2])
    assert job.spec["activate"] == "ms2"
    assert job.spec["environment"]["B"] == "x=y"
    body += b"&environment=A%3D1&engine="
    # What is wrong is said on the form, which keeps what was typed.
    for change, words in (
        (b"dataset=ann/seed:train", "dataset=bob/none"),
        (b"train/train.py", "train.sh"),
        (b"A%3D1", "A"),
        (b"engine=", "engine=TF-1.13.1-python3.6"),
        (b"engine=", "engine=none"),
    ):
        wrong = hub.running.ask(
            "POST", address, body=body.replace(change, words.encode()), headers=form
        )
        assert wrong.status in (404, 422)
        assert "lenet5-mnist" in wrong.text
        assert 'role="alert"' in wrong.text


def test_results_are_published_with_one_click_and_an_own_readme_stays(hub: Hubbed) -> None:
    job = hub.running.running_job("ann", name="trained")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    address = f"/jobs/{job.id}/publish"

    def click(body: bytes, user: str = "ann") -> Answer:
        return hub.running.ask("POST", address, user=user, body=body, headers=form)

    early = click(b"name=clicked")
    assert (early.status, "has not ended yet" in early.text) == (409, True)
    hub.running.finish(job.id)
    nothing = click(b"name=clicked")
    assert (nothing.status, "has left no files" in nothing.text) == (404, True)
    assert page(hub, "/repos/model/ann/clicked").status == 404
    output = Path(hub.running.site.service.get(job.id).directory, "code/output")
    (output / "sub").mkdir(parents=True)
    (output / "sub/w.bin").write_bytes(b"weights")
    (output / "escape").symlink_to("/etc/passwd")
    assert f'href="{address}"' in page(hub, f"/jobs/{job.id}").text
    assert 'value="trained"' in page(hub, address).text
    assert click(b"name=clicked").headers["Location"] == "/repos/model/ann/clicked"
    shown = page(hub, "/repos/model/ann/clicked").text
    assert job.id in shown
    assert "escape" not in shown
    address_of_file = "/repos/model/ann/clicked/file?path=sub/w.bin"
    raw = page(hub, address_of_file)
    assert (raw.body, raw.headers["Accept-Ranges"]) == (b"weights", "bytes")
    part = hub.running.ask("GET", address_of_file, user="ann", headers={"Range": "bytes=2-4"})
    assert (part.status, part.body, part.headers["ETag"]) == (206, b"igh", raw.headers["ETag"])
    # Into what is not hers, or as what is no name, or of a job that is not hers.
    hub.repo("theirs", kind="model", user="bob")
    for body, status in ((b"name=bob/theirs", 403), (b"name=..", 422), (b"name=carol/x", 403)):
        assert click(body).status == status, body
    assert click(b"name=clicked", "bob").status == 403
    (output / "README.md").write_text("# Mine")
    click(b"name=clicked")
    assert "<h1>Mine</h1>" in page(hub, "/repos/model/ann/clicked").text
    assert job.id in page(hub, "/repos/model/ann/clicked?path=TRAINING.md").text
