"""Names that do not exist here, from another jumar as the upstream: fetched once, kept, never for strangers."""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import cast

import pytest
from huggingface_hub import snapshot_download  # pyright: ignore[reportUnknownVariableType]
from tests.hub.conftest import Hubbed, hub_in
from tests.server.conftest import Running, serving

from jumar.hub.upstream import Told, Upstream

SHA = "/hf/api/models/lab/tiny"


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Generator[Hubbed]:
    with hub_in(tmp_path_factory.mktemp("far")) as made:
        groups = made.running.site.service.groups
        groups.create("lab")
        groups.add("lab", "ann")
        repo = made.repo("tiny", kind="model", owner="lab", private=True)
        work = made.clone(repo, "tiny")
        made.git("lfs", "install", "--local", cwd=work)
        made.commit(work, {"config.json": b"{}", "sub/w.safetensors": b"w" * 3_000_000})
        made.git("push", "-q", "origin", "HEAD:main", cwd=work)
        yield made


@pytest.fixture
def near(tmp_path: Path, far: Hubbed) -> Generator[Running]:
    with serving(tmp_path) as running:
        url = f"{far.running.url}/hf"
        token = far.running.token("ann")
        running.site.hub.upstream = Upstream(url, token, running.home / "hub/upstream")
        yield running


def test_what_is_elsewhere_comes_through_here_and_stays(
    near: Running, far: Hubbed, tmp_path: Path
) -> None:
    fetch = cast("Callable[..., str]", snapshot_download)
    options = {"endpoint": f"{near.url}/hf", "token": near.token("bob"), "max_workers": 1}
    place = Path(fetch("lab/tiny", cache_dir=tmp_path / "one", **options))
    assert (place / "sub/w.safetensors").read_bytes() == b"w" * 3_000_000
    listed = near.ask("GET", f"{SHA}/tree/main?limit=1&recursive=true")
    assert listed.headers["Link"].startswith(f"<{near.url}/hf/")
    missing = near.ask("GET", "/hf/lab/tiny/resolve/main/none.txt")
    assert (missing.status, missing.headers["X-Error-Code"]) == (404, "EntryNotFound")
    part = near.ask("GET", "/hf/lab/tiny/resolve/main/config.json", headers={"Range": "bytes=1-"})
    assert (part.status, part.body) == (206, b"}")
    for path, status in (
        ("/hf/api/models/lab/none", 404),
        # Whoever is here is not asked for elsewhere.
        ("/hf/api/models/ann/none", 404),
        ("/hf/api/models/..%2f..%2fapi/x", 404),
        ("/git/models/lab/tiny.git/info/refs?service=git-upload-pack", 404),
    ):
        assert near.ask("GET", path).status == status, path
    assert near.ask("GET", SHA, user=None).status == 401
    assert (
        near.ask(
            "DELETE", "/hf/api/repos/delete", body={"name": "tiny", "organization": "lab"}
        ).status
        == 404
    )
    # The other hub is away: what was fetched is here, and the rest is told to be out of reach.
    assert near.site.hub.upstream is not None
    known = near.ask("GET", SHA)
    near.site.hub.upstream.url = "http://127.0.0.1:9"
    again = Path(fetch("lab/tiny", cache_dir=tmp_path / "two", **options))
    assert (again / "sub/w.safetensors").stat().st_size == 3_000_000
    assert known.json["sha"] == again.name
    assert near.ask("GET", "/hf/api/models/lab/never").status == 503


def test_a_file_that_is_not_what_it_was_said_to_be_is_not_kept(tmp_path: Path) -> None:
    upstream = Upstream("http://127.0.0.1:9", "", tmp_path)
    for etag, content, is_kept in (
        ("a" * 64, b"hello", False),
        ("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", b"hello", True),
        ("b" * 40, b"hell", False),
        ("b" * 40, b"hello", True),
    ):
        told = Told(200, {"etag": f'"{etag}"', "content-length": "5"})
        keeping = upstream.keeping(told)
        assert keeping is not None
        keeping.write(content)
        assert keeping.keep() is is_kept, etag
        keeping.close()
        file = upstream.kept(told)
        assert (file is not None) is is_kept
        if file is not None:
            file.close()
    assert upstream.keeping(Told(200, {"etag": "../../x", "content-length": "5"})) is None
    assert not list(tmp_path.rglob(".*"))
